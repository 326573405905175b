"""Tables have a row for each output, as NumPy and pyarrow read them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import zarr
from pyarrow import parquet

import chunkfold as cf
from chunkfold.planning.options import Options
from chunkfold.results.results import Results
from chunkfold.workflows.files.writing import check_writing, write_results

pytestmark = pytest.mark.unoptimised

VALUES = np.random.default_rng(0).normal(0, 1, (3, 4, 5)).astype("f4")


def reduced(values: np.ndarray, names: tuple[str, ...] | None, **given) -> Results:
    array = zarr.create_array({}, data=values, chunks=(2,) * values.ndim, dimension_names=names)
    run = cf.submit(array, ["min", "mean"], **given)
    return run.results


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_row_says_where_it_stands_in_the_source(tmp_path: Path):
    one = reduced(VALUES, ("t", "y", "x"), axis=0, selection=(slice(None), slice(1, 4, 2), -1))
    write_results(tmp_path / "a.csv", {"a": one})
    got = rows(tmp_path / "a.csv")
    assert [(row["source"], row["y_position"]) for row in got] == [("a", "1"), ("a", "3")]
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
    assert [(row["source"], row["x_position"]) for row in got][-2:] == [("a", "4"), ("b", "")]
    assert np.float32(got[-1]["mean"]) == cf.reduce(zarr.array(VALUES[0]), "mean")


@pytest.mark.parametrize("dtype", ["f4", "i2", "u8", "c8", "M8[h]", "M8[D]", "f2"])
def test_parquet_keeps_values(tmp_path: Path, dtype: str):
    values = np.arange(12).reshape(3, 4).astype(dtype)
    array = zarr.create_array({}, data=values, chunks=(2, 2))
    op = "sum" if dtype == "c8" else "max"
    run = cf.submit(array, [op], axis=0)
    write_results(tmp_path / "t.parquet", {"": run.results})
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table["axis1"].to_pylist() == [0, 1, 2, 3]
    if dtype == "c8":
        np.testing.assert_array_equal(table["sum.real"].to_numpy(), values.sum(axis=0).real)
    else:
        np.testing.assert_array_equal(table["max"].to_numpy(), values.max(axis=0))


def test_what_a_table_cannot_hold_is_told_before(tmp_path: Path):
    for op, dtype, sentence in (
        ("histogram", None, "histogram has its own axes: write it as .json, .nc or .zarr"),
        ("sum", object, "no data type for Python's integers"),
    ):
        with pytest.raises(cf.PlanError, match=sentence):
            check_writing(tmp_path / "t.parquet", Options(op, dtype=dtype))
    check_writing(tmp_path / "t.csv", Options("sum", dtype=object))
    assert not list(tmp_path.iterdir())


def table(tmp_path: Path, arrays: dict[str, np.ndarray], op: str = "max") -> list[list]:
    """What both kinds of tables say of some arrays."""
    found = {}
    for key, values in arrays.items():
        run = cf.submit(zarr.create_array({}, data=values, chunks=(2,)), [op])
        found[key] = run.results
    write_results(tmp_path / "t.csv", found, overwrite=True)
    write_results(tmp_path / "t.parquet", found, overwrite=True)
    texts = [row[op] for row in rows(tmp_path / "t.csv")]
    return [texts, parquet.read_table(tmp_path / "t.parquet")[op].to_pylist()]


def test_values_of_unlike_dtypes_are_not_rounded(tmp_path: Path):
    large = np.array([2**53 + 1], "i8")
    for other in (np.array([1.5], "f4"), np.array([2**64 - 1], "u8")):
        texts, values = table(tmp_path, {"a": large, "b": other})
        assert texts == [str(large[0]), str(other[0])]
        assert [int(values[0]), float(values[1])] == [large[0], float(other[0])]
    times = {"a": np.array(["3000-01-01"], "M8[s]"), "b": np.array(["2000-01-01"], "M8[ns]")}
    texts, values = table(tmp_path, times)
    assert texts == values
    assert texts[0].startswith("3000-01-01T00:00:00")
    assert table(tmp_path, {"a": np.array([1.5]), "b": times["a"]})[0][0] == "1.5"


@pytest.mark.parametrize(
    ("dtype", "value"), [("M8[10s]", 2), ("m8[ps]", 1500), ("M8[ps]", 7), ("m8[M]", 3), ("m8", 4)]
)
def test_odd_times_keep_their_value(tmp_path: Path, dtype: str, value: int):
    values = np.array([value]).astype(dtype)
    _, (got,) = table(tmp_path, {"a": values})
    if isinstance(got, str):  # exactly, at least
        assert got == str(values[0])
    else:
        assert np.asarray(got).astype(dtype) == values


@pytest.mark.parametrize(
    ("names", "want"),
    [
        (
            ("source", "y", "min"),
            ["source", "source_position", "y_position", "min_position", "min", "mean"],
        ),
        (("x", "x", "y"), ["source", "axis0", "axis1", "y_position", "min", "mean"]),
        (
            (None, "axis0", "y"),
            ["source", "axis0_", "axis0_position", "y_position", "min", "mean"],
        ),
    ],
)
def test_columns_have_names_of_their_own(tmp_path: Path, names: tuple, want: list[str]):
    array = zarr.create_array(
        {}, data=VALUES[..., None], chunks=(2, 2, 2, 1), dimension_names=(*names, "t")
    )
    run = cf.submit(array, ["min", "mean"], axis=3)
    write_results(tmp_path / "t.csv", {"": run.results})
    found = rows(tmp_path / "t.csv")
    assert list(found[0]) == want
    assert len({tuple(row.values())[:4] for row in found}) == VALUES.size


def written(tmp_path: Path, values: dict[str, tuple], **given) -> tuple[list[dict], dict]:
    """What both kinds of tables have of an array `a`, beside which stand coordinates."""
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    shape = tuple(len(values[name][0]) for name in values)
    array = np.arange(np.prod(shape), dtype="f8").reshape(shape)
    group.create_array("a", data=array, dimension_names=list(values))
    for name, (coordinate, said) in values.items():
        group.create_array(name, data=coordinate, dimension_names=[name], attributes=said)
    run = cf.submit(tmp_path / "g.zarr/a", "max", **given)
    one = {"": run.results}
    write_results(tmp_path / "t.csv", one, overwrite=True)
    write_results(tmp_path / "t.parquet", one, overwrite=True)
    return rows(tmp_path / "t.csv"), parquet.read_table(tmp_path / "t.parquet").to_pydict()


def test_a_row_has_the_coordinates_of_its_place(tmp_path: Path):
    coordinates = {
        "time": (np.arange(4), {"units": "days since 2020-02-27", "calendar": "standard"}),
        "lat": (np.array([9, -5, 0], "i2"), {"scale_factor": 0.5, "_FillValue": 0}),
        "name": (np.array(["a", "bc"]), {}),
    }
    given = {"axis": (), "selection": (slice(1, 4, 2), slice(1, None), 1)}
    texts, values = written(tmp_path, coordinates, **given)
    want = [("2020-02-28", "-2.5"), ("2020-02-28", "nan"), ("2020-03-01", "-2.5")]
    assert [(row["time"][:10], row["lat"]) for row in texts][:3] == want
    assert list(values) == ["source", "time", "lat", "max"]
    days = [f"{time:%Y-%m-%d}" for time in values["time"]]
    assert days == ["2020-02-28", "2020-02-28", "2020-03-01", "2020-03-01"]
    assert values["lat"][::2] == [-2.5, -2.5]
    assert [float(row["max"]) for row in texts] == values["max"] == [9, 11, 21, 23]
    texts, values = written(tmp_path, coordinates, axis=("time", "lat"))
    assert [row["name"] for row in texts] == values["name"] == ["a", "bc"]


@pytest.mark.parametrize(
    ("numbers", "said", "want"),
    [
        ([58, 59], {"units": "days since 2001-01-01", "calendar": "360_day"},
         ["2001-02-29T00:00:00", "2001-02-30T00:00:00"]),
        ([0.5, 1.5], {"units": "hours since 2001-01-01", "_FillValue": "AAAAAAAA+D8="},
         ["2001-01-01T00:30:00", "NaT"]),
        ([1, 2], {"units": "months since 2001-01-01"}, ["1", "2"]),
        ([1, 2], {"scale_factor": "not a number"}, ["1", "2"]),
        ([2**53 + 1, 7], {"units": "nanoseconds since 1970-01-01", "_FillValue": 7},
         ["1970-04-15T05:59:59.254740993", "NaT"]),
        (["2001-01-01", "2001-01-02"], {}, ["2001-01-01", "2001-01-02"]),
    ],
)  # fmt: skip
def test_coordinates_are_as_they_are_read(tmp_path: Path, numbers, said: dict, want: list[str]):
    texts, _ = written(tmp_path, {"time": (np.array(numbers), said)}, axis=())
    assert [row["time"] for row in texts] == want


def test_a_coordinate_that_cannot_be_read_leaves_positions(tmp_path: Path):
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    group.create_array("a", data=np.ones((2, 3)), dimension_names=["t", "x"])
    group.create_array("x", data=np.arange(3), dimension_names=["x"])
    (tmp_path / "g.zarr/x/c/0").write_bytes(b"spoiled")
    run = cf.submit(tmp_path / "g.zarr/a", "max", axis=0)
    one = {"": run.results}
    with pytest.warns(RuntimeWarning, match="coordinate 'x' is omitted"):
        write_results(tmp_path / "t.csv", one)
    assert [row["x_position"] for row in rows(tmp_path / "t.csv")] == ["0", "1", "2"]
