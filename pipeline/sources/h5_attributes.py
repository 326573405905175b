"""HDF5 datasets as netCDF-4 and HDF5 describe them: names, axes, extents, attributes.

In a netCDF-4 file a dimension without a variable is stored as a dataset of zeros, a variable that
has the name of a dimension but other axes has a prefix, and an unlimited dimension is as long as
its longest variable (netCDF-4 file format specification, "Dimension scales").
"""

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
"""The beginning of the `NAME` of a dimension that has no variable."""
_NOT_A_COORDINATE = "_nc4_non_coord_"
"""Prefix of a variable that has the name of a dimension and is not its coordinate."""
_DIMENSION_ID = "_Netcdf4Dimid"
"""The attribute that the scale of a netCDF-4 dimension has."""


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
    return name.rpartition("/")[2].removeprefix(_NOT_A_COORDINATE)


def extents_of(dataset: Any) -> tuple[int, ...]:
    """Return the extents of a dataset as netCDF has them.

    Along an unlimited dimension that is the extent of its longest variable. Elsewhere, and in
    files that are not netCDF-4, it is the extent that HDF5 has.
    """
    each = zip(dataset.shape, dataset.maxshape, strict=True)
    return tuple(
        max(length, *_lengths_of_dimension(dataset, n)) if most is None else int(length)
        for n, (length, most) in enumerate(each)
    )


def _lengths_of_dimension(dataset: Any, axis: int) -> list[int]:
    """Return the extents along a netCDF dimension of all its variables; [0] if it is none."""
    is_scale = dataset.attrs.get("CLASS") == _SCALE and dataset.ndim == 1
    attached = None if is_scale else dataset.dims[axis]
    scale = dataset if is_scale else attached[0] if attached else None
    if scale is None or _DIMENSION_ID not in scale.attrs:
        return [0]
    lengths = [int(scale.shape[0])]
    for reference, number in scale.attrs.get("REFERENCE_LIST", ()):
        if reference:
            lengths.append(int(scale.file[reference].shape[number]))
    return lengths


def variable_path(group: Any, path: str) -> str | None:
    """Return where the dataset of a variable is stored in a group; None if there is none.

    A netCDF dimension without a variable is none: its zeros are no values.
    """
    import h5py

    above, slash, name = path.rpartition("/")
    for stored in (path, f"{above}{slash}{_NOT_A_COORDINATE}{name}"):
        found = group.get(stored)
        if isinstance(found, h5py.Dataset) and not is_dimension_only(found):
            return stored
    return None


def is_dimension_only(node: Any) -> bool:
    """Tell whether a node is a netCDF dimension without a variable."""
    name = node.attrs.get("NAME", b"")
    return isinstance(name, bytes) and name.decode(errors="replace").startswith(_NO_VARIABLE)


def datasets_in(group: Any) -> dict[str, Any]:
    """Return the datasets in a group, at whatever depth, by their paths in it, sorted."""
    import h5py

    found: dict[str, Any] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and not is_dimension_only(node):
            above, slash, _ = name.rpartition("/")
            found[f"{above}{slash}{_last(name)}"] = node

    group.visititems(visit)
    return dict(sorted(found.items()))
