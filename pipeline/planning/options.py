"""What is asked of a reduction, beside its source: one value, from the caller to the blocks."""

from __future__ import annotations

import functools
import operator
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from enum import Enum
from functools import cached_property
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import numpy as np

from chunkfold.errors import DeviceError, PlanError
from chunkfold.kernels import CATALOGUE, Monoid, as_monoid
from chunkfold.kernels.dtypes import SUPPORTED, stored_name
from chunkfold.kernels.expressions.parsed import parsed
from chunkfold.kernels.program.options import VARIANTS
from chunkfold.planning.coarsening import BOUNDARIES, Boundary, check_windows
from chunkfold.planning.held_inputs import weighted
from chunkfold.redaction import shown_address
from chunkfold.selections import Selection
from chunkfold.settings import StorageOptions
from chunkfold.sources.axis_names import Axis
from chunkfold.sources.coordinate_places import METHODS
from chunkfold.units import size_bytes

MODES = ("exact", "fast")
ON_BAD_CHUNK = ("stop", "skip")
ON_MISSING_CHUNK = ("fill", "stop")
_FLAGS = ("keepdims", "mask_and_scale")
_ONE_OF = MappingProxyType(
    {"mode": MODES, "on_bad_chunk": ON_BAD_CHUNK, "on_missing_chunk": ON_MISSING_CHUNK}
)
_WITH_DDOF = (
    "var", "std", "nanvar", "nanstd", "weighted_var", "weighted_std", "covariance",
    "weighted_covariance",
)  # fmt: skip
"""Reductions of the catalogue that ddof changes."""
Op = str | Monoid
Where = Any
"""A condition of elements: a function of symbols, or its text; or a mask, an array of bools; or a
tuple of these."""


class _Read(Enum):
    """Stands for an array that was read."""

    READ = "read"


READ = _Read.READ


