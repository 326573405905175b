"""xarray reads results of every reduction as NumPy has them, by what attributes say."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr

import chunkfold as cf
from chunkfold.errors import PackedWarning
from chunkfold.kernels import CATALOGUE
from chunkfold.results.quantities import QUANTITIES
from chunkfold.workflows.files.writing import write_results
from chunkfold.workflows.transforms.normalize import apply, normalization

pytestmark = pytest.mark.unoptimised

NARROW = ("mode", "nunique")
"""Of elements of up to 16 bits."""
ALL = [name for name, monoid in CATALOGUE.items() if monoid.inputs == 1]
OF_FLOATS = [name for name in ALL if not name.startswith("bitwise") and name not in NARROW]
OF_FLOATS += ["p90"]
SAID = {
    "standard_name": "a",
    "long_name": "an a",
    "actual_range": [0, 1],
    "valid_range": [0, 5],
    "valid_max": 5,
    "cell_methods": "area: mean",
    "GRIB_units": "K",
    "_ChunkSizes": [1, 2],
    "flag_meanings": "none",
    "bounds": "there_is_none",
    "history": "made",
}
UNTRUE = {"actual_range", "valid_range", "valid_max", "GRIB_units", "_ChunkSizes", "bounds"}
NAMES = {"standard_name", "long_name"}
ELEMENTS = {"min", "max", "minmax", "mode"}
RANKS = ("median", "p90")
METHODS = {
    "sum": "sum",
    "mean": "mean",
    "min": "minimum",
    "max": "maximum",
    "var": "variance",
    "std": "standard_deviation",
    "sumsq": "sum_of_squares",
    "norminf": "maximum_absolute_value",
    "median": "median",
    "mode": "mode",
}
VALUES = np.random.default_rng(0).integers(1, 7, (4, 3, 2))


def source_of(values: np.ndarray, **said: Any) -> zarr.Array:
    names = ("time", "y", "x")[: values.ndim]
    made = zarr.create_array({}, data=values, chunks=(2,) * values.ndim, dimension_names=names)
    made.attrs.update(said)
    return made


def reopened(out: Path, source: Any, ops: Any, **given: Any) -> tuple[dict[str, Any], Any]:
    """What NumPy, and then xarray with all of its decoding, have of results that were written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PackedWarning)
        run = cf.submit(source, ops, **given)
        found = run.result()
    found = found if isinstance(found, dict) else {run.plan.ops[0]: found}
    write_results(out, {"": run.results})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return found, xarray.open_zarr(out, decode_coords="all").load()


def plain(op: str) -> str:
    return op.removeprefix("nan")


def test_every_reduction_is_in_the_table():
    named = {name.partition("/")[0] for name in QUANTITIES}
    assert named == {*map(plain, CATALOGUE), "quantile"}


def test_results_of_dates_are_dates_only_where_they_are(tmp_path: Path):
    units = "days since 2000-01-01"
    values = VALUES / 4
    source = source_of(values, **SAID, units=units, calendar="standard")
    found, made = reopened(tmp_path / "o.zarr", source, OF_FLOATS, axis=0)
    since = np.datetime64("2000-01-01", "ns")
    for op in set(OF_FLOATS) - {"histogram"}:
        read, want = made[op], found[op]
        if plain(op) in (*ELEMENTS, *RANKS, "mean"):
            want = since + (want * 86_400e9).round().astype("m8[ns]")
        assert read.dtype.kind == want.dtype.kind
        np.testing.assert_allclose(read.values.astype(float), want.astype(float))
        left = read.attrs.keys() | read.encoding.keys()
        assert ("units" in left) == (plain(op) in (*ELEMENTS, *RANKS, "mean", "std"))
        assert ("calendar" in left) == (plain(op) in (*ELEMENTS, *RANKS, "mean"))
        assert not left & UNTRUE
        if plain(op) not in (*METHODS, "minmax", "p90"):
            assert not left & NAMES
        method = METHODS.get(plain(op))
        assert read.attrs.get("cell_methods") == (method and f"area: mean time: {method}")
        assert read.attrs["history"] == "made"
    assert made["std"].attrs["units"] == "days"
    assert made["mean"].attrs["long_name"] == "an a"
    bins = xarray.open_zarr(tmp_path / "o.zarr", group="histogram").load()
    assert bins["count"].dtype.kind == "i"
    assert not bins["count"].attrs.keys() & {"units", *NAMES}
    assert bins["left"].values[0] == since + np.timedelta64(6, "h")


