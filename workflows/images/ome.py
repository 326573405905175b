"""OME-Zarr metadata of images of several resolutions: the published specification, version 0.5.

https://ngff.openmicroscopy.org/0.5/
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.sources.axis_names import axis_names
from chunkfold.sources.ome_zarr import AXIS_NAMES, ImageLevel, images, levels_of, ome_of, path_of
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.workflows.images.ome_transforms import Placing, placing_of

VERSION = "0.5"
_TYPES = {"t": "time", "time": "time", "c": "channel", "channel": "channel",
          "z": "space", "y": "space", "x": "space"}  # fmt: skip
_ORDER = ("time", "channel", None, "space")
_OF_IMAGE = ("omero", "image-label")
"""Metadata beside `multiscales` that hold for an image wherever it is."""


@dataclass(frozen=True)
class Image:
    """The metadata of an image whose resolutions are described."""

    axes: tuple[Mapping[str, Any], ...]
    """Axes as OME-Zarr has them: name, type, unit."""
    placing: Placing
    """The positions of its elements, in these units, before the transformations of all levels."""
    name: str = ""
    level: ImageLevel | None = None
    """The metadata of its group, if these name it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis["name"] for axis in self.axes)

    @property
    def channel_axis(self) -> int | None:
        """The axis of channels, if it has one."""
        types = types_of(self.axes)
        return types.index("channel") if "channel" in types else None

    @property
    def group_metadata(self) -> dict[str, Any]:
        """The metadata of its group about channels and labels, as version 0.5 has them."""
        found = {} if self.level is None else self.level.group
        said = {key: found[key] for key in _OF_IMAGE if isinstance(found.get(key), Mapping)}
        return {key: _without_version(one) for key, one in said.items()}

    @property
    def multiscale(self) -> dict[str, Any]:
        """The metadata of all its levels: names, axes, transformations."""
        found = {} if self.level is None else _without_version(self.level.image)
        name = {"name": self.name} if self.name and "name" not in found else {}
        return {**name, **found, "axes": [dict(axis) for axis in self.axes]}


