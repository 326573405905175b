"""Pictures of results are drawn by matplotlib, panel by panel, and their labels once."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.results import panels
from chunkfold.results.picture_labels import dated, title_of, value_label
from chunkfold.results.pictures import Drawable, Picture, pictures

_PANEL_INCHES = 2.0
"""The least width of a panel."""
_LETTER_INCHES = 0.085
"""The width of a letter, as matplotlib writes."""


def plotted(found: Drawable, ax: Any, given: Mapping[str, Any]) -> Any:
    """Draw on a new figure of pyplot's, or on some axes; return axes, of several an array.

    Raises
    ------
    PlanError
        If it cannot be drawn.
    ImportError
        If matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise ImportError("matplotlib is not installed: pip install 'chunkfold[plot]'") from None
    figure = None
    if ax is None:
        pictures(found)  # what cannot be drawn leaves no figure
        figure = plt.figure(layout="constrained")
    axes = draw(found, figure, ax, **given)
    return axes[0] if len(axes) == 1 else np.array(axes, object)


def draw(
    found: Drawable,
    figure: Any = None,
    ax: Any = None,
    **given: Any,
) -> list[Any]:
    """Draw all pictures of a result below each other, and return matplotlib's axes.

    Parameters
    ----------
    figure
        Figure that is drawn on; its height follows from what is drawn.
    ax
        Axes that are drawn on instead, if there is one panel.
    given
        Arguments of matplotlib's function that draws: `cmap`, `vmin`, `vmax`, `color`.

    Raises
    ------
    PlanError
        If it cannot be drawn: all results are single numbers, complex, or have too many axes.
    """
    import matplotlib as mpl

    made = pictures(found)
    with mpl.rc_context({"text.parse_math": False}):  # names may have a $
        return _drawn(made, figure, ax, given)


def _drawn(made: Sequence[Picture], figure: Any, ax: Any, given: Mapping[str, Any]) -> list[Any]:
    if ax is not None:
        if len(made) > 1 or made[0].count > 1:
            panels_ = sum(one.count for one in made)
            raise PlanError(f"ax is one axes, but the result has {panels_} panels: omit ax")
        _fill(made[0], [ax], ax.figure, math.inf, given)
        return [ax]
    width = figure.get_figwidth()
    grids = [_grid(one, width) for one in made]
    heights = [height for _, _, height in grids]
    figure.set_figheight(sum(heights))
    parts = [figure]
    if len(made) > 1:
        parts = list(figure.subfigures(len(made), 1, height_ratios=heights))
    drawn: list[Any] = []
    for one, part, (rows, columns, _) in zip(made, parts, grids, strict=True):
        axes = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for unused in axes[one.count :]:
            unused.set_axis_off()
        _fill(one, list(axes[: one.count]), part, _room(one, width) / columns, given)
        if one.count > 1:
            _share_labels(list(axes[: one.count]), part, columns)
            part.suptitle(_wrapped(title_of(one.values), width), fontsize="medium")
        drawn += list(axes[: one.count])
    return drawn


def _share_labels(axes: Sequence[Any], part: Any, columns: int) -> None:
    """Write the labels of small multiples once."""
    part.supxlabel(axes[0].get_xlabel(), fontsize="medium")
    part.supylabel(axes[0].get_ylabel(), fontsize="medium")
    for ax in axes:
        ax.set(xlabel="", ylabel="")
    for lowest in axes[-columns:]:
        lowest.tick_params(labelbottom=True)


def _fill(
    picture: Picture, axes: Sequence[Any], figure: Any, inches: float, given: Mapping[str, Any]
) -> None:
    """Draw the panels of a picture on as many axes so wide; maps share their colours."""
    function, drawn = getattr(panels, picture.kind), None
    given = {**panels.common(picture.kind, picture.values), **given}
    for ax, (title, part) in zip(axes, picture.parts(), strict=True):
        drawn = function(ax, part, picture.core, **given) or drawn
        ax.set_title(_wrapped(title or title_of(part), inches), fontsize="medium")
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=list(axes), label=value_label(picture.values))
        dated(bar.ax.yaxis, picture.values)


def _wrapped(title: str, inches: float) -> str:
    """Break a title that is wider than what it stands above."""
    letters = max(int(inches / _LETTER_INCHES), 8) if inches < math.inf else len(title) + 1
    return textwrap.fill(title, letters)


def _room(picture: Picture, width: float) -> float:
    """Return how wide all panels beside each other are, in inches: labels stand beside them."""
    return width - (1.6 if picture.kind == "colours" else 0.7)


def _grid(picture: Picture, width: float) -> tuple[int, int, float]:
    """Return rows, columns, and the height of all in inches."""
    rows = math.ceil(picture.count / min(max(1, int(width / _PANEL_INCHES)), 4))
    columns = math.ceil(picture.count / rows)
    maps = picture.kind == "colours"
    wide = _room(picture, width) / columns
    ratio = panels.aspect(picture.values, picture.core) if maps else None
    tall = min(max(wide * (0.45 if ratio is None else ratio), 1.0), 1.5 * width)
    return rows, columns, rows * (tall + 0.3) + (0.8 if picture.count > 1 else 0.5)
