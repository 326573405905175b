"""Histograms, timelines and rates as SVG: pure functions; colours are the page's own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from chunkfold.printable import printable
from chunkfold.results.density import extent, heights
from chunkfold.units import size_text

WIDTH = 880
_LEFT = 90
"""The left end of plots; their labels are left of it."""
_BINS = 220
"""Intervals of a timeline."""
_TICKS = ((0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1, "end"))
"""Positions of the values along a histogram's axis, and their alignment."""
_ROW, _GAP = 26, 6
_STAGES = (
    ("read", "read_s", "reader threads"),
    ("decode", "decode_s", "threads decoding"),
    ("upload", "upload_s", "copying to the device"),
    ("fold", "fold_s", "kernels"),
)


def histogram(bins: np.ndarray, step: float = 0.0) -> Markup:
    """Draw a histogram's records, fields left, right, count, over an axis of their values.

    Areas are counts, so that bins of unequal width make no step. One that is narrower than a unit
    of the drawing, or than the `step` between values, is drawn as wide as that. What is in bins
    without an end is told beside.
    """
    height, (low, high) = 160, extent(bins)
    high = max(high, low + step)
    unit = (high - low) / (WIDTH - 2) or 1.0
    least = max(step, unit)
    parts = [_opening(height + 40), _text(WIDTH - 1, 12, "values per width", anchor="end")]
    beside = []
    for one, tall in zip(bins.tolist(), height * heights(bins, least), strict=True):
        left, right, count = one
        title = f"{left:.6g} to {right:.6g}: {count:,}"
        if not (math.isfinite(left) and math.isfinite(right)):
            beside.append(title)
            continue
        wide = max(right - left, least) / unit
        x = min(1 + (left - low) / unit, WIDTH - 1 - wide)
        where = f'x="{x:.2f}" y="{height - tall:.2f}"'
        size = f'width="{wide:.2f}" height="{tall:.2f}"'
        parts.append(f'<rect class="bar" {where} {size}><title>{title}</title></rect>')
    for place, anchor in _TICKS:
        value = low + (high - low) * place
        parts.append(_text(1 + (WIDTH - 2) * place, height + 16, f"{value:.6g}", anchor=anchor))
    parts.append(_text(1, height + 34, "; ".join(beside)))
    return _closed(parts)


def timeline(devices: Sequence[Mapping[str, Any]], readers: int) -> Markup:
    """Draw what every device did: of a manifest's entries, whose blocks took seconds of each stage.

    A stage's height is the share of its threads, or of the device, that was busy: a block's seconds
    are spread over the time that it ran. Where kernels were tried first, its bar begins in another
    colour.
    """
    blocks = [times for device in devices for times in device["timeline"]]
    if not blocks:
        return Markup("")
    first = min(times["began"] for times in blocks)
    span = max(times["began"] + times["seconds"] for times in blocks) - first or 1e-9
    rows, at = [], 18
    for device in devices:
        title = f"{device['device']}  {device['name']}, {device['host']}"
        rows.append(_text(0, at, title, kind="strong"))
        at += _GAP
        for name, field, meaning in _STAGES:
            capacity = readers if field in ("read_s", "decode_s") else 1
            busy = _occupancy(device["timeline"], field, first, span) / capacity
            at += _ROW
            rows.append(_text(_LEFT - 8, at - 8, name, anchor="end"))
            share = f"{float(busy.mean()):.0%} of the time, {meaning}"
            rows.append(_area(busy, at, f"stage {name}", share))
            at += _GAP
        lanes = _lanes(device["timeline"])
        rows.append(_text(_LEFT - 8, at + 11, "blocks", anchor="end"))
        for lane, times in lanes:
            x = _LEFT + (WIDTH - _LEFT) * (times["began"] - first) / span
            wide = max(0.5, (WIDTH - _LEFT) * times["seconds"] / span - 0.5)
            title = (
                f"{times['seconds']:.3f} s, {size_text(times['nbytes'])}; "
                f"{times['prepare_s']:.3f} s of it kernels were chosen"
            )
            place = f'y="{at + 9 * lane}" height="7"'
            rows.append(
                f'<g><rect class="block" x="{x:.2f}" width="{wide:.2f}" {place}/>'
                f'<rect class="prepare" x="{x:.2f}" width="{wide * _prepared(times):.2f}" {place}/>'
                f"<title>{title}</title></g>"
            )
        at += 9 * (1 + max((lane for lane, _ in lanes), default=0)) + 22
    axis = [_text(_LEFT, at, "0 s"), _text(WIDTH, at, f"{span:.2f} s", anchor="end")]
    return _closed([_opening(at + 8), *rows, *axis])


