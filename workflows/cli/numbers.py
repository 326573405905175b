"""Options that are numbers: click leaves their digits to Python, which takes any script's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import click
from click.types import FloatParamType

from chunkfold.units import integer, number


class _Plain(click.ParamType):
    """Refuses what only Python takes for a number."""

    read: ClassVar[Callable[[str], float]]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            try:
                type(self).read(value)
            except ValueError:
                self.fail(f"{value!r} is not a valid {type(self).read.__name__}.", param, ctx)
        return super().convert(value, param, ctx)


class Whole(_Plain, click.IntRange):
    """An integer of a range."""

    read = staticmethod(integer)


class Positive(_Plain, click.FloatRange):
    """A number greater than 0."""

    read = staticmethod(number)

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)


class Number(_Plain, FloatParamType):
    """Any number."""

    read = staticmethod(number)
