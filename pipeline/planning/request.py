"""What is asked of a reduction, seen to be sound."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from chunkfold.errors import DeviceError, PlanError
from chunkfold.grid import Selection
from chunkfold.kernels import CATALOGUE, Bound, Monoid, Packing, as_monoid, bind
from chunkfold.kernels.dtypes import SUPPORTED, stored_name
from chunkfold.kernels.expressions.parsed import parsed
from chunkfold.planning.grouping import Grouping, grouping_of
from chunkfold.planning.plan import Plan
from chunkfold.planning.planner import make_plan
from chunkfold.settings import StorageOptions
from chunkfold.sources.axis_names import Axis, axis_numbers
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.held import Held, held_by
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source
from chunkfold.stores.addresses import NO_OPTIONS
from chunkfold.units import size_bytes

MODES = ("exact", "fast")
_WITH_DDOF = ("var", "std", "nanvar", "nanstd")
"""Reductions of the catalogue that ddof changes."""
Op = str | Monoid
Where = str | Callable[..., Any] | None
"""A condition of elements: a function of symbols, or its text."""


@dataclass(frozen=True)
class Request:
    """A reduction of opened sources; parameters as `chunkfold.reduce` has them."""

    sources: tuple[Source, ...]
    monoids: tuple[Monoid, ...]
    axis: int | Sequence[int] | None
    selection: Selection
    dtype: Any
    ddof: float
    mode: str
    memory: int | None
    """Bytes."""
    packings: tuple[Packing | None, ...]
    """How values are made of each source's elements, if they are not what is stored."""
    mask_and_scale: bool = False
    grouping: Grouping | None = None
    """The groups of elements that have the same label."""
    held: Held | None = None
    """What xarray holds of the sources, if they were given as its arrays."""
    skipna: bool = False
    """Whether NaN and NaT count as absent, as far as this was asked for."""

    @classmethod
    def of(
        cls,
        source: Any,
        op: Op | Sequence[Op],
        *,
        axis: Axis = None,
        dtype: Any = None,
        ddof: float = 0,
        skipna: bool | None = None,
        where: Where = None,
        selection: Selection = None,
        mode: str = MODES[0],
        memory: int | str | None = None,
        mask_and_scale: bool = False,
        storage_options: StorageOptions | None = None,
        by: Any = None,
        by_axis: Axis = None,
        groups: Any = None,
    ) -> Request:
        """Open the sources and look the reductions up.

        Raises
        ------
        ChunkfoldError
            If there is anything wrong with them.
        """
        for name, given in (("skipna", skipna or False), ("mask_and_scale", mask_and_scale)):
            if not isinstance(given, (bool, np.bool_)):
                raise PlanError(f"{name} is {given!r}; give True or False")
        held = held_by(source, selection)
        sources = _sources(source if held is None else held.sources, storage_options)
        # Whose axes are named and counted, and what is then selected of them.
        seen, taken = (sources[0], selection) if held is None else (held, None)
        if held is not None:
            selection, unpacked = held.selection, held.unpacked(ask=bool(mask_and_scale))
        else:
            unpacked = (bool(mask_and_scale),) * len(sources)
        skips = _skipping(held, skipna)
        monoids = tuple(_monoids(op, skips=skips, where=where))
        axis = axis_numbers(seen, axis, taken)
        each = zip(sources, unpacked, strict=True)
        packings = tuple(packing_of(one) if packed else None for one, packed in each)
        nbytes = memory_bytes(memory)
        grouping = grouping_of(
            by, by_axis, groups, seen, axis=axis, selection=taken,
            mask_and_scale=bool(mask_and_scale), storage_options=storage_options,
        )  # fmt: skip
        if grouping is not None and held is not None:
            grouping = grouping.along(held.axes)
        return cls(
            sources,
            monoids,
            axis,
            selection,
            dtype,
            ddof,
            mode,
            nbytes,
            packings,
            any(unpacked),
            grouping,
            held,
            skipna=skips("mean"),
        )

    def bound(self, *, fp64: bool = True) -> Bound:
        """Bind the reductions to the sources' dtypes, for devices that have float64 or not."""
        mode, dtype, monoids = self.mode, self.dtype, self.monoids
        if mode not in MODES:
            raise PlanError(f"mode is {mode!r}; there are: {', '.join(map(repr, MODES))}")
        ddof = _number(self.ddof)
        if ddof and all(m.name in CATALOGUE and m.name not in _WITH_DDOF for m in monoids):
            named = ", ".join(monoid.name for monoid in monoids)
            raise PlanError(f"ddof is {ddof}, but {named} has none; var and std do: leave it out")
        try:
            cast = None if dtype is None else np.dtype(dtype)
            if cast is not None and cast.kind != "O":
                stored_name(cast)
        except TypeError as error:
            raise PlanError(f"dtype={dtype!r}: {error}; supported are {SUPPORTED}") from None
        except (ValueError, DeviceError) as error:
            raise PlanError(f"dtype={dtype!r}: {error}") from None
        return bind(
            monoids,
            [source.dtype for source in self.sources],
            dtype=cast,
            fp64=fp64,
            ddof=ddof,
            exact=mode == "exact",
            packings=self.packings,
            keyed=self.grouping is not None,
        )

    def check(self, bound: Bound) -> None:
        """Raise what planning would, without asking stores what is there.

        What memory is enough depends on who works: it is not known yet.
        """
        make_plan(
            self.sources, bound, axis=self.axis, selection=self.selection, grouping=self.grouping
        )

    def listings(self) -> list[Listing | None]:
        """List what is stored of each source: see `chunkfold.sources.chunk_index`."""
        return [source.listing() for source in self.sources]

    def plan(self, bound: Bound, listings: Sequence[Listing | None], **terms: Any) -> Plan:
        """Plan it for what is stored, on the workers' terms (see `make_plan`)."""
        planned = make_plan(
            self.sources,
            bound,
            axis=self.axis,
            selection=self.selection,
            listings=listings,
            memory=self.memory,
            grouping=self.grouping,
            **terms,
        )
        return replace(planned, packings=self.packings, mask_and_scale=self.mask_and_scale)


