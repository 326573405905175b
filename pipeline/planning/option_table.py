"""The table of options: name, type, section, check and default, and below each what it means.

A row gives the keyword of `reduce`, its documentation, the option of the command line and the key
of job files (`options/written_options.py`). Its first paragraph is shown in all of them, so it
spells no language; the others are for Python. A new option is a row here, and a line in `Keywords`.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, TypedDict, get_type_hints

from chunkfold.kernels import Monoid
from chunkfold.planning.coarsening import Boundary
from chunkfold.planning.option_values import (
    Check,
    DecodeOn,
    LedgerVerify,
    Mode,
    OnBadChunk,
    OnMissingChunk,
    Section,
    SelMethod,
    VariantName,
    Where,
    as_given,
    cast_dtype,
    check_by_type,
    check_mapping,
    ddof_number,
    ledger_place,
    memory_bytes,
    min_count_number,
    several_ops,
    step,
)
from chunkfold.selections import Selection
from chunkfold.settings import StorageOptions
from chunkfold.sources.axis_names import AxisOption

Op = str | Monoid


@dataclass(frozen=True)
class OptionTable:
    """All options of a reduction; each value is checked by its row."""

    op: Annotated[Op | Sequence[Op], Section.OPERATION, several_ops] = "sum"
    """Reduction by name, or several, which share one read of the data.

    Also a `Monoid`, or a list of names and Monoids."""
    _: KW_ONLY
    axis: Annotated[AxisOption, Section.OPERATION] = None
    """Axes to reduce, by name or number; all of them if none are given.

    Numbers count the axes of the selection, as in NumPy, where an integer removes its axis."""
    keepdims: Annotated[bool, Section.OPERATION] = False
    """Keep reduced axes with size one."""
    coarsen: Annotated[Mapping[int | str, int] | None, Section.OPERATION] = None
    """Reduce windows of this many consecutive elements along an axis, by name or number.

    For example `{"y": 2, "x": 2}`. `axis` names other axes, which are reduced whole; None: no
    others. Positions are positions in a window, in C order."""
    boundary: Annotated[Boundary, Section.OPERATION] = "exact"
    """If the length of an axis is not a multiple of its window: "exact" is an error, "trim" leaves
    out the last elements, "pad" makes the last window shorter.

    Or a mapping from the axes of `coarsen` to these."""
    ddof: Annotated[float, Section.OPERATION, ddof_number] = 0
    """Delta degrees of freedom: variances and covariances divide by count - ddof."""
    skipna: Annotated[bool | None, Section.OPERATION] = None
    """Ignore NaN and NaT.

    None: only for xarray's arrays, as xarray does: NaN in floats, except for `any` and `all`, and
    NaT in means and counts of times."""
    min_count: Annotated[int, Section.OPERATION, min_count_number] = 0
    """Give NaN (NaT) if a result has fewer valid elements than this.

    Groups are counted separately. It does not affect counts, positions, `any`, `all` and
    histograms; integers have no NaN, and need dtype="float64"."""
    initial: Annotated[Any, Section.OPERATION] = None
    """Start value of sums, products, minima and maxima, which is also the result of no elements.

    For each result, as in NumPy. A sum is rounded once, with it."""
    where: Annotated[Where, Section.OPERATION] = None
    """Ignore elements that do not meet a condition, such as 'x > 300' or '0 < x < 1 and not
    isnan(x)'.

    A string, or a function of the elements, such as `lambda x: x > 300`, with NumPy's meaning
    (docs/monoids.md). Or a mask: an array of bools (NumPy's, xarray's, Zarr's, or its
    `pathlib.Path`) with some axes of the source, by their names, or as NumPy broadcasts, before any
    selection. Or a tuple: conditions with a mask, or with an array of numbers, called y."""
    weights: Annotated[Any, Section.OPERATION] = None
    """Weight elements in sums, means, variances, deviations, histograms and quantiles: by an array
    along some axes, or by a formula of coordinates in degrees, such as 'cos(lat)'.

    An array of numbers, or its path, has axes like a mask. Only sums and histograms take negative
    weights. A mean is sum(weights * x) / sum(weights). A bin of a histogram holds the sum of its
    weights. A quantile is the first element at which the share of all weights reaches q."""
    mask_and_scale: Annotated[bool, Section.OPERATION] = False
    """Unpack stored numbers by scale_factor, add_offset, _FillValue, missing_value and _Unsigned,
    as xarray does; missing ones become NaN.

    In format 2 the fill value is missing too. Values are float64, or float32 if narrow integers are
    only masked, or have the dtype `dtype`. `skipna` ignores missing ones. A
    `chunkfold.errors.PackedWarning` says which attributes are not applied."""
    mode: Annotated[Mode, Section.OPERATION] = "exact"
    """Arithmetic of floats: "exact" rounds sums, means, variances and norms once, to the same bits
    for any chunks, devices and workers; "fast" computes less, within the bound of
    docs/numerics.md."""
    dtype: Annotated[Any, Section.OPERATION, as_given(cast_dtype)] = None
    """Cast elements to this dtype first, and the result to it. "object" gives Python's integers,
    for sums (of any size) and products (of up to 64 bits)."""
    by: Annotated[Any, Section.GROUPS] = None
    """Group elements by labels along some axes; each group has its own results. Elements whose
    label is negative, NaN, NaT or masked are in no group.

    Labels are the name of a coordinate ("lat") or of a part of times ("time.month": any of xarray's
    `dt`); an array of whole numbers, strings, bools or dates (NumPy's, xarray's, Zarr's, or its
    path) with the lengths of some axes of the source, before any selection; or `chunkfold.bins` of
    these or of the elements. In results the groups are an axis, in the place of the first axis that
    has labels, in ascending order of their labels, which `Result.labels` has. With a tuple or a
    list of these all combinations are groups, and results have an axis for each."""
    by_axis: Annotated[AxisOption, Section.GROUPS] = None
    """Axes of the labels, by name or number.

    None: axes with the names of the labels' axes, or else reduced axes of the same lengths, the
    last ones if several match. For several labels one for each, or None."""
    groups: Annotated[Any, Section.GROUPS] = None
    """Labels of the groups, in the order of the results; other labels are in no group.

    Groups without elements have results, too. None: all labels in the data. For several labels
    a list for each, or None."""
    resample: Annotated[Mapping[str, Any] | None, Section.GROUPS, check_mapping] = None
    """Group an axis of dates by consecutive calendar periods, named by a pandas frequency.

    {"time": "1MS"} makes a group of each month from the first to the last, also without elements,
    as in xarray. Their axis comes before those of `by`."""
    selection: Annotated[Selection, Section.SELECTION] = None
    """Select by positions along each axis.

    As in `array[selection]`: integers, slices, Ellipsis; lists and arrays of integers or bools,
    also as `pathlib.Path` of a .npy file, each along one axis, as in `zarr.Array.oindex`.
    Positions in results (`argmin`) are positions in the selection."""
    sel: Annotated[Mapping[str, Any] | None, Section.SELECTION] = None
    """Select by coordinates, as xarray's sel does, or by parts of dates.

    A mapping from the name of an axis, or of a part of its dates ("time.season"), to a value, a
    list, or a slice, which includes both of its ends. A slice of longitudes is an arc."""
    sel_method: Annotated[SelMethod | None, Section.SELECTION] = None
    """Take a neighbour if the coordinate lacks a value: the "nearest", the one before ("pad" or
    "ffill") or the one after ("backfill" or "bfill").

    None: such a value is an error."""
    sel_tolerance: Annotated[Any, Section.SELECTION] = None
    """Largest distance of that neighbour."""
    tendency: Annotated[str | int | Mapping[str | int, int] | None, Section.SELECTION, step] = None
    """Reduce the change of elements from one to the next along this axis, x[i + 1] - x[i].

    Or a mapping from the axis to the distance of the two elements, such as {"time": 4}. `op` is
    then "mean", "var", "std", "rmse" or "mae". The first of two elements must be in the selection,
    the second need not."""
    allow_empty: Annotated[bool, Section.SELECTION] = False
    """Accept a selection of no elements, which is an error otherwise."""
    memory: Annotated[int | str | None, Section.RUNNING, as_given(memory_bytes)] = None
    """Memory limit per worker, beyond what an idle worker uses.

    Bytes, or a string ("2 GiB")."""
    on_bad_chunk: Annotated[OnBadChunk, Section.RUNNING] = "stop"
    """When a chunk cannot be read: "stop" ends the run, "skip" leaves the chunk out and names it.

    `Run.skipped` names it."""
    on_missing_chunk: Annotated[OnMissingChunk, Section.RUNNING] = "fill"
    """When a chunk is not stored: "fill" uses the fill value for its elements, "stop" ends the
    run, before anything is read if the store can be listed."""
    decode: Annotated[DecodeOn, Section.RUNNING] = "auto"
    """Decoder of zstd, Blosc and LZ4 chunks: the "host", the "device", or "auto", the faster of
    both by measurement."""
    ledger: Annotated[str | os.PathLike[str] | None, Section.RUNNING, ledger_place] = None
    """Save intermediate results in this folder, or at this URL of an object store, so that a killed
    run can continue.

    The same question reads no chunk again, and if an array grew, only new ones (docs/ledger.md)."""
    ledger_verify: Annotated[LedgerVerify, Section.RUNNING] = "listing"
    """Find chunks that changed since the ledger recorded them by the store's "listing" (sizes and
    times), or by their "content", which is read and hashed first."""
    trust_ledger: Annotated[bool, Section.RUNNING] = False
    """Use a ledger in a folder that others may write to."""
    ledger_statistics: Annotated[bool, Section.RUNNING] = False
    """Keep count, minimum, maximum, mean, deviation and histogram of all elements in the ledger.

    Later questions about these read no data. For one array, without windows."""
    variant: Annotated[VariantName | None, Section.RUNNING] = None
    """Force a kernel variant: "tree", "work_group" or "sub_group". Only for tests and measurements.

    None: the best one."""
    storage_options: Annotated[StorageOptions | None, Section.SOURCE, check_mapping] = None
    """Options for URLs.

    `missing_status` gives the statuses (403, 410) that mean that a server lacks a chunk; all others
    are obstore's, such as `skip_signature` or `region`."""
    allow_targets: Annotated[str | Sequence[str] | None, Section.SOURCE] = None
    """Allow references and HDF5 links to point to addresses that begin with these prefixes, and not
    only to their own server or folder."""

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not None or getattr(OptionTable, name) is not None:
                object.__setattr__(self, name, check(name, value))


