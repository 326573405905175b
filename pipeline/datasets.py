"""Reductions of xarray's Datasets: every array that can be reduced, for every question."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import xarray as xr

from chunkfold.api import reduce
from chunkfold.axis_cuts import Cells
from chunkfold.errors import DeviceError, PlanError
from chunkfold.kernels import Monoid, as_monoid
from chunkfold.kernels.binding.binding import is_defined
from chunkfold.kernels.dtypes import stored_name
from chunkfold.planning.asked_labels import labels_of
from chunkfold.planning.broadcast_inputs import weighted
from chunkfold.planning.by_coordinates import index_coordinate, positions
from chunkfold.planning.option_table import Keywords, Op
from chunkfold.planning.options import Options, refuse_unknown
from chunkfold.planning.questions import (
    COMMON,
    Question,
    Questions,
    check_questions,
    of_question,
    refuse_other,
)
from chunkfold.sources.axis_names import instead
from chunkfold.sources.bins import Bins
from chunkfold.sources.data_arrays import is_of_xarray
from chunkfold.sources.named_labels import held_coordinate

_OF_RUNS = ("compute", "progress", "client", "on_event")
"""Keywords of `reduce` that are no options."""
_SEL = ("sel", "sel_method", "sel_tolerance")
_ALLOWED_FOR_TIMES = (
    "min", "max", "minmax", "argmin", "argmax", "count", "any", "all", "count_nonzero",
)  # fmt: skip
_OF_TIMES: Mapping[str, Collection[str]] = MappingProxyType(
    {"M": (*_ALLOWED_FOR_TIMES, "mean"), "m": (*_ALLOWED_FOR_TIMES, "mean", "sum")}
)
"""Reductions of dates and of time spans; others leave such arrays of a Dataset out, as xarray
does."""

_KEEPING = ("sum", "prod", "mean", "median", "min", "max")
"""Reductions that leave arrays without any of the axes as they are: xarray's `invariant_0d`."""
_CHANGING = ("weights", "where", "dtype", "initial")


def reduce_dataset(dataset: xr.Dataset, op: Op | Sequence[Op] | Questions, **given: Any) -> Any:
    """Reduce every array of a Dataset that can be reduced; parameters as `chunkfold.reduce`.

    With windows (`coarsen`) an array has those of the axes that it has, and one that has none is
    as it was. As in xarray an array is reduced over those of the axes that it has. One that has
    none of them stays as it is in sums, products, means, medians and extremes, without weights,
    mask or dtype; others are reduced element by element. Arrays that cannot be reduced are left
    out: texts, sums of dates. One that lacks axes of the weights or of a mask is the same along
    them. Each array is read once for all questions. Those whose weights or masks have axes that it
    lacks take a read of their own.

    Returns
    -------
    A Dataset; of several ops one for each, by name; of questions all that, by theirs.

    Raises
    ------
    ChunkfoldError
        As `chunkfold.reduce`; and if an axis is none of the Dataset's.
    """
    if given.get("selection") is not None:
        raise PlanError("selection: select from a Dataset with sel=, or with its isel")
    sel = {name: given.pop(name, None) for name in _SEL}
    index = _selected(dataset, sel, allow_empty=given.get("allow_empty", False))
    whole, dataset = dataset, dataset.isel(index)
    common = {name: given.pop(name) for name in (*_OF_RUNS, *COMMON) if name in given}
    if isinstance(op, Mapping):
        check_questions(op)
        each = {name: _DatasetQuestion.asked(dataset, name, one, given) for name, one in op.items()}
    else:
        each = {"": _DatasetQuestion(dataset, op, given)}
    asked_by = [one.given.get("by") for one in op.values()] if isinstance(op, Mapping) else []
    labels = {name for by in (given.get("by"), *asked_by) for name in _names_of(by)}
    for name, stored in whole.data_vars.items():
        if name in labels:  # xarray makes coordinates of them
            continue
        for array, questions in _reads_of(stored, dataset[name], each):
            own = dict(common)
            if any(dim in index for dim in array.dims):
                own["selection"] = tuple(index.get(str(dim), slice(None)) for dim in array.dims)
            if isinstance(op, Mapping):
                made = reduce(array, questions, **own)
            else:
                made = {"": reduce(array, questions[""].op, **own, **questions[""].given)}
            for question, results in made.items():
                each[question].add(name, results)
    answers = {question: asked.answer(dataset) for question, asked in each.items()}
    return answers if isinstance(op, Mapping) else answers[""]