def types_of(axes: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Return the types of axes: as they are given, or else by their names."""
    return [axis.get("type", _TYPES.get(str(axis["name"]).lower())) for axis in axes]


def image_of(source: Source) -> Image:
    """Return what OME-Zarr metadata above an array say of it, or else its axes' names.

    Raises
    ------
    PlanError
        If it has no axes that an image of OME-Zarr has, or its group says of it what is not
        understood.
    """
    if isinstance(source, ZarrSource) and source.level is not None:
        return _told(source, source.level)
    ndim = len(source.shape)
    names = axis_names(source, range(ndim)) or [None] * ndim
    if not any(names):
        names = list(AXIS_NAMES[len(AXIS_NAMES) - ndim :]) if ndim <= len(AXIS_NAMES) else names
    axes = []
    for number, name in enumerate(names):
        if name is None:
            raise PlanError(
                f"{source.name}: axis {number} has no name; OME-Zarr axes have names: give them "
                "as dimension_names of the array"
            )
        axes.append(_typed({"name": name}))
    refuse_other_axes(source, axes)
    return Image(tuple(axes), Placing.unit(ndim), _last(source))


def _told(source: Source, level: ImageLevel) -> Image:
    """Return what the group of an array says of it."""
    axes, ndim = level.axes, len(source.shape)
    if axes is None or len(axes) != ndim:
        said = level.image.get("axes") or level.image.get("coordinateSystems")
        raise PlanError(
            f"{source.name}: the OME-Zarr metadata of its group name the axes {said!r}, but it "
            f"has {ndim} axes: name each of them, as version {VERSION} requires"
        )
    axes = tuple(_typed(axis) if len(axis) == 1 else axis for axis in axes)
    refuse_other_axes(source, axes)
    placing = placing_of(source.name, level.dataset.get("coordinateTransformations"), ndim)
    return Image(axes, placing, str(level.image.get("name") or _last(source)), level)


def element_size(source: Source, axes: Sequence[int]) -> tuple[float, str | None] | None:
    """Return the size of an element along some axes of space, and its unit, as "micrometer^2".

    None if metadata do not tell, or not all of these axes are of space.
    """
    if not isinstance(source, ZarrSource) or source.level is None:
        return None
    try:
        image = image_of(source)
        of_all = image.multiscale.get("coordinateTransformations")
        above = placing_of(source.name, of_all, len(source.shape))
    except PlanError:
        return None
    if any(types_of(image.axes)[n] != "space" for n in axes):
        return None
    units = [image.axes[n].get("unit") for n in axes]
    size = math.prod(abs(image.placing.scale[n] * above.scale[n]) for n in axes)
    power = f"^{len(units)}" if len(units) > 1 else ""
    return size, f"{units[0]}{power}" if len({*units}) == 1 and units[0] else None


def _typed(axis: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = _TYPES.get(str(axis["name"]).lower())
    return {**axis, **({} if kind is None else {"type": kind})}


def are_axes_of_image(axes: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether an OME-Zarr image may have such axes."""
    kinds, names = types_of(axes), [axis["name"] for axis in axes]
    ordered = kinds == sorted(
        kinds, key=lambda kind: _ORDER.index(kind if kind in _ORDER else None)
    )
    others = sum(kind not in ("time", "space") for kind in kinds)
    return (
        2 <= len(axes) <= 5
        and kinds.count("space") in (2, 3)
        and ordered
        and kinds.count("time") <= 1
        and others <= 1
        and len(set(names)) == len(names)
    )


def refuse_other_axes(source: Source, axes: Sequence[Mapping[str, Any]]) -> None:
    """Refuse axes that no image of OME-Zarr has.

    Raises
    ------
    PlanError
        If they are such.
    """
    if not are_axes_of_image(axes):
        names = [axis["name"] for axis in axes]
        raise PlanError(
            f"{source.name}: its axes are {', '.join(map(repr, names)) or 'none'}; OME-Zarr "
            "images have 2 to 5 axes, and the last 2 or 3 are called z, y, x, after t and c if "
            "these exist: name them so in the array's dimension_names"
        )


def multiscale(
    image: Image,
    own: str | None,
    levels: Sequence[tuple[str, Sequence[int]]],
    method: str,
    told: Mapping[str, Any],
    gone: Collection[str] = (),
) -> dict[str, Any]:
    """Return the entry of `multiscales` of an image at several resolutions.

    Parameters
    ----------
    own
        Path of the image itself, which stays as it is, as finer levels do; None if it is not there.
    levels
        Path of each coarser one, and how many elements of the image are one of its along each axis;
        the finest first. An element is where the middle of those is that it is made of.
    method
        By what they are made.
    told
        More of that.
    gone
        Paths of levels that are there no more.
    """
    datasets: list[Any] = []
    if own is not None:
        known = {} if image.level is None else levels_of(image.level.image)
        paths = list(known)
        finer = paths[: paths.index(own)] if own in known else []
        replaced = {*gone, *(path for path, _ in levels)}
        datasets += [known[path] for path in finer if path not in replaced]
        datasets.append(known.get(own, {"path": own}))
        if not datasets[-1].get("coordinateTransformations"):
            placed = image.placing.transforms
            datasets[-1] = {**datasets[-1], "coordinateTransformations": placed}
    for path, factors in levels:
        placed = image.placing.coarser(factors).transforms
        datasets.append({"path": path, "coordinateTransformations": placed})
    return {**image.multiscale, "datasets": datasets, "type": method, "metadata": dict(told)}


def beside_images(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a group says beside its images, as far as it says so in version 0.5."""
    found = ome_of(attributes)
    return (
        {}
        if found is attributes
        else {key: said for key, said in found.items() if key != "multiscales"}
    )


def _without_version(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said without the version, which version 0.5 has in one place alone."""
    return {key: one for key, one in said.items() if key != "version" or one == VERSION}


def refuse_other_version(attributes: Mapping[str, Any], name: str) -> None:
    """Refuse to write into a group whose metadata are of a version that comes later.

    Raises
    ------
    PlanError
        If they are.
    """
    found = ome_of(attributes)
    said = VERSION if found is attributes else str(found.get("version", VERSION))
    if said.split(".")[:2] != VERSION.split("."):
        raise PlanError(
            f"{name} has OME-Zarr metadata of version {said}, but levels are described in "
            f"{VERSION}: write them to a new Zarr"
        )


def _last(source: Source) -> str:
    return source.name.rstrip("/").rpartition("/")[2]


def coarser_levels(attributes: Mapping[str, Any], method: str, number: int) -> list[str]:
    """Return the levels behind one of a number that `method` says in its metadata that it made."""
    found = []
    for one in images(attributes):
        told = one.get("metadata")
        if isinstance(told, Mapping) and told.get("method") == method:
            levels = told.get("levels")
            found += levels if isinstance(levels, list) else []
    return [
        each
        for each in found
        if isinstance(each, str) and each.isdecimal() and len(each) < 9 and int(each) > number
    ]


def without(image: Mapping[str, Any], paths: Collection[str]) -> Mapping[str, Any] | None:
    """Return what is said of an image without some of its levels; None if none is left."""
    gone = {path for path in levels_of(image) if path in paths}
    if not gone:
        return image
    left = [one for one in image["datasets"] if path_of(one) not in gone]
    return {**image, "datasets": left} if levels_of({"datasets": left}) else None


def without_levels(attributes: Mapping[str, Any], paths: Collection[str]) -> dict[str, Any]:
    """Return what a group is to say so as to name none of some levels; nothing if it names none."""
    every = images(attributes)
    left = [one for each in every if (one := without(each, paths)) is not None]
    if left == every:
        return {}
    said = ome_of(attributes)
    return {"multiscales": left} if said is attributes else {"ome": {**said, "multiscales": left}}