def memory_bytes(memory: int | str | None) -> int | None:
    """Return the bytes of an amount of memory.

    Raises
    ------
    PlanError
        If it is none.
    """
    if memory is None:
        return None
    plain = isinstance(memory, (int, float, np.integer)) and not isinstance(memory, bool)
    try:
        nbytes = int(memory) if plain else size_bytes(memory) if isinstance(memory, str) else 0
    except (ValueError, OverflowError):
        nbytes = 0
    if nbytes <= 0:
        raise PlanError(f"memory is {memory!r}; give bytes, or a text such as '2 GiB'")
    return nbytes


def _sources(given: Any, options: StorageOptions | None) -> tuple[Source, ...]:
    """Open one source, or a pair of equal shape."""
    named = given if isinstance(given, (tuple, list)) else (given,)
    sources = tuple(open_source(one, options or NO_OPTIONS) for one in named)
    if not sources:
        raise PlanError("no source was named")
    first = sources[0]
    for other in sources[1:]:
        if other.shape != first.shape:
            raise PlanError(
                f"{first.name} has shape {first.shape}, but {other.name} has {other.shape}; "
                "they are taken element by element: give arrays of equal shape"
            )
    return sources


def _skipping(held: Held | None, skipna: bool | None) -> Callable[[str], bool]:
    """Return which reductions take NaN for absent: all or none, if nobody said as their library."""
    if skipna is None and held is not None:
        return held.skips
    return lambda _: bool(skipna)


def _monoids(op: Op | Sequence[Op], *, skips: Callable[[str], bool], where: Where) -> list[Monoid]:
    alone = isinstance(op, (str, bytes, Monoid)) or not isinstance(op, Iterable)
    ops: Any = [op] if alone else op
    monoids = [as_monoid(one) for one in ops]
    monoids = [one.skipping() if skips(one.name) else one for one in monoids]
    if where is not None:
        if not isinstance(where, str) and not callable(where):
            raise PlanError(
                f"where is {where!r}; give a function, as lambda x: x > 300, or 'x > 300'"
            )
        condition = parsed(where) if isinstance(where, str) else where
        monoids = [monoid.among(condition) for monoid in monoids]
    names = [monoid.name for monoid in monoids]
    if not names:
        raise PlanError("no reduction was named; give one, as in op='sum', or several in a list")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(f"results go by name, but {', '.join(twice)} is named more than once")
    return monoids


def _number(ddof: Any) -> float:
    plain = isinstance(ddof, Real) and not isinstance(ddof, bool)
    if not plain or not -(2**63) <= ddof < 2**63:  # nor is NaN
        raise PlanError(f"ddof is {reprlib.repr(ddof)}; give a finite number of 64 bits at most")
    return int(ddof) if isinstance(ddof, Integral) else float(ddof)
