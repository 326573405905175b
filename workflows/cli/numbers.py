"""Options that are numbers: click leaves their digits to Python, which takes any script's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.types import FloatParamType

from chunkfold.units import integer, number


class Whole(click.IntRange):
    """An integer of a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        _check(integer, value, param, ctx)
        return super().convert(value, param, ctx)


class Positive(click.FloatRange):
    """A number greater than 0."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        _check(number, value, param, ctx)
        return super().convert(value, param, ctx)


class NumberOption(FloatParamType):
    """Any number: an integer if it is whole."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        _check(number, value, param, ctx)
        found = super().convert(value, param, ctx)
        return int(found) if found.is_integer() else found


def _check(
    read: Callable[[str], float],
    value: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> None:
    """Refuse what only Python takes for a number; a default is none of people's."""
    if isinstance(value, str):
        try:
            read(value)
        except ValueError:
            message = f"{value!r} is not a valid {read.__name__}."
            raise click.BadParameter(message, ctx, param) from None
