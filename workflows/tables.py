"""Results as tables: a row for each output, CSV or Parquet."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.workflows.reduced import Reduced

_TIMES = ("s", "ms", "us", "ns")
"""Units of time that Parquet has."""


def check_table(out: str | Path) -> None:
    """Find out before the work starts whether tables can be written.

    Raises
    ------
    PlanError
        If a package is missing for it.
    """
    if str(out).endswith(".parquet") and importlib.util.find_spec("pyarrow") is None:
        raise PlanError(
            f"output {out}: Parquet needs another package; try pip install 'chunkfold[parquet]', "
            "or write .csv"
        )


def columns(reduced: Mapping[str, Reduced]) -> dict[str, np.ndarray]:
    """Return one column for the source, one for each axis that is left, and one for each result.

    Axes have their names, or "axis0" and so on; what stands there are positions in the source. Each
    is an array of shape (rows,); of objects where a source has no such axis.
    """
    parts = [_columns(key, one) for key, one in reduced.items()]
    ops = [name for part in parts for name in part.ops]
    names = ["source", *(name for part in parts for name in part.axes), *ops]
    return {name: _joined([part.column(name) for part in parts]) for name in dict.fromkeys(names)}


def write_csv(path: Path, reduced: Mapping[str, Reduced]) -> None:
    """Write a table as CSV: a header, then a row for each output; what is not there is empty."""
    made = columns(reduced)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(made)
        writer.writerows(zip(*made.values(), strict=True))


def write_parquet(path: Path, reduced: Mapping[str, Reduced]) -> None:
    """Write a table as Parquet; complex numbers take two columns."""
    import pyarrow as pa
    from pyarrow import parquet

    made: dict[str, np.ndarray] = {}
    for name, values in columns(reduced).items():
        if values.dtype.kind == "c":
            made |= {f"{name}.real": values.real, f"{name}.imag": values.imag}
        else:
            made[name] = _known_to_parquet(values)
    parquet.write_table(pa.table(made), path)


class _Part:
    """The columns of one source."""

    def __init__(self, rows: int, source: str) -> None:
        self.rows, self.source = rows, source
        self.axes: dict[str, np.ndarray] = {}
        self.ops: dict[str, np.ndarray] = {}

    def column(self, name: str) -> np.ndarray:
        """Return a column, of None where there is none."""
        if name in self.ops or name in self.axes:
            return self.ops.get(name, self.axes.get(name, np.empty(0)))
        return np.full(self.rows, self.source if name == "source" else None, object)


def _columns(key: str, one: Reduced) -> _Part:
    layout = one.plan.layout
    shape = tuple(layout.shape[n] for n in layout.kept)
    places = np.indices(shape)
    part = _Part(int(np.prod(shape, dtype=np.int64)), key or one.plan.name)
    alive = [n for n in layout.kept if not layout.axes[n].dropped]
    names = one.names_of(alive) or [None] * len(alive)
    for n, name in zip(alive, names, strict=True):
        axis = layout.axes[n]
        part.axes[name or f"axis{n}"] = axis.start + axis.step * places[
            layout.kept.index(n)
        ].reshape(-1)
    for op, value in one.results.items():
        part.ops[op] = np.asarray(value).reshape(-1)
    return part


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _known_to_parquet(values: np.ndarray) -> Any:
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] not in _TIMES:
        return values.astype(f"{values.dtype.kind}8[s]")
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values