@dataclass(frozen=True)
class Options:
    """What is asked of a reduction, beside its source.

    Raises
    ------
    ChunkfoldError
        If a value is none that there is, or two do not go together, whatever the source.
    """

    op: Op | Sequence[Op] = "sum"
    """A reduction, by name or as a `Monoid`; or several, which share one read of the data."""
    _: KW_ONLY
    axis: Axis = None
    """Axes to reduce: by the names that the array gives them, or by number, counted after the
    selection as NumPy does, whose integers leave nothing of an axis; None for all."""
    keepdims: bool = False
    """Keep reduced axes with size one."""
    coarsen: Mapping[int | str, int] | None = None
    """Windows: along each of these axes (by name or number, as `axis`) so many elements that follow
    each other are reduced to one, as in `{"y": 2, "x": 2}`. `axis` names others that are reduced
    whole then; None: no others. Positions are those in a window, in C order."""
    boundary: Boundary = BOUNDARIES[0]
    """Of windows, where elements are no multiple of them: "exact" refuses that, "trim" leaves the
    last elements out, "pad" makes a shorter window of them. Or one for each axis, by its name."""
    dtype: Any = None
    """Cast elements to this before, and the result after. `object` gives the sum or product of
    integers as Python's: sums of any size, products of up to 64 bits."""
    ddof: float = 0
    """Delta degrees of freedom: variances and covariances divide by count - ddof."""
    skipna: bool | None = None
    """Take elements that are NaN or NaT for absent. None: only floats of xarray's, as xarray does,
    and those in all reductions but `any` and `all`."""
    where: Where = None
    """A condition: elements of which it does not hold count as absent. A function of the elements,
    as `lambda x: x > 300`, with NumPy's meaning (docs/monoids.md), or its text, "x > 300". Or a
    mask: an array of bools (NumPy's, xarray's, or Zarr's, or its path as `pathlib.Path`) that has
    some of the source's axes, by their names, or as NumPy broadcasts, before any selection. Or a
    tuple of a mask and conditions, which must all hold."""
    weights: Any = None
    """Of elements, in sums, means, variances and what is made of these, and in histograms and
    quantiles: an array of numbers, or its path, that has some of the source's axes, as a mask has.
    A mean is sum(weights * x) / sum(weights), a bin of a histogram holds the sum of its weights,
    and a quantile is the first element up to which there is that share of all weights."""
    min_count: int = 0
    """Results of fewer elements that are there are NaN or NaT, as xarray's sums and products are:
    of groups, too, and in all reductions that have NaN. Counts, positions and truths are as they
    were; integers have none, and need dtype="float64"."""
    initial: Any = None
    """What sums, products, minima and maxima begin with, as NumPy's: each of the results. It is
    also what they are of no elements. A sum is rounded once, with it."""
    mask_and_scale: bool = False
    """Reduce the values that stored numbers stand for, by the attributes `scale_factor`,
    `add_offset`, `_FillValue`, `missing_value` and `_Unsigned`, as xarray does (in format 2
    the fill value is missing too): float64 ones, or float32 where narrow integers are masked
    only, or those of `dtype`. Missing ones are NaN, which `skipna` leaves out. A
    `chunkfold.errors.PackedWarning` says which attributes are not applied."""
    selection: Selection = None
    """As in `array[selection]`: integers, slices, Ellipsis; lists and arrays of integers or bools,
    also as `pathlib.Path` of a .npy file, each of one axis by itself, as in `zarr.Array.oindex`.
    Positions of results, as of `argmin`, are those in the selection."""
    sel: Mapping[str, Any] | None = None
    """Select by coordinates, as `sel` of xarray's: a value, a list of values or a slice, which
    takes both of its ends, for each of some axes, by their names."""
    sel_method: str | None = None
    """"nearest", "pad" or "backfill": which place is taken of values of `sel` that are none of the
    coordinate's. None: there must be such a value."""
    sel_tolerance: Any = None
    """How far away that may be."""
    mode: str = MODES[0]
    """"exact": sums, means, variances and norms of floats are computed without rounding and
    rounded once: the same bits for any chunks, devices and workers. "fast": they are off by no
    more than `docs/numerics.md` says, and arithmetic takes less time."""
    variant: str | None = None
    """Use this kernel variant ("tree", "work_group", "sub_group") instead of the best one."""
    memory: int | str | None = None
    """Most that a worker may take above an idle one: bytes, or a text such as "2 GiB"."""
    on_bad_chunk: str = ON_BAD_CHUNK[0]
    """"stop": a chunk that cannot be read ends the run. "skip": its elements count as absent, and
    `Run.skipped` says which they are; exact results are then those of the rest."""
    on_missing_chunk: str = ON_MISSING_CHUNK[0]
    """"fill": the elements of a chunk that is not stored are the fill value, as the format has it.
    "stop": such a chunk ends the run; where the store can be listed, before anything is read."""
    storage_options: StorageOptions | None = None
    """Of sources that are URLs: `absent_status` is one or several statuses (403, 410) by which a
    server answers for chunks that it does not have; all else is obstore's, such as
    `skip_signature` or `region`."""
    by: Any = None
    """Labels: elements of the same label are a group, and each group has its own results. The name
    of a coordinate ("lat"), or of a part of times ("time.month": any that xarray's `dt` has); or an
    array of whole numbers, texts, bools or dates (NumPy's, xarray's, or Zarr's, or its path) with
    the extents of some axes of the source, before any selection; or `chunkfold.bins` of these, or
    of the elements themselves.
    What is negative, NaN, NaT or masked is in no group. In results the groups are an axis, in the
    place of the first axis that has labels, in ascending order of their labels, which
    `Result.labels` has. A tuple is several labels at once: all combinations of them are groups, and
    results have an axis for each."""
    by_axis: Axis = None
    """The axes that labels are along, as `axis`; if it is not given, those that have the names of
    the labels' axes, or else their extents: the only ones, or the last ones. Of several labels
    one for each, or None."""
    groups: Any = None
    """The labels of the groups, in the order of the results: also of those that have no elements.
    Other labels are in no group. None: those that there are. Of several labels a list for each, or
    None."""
    resample: Mapping[str, Any] | None = None
    """Spans of a calendar as labels: {"time": "1MS"} makes a group of each month from the first to
    the last, also of those without elements, as xarray's `resample` does, with the same names of
    frequencies. Their axis comes before those of `by`."""

    def __post_init__(self) -> None:
        for name in _FLAGS:
            _check_flag(name, getattr(self, name))
        _check_flag("skipna", self.skipna or False)
        for name, allowed in _ONE_OF.items():
            _check_one_of(name, getattr(self, name), allowed)
        if self.variant is not None:
            _check_one_of("variant", self.variant, VARIANTS)
        _check_mapping("storage_options", self.storage_options)
        _check_mapping("resample", self.resample)
        check_windows(self.coarsen, self.boundary)
        labels = next((name for name in ("by", "resample") if getattr(self, name) is not None), "")
        if self.coarsen is not None and labels:
            raise PlanError(
                f"coarsen= and {labels}= do not go together: groups by labels can be windows, as "
                f"in by=np.arange(n) // 2; or coarsen what comes of {labels}="
            )
        _check_sel(self.sel, self.sel_method, self.sel_tolerance)
        for name in ("by_axis", "groups") if self.by is None else ():
            if (value := getattr(self, name)) is not None:
                raise PlanError(f"{name} is {value!r}, but there are no labels: give them with by=")
        if sum(not _is_condition(one) for one in self._wheres) > 1:
            raise PlanError("where has several masks: give one, as where=land & near")
        op: Any = self.op
        if isinstance(op, Iterable) and not isinstance(op, (str, bytes)):
            object.__setattr__(self, "op", tuple(op))
        object.__setattr__(self, "ddof", _number(self.ddof))
        object.__setattr__(self, "min_count", _count(self.min_count))
        _ = self.memory_bytes, self.cast
        _check_names(self.names)
        _refuse_ddof(self.ddof, self.monoids)
        if self.initial is not None:
            _refuse_initial(self.initial, self.monoids)

    @property
    def single(self) -> bool:
        """Whether one reduction is named by itself, whose result is no mapping then."""
        return isinstance(self.op, (str, Monoid))

    @property
    def skips(self) -> bool:
        """Whether chunks that cannot be read are left out, rather than end the run."""
        return self.on_bad_chunk == "skip"

    @property
    def wants_all(self) -> bool:
        """Whether chunks that are not stored end the run."""
        return self.on_missing_chunk == "stop"

    @property
    def mask(self) -> Any:
        """The array that says which elements are there; None if there is none."""
        return next((one for one in self._wheres if not _is_condition(one)), None)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What `where` says in words."""
        return tuple(one if isinstance(one, str) else "a function"
                     for one in self._wheres if _is_condition(one))  # fmt: skip

    @property
    def _wheres(self) -> tuple[Any, ...]:
        each = self.where if isinstance(self.where, tuple) else (self.where,)
        return tuple(one for one in each if one is not None)

    @property
    def exact(self) -> bool:
        """Whether sums of floats are exact and rounded once."""
        return self.mode == "exact"

    @cached_property
    def monoids(self) -> tuple[Monoid, ...]:
        """The reductions, which take for absent what is asked to be."""
        monoids = [as_monoid(one) for one in self.ops]
        if self.weights is not None:
            monoids = [weighted(monoid) for monoid in monoids]
        if self.skipna:
            monoids = [monoid.skipping() for monoid in monoids]
        if conditions := [one for one in self._wheres if _is_condition(one)]:
            condition = _all_of(
                [parsed(one) if isinstance(one, str) else one for one in conditions]
            )
            monoids = [monoid.among(condition) for monoid in monoids]
        if self.mask is not None:
            monoids = [monoid.among_input() for monoid in monoids]
        if self.min_count:
            monoids = [monoid.at_least(self.min_count) for monoid in monoids]
        return tuple(monoids)

    def alone(self) -> Options:
        """Return them without arrays that were given, once these are read."""
        weights = None if self.weights is None else READ
        where = tuple(one if _is_condition(one) else READ for one in self._wheres) or None
        unlabelled = replace(self, by=None, by_axis=None, groups=None, resample=None)
        return replace(unlabelled, weights=weights, where=where)

    @property
    def names(self) -> tuple[str, ...]:
        """What results go by."""
        return tuple(monoid.name for monoid in self.monoids)

    @property
    def memory_bytes(self) -> int | None:
        """`memory` in bytes."""
        return None if self.memory is None else _nbytes(self.memory)

    @property
    def cast(self) -> np.dtype | None:
        """`dtype` as NumPy has it."""
        return None if self.dtype is None else _dtype(self.dtype)

    def __repr__(self) -> str:
        """Name what differs from the defaults, without data and secrets of stores."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        shown = (
            f"{name}={_shown(name, value)}"
            for name, value in given.items()
            if name == "op" or not _alike(value, getattr(Options, name))
        )
        return f"Options({', '.join(shown)})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave what follows from fields out, and name the catalogue's reductions."""
        ops = tuple(map(_named, self.ops))
        kept = {one.name: getattr(self, one.name) for one in fields(self)}
        return kept | {"op": ops[0] if self.single else ops}

    @property
    def ops(self) -> tuple[Op, ...]:
        """The reductions as they were given."""
        return self.op if isinstance(self.op, tuple) else (self.op,)


