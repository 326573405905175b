"""What an HDF5 dataset says of itself: names of its axes, attributes as Python's own values."""

from __future__ import annotations

from typing import Any

import numpy as np

_OF_THE_FORMAT = frozenset(
    {
        "CLASS", "DIMENSION_LABELS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST", "_NCProperties",
        "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict",
    }
)  # fmt: skip
"""Attributes by which HDF5 and NetCDF-4 say which dataset is an axis of which: none of the user."""
_SCALE = b"DIMENSION_SCALE"
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
"""How the name begins of a scale that has an extent alone."""


def attributes_of(node: Any) -> dict[str, Any]:
    """Return the attributes of a dataset or a group: numbers, texts, and lists of such.

    An attribute of one element is that element, as NetCDF has them. References are left out, and
    what h5py cannot read.
    """
    found = {}
    for name in node.attrs:
        if name in _OF_THE_FORMAT:
            continue
        try:
            value = _plain(node.attrs[name])
        except (TypeError, OSError, ValueError, UnicodeDecodeError):
            continue
        if value is not None:
            found[name] = value
    return found


def _plain(value: Any) -> Any:
    """Return an attribute's value as Python's own; None if it has none.

    >>> _plain(np.array([-32767], "i2")), _plain(np.float32(0.5)), _plain(b"K"), _plain([1, 2])
    (-32767, 0.5, 'K', [1, 2])
    """
    if isinstance(value, bytes):
        return value.decode()
    array = np.asarray(value)
    if array.dtype.kind not in "biufSUO":
        return None
    plain = array.item() if array.size == 1 else array.tolist()
    if isinstance(plain, list):
        plain = [one.decode() if isinstance(one, bytes) else one for one in plain]
    if isinstance(plain, bytes):
        plain = plain.decode()
    known = plain if isinstance(plain, list) else [plain]
    return plain if all(isinstance(one, (bool, int, float, str, list)) for one in known) else None


def dims_of(dataset: Any) -> tuple[str | None, ...] | None:
    """Return the names of a dataset's axes: their labels, or those of their scales; None if none.

    A scale of one axis is the coordinate of that axis.
    """
    if dataset.attrs.get("CLASS") == _SCALE and dataset.ndim == 1:
        return (_last(dataset.name),)
    names = tuple(_axis_name(dimension) for dimension in dataset.dims)
    return names if any(names) else None


def _axis_name(dimension: Any) -> str | None:
    if dimension.label:
        return str(dimension.label)
    scales = (dimension[n].name for n in range(len(dimension)))
    return next((_last(name) for name in scales if name), None)


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def is_extent(dataset: Any) -> bool:
    """Whether a dataset stands for an axis of NetCDF's that has an extent, and no coordinate."""
    name = dataset.attrs.get("NAME", b"")
    return isinstance(name, bytes) and name.decode(errors="replace").startswith(_NO_VARIABLE)


def datasets_in(group: Any) -> dict[str, Any]:
    """Return the datasets in a group, at whatever depth, by their paths in it, sorted."""
    import h5py

    found: dict[str, Any] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and not is_extent(node):
            found[name] = node

    group.visititems(visit)
    return dict(sorted(found.items()))
