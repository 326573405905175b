"""Figures of the page: drawn by matplotlib, once for wide screens and once for narrow ones."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from chunkfold.errors import PlanError
from chunkfold.printable import printable
from chunkfold.results.drawing import draw
from chunkfold.results.pictures import Drawable, pictures

_WIDTHS = {"wide": 7.4, "narrow": 3.2}
"""Inches of a figure, of 96 pixels each: its letters are never scaled."""
_BINS = 220
"""Intervals of a timeline."""
STAGES = {
    "read": ("read_s", "reader threads"),
    "decode": ("decode_s", "threads decoding"),
    "upload": ("upload_s", "copying to the device"),
    "fold": ("fold_s", "kernels"),
}
_VARIABLES = ("ink", "line", "bar", "dim", "warn", *STAGES)
"""Colours of the page; in a drawing each is a colour that nothing else has."""
_COLOURS = {name: f"#0{n}0{n}0{n}" for n, name in enumerate(_VARIABLES, start=1)}
_INK = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
_STYLE = {
    **dict.fromkeys(_INK, _COLOURS["ink"]),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    "font.size": 10,
    "legend.framealpha": 0,
    "svg.fonttype": "none",
}


def can_draw() -> bool:
    """Return True if what draws is installed."""
    return all(importlib.util.find_spec(name) for name in ("matplotlib", "xarray"))


def results(found: Mapping[str, Drawable], name: str) -> Markup:
    """Draw results, as far as they have pictures."""
    drawn = {op: one for op, one in found.items() if can_draw() and _has_picture({op: one})}
    return _figure(lambda figure: draw(drawn, figure), name) if drawn else Markup("")


def _has_picture(found: Drawable) -> bool:
    try:
        return bool(pictures(found))
    except PlanError:
        return False


def timeline(devices: Sequence[Mapping[str, Any]], readers: int, name: str) -> Markup:
    """Draw what every device did: of a manifest's entries, whose blocks took seconds of each stage.

    A stage's height is the share of its threads, or of the device, that was busy: a block's seconds
    are spread over the time that it ran. Where kernels were tried first, its bar begins in another
    colour.
    """
    ran = [device for device in devices if device["timeline"]]
    if not ran or not can_draw():
        return Markup("")
    first, span = _extent(ran)
    lanes = [_lanes(device["timeline"]) for device in ran]
    rows = [len(STAGES) + (1 + max(lane for lane, _ in each)) / 3 for each in lanes]

    def fill(figure: Any) -> None:
        figure.set_figheight(sum(0.32 * count + 0.55 for count in rows))
        axes = figure.subplots(len(ran), 1, sharex=True, squeeze=False, height_ratios=rows)
        for ax, device, each in zip(axes[:, 0], ran, lanes, strict=True):
            _draw_device(ax, device, readers, each, first, span)
        ax.set_xlabel("seconds")

    return _figure(fill, name)


def busy(device: Mapping[str, Any], readers: int, devices: Sequence[Mapping[str, Any]]) -> Any:
    """Return the share of the time of a run that each stage was busy on a device."""
    if not device["timeline"]:
        return {}
    first, span = _extent([one for one in devices if one["timeline"]])
    return {
        stage: float(_occupancy(device["timeline"], field, first, span).mean())
        / (readers if stage in ("read", "decode") else 1)
        for stage, (field, _) in STAGES.items()
    }


def _extent(devices: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return when the first block began, and for how long blocks ran: seconds."""
    blocks = [times for device in devices for times in device["timeline"]]
    first = min(times["began"] for times in blocks)
    return first, max(times["began"] + times["seconds"] for times in blocks) - first or 1e-9


def _draw_device(
    ax: Any,
    device: Mapping[str, Any],
    readers: int,
    lanes: Sequence[tuple[int, Mapping[str, Any]]],
    first: float,
    span: float,
) -> None:
    edges, places = np.linspace(0, span, _BINS + 1), [0.0]
    for row, (stage, (field, _)) in enumerate(STAGES.items(), start=1):
        capacity = readers if stage in ("read", "decode") else 1
        shares = np.minimum(1, _occupancy(device["timeline"], field, first, span) / capacity)
        ax.stairs(-row + 0.85 * shares, edges, baseline=-row, fill=True, color=_COLOURS[stage])
        ax.axhline(-row, color=_COLOURS["line"], linewidth=0.6)
        places.append(-row + 0.4)
    floor = -len(STAGES) - 0.15
    for lane, times in lanes:
        begins, seconds = times["began"] - first, times["seconds"]
        where = (floor - (lane + 1) / 3, 0.26)
        ax.broken_barh([(begins, seconds)], where, color=_COLOURS["dim"], alpha=0.55, linewidth=0)
        chosen = [(begins, seconds * _prepared(times))]
        ax.broken_barh(chosen, where, color=_COLOURS["warn"], linewidth=0)
    deep = (1 + max(lane for lane, _ in lanes)) / 3
    ax.set_ylim(floor - deep, 0)
    ax.set_xlim(0, span)
    ax.set_yticks([*places[1:], floor - deep / 2], [*STAGES, "blocks"])
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_title(printable(device["device"]), loc="left", fontsize="medium")


def _occupancy(
    blocks: Sequence[Mapping[str, Any]], field: str, first: float, span: float
) -> np.ndarray:
    """Return how many were busy in each interval: float64, (bins,)."""
    edges = first + span * np.arange(_BINS + 1) / _BINS
    found = np.zeros(_BINS)
    for times in blocks:
        ends = times["began"] + times["seconds"]
        begins = times["began"] + times["seconds"] * _prepared(times)
        inside = np.clip(edges[1:], begins, ends) - np.clip(edges[:-1], begins, ends)
        found += inside * (times[field] / max(ends - begins, 1e-9))
    occupancy: np.ndarray = found / (span / _BINS)
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


def _figure(fill: Callable[[Any], Any], name: str) -> Markup:
    """Draw a figure for each kind of screen; the page shows the one that fits."""
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    made = []
    for kind, inches in _WIDTHS.items():
        # References within a drawing lead to it alone: the other one is not shown.
        style: Any = {**_STYLE, "svg.hashsalt": f"{name} {kind}"}
        with mpl.rc_context(style):
            others = mpl.rcParams["axes.prop_cycle"].by_key()["color"][1:]
            mpl.rcParams["axes.prop_cycle"] = cycler(color=[_COLOURS["bar"], *others])
            figure = Figure(figsize=(inches, inches), layout="constrained")
            FigureCanvasSVG(figure)
            fill(figure)
            held = io.StringIO()
            nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure.savefig(held, format="svg", metadata=nothing)
        made.append(f'<div class="figure {kind}">{_inline(held.getvalue())}</div>')
    # matplotlib escapes texts.
    return Markup("".join(made))  # noqa: S704


def _inline(text: str) -> str:
    """Return an SVG file as a part of a page, with the page's colours."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<(style|metadata)\b.*?</\1>|<!--.*?-->", "", text, flags=re.DOTALL)
    for name, colour in _COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    return text.replace("<svg ", '<svg role="img" ', 1)