def _names_of(by: Any) -> Iterator[Hashable]:
    """Yield the names of variables that are labels."""
    for one in by if isinstance(by, (tuple, list)) else [by]:
        label = one.of if isinstance(one, Bins) else one
        if isinstance(label, str):
            yield label
        elif is_of_xarray(label, "DataArray") and label.name is not None:
            yield label.name


def _reads_of(
    stored: xr.DataArray, selected: xr.DataArray, each: Mapping[str, _DatasetQuestion]
) -> list[tuple[xr.DataArray, dict[str, Question]]]:
    """Return the reads of an array, each with its questions; other questions keep it unchanged."""
    reads: dict[tuple[Hashable, ...], tuple[xr.DataArray, dict[str, Question]]] = {}
    for name, asked in each.items():
        kept = asked.unchanged_by(selected)
        asked.add(selected.name, dict.fromkeys(kept, selected))
        if (found := asked.of_array(stored, kept)) is not None:
            array, question = found
            reads.setdefault(array.dims, (array, {}))[1][name] = question
    return list(reads.values())


class _DatasetQuestion:
    """A question of a Dataset: its question for each array, and the results."""

    def __init__(
        self, dataset: xr.Dataset, op: Op | Sequence[Op], given: Mapping[str, Any]
    ) -> None:
        refuse_unknown(cast("Keywords", given))
        self._given = dict(given)
        self._alone = isinstance(op, (str, Monoid))
        ops = [op] if isinstance(op, (str, Monoid)) else list(op)
        names = [one if isinstance(one, str) else one.name for one in ops]
        self._coarsen = self._given.pop("coarsen", None)
        self._labels = labels_of(dataset, self._given)
        more = [dim for one in _xarray_inputs(self._given) for dim in one.dims]
        axis = self._given.pop("axis", None)
        self._dims = _whole_dims(self._coarsen, dataset, axis, more)
        if "histogram" in names:
            raise PlanError("histogram: name one array of the Dataset, because their bins differ")
        weighs = self._given.get("weights") is not None
        self._ops = [(one, weighted(as_monoid(one)) if weighs else as_monoid(one)) for one in ops]
        self._found: dict[str, dict[Hashable, Any]] = {name: {} for name in names}

    @classmethod
    def asked(
        cls, dataset: xr.Dataset, name: str, question: Question, given: Mapping[str, Any]
    ) -> _DatasetQuestion:
        """Return one of several questions; its errors begin with its name."""
        refuse_other(name, question)
        with of_question(name):
            return cls(dataset, question.op, {**given, **question.given})

    def unchanged_by(self, array: xr.DataArray) -> list[str]:
        """Return the ops by which an array stays as it is, as in xarray."""
        if {*array.dims} & {*self._dims, *(self._coarsen or ())}:
            return []
        if self._coarsen:
            return list(self._found)
        changed = not array.dims or any(self._given.get(name) is not None for name in _CHANGING)
        return [] if changed else [n for n in self._found if n.removeprefix("nan") in _KEEPING]

    def of_array(
        self, stored: xr.DataArray, kept: Collection[str]
    ) -> tuple[xr.DataArray, Question] | None:
        """Return the array to reduce, and its question; None if no other op can reduce it."""
        others = [pair for pair in self._ops if pair[1].name not in kept]
        able = [one for one, monoid in others if _is_able(stored, monoid)]
        if not able:
            return None
        array, given = _with_axes_of(stored, self._given), self._given
        axis = [dim for dim in array.dims if dim in self._dims]
        own = _windows(array, self._coarsen, given)
        integers, labels = _of_integers(array, given), self._labels.along(array.dims)
        return array, Question(able, {"axis": axis, **given, **own, **integers, **labels})

    def add(self, name: Hashable, results: Mapping[str, Any]) -> None:
        """Keep the results of an array, by op."""
        for called, one in results.items():
            self._found[called][name] = one

    def answer(self, dataset: xr.Dataset) -> Any:
        """Return the kept results: a Dataset, or a mapping of op to Dataset."""
        left = _remaining_coordinates(dataset, [*self._dims, *(self._coarsen or ())])
        datasets = {called: left.assign(made) for called, made in self._found.items()}
        return next(iter(datasets.values())) if self._alone else datasets


