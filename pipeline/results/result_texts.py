"""Results as text, and as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.results.coordinate import Coordinate

if TYPE_CHECKING:
    from chunkfold.results.result import Result

_ENDS = 3
"""Values of a coordinate that are shown at each end."""
_ELEMENTS = 100
"""Values of a result that are all shown."""
_WIDTH = 70


def as_text(result: Result) -> str:
    """Return a result as text: values, coordinates, attributes."""
    coords = [list(_cells(one)) for one in result.coordinates.values()]
    widths = [max(map(len, column)) for column in zip(*coords, strict=True)]
    lines = [f"<chunkfold.Result {_headline(result)}>", _values(result)]
    lines += ["Coordinates:"] if coords else []
    lines += ["  " + "  ".join(map(str.ljust, cells, widths)).rstrip() for cells in coords]
    lines += ["Attributes:"] if result.attrs else []
    lines += [f"  {name}: {_cut(said)}" for name, said in result.attrs.items()]
    return "\n".join(lines)


def as_html(result: Result) -> str:
    """Return a result as a notebook shows it."""
    coords = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(one))}</tr>"
        for one in result.coordinates.values()
    )
    attrs = "".join(
        f"<tr><td>{escape(str(name))}</td><td>{escape(_cut(said))}</td></tr>"
        for name, said in result.attrs.items()
    )
    return (
        f"<div><b>chunkfold.Result</b> {escape(_headline(result))}"
        f"<pre>{escape(_values(result))}</pre>"
        f"{_folded('Coordinates', len(result.coordinates), coords)}"
        f"{_folded('Attributes', len(result.attrs), attrs)}</div>"
    )


def _folded(title: str, count: int, rows: str) -> str:
    if not count:
        return ""
    return f"<details open><summary>{title} ({count})</summary><table>{rows}</table></details>"


def _headline(result: Result) -> str:
    axes = ", ".join(f"{n}: {size}" for n, size in zip(result.dims, result.shape, strict=True))
    units = f" in {result.units}" if result.units is not None else ""
    return f"{result.name!r} ({axes}), {result.dtype}{units}"


def _values(result: Result) -> str:
    return np.array2string(np.asarray(result.values), threshold=_ELEMENTS, max_line_width=_WIDTH)


def _cells(one: Coordinate) -> Iterator[str]:
    values = np.asarray(one.values)
    yield one.name
    yield f"({', '.join(one.dims)})"
    yield "text" if values.dtype.kind in "OTU" else str(values.dtype)
    yield " ".join(_ends(values.reshape(-1)))


def _ends(values: np.ndarray) -> Iterator[str]:
    few = values.size <= 2 * _ENDS
    yield from map(str, values if few else values[:_ENDS])
    if not few:
        yield "..."
        yield from map(str, values[-_ENDS:])


def _cut(said: Any) -> str:
    text = " ".join(str(said).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