def rates(named: Mapping[str, float]) -> Markup:
    """Draw rates in bytes per second as bars beside each other."""
    most = max(named.values(), default=0.0) or 1.0
    left, height = 300, 30
    parts = [_opening(height * len(named) + 4)]
    for n, (name, rate) in enumerate(named.items()):
        wide = (WIDTH - left - 110) * rate / most
        y = n * height + 4
        parts.append(_text(left - 10, y + 16, name, anchor="end"))
        parts.append(
            f'<rect class="bar" x="{left}" y="{y}" width="{wide:.2f}" height="{height - 8}"/>'
        )
        parts.append(_text(left + wide + 8, y + 16, f"{size_text(rate)}/s"))
    return _closed(parts)


def _occupancy(
    blocks: Sequence[Mapping[str, Any]], field: str, first: float, span: float
) -> np.ndarray:
    """Return how many were busy in each interval: float64, (bins,)."""
    edges = first + span * np.arange(_BINS + 1) / _BINS
    busy = np.zeros(_BINS)
    for times in blocks:
        ends = times["began"] + times["seconds"]
        begins = times["began"] + times["seconds"] * _prepared(times)
        inside = np.clip(edges[1:], begins, ends) - np.clip(edges[:-1], begins, ends)
        busy += inside * (times[field] / max(ends - begins, 1e-9))
    occupancy: np.ndarray = busy / (span / _BINS)
    return occupancy


def _prepared(times: Mapping[str, Any]) -> float:
    """Return the share of a block's time in which kernels were chosen."""
    return float(min(1.0, times["prepare_s"] / max(times["seconds"], 1e-9)))


def _lanes(blocks: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """Put blocks that ran at the same time below each other."""
    ends: list[float] = []
    placed = []
    for times in sorted(blocks, key=lambda one: float(one["began"])):
        free = (n for n, end in enumerate(ends) if end <= times["began"] + 1e-3)
        lane = next(free, len(ends))
        end = times["began"] + times["seconds"]
        if lane == len(ends):
            ends.append(end)
        ends[lane] = end
        placed.append((lane, times))
    return placed


def _area(shares: np.ndarray, bottom: float, kind: str, title: str) -> str:
    """Draw shares, of which 1 is a row's whole height."""
    step = (WIDTH - _LEFT) / len(shares)
    top = [bottom - _ROW * min(1.0, float(share)) for share in shares]
    points = [f"{_LEFT},{bottom}"]
    for n, y in enumerate(top):
        points += [f"{_LEFT + n * step:.1f},{y:.1f}", f"{_LEFT + (n + 1) * step:.1f},{y:.1f}"]
    points.append(f"{WIDTH},{bottom}")
    ground = f'<rect class="ground" x="{_LEFT}" y="{bottom - _ROW}" width="{WIDTH - _LEFT}" '
    return (
        f'<g>{ground}height="{_ROW}"/><polygon class="{kind}" points="{" ".join(points)}"/>'
        f"<title>{title}</title></g>"
    )


def _opening(height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'


def _text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    safe = Markup.escape(printable(words))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{safe}</text>'


def _closed(parts: Sequence[str]) -> Markup:
    """Join parts that are safe: numbers, and texts that `_text` escaped."""
    return Markup("".join((*parts, "</svg>")))  # noqa: S704 # see above