def _selected(
    dataset: xr.Dataset, sel: Mapping[str, Any], *, allow_empty: bool
) -> Mapping[str, Any]:
    """Return the index of each axis of a Dataset that is selected by coordinates."""
    axes = _Axes(tuple(map(str, dataset.sizes)), tuple(dataset.sizes.values()))
    options = Options(**sel, allow_empty=allow_empty)
    return positions(
        options, axes, partial(index_coordinate, dataset), partial(held_coordinate, dataset)
    )


@dataclass(frozen=True)
class _Axes:
    """The axes of a Dataset, as far as messages name them."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    name: str = "the Dataset"

    @property
    def grid(self) -> tuple[Cells, ...]:
        """Its cells: of one element each, since it may be cut anywhere."""
        return tuple(Cells(size, 1) for size in self.shape)


def _dims(dataset: xr.Dataset, axis: Any, more: Sequence[Hashable]) -> list[Hashable]:
    """Return the named axes, of those of the Dataset and `more`; all if `axis` is None.

    Raises
    ------
    PlanError
        If the Dataset lacks one.
    """
    known = list(dict.fromkeys([*dataset.dims, *more]))
    if axis is None or axis is ...:
        return known
    named = [axis] if isinstance(axis, str) or not isinstance(axis, Sequence) else list(axis)
    for one in named:
        if one not in known:
            remedy = instead(str(one), list(map(str, known))) if known else "it has no axes"
            raise PlanError(f"the Dataset has no axis {one!r}; {remedy}")
    return named


def _whole_dims(coarsen: Any, dataset: xr.Dataset, axis: Any, more: Sequence[Hashable]) -> Any:
    """Return the axes that are reduced whole, next to windows; none if only windows are named."""
    if isinstance(coarsen, Mapping):
        _dims(dataset, list(coarsen), more)
    return _dims(dataset, () if axis is None and coarsen else axis, more)


def _windows(array: xr.DataArray, coarsen: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keywords of those windows whose axes an array has."""
    if not isinstance(coarsen, Mapping):
        return {} if coarsen is None else {"coarsen": coarsen}
    windows = {dim: window for dim, window in coarsen.items() if dim in array.dims}
    boundary = given.get("boundary", "exact")
    if isinstance(boundary, Mapping):
        boundary = {dim: one for dim, one in boundary.items() if dim in windows}
    return {"coarsen": windows, "boundary": boundary} if windows else {"boundary": "exact"}


def _is_able(array: xr.DataArray, monoid: Monoid) -> bool:
    try:
        stored_name(array.dtype)
    except (TypeError, DeviceError):
        return False
    if array.dtype.kind == "c" or monoid.weights:
        weights = [np.dtype(np.float64)] * monoid.weights
        inputs = monoid.inputs - monoid.weights
        return is_defined(monoid, [array.dtype] * inputs + weights)
    op = monoid.name
    return op.removeprefix("nan") in _OF_TIMES.get(array.dtype.kind, (op.removeprefix("nan"),))


def _with_axes_of(array: xr.DataArray, given: Mapping[str, Any]) -> xr.DataArray:
    """Return an array broadcast along the axes that xarray's weights and mask add, at the end."""
    for one in _xarray_inputs(given):
        lacking = {dim: size for dim, size in one.sizes.items() if dim not in array.dims}
        array = array.expand_dims(lacking, [*range(array.ndim, array.ndim + len(lacking))])
    return array


def _of_integers(array: xr.DataArray, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords that give integers, which have no NaN, xarray's `min_count`.

    Without a mask no integer is missing; with one xarray makes floats of them.
    """
    if array.dtype.kind not in "biu" or not given.get("min_count"):
        return {}
    if given.get("where") is None:
        return {"min_count": 0}
    return {"dtype": given.get("dtype") or "float64"}


def _xarray_inputs(given: Mapping[str, Any]) -> list[xr.DataArray]:
    """Return the weights and the masks that are xarray's."""
    where = given.get("where")
    masks = where if isinstance(where, tuple) else (where,)
    return [one for one in (given.get("weights"), *masks) if is_of_xarray(one)]


def _remaining_coordinates(dataset: xr.Dataset, dims: Sequence[Hashable]) -> xr.Dataset:
    """Return a Dataset of the coordinates without any of some axes."""
    lost = [name for name, one in dataset.variables.items() if {*dims} & {*one.dims}]
    return dataset.drop_vars({*lost, *dataset.data_vars})
