"""Results as tables: a row for each output, CSV or Parquet."""

from __future__ import annotations

import csv
import importlib.util
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.printable import printable
from chunkfold.results.coordinate import Coordinate
from chunkfold.results.coordinates import Kept, auxiliary, read_or_left_out
from chunkfold.results.results import Results

_TIMES = ("s", "ms", "us", "ns")
"""Units of time that Parquet has."""
_CALENDAR = ("Y", "M", "W", "D", "h", "m")
"""Units of dates that are seconds without loss."""
_BEGINS = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 # spreadsheets read wide letters, too
"""The first characters of a formula, by OWASP's page on CSV injection."""


def check_table(out: str | Path) -> None:
    """Find out before the work starts whether tables can be written.

    Raises
    ------
    PlanError
        If a package is missing for it.
    """
    if str(out).endswith(".parquet") and importlib.util.find_spec("pyarrow") is None:
        raise PlanError(
            f"output {out}: Parquet needs another package: pip install pyarrow, or write .csv"
        )


def columns(reduced: Mapping[str, Results]) -> dict[str, np.ndarray]:
    """Return one column for the source, one for each axis that is left, and one for each result.

    Those of axes have the axis's name and hold its coordinate: numbers, texts or dates, as xarray
    reads them. Where it has none they hold positions in the source, and are headed so:
    "time_position", and "axis0" of one without a name. Each is an array of shape (rows,); of
    objects where a source has no such axis.
    """
    parts = [_columns(key, one) for key, one in reduced.items()]
    ops = [name for part in parts for name in part.ops]
    names = ["source", *(name for part in parts for name in part.axes), *ops]
    named = {name: _joined([part.column(name) for part in parts]) for name in dict.fromkeys(names)}
    return {_utf8(name): values for name, values in named.items()}


def _utf8(name: str) -> str:
    r"""Spell what of a name is no UTF-8, as of a file: no table can hold it.

    >>> _utf8("n\udcffm")
    'n\\udcffm'
    """
    return name.encode(errors="backslashreplace").decode()


def write_csv(path: Path, reduced: Mapping[str, Results]) -> None:
    """Write a table as CSV: a header, then a row for each output; what is not there is empty."""
    csv_file(path, columns(reduced))


def csv_file(path: Path, made: Mapping[str, np.ndarray]) -> None:
    """Write columns of equal length to a file, as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv_table(file, made)


def csv_table(file: TextIO, made: Mapping[str, np.ndarray]) -> None:
    """Write columns of equal length as CSV."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(shown, made))
    writer.writerows(zip(*map(_shown, made.values()), strict=True))


def _shown(values: np.ndarray) -> Iterable[Any]:
    return values if values.dtype.kind in "biufcmM" else map(shown, values)


def write_parquet(path: Path, reduced: Mapping[str, Results]) -> None:
    """Write a table as Parquet; complex numbers take two columns."""
    parquet_table(path, columns(reduced))