def test_numbers_that_are_no_dates_hide_none_that_are(tmp_path: Path):
    """xarray stores NaT as the least integer, and reads nothing beside what is no date at all."""
    stored = np.array([[0, np.iinfo(np.int64).min], [2, 4]])
    source = source_of(stored, units="days since 2000-01-03", calendar="standard")
    found, made = reopened(tmp_path / "o.zarr", source, ["min", "max", "mean"], axis=0)
    assert made["max"].values.astype("M8[D]").tolist() == [
        date.item() for date in np.array(["2000-01-05", "2000-01-07"], "M8[D]")
    ]
    assert np.isnat(made["min"].values).tolist() == [False, True]
    np.testing.assert_array_equal(made["mean"], found["mean"])


@pytest.mark.parametrize("scale", [0.5, -0.5])
@pytest.mark.parametrize("unpacked", [False, True])
def test_results_of_packed_numbers_stand_for_what_they_say(
    tmp_path: Path, scale: float, *, unpacked: bool
):
    said = {"units": "K", "scale_factor": scale, "add_offset": 20.0, "_FillValue": -99}
    stored = VALUES.astype("i2")
    stored[0, 0, 0] = -99  # missing, or a number as any other
    source = source_of(stored, **SAID, **said)
    ops = [*OF_FLOATS, *(() if unpacked else ("bitwise_or",))]
    found, made = reopened(tmp_path / "o.zarr", source, ops, axis=0, mask_and_scale=unpacked)
    values = stored * scale + 20
    for op in set(ops) - {"histogram"}:
        read = made[op]
        left = read.attrs.keys() | read.encoding.keys()
        assert not left & (UNTRUE | {"_FillValue"})
        if unpacked:
            np.testing.assert_allclose(read, found[op])
            assert not left & {"scale_factor", "add_offset"}
        elif plain(op) in ("mean", "std", "median", *((*ELEMENTS, "p90") if scale > 0 else ())):
            pair = (values.min(axis=0), values.max(axis=0))
            ranks = {"minmax": np.stack(pair, -1), "median": np.median(values, axis=0)}
            ranks |= {"p90": np.quantile(values, 0.9, axis=0)}
            name = plain(op)
            want = ranks[name] if name in ranks else getattr(values, name)(axis=0)
            np.testing.assert_allclose(read, want)
            assert read.attrs["units"] == "K"
        else:  # of the numbers that are stored, whose least is not that of the values
            np.testing.assert_array_equal(read, found[op])
            assert not left & {"units", "cell_methods", *NAMES}


def test_what_is_read_as_another_sign_is_not_packed_as_its_extremes(tmp_path: Path):
    source = source_of(VALUES.astype("i1") - 4, _Unsigned="true", units="m")
    found, made = reopened(tmp_path / "o.zarr", source, ["min", "mean"], axis=0)
    for op, values in found.items():
        np.testing.assert_array_equal(made[op], values)
        assert not made[op].attrs.keys() & {"units", "_Unsigned"}


def test_truths_that_xarray_stores_as_numbers_become_numbers(tmp_path: Path):
    source = source_of((VALUES > 2).astype("i1"), dtype="bool", _FillValue=-1)
    found, made = reopened(tmp_path / "o.zarr", source, ALL, axis=0)
    for op in set(ALL) - {"histogram"}:
        want = found[op].astype(bool) if plain(op) in ELEMENTS else found[op]
        assert made[op].dtype == want.dtype
        np.testing.assert_array_equal(made[op], want)


