"""Images of OME-Zarr, as other tools write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


def axes_of(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return axes as version 0.4 has them."""
    return [{"name": name, "type": TYPES[name]} for name in names]


def ome_image(
    folder: Path,
    values: np.ndarray,
    version: str = "0.5",
    *,
    path: str = "0",
    names: Sequence[str] = "",
    transforms: Any = None,
    beside: dict[str, Any] | None = None,
    chunks: Sequence[int] | None = None,
    **image: Any,
) -> Path:
    """Write an image of one level; return where its array is.

    Versions up to 0.4 are of Zarr's format 2, whose arrays name no axes. `image` is of its entry
    of `multiscales`, `beside` of what stands beside that.
    """
    names = names or "tczyx"[-values.ndim :]
    old = version != "0.5"
    group = zarr.open_group(str(folder), mode="w", zarr_format=2 if old else 3)
    named: Any = {} if old else {"dimension_names": list(names)}
    group.create_array(path, data=values, chunks=tuple(chunks or values.shape), **named)
    if transforms is None:
        transforms = [{"type": "scale", "scale": [1.0] * values.ndim}]
    dataset = {"path": path, "coordinateTransformations": transforms}
    entry = {"axes": axes_of(names), "datasets": [dataset], **image}
    told = {**(beside or {}), "multiscales": [{"version": version, **entry} if old else entry]}
    group.attrs.update(told if old else {"ome": {"version": version, **told}})
    return folder / path


def valid_image(group: zarr.Group) -> Any:
    """Return an image as ome-zarr-models reads it, which refuses what breaks the specification."""
    import ome_zarr_models

    return ome_zarr_models.open_ome_zarr(group, version="0.5")
