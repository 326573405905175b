"""Open what is in HDF5 files: a dataset by its path, all of a group, and what stands beside one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from chunkfold.errors import ChangedError, SourceError
from chunkfold.kernels.dtypes import kind_of
from chunkfold.sources.h5_attributes import (
    attributes_of,
    datasets_in,
    is_dimension_only,
    variable_path,
)
from chunkfold.sources.h5_source import H5Source, given_source, h5_source
from chunkfold.sources.neighbour_array import array_in_memory
from chunkfold.sources.zarr_arrays import AnyArray
from chunkfold.stores.h5_files import H5File
from chunkfold.stores.h5_targets import check_links, targets_of

_NAMED = 20
"""Datasets that a message names."""
_MOST_BESIDE = 64 << 20
"""Bytes of an array beside another, which is held whole."""
_TEXTS = "OSU"


def open_dataset(file: Path, inner: str, name: str, allowed: tuple[str, ...] = ()) -> H5Source:
    """Open a dataset of a file by its path there; `name` is what messages call it.

    Raises
    ------
    SourceError
        If there is none, the file cannot be opened, or h5py is not installed.
    """
    with _node(file, inner, name, allowed) as (node, at, path):
        import h5py

        if isinstance(node, h5py.Dataset):
            return h5_source(node, name, at, path)
        where = "an HDF5 file" if not inner else "a group of an HDF5 file"
        raise SourceError(f"{name}: is {where}, not an array; {_inside(node, name)}")


def open_datasets(
    file: Path, inner: str, name: str, allowed: tuple[str, ...] = ()
) -> list[H5Source | tuple[str, SourceError]]:
    """Open all datasets of a file, or of a group in it, in the order of their paths.

    Of one that cannot be opened there is its name, and why. Those of texts are left out.

    Raises
    ------
    SourceError
        If there are none, or as `open_dataset`.
    """
    with _node(file, inner, name, allowed) as (node, at, stored):
        import h5py

        if isinstance(node, h5py.Dataset):
            return [h5_source(node, name, at, stored)]
        found: list[H5Source | tuple[str, SourceError]] = []
        for path, dataset in datasets_in(node).items():
            called = f"{name.rstrip('/')}/{path}"
            try:
                at_path = variable_path(node, path) or path
                found.append(h5_source(dataset, called, at, f"{inner}/{at_path}".strip("/")))
            except SourceError as error:
                found.append((called, error))
        if not found:
            raise SourceError(f"{name}: has no datasets")
        return found


def given_dataset(source: Any, allowed: tuple[str, ...]) -> H5Source | None:
    """Return a dataset of h5py's as a source; None if it is none.

    Raises
    ------
    SourceError
        If it is a group, or as `given_source`.
    """
    h5py = sys.modules.get("h5py")  # whoever has one has imported that
    if h5py is not None and isinstance(source, h5py.Group):
        _refuse_group(source)
    if h5py is None or not isinstance(source, h5py.Dataset):
        return None
    return given_source(source, allowed)


def _refuse_group(group: Any) -> None:
    """Refuse a group, or a file, that h5py has open: its datasets are named.

    Raises
    ------
    SourceError
        Always.
    """
    paths = list(datasets_in(group))
    named = ", ".join(f"group[{path!r}]" for path in paths[:_NAMED]) or "none"
    raise SourceError(f"{group.file.filename}: is an HDF5 group, not an array; its arrays: {named}")


def neighbour_dataset(source: H5Source, name: str) -> AnyArray | None:
    """Return a dataset of the group that another is in, as an array of zarr's; None if none is.

    As in netCDF, a name that the group lacks is looked up in the groups above it.

    Raises
    ------
    SourceError
        If it is there, but cannot be read, or is larger than coordinates are.
    """
    with _again(source) as file:
        import h5py

        path = _variable_above(file, source, name)
        if path is None:
            return None
        dataset = file[path]
        found = h5_source(dataset, path, source.file, path)
        if found.nbytes > _MOST_BESIDE:
            raise SourceError(f"it has {found.nbytes:,} bytes, more than {_MOST_BESIDE:,}")
        texts = h5py.check_string_dtype(dataset.dtype)
        values = np.full(found.shape, "" if texts else found.fill, object if texts else found.dtype)
        held = dataset.asstr()[...] if texts else dataset[...]
        values[tuple(map(slice, np.shape(held)))] = held
        if kind_of(found.dtype) not in "biufcmM" and values.dtype.kind not in _TEXTS:
            raise SourceError(f"its dtype {found.dtype} is not numeric, a time or text")
        return array_in_memory(values, found.noted, found.names)


def _variable_above(file: Any, source: H5Source, name: str) -> str | None:
    """Return the path of a variable in the group of a source, or the nearest one above it."""
    for group in PurePosixPath(source.path).parents:
        path = str(group / name)
        if source.file is not None:
            check_links(file, path, targets_of(source.file))
        if (found := variable_path(file, path)) is not None:
            return found
    return None


def group_attributes_of(source: H5Source) -> Mapping[str, Any]:
    """Return the attributes of the group that a dataset is in."""
    with _again(source) as file:
        return attributes_of(file[str(PurePosixPath(source.path).parent)])


@contextmanager
def _again(source: H5Source) -> Iterator[Any]:
    """Open the file of a source, or use the one that is open."""
    if source.dataset is not None:
        yield source.dataset.file
        return
    assert source.file is not None
    with source.file.opened(kept=False) as file:
        yield file


@contextmanager
def _node(
    file: Path, inner: str, name: str, allowed: tuple[str, ...]
) -> Iterator[tuple[Any, H5File, str]]:
    """Open a file; yield what is at a path in it, links followed, the file, and that path.

    Raises
    ------
    SourceError
        If there is nothing, or it cannot be opened.
    """
    try:
        at = H5File.at(str(file), allowed=allowed)
        with at.opened(kept=False) as opened:
            check_links(opened, inner, targets_of(at))
            path = variable_path(opened, inner) or inner if inner else ""
            if path and path not in opened:
                known = next(_known_above(opened, inner))
                where = f"{file}/{known}" if known else str(file)
                said = _said(opened[known] if known else opened, where)
                raise SourceError(f"{name}: no dataset has this name; {where} is {said}")
            node = opened[path] if path else opened
            if is_dimension_only(node):
                raise SourceError(
                    f"{name}: is a netCDF dimension without a variable, so it has no values; "
                    f"{_inside(node.parent, str(file))}"
                )
            yield node, at, path
    except (SourceError, ChangedError):
        raise
    except ImportError as error:
        raise SourceError(
            f"{name}: is in an HDF5 file, which is read by another package ({error}): "
            "pip install 'chunkfold[hdf5]'"
        ) from error
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise SourceError(f"{name}: cannot be opened as HDF5 ({error})") from error


def _known_above(opened: Any, inner: str) -> Iterator[str]:
    """Yield what there is of the way to a path, the nearest first."""
    for parent in PurePosixPath(inner).parents:
        at = "" if str(parent) == "." else str(parent)
        if not at or at in opened:
            yield at


def _said(node: Any, name: str) -> str:
    import h5py

    return "an array" if isinstance(node, h5py.Dataset) else f"a group; {_inside(node, name)}"


def _inside(group: Any, name: str) -> str:
    """Name the datasets of a group."""
    paths = list(datasets_in(group))
    if not paths:
        return "it has no arrays"
    shown = ", ".join(f"{name.rstrip('/')}/{path}" for path in paths[:_NAMED])
    return f"its arrays: {shown}" + (
        f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    )
