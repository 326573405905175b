"""Options as functions take them, by keyword, and what `help` shows of that."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from textwrap import indent
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar

from chunkfold.planning.coarsening import Boundary
from chunkfold.planning.conditions import Where
from chunkfold.planning.options import Op, Options
from chunkfold.selections import Selection
from chunkfold.settings import StorageOptions
from chunkfold.sources.axis_names import AxisOption

F = TypeVar("F", bound=Callable[..., Any])
_MARK = re.compile(r"^op, options\n(?: {4}.*\n)+", re.MULTILINE)
"""What stands in a docstring where the options are told."""


class Keywords(TypedDict, total=False):
    """The fields of `Options` but `op`, for those who check types: a test sees that they agree."""

    axis: AxisOption
    keepdims: bool
    coarsen: Mapping[int | str, int] | None
    boundary: Boundary
    dtype: Any
    ddof: float
    skipna: bool | None
    where: Where
    weights: Any
    min_count: int
    initial: Any
    mask_and_scale: bool
    selection: Selection
    sel: Mapping[str, Any] | None
    sel_method: str | None
    sel_tolerance: Any
    allow_empty: bool
    mode: str
    variant: str | None
    decode: str
    memory: int | str | None
    on_bad_chunk: str
    on_missing_chunk: str
    storage_options: StorageOptions | None
    allow_targets: str | Sequence[str] | None
    by: Any
    by_axis: AxisOption
    groups: Any
    resample: Mapping[str, Any] | None


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
"""What other tools call options, to suggest ours."""


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

    Its signature gets the fields of `Options`, and its docstring their meanings, where it has an
    entry `op, options`.
    """
    own, shown = inspect.signature(function), []
    options = {one.name: _parameter(one.name, one.type, one.default) for one in fields(Options)}
    for name, parameter in own.parameters.items():
        if name in options:
            shown.append(options.pop(name))
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            shown.append(parameter)
    by_keyword = inspect.Parameter.KEYWORD_ONLY
    first = [one for one in shown if one.kind is not by_keyword]
    others = [one for one in shown if one.kind is by_keyword]
    keywords = [one.replace(kind=by_keyword) for one in options.values()]
    parameters = [*first, *keywords, *others]
    setattr(function, "__signature__", own.replace(parameters=parameters))  # noqa: B010
    if function.__doc__:  # which Python leaves out where it is told to
        told = "".join(f"{name}\n{indent(doc, '    ')}\n" for name, doc in meanings().items())
        function.__doc__ = _MARK.sub(lambda _: told, inspect.cleandoc(function.__doc__))
    return function


def meanings() -> dict[str, str]:
    """Return what each field of `Options` means: the text under it; none where there is no source.

    >>> meanings()["keepdims"]
    'Keep reduced axes with size one.'
    """
    try:
        (declared,) = ast.parse(inspect.getsource(Options)).body
    except OSError:
        return {}
    assert isinstance(declared, ast.ClassDef)
    names = {one.name for one in fields(Options)}
    found = {}
    for field, below in zip(declared.body, declared.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if name in names:
                found[name] = inspect.cleandoc(text)
    return found


def _parameter(name: str, of: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=of)
