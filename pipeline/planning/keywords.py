"""Options as functions take them, by keyword, and what `help` shows of that."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Sequence
from textwrap import indent
from types import MappingProxyType
from typing import Any, TypeVar

from chunkfold.planning.option_table import Keywords, Op, meanings
from chunkfold.planning.options import Options

F = TypeVar("F", bound=Callable[..., Any])
_MARK = re.compile(r"^op, options\n(?: {4}.*\n)+", re.MULTILINE)
"""The entry of a docstring that the options replace."""


class _Unsaid(str):
    """A name that nobody gave."""

    __slots__ = ()


DEFAULT: Op = _Unsaid("sum")
"""The op of `Options` where none is named, told apart from the same one that is."""


_ELSEWHERE = MappingProxyType(
    {
        "condition": "where",
        "dim": "axis",
        "dims": "axis",
        "dimension": "axis",
        "group": "by",
        "groupby": "by",
        "isel": "selection",
        "mask": "where",
        "method": "sel_method",
        "select": "selection",
        "tolerance": "sel_tolerance",
        "window": "coarsen",
        "windows": "coarsen",
    }
)
"""Names of other tools for options, to suggest ours."""


def nearest_option(name: str) -> str | None:
    """Return the option that a name may stand for; None if none is like it.

    >>> nearest_option("dim"), nearest_option("skip_na"), nearest_option("colour")
    ('axis', 'skipna', None)
    """
    known = {one: one for one in Keywords.__annotations__} | _ELSEWHERE
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return known[near[0]] if near else None


def refuse_unknown(keywords: Keywords) -> None:
    """Refuse names that no option has.

    Raises
    ------
    TypeError
        If there is one.
    """
    for name in keywords:
        if name not in Keywords.__annotations__:
            near = nearest_option(name)
            raise TypeError(
                f"there is no option {name!r}; there are: {', '.join(Keywords.__annotations__)}"
                + (f"; did you mean {near!r}?" if near else "")
            )


def options_of(op: Op | Sequence[Op], keywords: Keywords) -> Options:
    """Return the options that a function was given.

    Raises
    ------
    TypeError
        If there is none of a name.
    ChunkfoldError
        As `Options`.
    """
    refuse_unknown(keywords)
    return Options(**keywords) if op is DEFAULT else Options(op, **keywords)


def with_options(function: F) -> F:
    """Show `help` and editors what a function's `op` and `**options` are.

    Its signature gets the rows of the table of options, and its docstring their meanings, where it
    has an entry `op, options`.
    """
    own, keyword = inspect.signature(function), inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(
            name, keyword, default=getattr(Options, name), annotation=of.__forward_arg__
        )
        for name, of in Keywords.__annotations__.items()
        if name not in own.parameters
    ]
    named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    first = [one for one in named if one.kind is not keyword]
    parameters = [*first, *options, *(one for one in named if one.kind is keyword)]
    setattr(function, "__signature__", own.replace(parameters=parameters))  # noqa: B010
    if function.__doc__:  # which Python leaves out where it is told to
        told = "".join(f"{name}\n{indent(doc, '    ')}\n" for name, doc in meanings().items())
        function.__doc__ = _MARK.sub(lambda _: told, inspect.cleandoc(function.__doc__))
    return function
