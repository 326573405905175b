"""Read what a group says of images in OME-Zarr, versions 0.1 to 0.5.

The one place that decides which image an array is a level of, and what its axes are called.
https://ngff.openmicroscopy.org/0.5/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chunkfold.errors import LevelWarning, PlanError
from chunkfold.plural import counted
from chunkfold.tracebacks import warn_caller

AXIS_NAMES = ("t", "c", "z", "y", "x")
"""Axes of images in versions 0.1 and 0.2, whose metadata name none."""
_NAME = re.compile(r"\w[\w -]*")


@dataclass(frozen=True)
class ImageLevel:
    """A level of an image: an array, and what the group above says of it."""

    group: Mapping[str, Any]
    """All that the group says in OME-Zarr."""
    image: Mapping[str, Any]
    """The entry of `multiscales` that has the array."""
    dataset: Mapping[str, Any]
    """The entry of `datasets` that names it."""

    @property
    def axes(self) -> tuple[Mapping[str, Any], ...] | None:
        """The axes as version 0.4 has them; None if they cannot be understood."""
        said = self.image.get("axes")
        if said is None and "coordinateSystems" not in self.image:
            said = AXIS_NAMES
        if not isinstance(said, (list, tuple)):
            return None
        axes = [{"name": one} if isinstance(one, str) else one for one in said]
        named = all(isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in axes)
        return tuple(axes) if named else None

    def names(self, ndim: int) -> tuple[str, ...] | None:
        """Return the names of so many axes; None if the image has others."""
        axes = self.axes or ()
        return tuple(str(one["name"]) for one in axes) if len(axes) == ndim else None


def ome_of(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a group says in OME-Zarr: under `ome`, or before version 0.5 at the top."""
    found = attributes.get("ome")
    if not isinstance(found, Mapping) or {"multiscales"} & {*attributes} - {*found}:
        return attributes
    return found


def images(attributes: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of `multiscales` of a group."""
    found = ome_of(attributes).get("multiscales")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def path_of(dataset: Any) -> str | None:
    """Return the path that an entry of `datasets` names; None if it names none.

    >>> path_of({"path": "./scale0/image"}), path_of("abc")
    ('scale0/image', None)
    """
    if not isinstance(dataset, Mapping) or "path" not in dataset:
        return None
    return str(PurePosixPath(str(dataset["path"])))


def levels_of(image: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the entries of `datasets` of an image by the paths that they name."""
    found = image.get("datasets")
    each = found if isinstance(found, list) else []
    return {path: one for one in each if (path := path_of(one)) is not None}


def level_path(name: str, attributes: Mapping[str, Any], level: int | None) -> str | None:
    """Return the path of a level of the first image of a group; None if it has no image.

    Without a level it is the finest, and a warning says so.

    Raises
    ------
    PlanError
        If the image has no such level.
    """
    paths = [path for image in images(attributes)[:1] for path in levels_of(image)]
    if not paths:
        return None
    if level is None and len(paths) > 1:
        told = (
            f"{name} is an image of {counted(len(paths), 'level')}: {paths[0]!r} is read, the "
            f"finest; to read another, name it, such as {name}/{paths[1]}"
        )
        warn_caller(LevelWarning(told))
    elif level is not None and level >= len(paths):
        raise PlanError(
            f"{name}: level is {level}, but the image has {counted(len(paths), 'level')}, "
            f"numbered from 0: {', '.join(map(repr, paths))}"
        )
    return paths[level or 0]


def level_at(above: Iterable[tuple[str, Mapping[str, Any]]]) -> ImageLevel | None:
    """Return which level an array is; None if no image has it.

    `above` has the groups that the array is in, nearest first: its path there, and the attributes.
    """
    for path, attributes in above:
        for one in images(attributes):
            if path in (levels := levels_of(one)):
                return ImageLevel(ome_of(attributes), one, levels[path])
    return None


def image_name(level: ImageLevel | None, place: str) -> str | None:
    """Return what an array at a place is called: its own name, or that of the image it belongs to.

    Numbers name levels, not images. None if nothing there is a name.

    >>> image_name(None, "s.zarr/labels/0"), image_name(None, "zones.zarr"), image_name(None, "0")
    ('labels', 'zones', None)
    """
    parts = [PurePosixPath(one).stem for one in PurePosixPath(place).parts]
    if level is not None:
        depth = len(PurePosixPath(path_of(level.dataset) or "").parts)
        parts = parts[: max(0, len(parts) - depth)]
        own = str(level.image.get("name", "")).rpartition("/")[2]
        parts += [own] if _NAME.fullmatch(own) else []
    named = next((one for one in reversed(parts) if not one.isdecimal()), "")
    return named if _NAME.fullmatch(named) else None
