"""An HDF5 file may lead to others: external links, external storage, virtual datasets.

HDF5 opens any file that a file names. These functions follow the way first, link by link, and check
each file on it as the targets of references are checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from chunkfold.errors import TargetError
from chunkfold.stores.h5_files import H5File
from chunkfold.stores.targets import Targets

_MOST_LINKS = 64
"""Links on a way: HDF5 itself follows 16."""
_MOST_OF_SERIES = 100_000
"""Files of a series that are looked for."""
_NUMBER = "%b"
"""The number in the name of a virtual dataset's source: a series of files or datasets, from 0."""


def targets_of(file: H5File) -> Targets:
    """Return where a file may lead."""
    return Targets(file.path, file.allowed, "a link, or storage,")


def check_links(file: Any, path: str, targets: Targets, links: int = 0) -> None:
    """Go a path of an open file, without HDF5 following links to where they may not lead.

    Raises
    ------
    TargetError
        If one leads there, or they go in a circle.
    OSError
        If a file that is linked cannot be opened.
    """
    import h5py

    node, left = file, _parts(path)
    while left and isinstance(node, h5py.Group):
        links += 1
        if links > _MOST_LINKS + len(left):
            raise TargetError(f"{targets.shown}: links on the way to {path!r} go in a circle")
        name = left.pop(0)
        link = node.get(name, getlink=True)
        if isinstance(link, h5py.SoftLink):
            node, left = (file if link.path.startswith("/") else node), [*_parts(link.path), *left]
        elif isinstance(link, h5py.ExternalLink):
            other = targets.checked(_beside(file, link.filename))
            rest = "/".join([*_parts(link.path), *left])
            with H5File.at(other).opened(kept=False) as opened:
                check_links(opened, rest, targets, links)
            return
        elif link is None or (node := node.get(name)) is None:
            return  # whoever opens it says so


def files_behind(
    dataset: Any, targets: Targets, seen: frozenset[tuple[str, str]] = frozenset()
) -> set[str]:
    """Return the files that hold the elements of a dataset, and of those it is made of.

    Raises
    ------
    TargetError
        If one is where the file may not lead.
    OSError
        If one cannot be opened.
    """
    # HDF5 takes the name of external storage as this process does.
    found = {targets.checked(os.path.abspath(_text(one[0]))) for one in dataset.external or ()}  # noqa: PTH100
    if not dataset.is_virtual:
        return found
    own = str(dataset.file.filename)
    for one in {(one.file_name, one.dset_name) for one in dataset.virtual_sources()}:
        for name, path in _series(*one, dataset.file, targets):
            other = own if name == "." else targets.checked(_beside(dataset.file, name))
            if (other, path) in seen:
                continue
            if name != "." and _NUMBER not in one[0]:
                found.add(_beside(dataset.file, name))
            if not os.path.exists(other):  # noqa: PTH110
                continue
            with H5File.at(other).opened(kept=False) as opened:
                check_links(opened, path, targets)
                source = opened.get(path)
                if hasattr(source, "virtual_sources"):
                    found |= files_behind(source, targets, seen | {(other, path)})
    return found


def _series(name: str, path: str, file: Any, targets: Targets) -> Iterator[tuple[str, str]]:
    """Yield the files, and paths in them, that a source of a virtual dataset stands for."""
    if _NUMBER not in name + path:
        yield name, path
        return
    for number in range(_MOST_OF_SERIES):
        one = name.replace(_NUMBER, str(number))
        at = path.replace(_NUMBER, str(number))
        if one == ".":
            check_links(file, at, targets)
            if at not in file:
                return
        yield one, at
        if one != "." and not os.path.exists(_beside(file, one)):  # noqa: PTH110
            return


def _beside(file: Any, name: Any) -> str:
    """Return the path of a file that another names: relative to where that is."""
    folder = os.path.dirname(os.path.abspath(str(file.filename)))  # noqa: PTH100, PTH120
    return os.path.join(folder, _text(name))  # noqa: PTH118


def _text(name: Any) -> str:
    return os.fsdecode(name)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
