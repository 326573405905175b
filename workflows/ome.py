"""OME-Zarr metadata of images of several resolutions: the published specification, version 0.5.

https://ngff.openmicroscopy.org/0.5/
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.sources.axis_names import axis_names
from chunkfold.sources.neighbours import group_attributes
from chunkfold.sources.source import Source

VERSION = "0.5"
_TYPES = {"t": "time", "time": "time", "c": "channel", "channel": "channel",
          "z": "space", "y": "space", "x": "space"}  # fmt: skip
_ORDER = ("time", "channel", None, "space")
_UNNAMED = ("t", "c", "z", "y", "x")


@dataclass(frozen=True)
class Image:
    """What is known of an image whose resolutions are to be told."""

    axes: tuple[Mapping[str, str], ...]
    """As OME-Zarr has them: name, type, unit."""
    scale: tuple[float, ...]
    """Of its elements, in these units."""
    translation: tuple[float, ...]
    """Of the first one."""
    name: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis["name"] for axis in self.axes)


def image_of(source: Source) -> Image:
    """Return what OME-Zarr metadata beside an array say of it, or else its axes' names.

    Raises
    ------
    PlanError
        If it has no axes that an image of OME-Zarr has.
    """
    told = _told(source)
    if told is not None:
        return told
    ndim = len(source.shape)
    names = axis_names(source, range(ndim)) or [None] * ndim
    if not any(names):
        names = list(_UNNAMED[len(_UNNAMED) - ndim :]) if ndim <= len(_UNNAMED) else names
    axes = []
    for number, name in enumerate(names):
        if name is None:
            raise PlanError(
                f"{source.name}: axis {number} has no name; OME-Zarr's have: name them as "
                "dimension_names of the array"
            )
        kind = _TYPES.get(name.lower())
        axes.append({"name": name, **({} if kind is None else {"type": kind})})
    _refuse_others(source, axes)
    return Image(tuple(axes), (1.0,) * ndim, (0.0,) * ndim, _last(source))


def multiscales(
    image: Image, levels: Sequence[tuple[str, Sequence[int]]], method: str, told: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attributes of a group that has an image at several resolutions.

    Parameters
    ----------
    levels
        Path of each, and how many elements of the image are one of its along each axis; the finest
        first. An element is where the middle of those is that it is made of.
    method
        By what it is made.
    told
        More of that.
    """
    datasets = []
    for path, factors in levels:
        scale = [one * by for one, by in zip(image.scale, factors, strict=True)]
        middle = [
            first + one * (by - 1) / 2
            for first, one, by in zip(image.translation, image.scale, factors, strict=True)
        ]
        transforms: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
        if any(middle):
            transforms.append({"type": "translation", "translation": middle})
        datasets.append({"path": path, "coordinateTransformations": transforms})
    name = {"name": image.name} if image.name else {}
    one = {
        **name,
        "axes": [dict(axis) for axis in image.axes],
        "datasets": datasets,
        "type": method,
        "metadata": dict(told),
    }
    return {"version": VERSION, "multiscales": [one]}


def _refuse_others(source: Source, axes: Sequence[Mapping[str, str]]) -> None:
    kinds = [axis.get("type") for axis in axes]
    spaces = kinds.count("space")
    ordered = sorted(kinds, key=_ORDER.index) == kinds
    single = kinds.count("time") <= 1 and sum(kind in ("channel", None) for kind in kinds) <= 1
    names = [axis["name"] for axis in axes]
    if not (2 <= len(axes) <= 5 and spaces in (2, 3) and ordered and single) or len(
        set(names)
    ) != len(names):
        raise PlanError(
            f"{source.name}: its axes are {', '.join(map(repr, names)) or 'none'}; OME-Zarr's "
            "images have 2 to 5, of which the last 2 or 3 are called z, y, x, perhaps behind t and "
            "c: name the array's dimension_names so"
        )


def _told(source: Source) -> Image | None:
    """Return what the group of an array says of it."""
    attributes, own = group_attributes(source), _last(source)
    found = attributes.get("ome", attributes)  # in version 0.4 they stand by themselves
    if not isinstance(found, Mapping):
        return None
    try:
        for one in found["multiscales"]:
            for dataset in one["datasets"]:
                if dataset["path"] == own:
                    return _of_dataset(source, one, dataset)
    except (KeyError, TypeError, ValueError):
        pass  # whatever it says is no OME-Zarr
    return None


def _of_dataset(source: Source, one: Mapping[str, Any], dataset: Mapping[str, Any]) -> Image:
    ndim = len(source.shape)
    scale, first = [1.0] * ndim, [0.0] * ndim
    for transform in (
        *dataset["coordinateTransformations"],
        *one.get("coordinateTransformations", ()),
    ):
        if transform["type"] == "scale":
            scale = [a * b for a, b in zip(scale, transform["scale"], strict=True)]
            first = [a * b for a, b in zip(first, transform["scale"], strict=True)]
        if transform["type"] == "translation":
            first = [a + b for a, b in zip(first, transform["translation"], strict=True)]
    axes = tuple({str(k): str(v) for k, v in axis.items()} for axis in one["axes"])
    if len(axes) != ndim:
        raise ValueError(axes)
    _refuse_others(source, axes)
    return Image(axes, tuple(scale), tuple(first), str(one.get("name") or _last(source)))


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


def images(attributes: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what a group says of images of several resolutions, if it is OME-Zarr."""
    ome: Any = attributes.get("ome")
    scales = ome.get("multiscales") if isinstance(ome, Mapping) else None
    if not isinstance(scales, list):
        return []
    return [one for one in scales if isinstance(one, Mapping)]


def levels_named(image: Mapping[str, Any]) -> set[str]:
    """Return the paths that the metadata of an image name."""
    datasets = image.get("datasets")
    each = datasets if isinstance(datasets, list) else []
    return set[str]().union(*map(_named, each))


def _named(dataset: Any) -> set[str]:
    """Return the path that a dataset of an image has, if it is OME-Zarr."""
    return {str(dataset["path"])} if isinstance(dataset, Mapping) and "path" in dataset else set()


def without(image: Mapping[str, Any], paths: Collection[str]) -> Mapping[str, Any]:
    """Return what is said of an image without some of its levels."""
    if not levels_named(image).intersection(paths):
        return image
    return {**image, "datasets": [one for one in image["datasets"] if not _named(one) & {*paths}]}


def without_levels(attributes: Mapping[str, Any], paths: Collection[str]) -> dict[str, Any]:
    """Return what a group is to say so as to name none of some levels; nothing if it names none."""
    every = images(attributes)
    left = [without(one, paths) for one in every]
    return {} if left == every else {"ome": {**attributes["ome"], "multiscales": left}}
