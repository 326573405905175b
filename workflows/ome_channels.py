"""Colors and ranges of channels for viewers: `omero` in the metadata of OME-Zarr 0.5.

https://ngff.openmicroscopy.org/0.5/#omero-md
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.planning.request import Request
from chunkfold.workflows.as_json import jsonable
from chunkfold.workflows.ome import Image

_WINDOW = ("min", "max", "start", "end")
_WHITE = "FFFFFF"
_COLORS = ("FF0000", "00FF00", "0000FF", "FF00FF", "00FFFF", "FFFF00")
"""Colors of several channels, which are shown together."""


def apart(image: Image, shape: Sequence[int]) -> list[int]:
    """Return the axes over which each channel has extremes of its own; none if they tell nothing.

    That is where one channel is all, in images of labels, and where windows are given.
    """
    own, said = image.channel_axis, image.beside
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
    said, streamed = image.beside, request.streamed
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
