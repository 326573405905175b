"""Measure the regions of a segmentation: where they are, and what an image has there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from distributed import Client

from chunkfold.api import submit
from chunkfold.boxes import Slices, slabs_of_cells
from chunkfold.errors import PlanError
from chunkfold.events import OnEvent
from chunkfold.planning.group_keys import Keys, LabelCodes
from chunkfold.planning.grouping import Grouping
from chunkfold.planning.options import Options
from chunkfold.planning.request import Request
from chunkfold.planning.resolve import resolve
from chunkfold.sources.any_labels import GroupsOfLabel
from chunkfold.sources.label_numbers import narrow, numbered
from chunkfold.sources.labels import GivenLabels
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source
from chunkfold.tracebacks import traceback_cut
from chunkfold.workflows.images.ome import element_size
from chunkfold.workflows.images.region_shapes import RegionShapes, joined_shapes, shapes_of
from chunkfold.workflows.images.region_values import (
    MOMENTS,
    SUMS,
    joined_values,
    no_values,
    value_columns,
)

AT_ONCE = 1 << 24
"""Labels that are in memory at a time: each worker has them, too."""


@dataclass(frozen=True, eq=False)
class Regions:
    """The regions of an image: a row for each label, in ascending order."""

    image: str
    labels: str
    columns: Mapping[str, np.ndarray]
    """Each of shape (regions,)."""
    unit: str | None = None
    """The unit of `physical_area`, as "micrometer^2"; None if there is none."""


@dataclass(frozen=True)
class Measuring:
    """An image and its labels, opened, and which axes of the image those of the labels are."""

    image: Source
    labels: Source
    own: tuple[int, ...]
    """Axes of the labels, but for those of one element."""
    along: tuple[int, ...]
    """The same of the image."""
    skipna: bool
    memory: int | str | None

    @property
    def kept(self) -> list[int]:
        """The axes of the image that labels lack: each place along them has columns of its own."""
        return [n for n in range(len(self.image.shape)) if n not in self.along]

    @property
    def names(self) -> list[str]:
        """Names of the axes of the image; numbers of those that have none."""
        dims = list(self.image.dims or [None] * len(self.image.shape))
        for own, axis in zip(self.own, self.along, strict=True):
            dims[axis] = dims[axis] or (self.labels.dims or {own: None})[own]
        return [name or str(n) for n, name in enumerate(dims)]


@traceback_cut
def regions(
    image: Any,
    labels: Any,
    *,
    skipna: bool = False,
    memory: int | str | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Regions:
    """Measure every region of an image: a read of the image, and one of the labels.

    The image is folded where `chunkfold.reduce` would do it, and 16 million labels at a time: what
    regions have in several of such parts is put together before it is rounded. Labels are read by
    this process.

    Parameters
    ----------
    labels
        Integers, or truths: each number above 0 is a region, wherever its elements are. An array
        that has the extents of axes of the same names in the image, or of its last axes; one of one
        element holds for all elements of the image's.
    image, skipna, memory, client, on_event
        As `chunkfold.reduce` has them; the image of integers, truths or floats.

    Returns
    -------
    Columns `label`, `area` (elements), `physical_area` (where OME-Zarr metadata give scales),
    `centroid_y`, `start_y`, `stop_y` for each axis of the labels, in elements, where `stop` is
    beyond the region; `count` with `skipna`; `min`, `max`, `sum`, `mean` and `std` (float64). Of an
    image with more axes there is `min_c0` and so on for each place along these.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these, or a read fails.
    """
    made = measuring_regions(image, labels, skipna=skipna, memory=memory)
    return measured_regions(made, client=client, on_event=on_event)


def fitting_axes(image: Source, labels: Source) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of labels that have more than one element, and the same of the image.

    Raises
    ------
    PlanError
        If labels do not fit the image.
    """
    shape, ndim = labels.shape, len(image.shape)
    names, there = list(labels.dims or ()), list(image.dims or ())
    if names and all(name is not None and there.count(name) == 1 for name in names):
        axes = [there.index(name) for name in names]
    else:
        axes = list(range(ndim - len(shape), ndim))
    pairs = [*zip(shape, axes, strict=True)]
    if axes != sorted(axes) or any(
        axis < 0 or size not in (1, image.shape[axis]) for size, axis in pairs
    ):
        raise PlanError(
            f"{labels.name} has shape {shape}, and {image.name} has {image.shape}: labels must "
            "have the sizes of the image's axes of the same names, or of its last axes; give the "
            "level of the image that was segmented"
        )
    own = [n for n, (size, _) in enumerate(pairs) if size != 1] or [*range(len(shape))][-1:]
    if not own:
        raise PlanError(f"{labels.name}: labels must have at least one axis")
    return tuple(own), tuple(axes[n] for n in own)


def measuring_regions(
    image: Any, labels: Any, *, skipna: bool = False, memory: int | str | None = None
) -> Measuring:
    """Open an image and its labels, and find out whether they fit; parameters as `regions`.

    Raises
    ------
    ChunkfoldError
        If they do not.
    """
    opened, given = open_source(image), open_source(labels)
    for one, kinds in ((opened, "biuf"), (given, "biu")):
        if one.dtype.kind not in kinds:
            wanted = "integers" if one is given else "real numbers"
            raise PlanError(f"{one.name}: elements are {one.dtype}; take {wanted}")
    return Measuring(opened, given, *fitting_axes(opened, given), skipna, memory)


