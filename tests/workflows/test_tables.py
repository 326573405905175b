"""Tables have a row for each output, as NumPy and pyarrow read them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import zarr
from pyarrow import parquet

import chunkfold as cf
from chunkfold.workflows.reduced import Reduced
from chunkfold.workflows.writing import check_writing, write_results

pytestmark = pytest.mark.unoptimised

VALUES = np.random.default_rng(0).normal(0, 1, (3, 4, 5)).astype("f4")


def reduced(values: np.ndarray, names: tuple[str, ...] | None, **given) -> Reduced:
    array = zarr.create_array({}, data=values, chunks=(2,) * values.ndim, dimension_names=names)
    run = cf.submit(array, ["min", "mean"], **given)
    return Reduced(run.plan, run.result(), given)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_row_says_where_it_stands_in_the_source(tmp_path: Path):
    one = reduced(VALUES, ("t", "y", "x"), axis=0, selection=(slice(None), slice(1, 4, 2), -1))
    write_results(tmp_path / "a.csv", {"a": one})
    got = rows(tmp_path / "a.csv")
    assert [(row["source"], row["y"]) for row in got] == [("a", "1"), ("a", "3")]
    np.testing.assert_array_equal(
        np.float32([row["min"] for row in got]), VALUES[:, 1:4:2, -1].min(axis=0)
    )
    kept = reduced(VALUES, None, axis=(0, 1), keepdims=True)
    write_results(tmp_path / "b.csv", {"": kept})
    assert list(rows(tmp_path / "b.csv")[0]) == ["source", "axis2", "min", "mean"]


def test_sources_with_other_axes_share_a_table(tmp_path: Path):
    both = {"a": reduced(VALUES, ("t", "y", "x"), axis=(0, 1)), "b": reduced(VALUES[0], None)}
    write_results(tmp_path / "t.csv", both)
    got = rows(tmp_path / "t.csv")
    assert [(row["source"], row["x"]) for row in got][-2:] == [("a", "4"), ("b", "")]
    assert np.float32(got[-1]["mean"]) == cf.reduce(zarr.array(VALUES[0]), "mean")


@pytest.mark.parametrize("dtype", ["f4", "i2", "u8", "c8", "M8[h]", "M8[D]", "f2"])
def test_parquet_keeps_values(tmp_path: Path, dtype: str):
    values = np.arange(12).reshape(3, 4).astype(dtype)
    array = zarr.create_array({}, data=values, chunks=(2, 2))
    op = "sum" if dtype == "c8" else "max"
    run = cf.submit(array, [op], axis=0)
    write_results(tmp_path / "t.parquet", {"": Reduced(run.plan, run.result(), {})})
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table["axis1"].to_pylist() == [0, 1, 2, 3]
    if dtype == "c8":
        np.testing.assert_array_equal(table["sum.real"].to_numpy(), values.sum(axis=0).real)
    else:
        np.testing.assert_array_equal(table["max"].to_numpy(), values.max(axis=0))


def test_what_a_table_cannot_hold_is_told_before(tmp_path: Path):
    for op, dtype, sentence in (
        ("histogram", None, "histogram has axes of its own: write it as .json or .zarr"),
        ("sum", object, "no data type for Python's integers"),
    ):
        with pytest.raises(cf.PlanError, match=sentence):
            check_writing(tmp_path / "t.parquet", op, dtype)
    check_writing(tmp_path / "t.csv", "sum", object)
    assert not list(tmp_path.iterdir())