def parquet_table(path: Path, given: Mapping[str, np.ndarray]) -> None:
    """Write columns of equal length as Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    made: dict[str, np.ndarray] = {}
    for name, values in given.items():
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
        if name == "source":
            return np.full(self.rows, _utf8(self.source), object)
        found = {**self.axes, **self.ops}.get(name)
        return np.full(self.rows, None, object) if found is None else found


def _columns(key: str, one: Results) -> _Part:
    layout, kept = one.plan.layout, one.stored.kept
    shape, at = [layout.axes[n].outputs for n in kept.kept], _place_of_groups(one)
    labels = one.plan.labels
    shape[at:at] = [len(label.groups) for label in labels]
    rows = math.prod(shape)
    places = list(np.indices(shape).reshape(len(shape), rows))
    groups = [places.pop(at) for _ in labels]
    part = _Part(rows, key or one.plan.name)
    coordinates = [_coordinate(kept, n) for n in kept.kept]
    names = _column_names(one, kept.kept, [values is not None for values in coordinates])
    for n, name, values, place in zip(kept.kept, names, coordinates, places, strict=True):
        axis = layout.axes[n]
        first = place * (axis.window or 1)
        part.axes[name] = np.asarray(axis.shown)[first] if values is None else values[place]
    columns = list(part.axes.items())
    for number, (label, place) in enumerate(zip(labels, groups, strict=True)):
        taken = {*part.axes, *one.found, "source"}
        own = label.axis + "_" * (label.axis in taken)
        columns.insert(at + number, (own, _plain(label.groups)[place]))
    part.axes = dict(columns)
    for op, value in one.found.items():
        part.ops[op] = np.asarray(value).reshape(-1)
    return part


def _plain(labels: np.ndarray) -> np.ndarray:
    """Return labels as tables have them: dates of calendars as texts."""
    return labels if labels.dtype.kind != "O" else np.array([one.isoformat() for one in labels])


def _place_of_groups(one: Results) -> int:
    """Return before which of the axes that are left groups stand."""
    grouping = one.plan.grouping
    return 0 if grouping is None else sum(n < grouping.first for n in one.stored.kept.kept)


def _coordinate(kept: Kept, axis: int) -> np.ndarray | None:
    """Return the values of an axis's coordinate, as far as selected; None if it has none."""
    name = kept.names[axis]
    found = None if name not in kept.along else auxiliary(kept, str(name), averages=True)
    read = None if found is None else read_or_left_out(kept, found)
    return None if read is None else Coordinate.of(read).values


def _column_names(one: Results, axes: Sequence[int], valued: Sequence[bool]) -> list[str]:
    """Name the columns of axes: as they are named, where no other column is."""
    given = one.names_of(axes) or [None] * len(axes)
    taken = ["source", *one.found]
    names: list[str] = []
    for n, name, has_values in zip(axes, given, valued, strict=True):
        named = name if name is None or has_values else f"{name}_position"
        clear = named is not None and named not in taken and given.count(name) == 1
        column = str(named) if clear else f"axis{n}"
        while column in taken or (not clear and column in given):
            column += "_"
        taken.append(column)
        names.append(column)
    return names


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Put parts below each other; those of unlike dtypes as objects: none is rounded."""
    if len({part.dtype for part in parts}) == 1:
        return np.concatenate(parts)
    joined = np.empty(sum(map(len, parts)), object)
    for n, value in enumerate(value for part in parts for value in part):
        joined[n] = value  # one by one: together NumPy would convert them
    return joined


def _known_to_parquet(values: np.ndarray) -> Any:
    """Return values as Parquet can hold them without change; as texts, if it cannot."""
    if values.dtype.kind in "mM":
        unit, _ = np.datetime_data(values.dtype)
        if unit in _TIMES or (values.dtype.kind == "M" and unit in _CALENDAR):
            return values.astype(f"{values.dtype.kind}8[{unit if unit in _TIMES else 's'}]")
        return values.astype(str)
    if values.dtype.kind != "O":
        return values.astype(np.float32) if values.dtype.name == "bfloat16" else values
    kinds = {type(value) for value in values if value is not None}
    times = any(issubclass(kind, (np.datetime64, np.timedelta64)) for kind in kinds)
    if kinds <= {str, int} or (len(kinds) <= 1 and not times):
        return [value.item() if isinstance(value, np.generic) else value for value in values]
    if all(issubclass(kind, np.floating) for kind in kinds):
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]


def shown(cell: Any) -> Any:
    r"""Return a cell that is `harmless`; a text spelled as `printable` has it.

    >>> shown("a\x1b]0;b\u202ec"), shown("\t=1"), shown(-1.5)
    ('a\\x1b]0;b\\u202ec', "'\\t=1", -1.5)
    """
    kept = harmless(cell)
    return printable(kept) if isinstance(kept, str) else kept


def harmless(cell: Any) -> Any:
    """Return a cell with a quote before what would be a formula; numbers stay as they are.

    >>> harmless("=1+1"), harmless("-1.5"), harmless(-1.5), harmless("air")
    ("'=1+1", '-1.5', -1.5, 'air')
    """
    if not isinstance(cell, str) or not cell.startswith(_BEGINS) or _is_number(cell):
        return cell
    return f"'{cell}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text[0] in "+-"
