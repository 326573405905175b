"""Panels of pictures: each function draws some values on matplotlib's axes, with their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.kernels.catalogue.finish_functions import BIN
from chunkfold.results.density import extent, heights
from chunkfold.results.picture_labels import (
    axis_label,
    dated,
    edges_of,
    interval_ends,
    is_calendar,
    is_interval,
    is_scale,
    label_of,
    named_ticks,
    unit,
    unit_label,
    value_label,
    years,
)

if TYPE_CHECKING:
    import xarray

_MOST_CELLS = 1000
"""The most cells of a map along an axis: screens have hardly more."""
_DIVERGING, _SEQUENTIAL = "RdBu_r", "viridis"


def curves(ax: Any, one: xarray.DataArray, core: Sequence[str], **given: Any) -> None:
    """Draw values over the coordinate of `core[0]`; a line for each label of `core[1]`."""
    x = _scale(ax, one, core[0])
    for n in range(one.sizes[core[1]] if len(core) > 1 else 1):
        part = one.isel({core[1]: n}) if len(core) > 1 else one
        said = {"label": label_of(one, core[1], n)} if len(core) > 1 else {}
        ax.plot(x, _plottable(part), marker="" if len(x) > 40 else ".", **{**said, **given})
    if len(core) > 1:
        ax.legend(fontsize="small", title=core[1])
    ax.set_ylabel(value_label(one))
    dated(ax.yaxis, one)


def bands(ax: Any, one: xarray.DataArray, core: Sequence[str], **given: Any) -> None:
    """Draw quantiles along `core[1]`: pairs as bands, the one in the middle as a line."""
    x, ranks = _scale(ax, one, core[0]), one[core[1]].values
    order = np.argsort(ranks)
    color = given.pop("color", "C0")
    for low, high in zip(order[: len(order) // 2], order[::-1], strict=False):
        ends = [_plottable(one.isel({core[1]: n})) for n in (low, high)]
        told = f"{100 * ranks[low]:g}% to {100 * ranks[high]:g}%"
        ax.fill_between(x, *ends, color=color, alpha=0.25, linewidth=0, label=told)
    if len(order) % 2:
        middle = order[len(order) // 2]
        told = f"{100 * ranks[middle]:g}%"
        ax.plot(x, _plottable(one.isel({core[1]: middle})), color=color, label=told, **given)
    ax.legend(fontsize="small")
    ax.set_ylabel(value_label(one))
    dated(ax.yaxis, one)


def bars(ax: Any, one: xarray.DataArray, core: Sequence[str], **given: Any) -> None:
    """Draw a bar for each label; over intervals as wide as these.

    Bars are compared by their lengths, and those of 280 and 282 K look alike: values that lie far
    from 0, for how much they differ, are drawn as dots, or as lines over intervals.
    """
    coord, values = one[core[0]], _plottable(one)
    held = values[np.isfinite(values)]
    far = one.dtype.kind == "M" or (held.size and abs(held).min() > 4 * np.ptp(held))
    if is_interval(coord):
        left, right = interval_ends(coord)
        if far:
            ax.hlines(values, left, right, **{"linewidth": 3, **given})
        else:
            ax.bar(left, values, width=right - left, align="edge", edgecolor="white", **given)
    else:
        places = np.arange(coord.size)
        ax.plot(places, values, "o", **given) if far else ax.bar(places, values, **given)
        named_ticks(ax.xaxis, coord)
    dated(ax.yaxis, one)
    ax.set_xlabel(axis_label(one, core[0]))
    ax.set_ylabel(value_label(one))


def densities(ax: Any, one: xarray.DataArray, core: Sequence[str], **given: Any) -> None:
    """Draw counts of bins as areas over the true axis of their values.

    A bin that is narrower than a pixel, or than whole numbers are apart, is drawn as wide as that.
    What is in bins without an end is told above.
    """
    edges = edges_of(one)
    assert edges is not None
    left, right = edges
    bins = np.zeros(one.sizes[core[0]], BIN)
    bins["left"], bins["right"], bins["count"] = left, right, one.values
    low, high = extent(bins)
    ends = np.concatenate([bins["left"], bins["right"]])
    step = 1.0 if (ends[np.isfinite(ends)] % 1 == 0).all() else 0.0
    least = max(step, (max(high, low + step) - low) / 400)
    bounded = np.isfinite(bins["left"]) & np.isfinite(bins["right"])
    tall = heights(bins, least)[bounded]
    wide = np.maximum(bins["right"] - bins["left"], least)[bounded]
    ax.bar(bins["left"][bounded], tall, width=wide, align="edge", **{"linewidth": 0, **given})
    beyond = bins[~bounded & (bins["count"] > 0)].tolist()
    told = [f"{begin:g} to {end:g}: {count:,}" for begin, end, count in beyond]
    if told:
        ax.text(0.99, 0.97, "\n".join(told), ha="right", va="top", transform=ax.transAxes)
    of = left.attrs.get("long_name") or left.attrs.get("standard_name") or "value"
    ax.set_xlabel(unit_label(str(of), left.attrs))
    ax.set_ylabel("values per width")
    ax.set_yticks([])


def colours(ax: Any, one: xarray.DataArray, core: Sequence[str], **given: Any) -> Any:
    """Draw a map of two axes, by their coordinates, as xarray does; return it for a colour bar."""
    every = {dim: max(1, -(-one.sizes[dim] // _MOST_CELLS)) for dim in core}
    one = one.transpose(*core).isel({dim: slice(None, None, step) for dim, step in every.items()})
    curved = _curved(one)
    y, x = core if curved is None else curved
    numbers = one.copy(data=_plottable(one))
    if curved is None:
        places = {dim: _places(one, dim, every[dim]) for dim in core}
        numbers = numbers.assign_coords({d: at for d, at in places.items() if at is not None})
    drawn = numbers.plot.pcolormesh(
        ax=ax, x=x, y=y, add_colorbar=False, add_labels=False, rasterized=True, **given
    )
    for axis, dim in ((ax.xaxis, core[1]), (ax.yaxis, core[0])):
        if curved is None and dim in one.coords and not is_scale(one, dim):
            named_ticks(axis, one[dim])
        elif curved is None and dim in one.coords and one[dim].dtype.kind == "M":
            dated(axis, one[dim])
    for label, name, dim in ((ax.set_xlabel, x, core[1]), (ax.set_ylabel, y, core[0])):
        some = f", 1 of {every[dim]} drawn" if every[dim] > 1 else ""
        label(axis_label(one, name) + some)
    if aspect(one, core) is not None:
        ax.set_aspect("equal")
    if not any(dim in one.coords for dim in core) and not ax.yaxis_inverted():
        ax.invert_yaxis()  # as images are shown: their first row is on top
    if not np.isfinite(numbers).any():
        ax.text(0.5, 0.5, "all values are NaN", ha="center", transform=ax.transAxes)
    return drawn


def _places(one: xarray.DataArray, dim: str, every: int) -> np.ndarray | None:
    """Return where cells stand along an axis, if not at its coordinate."""
    if dim not in one.coords:  # positions in the result, though not all are drawn
        return np.arange(one.sizes[dim]) * every
    if not is_scale(one, dim):
        return np.arange(one.sizes[dim])
    return years(one[dim]) if is_calendar(one[dim]) else None


def common(kind: str, values: xarray.DataArray) -> Mapping[str, Any]:
    """Return the arguments that all panels of a picture share: colours stand for the same."""
    if kind != "colours":
        return {}
    numbers = _plottable(values)
    held = numbers[np.isfinite(numbers)]
    low, high = (float(held.min()), float(held.max())) if held.size else (0.0, 1.0)
    if low < 0 < high:
        most = max(-low, high)
        return {"vmin": -most, "vmax": most, "cmap": _DIVERGING, "center": False}
    return {"vmin": low, "vmax": high, "cmap": _SEQUENTIAL, "center": False}


def aspect(one: xarray.DataArray, core: Sequence[str]) -> float | None:
    """Return height by width of a map whose axes are measured alike; None if they are not."""
    spans, measures = [], []
    for dim in _curved(one) or tuple(core):
        known = dim in one.coords
        if (known and one[dim].dtype.kind not in "iuf") or not is_scale(one, dim):
            return None
        spans.append(float(np.ptp(one[dim].values)) if known else one.sizes[dim])
        measures.append(unit(one[dim]) if known else "")
    tall, wide = spans
    if measures[0] != measures[1] or not (tall and wide):
        return None
    ratio = tall / wide
    return ratio if 0.25 <= ratio <= 4 else None


def _scale(ax: Any, one: xarray.DataArray, dim: str) -> np.ndarray:
    """Return where values stand along an axis, and label it."""
    ax.set_xlabel(axis_label(one, dim))
    if dim not in one.coords:
        return np.arange(one.sizes[dim])
    coord = one[dim]
    if is_calendar(coord):
        return years(coord)
    dated(ax.xaxis, coord)
    return np.asarray(coord.values)


def _plottable(one: xarray.DataArray) -> np.ndarray:
    """Return values as matplotlib takes them: dates by its numbers, time spans as days."""
    values = one.values
    if values.dtype.kind == "M":
        from matplotlib.dates import date2num

        to_numbers: Any = date2num
        return np.asarray(to_numbers(values))
    if values.dtype.kind == "m":
        return values / np.timedelta64(1, "D")
    narrow = values.dtype.kind not in "iu" and values.dtype != np.float64
    return values.astype(np.float32) if narrow else values


def _curved(one: xarray.DataArray) -> tuple[str, str] | None:
    """Return the names of coordinates in degrees that need both axes, if there are such."""
    flat = len(one.dims)
    found: dict[Any, str] = {
        coord.attrs.get("units"): str(name) for name, coord in one.coords.items()
        if coord.ndim == flat
    }  # fmt: skip
    degrees = ("degrees_north", "degrees_east")
    whole = all(name in found and one[found[name]].notnull().all() for name in degrees)
    return (found[degrees[0]], found[degrees[1]]) if whole else None
