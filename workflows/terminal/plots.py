"""Pictures of results and of measurements, in files and in terminals."""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.outputs.outputs import check_writable, staged
from chunkfold.results.as_xarray import array_of
from chunkfold.results.drawing import draw
from chunkfold.results.pictures import Drawable
from chunkfold.results.result import Result
from chunkfold.workflows.describe import Description
from chunkfold.workflows.terminal.terminal_pictures import show_picture, shows_pictures

TERMINAL = "-"
"""The name of the terminal among files."""
_WIDTH = 8.0
"""Inches of a picture."""
_HIGHLIGHT, _OTHER, _LINE, _INK = "#d1495b", "#8d99ae", "#2b2d42", "#2b2d42"


def check_plot(path: str | Path | None, *needed: str, overwrite: bool = False) -> None:
    """Find out before the work starts whether a picture of that name can be drawn and written.

    Parameters
    ----------
    path
        A file; "-": the terminal; None: nowhere.
    needed
        Packages that are needed beside matplotlib.

    Raises
    ------
    PlanError
        If a package is missing, matplotlib does not know the file's ending, the file cannot be
        written, or the terminal shows no pictures.
    """
    if path is None:
        return
    lacking = [name for name in ("matplotlib", *needed) if importlib.util.find_spec(name) is None]
    if lacking:
        raise PlanError(f"a picture needs {' and '.join(lacking)}: pip install 'chunkfold[plot]'")
    if str(path) == TERMINAL:
        if not shows_pictures():
            raise PlanError(
                "standard output is not a terminal that is known to show pictures, as kitty, "
                "iTerm2, WezTerm and Ghostty do: name a file, as map.png"
            )
        return
    known = _figure((1, 1)).canvas.get_supported_filetypes()
    if Path(path).suffix[1:] not in known:
        raise PlanError(f"--plot {path}: no such kind of picture; use one of {', '.join(known)}")
    check_writable(path, overwrite=overwrite)


def save_plot(
    path: str | Path | None, found: Callable[[], Drawable], *, overwrite: bool = False
) -> None:
    """Draw what a function finds to a file, or to the terminal (`TERMINAL`); None: nowhere.

    Raises
    ------
    PlanError
        If they cannot be drawn.
    """
    if path is None:
        return
    figure = _figure((_WIDTH, _WIDTH))
    draw(found(), figure)
    if str(path) == TERMINAL:
        made = io.BytesIO()
        figure.savefig(made, format="png")
        show_picture(made.getvalue())
        return
    with staged(path, overwrite=overwrite) as there:
        figure.savefig(there, dpi=150)


def drawable(answers: Mapping[str, Any]) -> Drawable:
    """Return the results of a run's questions as they are drawn; those of one without its name."""
    found = {
        name: {op: one.to_xarray() for op, one in answer.results.items()}
        for name, answer in answers.items()
    }
    return found.get("", found)


def histograms(descriptions: Sequence[Description]) -> Drawable:
    """Return the histograms of arrays that were described, as they are drawn."""
    found = {}
    for one in descriptions:
        if len(bins := one.statistics.get("histogram", ())):
            name = one.name.rpartition("/")[2]
            parts = {field: Result(field, bins[field], ("bin",), {}) for field in bins.dtype.names}
            found[name] = array_of(Result(name, bins, ("bin",), {}, parts=parts))
    return found


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

    figure = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
