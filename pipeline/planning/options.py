"""What is asked of a reduction, beside its source: one value, from the caller to the blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels import CATALOGUE, Monoid, as_monoid
from chunkfold.kernels.catalogue.named import checking_weights
from chunkfold.kernels.expressions.parsed import parsed
from chunkfold.kernels.program.options import VARIANTS
from chunkfold.planning.broadcast_inputs import weighted
from chunkfold.planning.coarsening import BOUNDARIES, Boundary, check_windows
from chunkfold.planning.conditions import Where, all_of, is_condition
from chunkfold.planning.option_values import (
    DECODE,
    FLAGS,
    MODES,
    ON_BAD_CHUNK,
    ON_MISSING_CHUNK,
    ONE_OF,
    cast_dtype,
    check_flag,
    check_mapping,
    check_names,
    check_one_of,
    check_sel,
    ddof_number,
    is_default,
    memory_bytes,
    min_count_number,
    refuse_ddof,
    refuse_initial,
    refuse_windows,
    shown_value,
)
from chunkfold.selections import Selection
from chunkfold.settings import StorageOptions, with_targets
from chunkfold.sources.axis_names import AxisOption

Op = str | Monoid


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
    axis: AxisOption = None
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
    """Ignore NaN and NaT. None: as xarray does, in its arrays alone: NaN in floats, but for `any`
    and `all`, and NaT in means and counts of times."""
    where: Where = None
    """A condition: elements of which it does not hold count as absent. A function of the elements,
    as `lambda x: x > 300`, with NumPy's meaning (docs/monoids.md), or its text, "x > 300". Or a
    mask: an array of bools (NumPy's, xarray's, or Zarr's, or its path as `pathlib.Path`) that has
    some of the source's axes, by their names, or as NumPy broadcasts, before any selection. Or a
    tuple of a mask and conditions, which must all hold."""
    weights: Any = None
    """Of elements, in sums, means, variances and what is made of these, and in histograms and
    quantiles: an array of numbers, or its path, that has some of the source's axes, as a mask has;
    or a text, as "cos(lat)", of coordinates in degrees. Only sums and histograms take some below
    zero. A mean is sum(weights * x) / sum(weights). A bin of a histogram holds the sum of its
    weights. A quantile is the first element up to which there is that share of all weights."""
    min_count: int = 0
    """Give NaN (NaT) where fewer than so many valid elements are found, in groups too. Counts,
    positions and truths stay; integers have no NaN, and need dtype="float64"."""
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
    """Select by coordinates, as xarray's `sel`: by the name of an axis a value, a list or a slice,
    which includes both of its ends; a slice of longitudes is an arc."""
    sel_method: str | None = None
    """"nearest", "pad" or "backfill": which place is taken of values of `sel` that are none of the
    coordinate's. None: there must be such a value."""
    sel_tolerance: Any = None
    """How far away that may be."""
    allow_empty: bool = False
    """Let a selection take nothing: sums are then of nothing. False: that is an error."""
    mode: str = MODES[0]
    """"exact": sums, means, variances and norms of floats are rounded once: the same bits for any
    chunks, devices and workers. "fast": less arithmetic, within the bound of `docs/numerics.md`."""
    variant: str | None = None
    """Use this kernel variant ("tree", "work_group", "sub_group") instead of the best one."""
    decode: str = DECODE[0]
    """Who decodes zstd, Blosc and LZ4: "host", "device", or "auto", the faster one."""
    memory: int | str | None = None
    """Memory limit of a worker, beyond what an idle one uses: bytes, or a text ("2 GiB")."""
    on_bad_chunk: str = ON_BAD_CHUNK[0]
    """"stop": a chunk that cannot be read ends the run. "skip": `Run.skipped` names it."""
    on_missing_chunk: str = ON_MISSING_CHUNK[0]
    """"fill": elements of a chunk that is not stored are the fill value, as the format has it.
    "stop": such a chunk ends the run; before anything is read, where the store can be listed."""
    storage_options: StorageOptions | None = None
    """Options for URLs: `absent_status` gives the statuses (403, 410) by which a server says that
    it lacks a chunk; all others are obstore's, such as `skip_signature` or `region`."""
    allow_targets: str | Sequence[str] | None = None
    """Addresses below which references may lead, beside their own server or folder."""
    by: Any = None
    """Labels: elements of the same label are a group, and each group has its own results. The name
    of a coordinate ("lat") or of a part of times ("time.month": any of xarray's `dt`); an array of
    whole numbers, texts, bools or dates (NumPy's, xarray's, Zarr's, or its path) with the extents
    of some axes of the source, before any selection; or `chunkfold.bins` of these or the elements.
    What is negative, NaN, NaT or masked is in no group. In results the groups are an axis, in the
    place of the first axis that has labels, in ascending order of their labels, which
    `Result.labels` has. A tuple or a list of these is several labels at once: all combinations of
    them are groups, and results have an axis for each."""
    by_axis: AxisOption = None
    """The axes that labels are along, as `axis`; if it is not given, those that have the names of
    the labels' axes, or else their extents: the only ones, or the last ones. Of several labels
    one for each, or None."""
    groups: Any = None
    """The labels of the groups, in the order of the results: also of those that have no elements.
    Other labels are in no group. None: those that there are. Of several labels a list for each, or
    None."""
    resample: Mapping[str, Any] | None = None
    """Spans of a calendar as labels: {"time": "1MS"} makes a group of each month from the first to
    the last, also without elements, as xarray's. Their axis comes before those of `by`."""

    @property
    def opening(self) -> StorageOptions:
        """How sources are opened."""
        return with_targets(self.storage_options, self.allow_targets)

    def __post_init__(self) -> None:
        for name in FLAGS:
            check_flag(name, getattr(self, name))
        check_flag("skipna", self.skipna or False)
        for name, allowed in ONE_OF.items():
            check_one_of(name, getattr(self, name), allowed)
        if self.variant is not None:
            check_one_of("variant", self.variant, VARIANTS)
        check_mapping("storage_options", self.storage_options)
        check_mapping("resample", self.resample)
        check_windows(self.coarsen, self.boundary)
        labels = next((name for name in ("by", "resample") if getattr(self, name) is not None), "")
        refuse_windows(self.coarsen, labels)
        check_sel(self.sel, self.sel_method, self.sel_tolerance)
        for name in ("by_axis", "groups") if self.by is None else ():
            if (value := getattr(self, name)) is not None:
                raise PlanError(f"{name} is {value!r}, but there are no labels: give them with by=")
        if sum(not is_condition(one) for one in self._wheres) > 1:
            raise PlanError("where has several masks: give one, as where=land & near")
        if isinstance(self.op, Iterable) and not isinstance(self.op, (str, bytes)):
            object.__setattr__(self, "op", tuple(self.op))
        object.__setattr__(self, "ddof", ddof_number(self.ddof))
        object.__setattr__(self, "min_count", min_count_number(self.min_count))
        _ = self.memory_bytes, self.cast
        check_names(self.names)
        refuse_ddof(self.ddof, self.monoids)
        if self.initial is not None:
            refuse_initial(self.initial, self.monoids)

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
        return next((one for one in self._wheres if not is_condition(one)), None)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What `where` says in words."""
        said = (one for one in self._wheres if is_condition(one))
        return tuple(one if isinstance(one, str) else "a function" for one in said)

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
        """Return them without arrays that were given, once these are read."""
        where = tuple(one if is_condition(one) else READ for one in self._wheres) or None
        unlabelled = replace(self, by=None, by_axis=None, groups=None, resample=None)
        return replace(unlabelled, weights=None if self.weights is None else READ, where=where)

    @property
    def names(self) -> tuple[str, ...]:
        """What results go by."""
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