class Keywords(TypedDict, total=False):
    """The rows but `op`, for those who check types, who see no other: a test compares both."""

    axis: AxisOption
    keepdims: bool
    coarsen: Mapping[int | str, int] | None
    boundary: Boundary
    ddof: float
    skipna: bool | None
    min_count: int
    initial: Any
    where: Where
    weights: Any
    mask_and_scale: bool
    mode: Mode
    dtype: Any
    by: Any
    by_axis: AxisOption
    groups: Any
    resample: Mapping[str, Any] | None
    selection: Selection
    sel: Mapping[str, Any] | None
    sel_method: SelMethod | None
    sel_tolerance: Any
    tendency: str | int | Mapping[str | int, int] | None
    allow_empty: bool
    memory: int | str | None
    on_bad_chunk: OnBadChunk
    on_missing_chunk: OnMissingChunk
    decode: DecodeOn
    ledger: str | os.PathLike[str] | None
    ledger_verify: LedgerVerify
    trust_ledger: bool
    ledger_statistics: bool
    variant: VariantName | None
    storage_options: StorageOptions | None
    allow_targets: str | Sequence[str] | None


_ROWS = get_type_hints(OptionTable, include_extras=True)
del _ROWS["_"]
OPTION_TYPES: Mapping[str, Any] = {name: row.__origin__ for name, row in _ROWS.items()}
SECTIONS: Mapping[str, Section] = {name: row.__metadata__[0] for name, row in _ROWS.items()}
_CHECKS: Mapping[str, Check] = {
    name: check
    for name, row in _ROWS.items()
    if (check := [*row.__metadata__, check_by_type(row.__origin__)][1])
}
"""By its row, or else by its type, that of each option which has one."""


@cache
def meanings() -> Mapping[str, str]:
    """Return what each option means: the text below its row; none where there is no source.

    >>> meanings()["keepdims"]
    'Keep reduced axes with size one.'
    """
    try:
        (declared,) = ast.parse(inspect.getsource(OptionTable)).body
    except OSError:
        return MappingProxyType({})
    assert isinstance(declared, ast.ClassDef)
    found = {}
    for row, below in zip(declared.body, declared.body[1:], strict=False):
        match row, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return MappingProxyType(found)


def summary(name: str) -> str:
    """Return the first paragraph of what an option means, in one line; "" without the source.

    >>> summary("skipna")
    'Ignore NaN and NaT.'
    """
    return " ".join(meanings().get(name, "").partition("\n\n")[0].split())
