"""Colors and ranges of channels for viewers: `omero` in the metadata of OME-Zarr 0.5.

https://ngff.openmicroscopy.org/0.5/#omero-md
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.planning.request import Request
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source
from chunkfold.workflows.as_json import jsonable
from chunkfold.workflows.images.channels import Normalization
from chunkfold.workflows.images.ome import Image, image_of

_WINDOW = ("min", "max", "start", "end")
_WHITE = "FFFFFF"
_COLORS = ("FF0000", "00FF00", "0000FF", "FF00FF", "00FFFF", "FFFF00")
"""Colors of several channels, which are shown together."""


def apart(image: Image, shape: Sequence[int]) -> list[int]:
    """Return the axes over which each channel has extremes of its own; none if they tell nothing.

    That is where one channel is all, in images of labels, and where windows are given.
    """
    own, said = image.channel_axis, image.group_metadata
    if own is None or shape[own] < 2 or "image-label" in said:
        return []
    given = said.get("omero", {}).get("channels")
    if isinstance(given, list) and all(_has_window(one) for one in given):
        return []
    return [axis for axis in range(len(shape)) if axis != own]


def _has_window(channel: Any) -> bool:
    window = channel.get("window") if isinstance(channel, Mapping) else None
    return isinstance(window, Mapping) and {*_WINDOW} <= {*window}


def shown(
    image: Image, request: Request, whole: Mapping[str, Any], each: Mapping[str, Any]
) -> dict[str, Any]:
    """Return how viewers show an image: as its group says, or else from least to greatest element.

    `whole` are statistics of the image, `each` the extremes of each channel, where there are
    several. Nothing is added where these are no numbers, nor to images of labels. The range that a
    viewer lets one choose from is that of the elements; of integers of 16 bits at most that of the
    dtype.
    """
    said, streamed = image.group_metadata, request.streamed
    if (streamed is not None and streamed.modes) or "image-label" in said:
        return said
    own = image.channel_axis
    count = 1 if own is None else request.sources[0].shape[own]
    windows = [
        _window(request, _one(each, n)) or _window(request, whole) for n in range(max(1, count))
    ]
    omero = dict(said.get("omero", {}))
    channels = omero.get("channels")
    if isinstance(channels, list):
        omero["channels"] = [
            _completed(one, windows[n]) if n < len(windows) else one
            for n, one in enumerate(channels)
        ]
        return {**said, "omero": omero}
    made = [_channel(image, n, window, count) for n, window in enumerate(windows) if window]
    return {**said, "omero": {**omero, "channels": made}} if len(made) == len(windows) else said


def omero_of(source: Any, found: Normalization) -> dict[str, Any]:
    """Return `omero` metadata by which viewers show what normalization makes 0 to 1.

    Colors and names of channels are those of the image. A channel that is normalized in parts, as
    for each time, has one window, of all of them.

    Parameters
    ----------
    found
        What `chunkfold.workflows.transforms.normalize.normalization` returned, with `extremes`.

    Raises
    ------
    ChunkfoldError
        If the source is no image, or these are no values that a window has.
    """
    opened = open_source(source)
    return dict(with_windows(image_of(opened), opened, found)["omero"])


def with_windows(
    image: Image, source: Source, found: Normalization, *, scaled: bool = False
) -> dict[str, Any]:
    """Return metadata beside an image, whose channels have windows as `omero_of` says.

    `scaled` tells that its elements are normalized.

    Raises
    ------
    PlanError
        As `omero_of`.
    """
    if found.by == "mean-std" or not {"min", "max"} <= found.statistics.keys() or found.why_not:
        raise PlanError(
            f"{source.name}: windows of channels need two finite values: "
            + (found.why_not or "take by='percentiles' or 'min-max', and extremes")
        )
    values, dtype = found.statistics, source.dtype
    bounds = [values["min"], values["max"], found.offset, found.offset + found.scale]
    if scaled:
        bounds = [(one - found.offset) / found.scale for one in bounds]
    elif dtype.kind in "iu" and dtype.itemsize <= 2 and not found.mask_and_scale:
        limits = np.iinfo(dtype)
        bounds[:2] = [np.full_like(bounds[0], one) for one in (limits.min, limits.max)]
    own = image.channel_axis
    count = 1 if own is None else source.shape[own]
    if own in found.axes:
        bounds = [np.moveaxis(one, found.axes.index(own), 0) for one in bounds]
    rows = [one.reshape(count if own in found.axes else 1, -1) for one in bounds]
    joined = [rows[0].min(1), rows[1].max(1), rows[2].min(1), rows[3].max(1)]
    each = np.broadcast_to(np.stack(joined, axis=1), (count, 4)).tolist()
    windows = [dict(zip(_WINDOW, map(_plain, one), strict=True)) for one in each]
    omero = dict(image.group_metadata.get("omero", {}))
    given = omero.get("channels")
    if not isinstance(given, list) or len(given) != count:
        given = [{}] * count
    channels = [
        {**_channel(image, n, window, count), **one, "window": window}
        for n, (one, window) in enumerate(zip(given, windows, strict=True))
    ]
    return {**image.group_metadata, "omero": {**omero, "channels": channels}}


def _one(each: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {op: values[number] for op, values in each.items()}


def _window(request: Request, extremes: Mapping[str, Any]) -> dict[str, Any]:
    start, end = jsonable(extremes.get("min")), jsonable(extremes.get("max"))
    if not all(isinstance(one, (int, float)) and math.isfinite(one) for one in (start, end)):
        return {}
    least, most = start, end = _plain(start), _plain(end)
    (source,) = request.sources
    if not any(request.packings) and source.dtype.kind in "iu" and source.dtype.itemsize <= 2:
        limits = np.iinfo(source.dtype)
        least, most = min(start, int(limits.min)), max(end, int(limits.max))
    return dict(zip(_WINDOW, (least, most, start, end), strict=True))


def _plain(number: float) -> float:
    """Return a whole number as an integer, as those of integers are.

    >>> _plain(3.0), _plain(3.5), _plain(7)
    (3, 3.5, 7)
    """
    return int(number) if float(number).is_integer() else number


def _completed(channel: Any, window: Mapping[str, Any]) -> Any:
    """Add what is not said of the window of a channel."""
    said = channel.get("window", {}) if isinstance(channel, Mapping) else None
    return (
        {**channel, "window": {**window, **said}}
        if window and isinstance(said, Mapping)
        else channel
    )


def _channel(image: Image, number: int, window: Mapping[str, Any], count: int) -> dict[str, Any]:
    own = "image" if image.name.isdecimal() or not image.name else image.name
    return {
        "active": True,
        "color": _WHITE if count == 1 else _COLORS[number % len(_COLORS)],
        "label": f"channel {number}" if count > 1 else own,
        "window": window,
    }
