"""Pictures of the chunks of an array: which are sound, and what the worst of others is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from chunkfold.workflows.checks.finding_kinds import FindingKind
from chunkfold.workflows.checks.findings import CheckedArray

_SOUND = "\N{MIDDLE DOT}"
_MARKS: Mapping[FindingKind, str] = {
    FindingKind.CHANGED: "~",
    FindingKind.MISSING: "-",
    FindingKind.CONSTANT: "=",
    FindingKind.FILL: "o",
    FindingKind.NAN: "n",
    FindingKind.INFINITE: "i",
    FindingKind.OUTSIDE: "!",
    FindingKind.DAMAGED: "D",
    FindingKind.UNREADABLE: "X",
}
_COLORS: Mapping[FindingKind | None, str] = {
    None: "#d8e2dc",
    FindingKind.CHANGED: "#e9c46a",
    FindingKind.MISSING: "#ffffff",
    FindingKind.CONSTANT: "#8d99ae",
    FindingKind.FILL: "#457b9d",
    FindingKind.NAN: "#1d3557",
    FindingKind.INFINITE: "#9d4edd",
    FindingKind.OUTSIDE: "#f4a261",
    FindingKind.DAMAGED: "#e76f51",
    FindingKind.UNREADABLE: "#d1495b",
}
_MOST_ROWS, _MOST_CELLS = 16, 1200
"""Rows of a picture of characters, and cells of one of pixels along either axis."""


def laid_out(states: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Lay a grid out on two axes, the first to the right, all others downwards in C order.

    Where there is no room for each chunk a cell has the worst of several.

    >>> laid_out(np.array([[0, 1], [2, 0], [0, 0]], np.uint8), 9, 2).tolist()
    [[0, 2], [1, 0]]
    """
    flat = states.reshape(states.shape[0] if states.ndim else 1, -1).T
    for axis, most in enumerate((rows, columns)):
        size = flat.shape[axis]
        if size > most:
            begins = np.arange(most) * size // most
            flat = np.maximum.reduceat(flat, begins, axis=axis)
    return flat


def grid_lines(array: CheckedArray, width: int) -> Iterator[str]:
    """Draw the chunks of an array by characters; nothing if all of them are sound, or one is all.

    Ends with what the characters mean.
    """
    states = array.states
    if states is None or states.size < 2 or not states.any():
        return
    drawn = laid_out(states, _MOST_ROWS, width)
    grid = "x".join(map(str, states.shape))
    shared = states.size / drawn.size
    cells = f", a character for up to {int(np.ceil(shared)):,}" if shared > 1 else ""
    yield f"{array.name}: {grid} chunks, the first axis to the right{cells}"
    marks = np.array([_SOUND, *(_MARKS.get(kind, "?") for kind in FindingKind)])
    for row in marks[drawn]:
        yield "".join(row)
    kinds = list(FindingKind)
    seen = (kinds[n - 1] for n in np.unique(drawn) if n)
    yield "  ".join([f"{_SOUND} sound", *(f"{_MARKS[kind]} {kind}" for kind in seen)])


def draw_grids(path: Path, arrays: Sequence[CheckedArray]) -> None:
    """Draw the chunks of arrays as a picture, a panel for each array that has several."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    shown = [one for one in arrays if one.states is not None and one.states.size > 1]
    figure = Figure(figsize=(9, 1 + 1.6 * max(1, len(shown))), layout="constrained")
    panels = figure.subplots(max(1, len(shown)), squeeze=False)[:, 0]
    kinds: list[FindingKind | None] = [None, *_MARKS]
    colors = ListedColormap([_COLORS[kind] for kind in kinds])
    for panel, one in zip(panels, shown, strict=False):
        assert one.states is not None
        cells = laid_out(one.states, _MOST_CELLS, _MOST_CELLS)
        panel.imshow(
            cells, colors, vmin=0, vmax=len(kinds) - 1, aspect="auto", interpolation="none"
        )
        panel.set_title(f"{one.name}: {'x'.join(map(str, one.states.shape))} chunks", fontsize=9)
        panel.set_xticks([])
        panel.set_yticks([])
    legend = [
        Patch(facecolor=_COLORS[one], edgecolor="#2b2d42", label=one or "sound") for one in kinds
    ]
    figure.legend(handles=legend, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path)
