"""How viewers show the channels of an image: `omero` among the metadata of OME-Zarr 0.5.

https://ngff.openmicroscopy.org/0.5/#omero-md
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from chunkfold.planning.request import Request
from chunkfold.workflows.as_json import jsonable
from chunkfold.workflows.ome import Image

_WHITE = "FFFFFF"
_COLORS = ("FF0000", "00FF00", "0000FF", "FF00FF", "00FFFF", "FFFF00")
"""Of several channels, which are shown together."""


def channels(image: Image, request: Request, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what says how channels are shown: from the least element to the greatest.

    Nothing is said of labels, nor where the statistics are not there, or no numbers. The range that
    a viewer lets one choose from is that of the elements; of integers of 16 bits at most that of
    the dtype.
    """
    if request.modes:
        return {}
    start, end = jsonable(summary.get("min")), jsonable(summary.get("max"))
    if not all(isinstance(one, (int, float)) and math.isfinite(one) for one in (start, end)):
        return {}
    least, most = start, end
    (source,) = request.sources
    if not any(request.packings) and source.dtype.kind in "iu" and source.dtype.itemsize <= 2:
        limits = np.iinfo(source.dtype)
        least, most = min(start, int(limits.min)), max(end, int(limits.max))
    kinds = [axis.get("type") for axis in image.axes]
    count = source.shape[kinds.index("channel")] if "channel" in kinds else 1
    own = "image" if image.name.isdecimal() or not image.name else image.name
    window = {"min": least, "max": most, "start": start, "end": end}
    each = [
        {
            "active": True,
            "color": _WHITE if count == 1 else _COLORS[number % len(_COLORS)],
            "label": f"channel {number}" if count > 1 else own,
            "window": window,
        }
        for number in range(count)
    ]
    return {"omero": {"channels": each}}
