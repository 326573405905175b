"""Plots of measurements, for talks and reports."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chunkfold.errors import PlanError

_HIGHLIGHT, _OTHER, _LINE, _INK = "#d1495b", "#8d99ae", "#2b2d42", "#2b2d42"


def check_plot(path: Path) -> None:
    """Find out whether a plot of that name can be drawn here.

    Raises
    ------
    PlanError
        If matplotlib is missing, or does not know the file's ending.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise PlanError("--plot needs matplotlib: pip install matplotlib")
    known = _figure((1, 1)).canvas.get_supported_filetypes()
    if path.suffix[1:] not in known:
        raise PlanError(f"--plot {path}: no such kind of picture; use one of {', '.join(known)}")


def bar_chart(
    path: Path,
    groups: Mapping[str, Mapping[str, float]],
    *,
    highlight: str,
    line: str,
    unit: str,
) -> None:
    """Draw a panel of horizontal bars for each group.

    `highlight` begins the names of the bars that stand out, `line` names the value drawn as a line
    across its panel.
    """
    columns = min(2, len(groups)) or 1
    rows = max(1, math.ceil(len(groups) / columns))
    most = max((len(bars) for bars in groups.values()), default=1)
    figure = _figure((7 * columns, rows * (0.9 + 0.3 * most)))
    for number, (title, bars) in enumerate(groups.items(), start=1):
        axes = figure.add_subplot(rows, columns, number)
        names = [name for name in bars if name != line]
        values = [bars[name] for name in names]
        colors = [_HIGHLIGHT if name.startswith(highlight) else _OTHER for name in names]
        axes.barh(names, values, color=colors, height=0.7)
        for place, value in enumerate(values):
            axes.text(value, place, f" {_rate(value)}", va="center", fontsize=8, color=_INK)
        if line in bars:
            axes.axvline(bars[line], color=_LINE, linewidth=1, linestyle="--")
            axes.text(bars[line], -0.8, f"{line} {_rate(bars[line])} ", ha="right", fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.15 * max(bars.values(), default=1.0))
        axes.set_title(title, fontsize=10, loc="left", color=_INK, pad=16)
        axes.set_xlabel(unit, fontsize=8)
        axes.tick_params(labelsize=8, length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)


def _rate(value: float) -> str:
    """Write three digits, or all of a larger number.

    >>> _rate(3933.8), _rate(6.393), _rate(0.051)
    ('3,934', '6.39', '0.051')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _figure(inches: tuple[float, float]) -> Any:
    """Return a figure that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=inches)
    FigureCanvasAgg(figure)
    return figure
