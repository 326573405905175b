"""Pictures of results are chosen: which axes are within a panel, and along which panels differ.

The kind of a picture follows from the axes of what is drawn, by their coordinates. An axis of few
labels (texts, intervals, small integers without units) makes bars, lines or small multiples; of
others one makes a line, and two make a map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels.catalogue.named import percent_of
from chunkfold.results.as_xarray import needed
from chunkfold.results.picture_labels import are_labels, edges_of, label_of

if TYPE_CHECKING:
    import xarray

Drawable = Any
"""A picture draws a DataArray, a Dataset, or a mapping of names to such."""
MOST_PANELS = 12
"""The most small multiples of a picture: the months of a year."""
_MOST_LINES = 10
QUANTILE = "quantile"


@dataclass(frozen=True)
class Picture:
    """Panels that show the same of a result, and the axes that each panel has."""

    values: xarray.DataArray
    kind: str
    """One of the functions of `panels`."""
    core: tuple[str, ...]
    """The axes within a panel."""
    across: tuple[str, ...] = ()
    """The axes along which panels differ."""

    @property
    def count(self) -> int:
        """The number of panels."""
        return math.prod(self.values.sizes[dim] for dim in self.across)

    def parts(self) -> Iterator[tuple[str, xarray.DataArray]]:
        """Yield the title of each panel, and what is in it."""
        for place in np.ndindex(*(self.values.sizes[dim] for dim in self.across)):
            chosen = dict(zip(self.across, place, strict=True))
            titles = (label_of(self.values, dim, n) for dim, n in chosen.items())
            yield ", ".join(titles), self.values.isel(chosen)


def pictures(found: Drawable) -> list[Picture]:
    """Return the pictures of what has axes; quantiles of one axis share a picture.

    Raises
    ------
    PlanError
        If nothing of it can be drawn.
    """
    several = {name: one for name, one in _arrays(found) if one.dims}
    made = [_picture(name, one) for name, one in _with_bands(several).items()]
    if not made:
        raise PlanError(
            "nothing to plot: each result is a single number; keep an axis, as axis='time' does "
            "for an array that has other axes, or compute a histogram"
        )
    return made


def _arrays(found: Drawable) -> Iterator[tuple[str, xarray.DataArray]]:
    """Yield arrays by the names that pictures have for them; fields by their result's, too."""
    xr = needed()
    if isinstance(found, xr.DataArray):
        yield str(found.name or "values"), found
        return
    for name, one in found.items():
        if isinstance(one, xr.DataArray):
            yield str(name), one
        else:
            yield from ((f"{name}_{field}", part) for field, part in _arrays(one))


def _picture(name: str, one: xarray.DataArray) -> Picture:
    """Choose how something is drawn.

    Raises
    ------
    PlanError
        If it has more axes than a picture has.
    """
    _check_values(name, one)
    one = one.rename(name)
    edges = edges_of(one)
    few = [str(dim) for dim in one.dims if are_labels(one, dim)]
    long = [str(dim) for dim in one.dims if dim not in few]
    bands = [dim for dim in long if dim.startswith(QUANTILE)]
    core: tuple[str, ...]
    beside = [str(dim) for dim in one.dims if edges is None or dim not in edges[0].dims]
    if edges is not None and len(beside) == 1 and one.sizes[beside[0]] > MOST_PANELS:
        core, kind = (str(edges[0].dims[0]), beside[0]), "colours"
    elif edges is not None:
        core, kind = (str(edges[0].dims[0]),), "densities"
    elif bands and len(long) == len(bands) + 1:
        core, kind = (long[0] if long[0] not in bands else long[-1], bands[0]), "bands"
    elif len(rest := [dim for dim in long if dim not in bands] or long) >= 2:
        core, kind = tuple(rest[-2:]), "colours"
    elif rest and (len(few) == 1 and one.sizes[few[0]] > _MOST_LINES):
        core, kind = (few[0], rest[0]), "colours"
    elif rest:
        core, kind = (rest[0], *few[:1]), "curves"
    else:
        core, kind = tuple(few[-2:]), "colours" if len(few) > 1 else "bars"
    made = Picture(one, kind, core, tuple(str(dim) for dim in one.dims if dim not in core))
    if made.count > MOST_PANELS:
        axes = ", ".join(f"{dim}: {size}" for dim, size in one.sizes.items())
        raise PlanError(
            f"{name} has axes ({axes}), which makes {made.count:,} panels; a picture has "
            f"{MOST_PANELS} at most: reduce another axis too, or plot a part, as "
            f"result.to_xarray().isel({made.across[0]}=0).plot()"
        )
    return made


def _check_values(name: str, one: xarray.DataArray) -> None:
    """Raise unless there are numbers to draw.

    Raises
    ------
    PlanError
        Then.
    """
    if one.dtype.kind == "c":
        raise PlanError(
            f"{name} is complex, and cannot be plotted: plot real numbers of it, such as "
            "np.abs(result)"
        )
    if one.dtype.kind not in "biufmM" and one.dtype.name != "bfloat16":
        raise PlanError(f"{name} is {one.dtype}: only numbers, dates and time spans can be plotted")
    if not one.size:
        raise PlanError(f"{name} has no elements to plot: select some")


def _with_bands(several: Mapping[str, xarray.DataArray]) -> dict[str, xarray.DataArray]:
    """Join quantiles that were asked for one by one, as p5, median and p95, along one axis."""
    groups: dict[tuple[str, Any], dict[str, float]] = {}
    for name, one in several.items():
        if (found := _quantile(name)) is not None:
            prefix, rank = found
            groups.setdefault((prefix, one.dims), {})[name] = rank
    joined = {name: (key[0], group) for key, group in groups.items() for name in group}
    made = dict[str, Any]()
    for name, one in several.items():
        prefix, group = joined.get(name, ("", {}))
        if len(group) < 2:  # a band has two ends
            made[name] = one
        elif name == next(iter(group)):
            made[f"{prefix}_quantiles" if prefix else "quantiles"] = _joined(several, group)
    return made


def _joined(several: Mapping[str, xarray.DataArray], ranks: Mapping[str, float]) -> Any:
    xr = needed()
    return xr.concat(
        [several[name].rename("quantiles") for name in ranks],
        xr.DataArray(list(ranks.values()), dims=[QUANTILE], name=QUANTILE),
        combine_attrs="drop_conflicts",
        coords="minimal",
        compat="override",
    )


def _quantile(name: str) -> tuple[str, float] | None:
    """Return the rank of a quantile, by the name of its result, behind what stands before it.

    >>> _quantile("air_p97_5"), _quantile("median"), _quantile("air_max")
    (('air', 0.975), ('', 0.5), None)
    """
    words = name.split("_")
    for n in reversed(range(len(words))):
        op = "_".join(words[n:])
        percent = 50.0 if op == "median" else percent_of(op)
        if percent is not None:
            return "_".join(words[:n]), percent / 100
    return None
