"""Options of a reduction as one value, from the keywords of functions to the blocks."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cached_property
from textwrap import indent
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels import CATALOGUE, Monoid, as_monoid
from chunkfold.kernels.catalogue.named import checking_weights
from chunkfold.kernels.expressions.parsed import parsed, reads_map
from chunkfold.planning.broadcast_inputs import weighted
from chunkfold.planning.coarsening import check_windows
from chunkfold.planning.option_table import Keywords, Op, OptionTable, meanings
from chunkfold.planning.option_values import (
    all_of,
    cast_dtype,
    check_names,
    check_sel,
    is_condition,
    is_default,
    memory_bytes,
    refuse_ddof,
    refuse_initial,
    refuse_windows,
    shown_value,
    tendency_monoid,
)
from chunkfold.settings import StorageOptions, with_targets

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


class _Read(Enum):
    """Stands for an array that was read."""

    READ = "read"


READ = _Read.READ


@dataclass(frozen=True)
class Options(OptionTable):
    """The options of a reduction, checked also against each other.

    Raises
    ------
    ChunkfoldError
        If a value is none that there is, or two do not go together, whatever the source.
    """

    @property
    def opening(self) -> StorageOptions:
        """Options by which sources are opened."""
        return with_targets(self.storage_options, self.allow_targets)

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = isinstance(self.boundary, str) and self.boundary == "exact"
        if self.coarsen is not None or not plain:
            check_windows(self.coarsen, self.boundary)
        labels = next((name for name in ("by", "resample") if getattr(self, name) is not None), "")
        refuse_windows(self.coarsen, labels)
        check_sel(self.sel, self.sel_method, self.sel_tolerance)
        for name in ("by_axis", "groups") if self.by is None else ():
            if (value := getattr(self, name)) is not None:
                raise PlanError(f"{name} is {value!r}, but no labels are given: give them with by=")
        if sum(not is_condition(one) for one in self._wheres) > 1:
            raise PlanError(
                "where has a mask and a map: give map.where(mask), NaN where the mask is False"
                if any(map(reads_map, self.conditions))
                else "where has several masks: give one, as where=land & near"
            )
        if self.mask is None and (told := next(filter(reads_map, self.conditions), None)):
            raise PlanError(
                f"the condition {told!r} compares with y, a map of numbers, but no map is given: "
                "give both, as where=('x > y', map)"
            )
        if self.tendency is not None and self.weights is not None:
            raise PlanError("tendency takes no weights: omit one of them")
        check_names(self.names)
        refuse_ddof(self.ddof, self.monoids)
        if self.ledger is not None and not self.exact:
            raise PlanError(
                "mode is 'fast', whose partials depend on the device, but a ledger keeps exact "
                "ones: omit the ledger, or give mode='exact'"
            )
        if self.ledger_statistics and self.ledger is None:
            raise PlanError(
                "ledger_statistics is True, but no ledger is given: give ledger=, or omit it"
            )
        if self.initial is not None:
            refuse_initial(self.initial, self.monoids)

    @property
    def single(self) -> bool:
        """True for one reduction that is named by itself: its result is no mapping."""
        return isinstance(self.op, (str, Monoid))

    @property
    def skips(self) -> bool:
        """True if chunks that cannot be read are left out; they end the run otherwise."""
        return self.on_bad_chunk == "skip"

    @property
    def wants_all(self) -> bool:
        """True if chunks that are not stored end the run."""
        return self.on_missing_chunk == "stop"

    @property
    def mask(self) -> Any:
        """The array that says which elements count; None without one."""
        return next((one for one in self._wheres if not is_condition(one)), None)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of `where` as texts."""
        said = (one for one in self._wheres if is_condition(one))
        return tuple(one if isinstance(one, str) else "a function" for one in said)

    @property
    def _wheres(self) -> tuple[Any, ...]:
        each = self.where if isinstance(self.where, tuple) else (self.where,)
        return tuple(one for one in each if one is not None)

    @property
    def exact(self) -> bool:
        """True if sums of floats are exact and rounded once."""
        return self.mode == "exact"

    @cached_property
    def monoids(self) -> tuple[Monoid, ...]:
        """The reductions, which ignore the elements that the options say."""
        kind = as_monoid if self.tendency is None else tendency_monoid
        monoids = [kind(one) for one in self.ops]
        weighs = checking_weights if self.weights is None else weighted
        monoids = [weighs(monoid) for monoid in monoids]
        if self.skipna:
            monoids = [monoid.skipping() for monoid in monoids]
        if conditions := [one for one in self._wheres if is_condition(one)]:
            condition = all_of([parsed(one) if isinstance(one, str) else one for one in conditions])
            monoids = [monoid.among(condition) for monoid in monoids]
        if self.mask is not None:
            monoids = [monoid.among_input() for monoid in monoids]
        if self.min_count:
            monoids = [monoid.at_least(self.min_count) for monoid in monoids]
        return tuple(monoids)

    def alone(self) -> Options:
        """Return the options without their arrays, once these are read."""
        where = tuple(one if is_condition(one) else READ for one in self._wheres) or None
        unlabelled = replace(self, by=None, by_axis=None, groups=None, resample=None)
        return replace(unlabelled, weights=None if self.weights is None else READ, where=where)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the results."""
        return tuple(monoid.name for monoid in self.monoids)

    @property
    def memory_bytes(self) -> int | None:
        """`memory` in bytes."""
        return None if self.memory is None else memory_bytes(self.memory)

    @property
    def cast(self) -> np.dtype | None:
        """`dtype` as NumPy has it."""
        return None if self.dtype is None else cast_dtype(self.dtype)

    def __repr__(self) -> str:
        """Name what differs from the defaults, without data and secrets of stores."""
        shown = (
            f"{one.name}={shown_value(one.name, getattr(self, one.name))}"
            for one in fields(self)
            if one.name == "op" or not is_default(getattr(self, one.name), one.default)
        )
        return f"Options({', '.join(shown)})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave what follows from fields out, and name the catalogue's reductions."""
        ops = tuple(
            op.name if isinstance(op, Monoid) and CATALOGUE.get(op.name) is op else op
            for op in self.ops
        )
        kept = {one.name: getattr(self, one.name) for one in fields(self)}
        return kept | {"op": ops[0] if self.single else ops}

    @property
    def ops(self) -> tuple[Op, ...]:
        """The reductions as they were given."""
        return self.op if isinstance(self.op, tuple) else (self.op,)


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
                f"no option is called {name!r}; use one of: {', '.join(Keywords.__annotations__)}"
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