def _named(op: Op) -> Op:
    return op.name if isinstance(op, Monoid) and CATALOGUE.get(op.name) is op else op


def _alike(value: Any, default: Any) -> bool:
    """Whether a value, which may be an array, is a default."""
    return value is default or (isinstance(value, (str, float, int)) and value == default)


def _shown(name: str, value: Any) -> str:
    if name == "storage_options":
        return f"<{', '.join(value)}>"
    if name == "op":
        alone = isinstance(value, (str, Monoid))
        ops = [value] if alone else value
        names = [one.name if isinstance(one, Monoid) else one for one in ops]
        return repr(names[0] if alone else names)
    return repr(shown_address(value)) if isinstance(value, str) else reprlib.repr(value)


def _check_flag(name: str, given: Any) -> None:
    if not isinstance(given, (bool, np.bool_)):
        raise PlanError(f"{name} is {given!r}; give True or False")


def _check_one_of(name: str, given: Any, allowed: Sequence[str]) -> None:
    if not isinstance(given, str) or given not in allowed:
        raise PlanError(f"{name} is {given!r}; there are: {', '.join(map(repr, allowed))}")


def _check_mapping(name: str, given: Any) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise PlanError(f"{name} is a mapping of names, not {type(given).__name__}")


def _check_sel(sel: Any, method: Any, tolerance: Any) -> None:
    _check_mapping("sel", sel)
    unnamed = next((dim for dim in sel or () if not isinstance(dim, str)), None)
    if unnamed is not None:
        raise PlanError(f"sel has {unnamed!r} for an axis; give its name, as in {{'lat': 30}}")
    if method is not None:
        _check_one_of("sel_method", method, METHODS)
    for name, given in (("sel_method", method), ("sel_tolerance", tolerance)):
        if given is not None and not sel:
            raise PlanError(f"{name} is {given!r}, but no values are named: give them with sel=")
    if tolerance is not None and method is None:
        raise PlanError(f"sel_tolerance is {tolerance!r}; it needs a sel_method, as 'nearest'")