def measured_regions(
    made: Measuring, *, client: Client | None = None, on_event: OnEvent | None = None
) -> Regions:
    """Carry out what `measuring_regions` returned; parameters and result as `regions`."""
    boxes, names = _boxes(made), made.names
    several = len(boxes) > 1
    shapes, found = list[RegionShapes](), list[dict[str, np.ndarray]]()
    for box in boxes:
        shape, codes = _labelled(made, box)
        if len(shape.labels):
            shapes.append(shape)
            request = _request(made, box, shape.labels, codes, sums=several)
            run = submit(request, client=client, on_event=on_event)
            found.append(_of_regions(made, run.result(), len(shape.labels)))
    if not shapes:  # a table without rows has all columns
        several, count = False, math.prod(made.image.shape[n] for n in made.kept)
        found.append(no_values(count, made.image.dtype, counted=made.skipna))
        none = np.full([1] * len(made.along), -1)
        shapes.append(shapes_of(np.empty(0, np.int64), none, [0] * none.ndim))
    places = joined_shapes(shapes)
    columns: dict[str, np.ndarray] = {"label": places.labels, "area": places.area}
    sizes = ((made.labels, made.own), (made.image, made.along))
    known = next((one for one in (element_size(*each) for each in sizes) if one is not None), None)
    columns |= {} if known is None else {"physical_area": places.area * known[0]}
    for n, axis in enumerate(made.along):
        for what, values in (
            ("centroid", places.centroid), ("start", places.first), ("stop", places.stop)
        ):  # fmt: skip
            columns[f"{what}_{names[axis]}"] = values[:, n]
    place = np.searchsorted(places.labels, np.concatenate([one.labels for one in shapes]))
    joined = found[0]
    if several:
        joined = joined_values(place, places.area, found, skipna=made.skipna)
    measured = value_columns(joined)
    suffixes = [""]
    for axis in made.kept:
        if (size := made.image.shape[axis]) > 1:
            suffixes = [f"{one}_{names[axis]}{n}" for one in suffixes for n in range(size)]
    for n, suffix in enumerate(suffixes):
        columns |= {f"{name}{suffix}": each[:, n] for name, each in measured.items()}
    return Regions(made.image.name, made.labels.name, columns, known and known[1])


def _boxes(made: Measuring) -> list[Slices]:
    """Cut the labels' axes in boxes of as many as are in memory, between the image's chunks."""
    cuts = []
    for axis in made.along:
        size, step = made.image.shape[axis], made.image.object_shape[axis]
        cuts.append([slice(at, min(at + step, size)) for at in range(0, size, step)])
    return list(slabs_of_cells(cuts, 1, AT_ONCE)) if all(cuts) else []


def _labelled(made: Measuring, box: Slices) -> tuple[RegionShapes, np.ndarray]:
    """Read the labels of a box; return its regions, and the number of that of each element."""
    whole = [slice(0, 1)] * len(made.labels.shape)
    for n, along in zip(made.own, box, strict=True):
        whole[n] = along
    values = made.labels.part(whole).reshape([one.stop - one.start for one in box])
    missing = values <= 0 if values.dtype.kind == "i" else values == 0
    begin = [one.start for one in box]
    if missing.all():
        return shapes_of(np.empty(0, np.int64), np.full(values.shape, -1), begin), values
    kind = np.dtype(np.uint8) if values.dtype == bool else values.dtype.newbyteorder("=")
    values = values.astype(kind, copy=False)
    codes, labels = numbered(GivenLabels(values, missing), values, missing, None)
    codes = narrow(codes, len(labels))
    return shapes_of(labels, codes, begin), codes


def _request(
    made: Measuring, box: Slices, labels: np.ndarray, codes: np.ndarray, *, sums: bool
) -> Request:
    """Return the reduction of the image's regions in a box."""
    selection: list[slice] = [slice(None)] * len(made.image.shape)
    for axis, along in zip(made.along, box, strict=True):
        selection[axis] = along
    options = Options(
        ["min", "max", MOMENTS, *(["count"] if made.skipna else []), *([SUMS] if sums else [])],
        axis=made.along,
        selection=tuple(selection),
        skipna=made.skipna,
        memory=made.memory,
    )
    keys = Keys.of([LabelCodes(made.along, codes, len(labels))])
    groups = GroupsOfLabel(labels, made.labels.name, "label")
    return replace(resolve(made.image, options), grouping=Grouping(keys, (groups,)))


def _of_regions(made: Measuring, results: Mapping[str, Any], count: int) -> dict[str, np.ndarray]:
    """Return results in the shape (regions, places along the image's other axes, ...)."""
    at, inner, found = made.along[0], len(made.kept) + 1, {}
    for name, value in results.items():
        array = np.moveaxis(np.asarray(value), at, 0)
        found[name] = array.reshape(count, -1, *array.shape[inner:])
    return found