def test_times_that_xarray_stores_as_numbers_stay_times(tmp_path: Path):
    said = {"units": "hours", "dtype": "timedelta64[ns]"}
    ops = ["min", "mean", "std", "sum", "var", "count", "argmax"]
    found, made = reopened(tmp_path / "o.zarr", source_of(VALUES, **said), ops, axis=0)
    for op, values in found.items():
        is_time = op in ("min", "mean", "std", "sum")
        want = (values * 3600e9).astype("m8[ns]") if is_time else values
        np.testing.assert_array_equal(made[op], want)


@pytest.mark.parametrize(
    ("units", "of_std", "of_sum"),
    [
        ("degC", "K", None),
        ("degrees_Celsius", "K", None),
        ("degF", "degR", None),
        ("K @ 273.15", "K", None),
        ("hours since 1900-01-01 00:00:0.0", "hours", None),
        ("K", "K", "K"),
        ("C", "C", "C"),  # coulomb
        ("degrees_north", "degrees_north", "degrees_north"),
    ],
)
def test_scales_whose_zero_is_somewhere_have_no_sums(tmp_path: Path, units, of_std, of_sum):
    given = source_of(np.ones((2, 2, 2)), units=units, standard_name="s")
    run = cf.submit(given, ["std", "sum"], axis=0)
    one = run.results
    said = [one[op].attrs for op in ("std", "sum")]
    assert [attributes.get("units") for attributes in said] == [of_std, of_sum]
    same = [units == of_std, units == of_sum]
    assert ["standard_name" in attributes for attributes in said] == same


def test_flags_hold_of_elements_and_their_bits(tmp_path: Path):
    said = {"flag_values": [1, 2], "flag_masks": [1, 2], "flag_meanings": "a b"}
    ops = ["max", "bitwise_or", "mean", "count"]
    _, made = reopened(tmp_path / "o.zarr", source_of(VALUES.astype("u1"), **said), ops, axis=0)
    left = {op: {name for name in made[op].attrs if name.startswith("flag")} for op in ops}
    masks = {"flag_masks", "flag_meanings"}
    assert left == {
        "max": {"flag_values", *masks},
        "bitwise_or": masks,
        "mean": set(),
        "count": set(),
    }


@pytest.mark.parametrize("names", [None, (None, "y", "x"), ("a time", "y", "x")])
def test_axes_that_cell_methods_cannot_name_have_none(tmp_path: Path, names):
    made = zarr.create_array({}, data=VALUES, dimension_names=names)
    made.attrs["cell_methods"] = "area: mean"
    run = cf.submit(made, "max", axis=0)
    one = run.results
    assert "cell_methods" not in one["max"].attrs


def test_what_compares_arrays_of_other_units_has_none():
    first, same, other = (source_of(VALUES * 1.0, units=units) for units in ("m", "m", "km"))
    units = []
    for pair in ((first, same), (first, other)):
        run = cf.submit(pair, ["max_abs_diff", "dot"])
        one = run.results
        units += [one[op].attrs.get("units") for op in one]
    assert units == ["m", None, None, None]


def test_a_reduction_of_your_own_is_another_quantity_whatever_its_name(tmp_path: Path):
    mine = cf.Monoid("max", fields={"s": "float64"}, zero=0, lift=lambda x: x * x, op="add")
    _, made = reopened(tmp_path / "o.zarr", source_of(VALUES * 1.0, units="m"), mine, axis=0)
    assert "units" not in made["max"].attrs
    _, made = reopened(tmp_path / "p.zarr", source_of(VALUES * 1.0, units="m"), "max", axis=0)
    assert made["max"].attrs["units"] == "m"


def test_normalized_values_are_no_more_what_they_were(tmp_path: Path):
    source = source_of(VALUES * 1.0, **SAID, units="K", grid_mapping="crs", dtype="float64")
    made = apply(source, normalization(source), tmp_path / "n.zarr")
    assert set(made.attrs) == {"history", "chunkfold"}