def _is_condition(where: Any) -> bool:
    return isinstance(where, str) or callable(where)


def _all_of(conditions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a condition that holds where all of these do."""
    if len(conditions) == 1:
        return conditions[0]
    return lambda *elements: functools.reduce(operator.and_, (one(*elements) for one in conditions))


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise PlanError("no reduction was named; give one, as in op='sum', or several in a list")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(f"results go by name, but {', '.join(twice)} is named more than once")


def _nbytes(memory: Any) -> int:
    plain = isinstance(memory, (int, float, np.integer)) and not isinstance(memory, bool)
    try:
        nbytes = int(memory) if plain else size_bytes(memory) if isinstance(memory, str) else 0
    except (ValueError, OverflowError):
        nbytes = 0
    if nbytes <= 0:
        raise PlanError(f"memory is {memory!r}; give bytes, or a text such as '2 GiB'")
    return nbytes


def _dtype(given: Any) -> np.dtype:
    try:
        cast: np.dtype = np.dtype(given)
        if cast.kind != "O":
            stored_name(cast)
    except TypeError as error:
        raise PlanError(f"dtype={given!r}: {error}; supported are {SUPPORTED}") from None
    except (ValueError, DeviceError) as error:
        raise PlanError(f"dtype={given!r}: {error}") from None
    return cast


def _number(ddof: Any) -> float:
    plain = isinstance(ddof, Real) and not isinstance(ddof, bool)
    if not plain or not -(2**63) <= ddof < 2**63:  # nor is NaN
        raise PlanError(f"ddof is {reprlib.repr(ddof)}; give a finite number of 64 bits at most")
    return int(ddof) if isinstance(ddof, Integral) else float(ddof)


def _count(given: Any) -> int:
    if given is None:
        return 0
    whole = int(given) if isinstance(given, Integral) and given is not True else -1
    if given is False or not 0 <= whole < 2**63:
        raise PlanError(f"min_count is {reprlib.repr(given)}; give how many elements, 0 or more")
    return whole


def _refuse_initial(initial: Any, monoids: Sequence[Monoid]) -> None:
    """Refuse it where a reduction begins with nothing."""
    if others := [monoid.as_written for monoid in monoids if not monoid.initial]:
        weighed = ", not where elements are weighed" if any(m.weights for m in monoids) else ""
        raise PlanError(
            f"initial is {reprlib.repr(initial)}, but {', '.join(others)} has none; sum, prod, "
            f"min, max and minmax do{weighed}: leave it out"
        )


def _refuse_ddof(ddof: float, monoids: Sequence[Monoid]) -> None:
    """Refuse it where no reduction takes it, as far as is known."""
    if ddof and all(m.name in CATALOGUE and m.name not in _WITH_DDOF for m in monoids):
        named = ", ".join(monoid.as_written for monoid in monoids)
        raise PlanError(f"ddof is {ddof}, but {named} has none; var and std do: leave it out")
