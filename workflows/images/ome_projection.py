"""OME-Zarr metadata of results: a projection of an image is an image of the axes that are left."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.results.quantities import ON_SCALE, QuantityKind, quantity_of
from chunkfold.results.results import Results
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.workflows.images.ome import VERSION, Image, are_axes_of_image, image_of
from chunkfold.workflows.images.ome_transforms import Placing, placing_of


def projected(results: Results) -> dict[str, Any]:
    """Return what a group says of results that are images; nothing if what is reduced is none.

    Each result is an image of one level. `omero` and `image-label` come along if they are true of
    all results. A warning tells if metadata are left out.
    """
    source, request, left = results.source, results.plan.request, results.axes
    if not isinstance(source, ZarrSource) or source.level is None:
        return {}
    if request.grouping is not None or request.data_arrays is not None:
        return {}
    whole = [op for op, one in results.items() if not one.parts and one.ndim == len(left)]
    names = results.dims or []
    try:
        image = image_of(source)
        each = zip(left, names, strict=True)
        axes = [{**image.axes[n], **({"name": name} if name else {})} for n, name in each]
        if not (whole and are_axes_of_image(axes)):
            return {}
        of_all = image.multiscale.get("coordinateTransformations")
        above = None if of_all is None else placing_of(source.name, of_all, len(source.shape))
    except PlanError as error:
        told = f"OME-Zarr metadata of results are omitted: {error}"
        warnings.warn(told, RuntimeWarning, stacklevel=2)
        return {}
    steps = [(0, 1) if n == image.channel_axis else _steps(results, n) for n in left]
    known = [one for one in steps if one is not None]
    if len(known) < len(steps):  # no scale tells where they are
        return {}
    level = _of(image.placing, left).taken([first for first, _ in known], [by for _, by in known])
    shared = {} if above is None else {"coordinateTransformations": _of(above, left).transforms}
    entries = [
        {
            **({"name": image.name} if image.name else {}),
            "axes": axes,
            "datasets": [{"path": op, "coordinateTransformations": level.transforms}],
            **shared,
        }
        for op in whole
    ]
    return {"ome": {"version": VERSION, **_beside(results, image), "multiscales": entries}}


def _of(placing: Placing, axes: Sequence[int]) -> Placing:
    return Placing(tuple(placing.scale[n] for n in axes), tuple(placing.first[n] for n in axes))


def _steps(results: Results, number: int) -> tuple[float, float] | None:
    """Return where the first result is along an axis, and how far from it the next one is.

    Both in elements: a result is in the middle of what it is made of. None if distances differ.
    """
    request = results.plan.request
    axis, reduced = request.chosen[number], number in request.reduced
    places = np.asarray(axis.shown, np.int64)
    apart = np.unique(np.diff(places))
    if len(apart) > 1 or not len(places):
        return None
    step = int(apart[0]) if len(apart) else 1
    window = len(places) if reduced else max(1, axis.window)
    return int(places[0]) + step * (window - 1) / 2, step * window


def _beside(results: Results, image: Image) -> dict[str, Any]:
    kinds = {quantity_of(op).kind for op in results}
    said = image.group_metadata if kinds <= {*ON_SCALE} else {}
    same = all(one.dtype == results.source.dtype for one in results.values())
    if not (same and kinds == {QuantityKind.ELEMENT}):
        said.pop("image-label", None)
    if "omero" in said:
        omero = _channels(results, image, said.pop("omero"))
        said |= {} if omero is None else {"omero": omero}
    return said


def _channels(results: Results, image: Image, omero: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how the channels that are left are shown; None if none of the image's are."""
    own, channels = image.channel_axis, omero.get("channels")
    if own is None or not isinstance(channels, list):
        return dict(omero)
    axis = results.plan.request.chosen[own]
    merged = axis.window > 1 or (own in results.plan.request.reduced and axis.length > 1)
    places = [int(place) for place in axis.shown]
    if merged or not all(place < len(channels) for place in places):
        return None
    return {**omero, "channels": [channels[place] for place in places]}
