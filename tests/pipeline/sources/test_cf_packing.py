"""Attributes that say what stored numbers stand for, and reductions of what they do."""

from __future__ import annotations

import base64
import json
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

import chunkfold as cf
from chunkfold.errors import PackedWarning
from chunkfold.kernels import Packing
from chunkfold.planning import planner
from chunkfold.sources.cf_packing import packing_attributes, packing_of, unapplied
from chunkfold.sources.opening import open_each, open_source

pytestmark = pytest.mark.unoptimised


def array_of(dtype: str, attributes: dict, **kwargs) -> zarr.Array:
    return zarr.create_array({}, shape=(4,), dtype=dtype, attributes=attributes, **kwargs)


def coded(number: float) -> str:
    """Write a float as xarray does in format 3."""
    return base64.b64encode(struct.pack("<d", number)).decode()


@pytest.mark.parametrize(
    ("dtype", "attributes", "packing"),
    [
        ("i2", {}, None),
        ("i2", {"scale_factor": 1, "add_offset": 0.0, "_FillValue": 1e20}, Packing(widens=True)),
        ("i2", {"scale_factor": 0.01, "add_offset": 273}, Packing(0.01, 273.0)),
        ("i2", {"scale_factor": [0.5]}, Packing(0.5)),
        ("i2", {"_FillValue": -1, "missing_value": [-1, -2, 0.5]}, Packing(missing=(-1, -2))),
        ("i1", {"_Unsigned": "true", "_FillValue": -1}, Packing(missing=(255,), stored="uint8")),
        ("u2", {"_Unsigned": "false", "_FillValue": 65535}, Packing(missing=(-1,), stored="int16")),
        (
            "i1",
            {"_Unsigned": "true", "missing_value": [-1, 9]},
            Packing(missing=(9,), stored="uint8"),
        ),
        ("i1", {"_Unsigned": True, "missing_value": -1}, Packing(missing=(-1,))),
        ("f4", {"_FillValue": coded(1e36)}, Packing(missing=(float(np.float32(1e36)),))),
        ("f4", {"_FillValue": coded(float("nan")), "missing_value": "NaN"}, None),
        ("f4", {"missing_value": 1e300}, None),
        ("M8[s]", {"_FillValue": -1}, None),
        ("i8", {"_FillValue": 2.0**63}, Packing(missing=(2**63 - 1,))),
        ("i8", {"_FillValue": 2.0**64}, None),
        (
            "i8",
            {"_Unsigned": "true", "_FillValue": 2.0**64},
            Packing(missing=(2**64 - 1,), stored="uint64"),
        ),
        ("i4", {"_FillValue": -(2.0**31) - 1}, None),
        ("bool", {"_FillValue": 0}, None),
        ("f4", {"missing_value": 10**400}, None),
        ("i2", {"missing_value": 10**400}, None),
        ("i2", {"missing_value": list(range(100))}, Packing(missing=tuple(range(100)))),
    ],
)
def test_packing_is_what_attributes_say(dtype: str, attributes: dict, packing):
    assert packing_of(open_source(array_of(dtype, attributes))) == packing


DEFAULTS = {
    "i1": -127,
    "u1": 255,
    "i2": -32767,
    "u2": 65535,
    "i4": -2147483647,
    "u4": 4294967295,
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
}
"""What netCDF fills arrays with, if it is told nothing else."""


def around(number: int, dtype: str) -> np.ndarray:
    """Return the ends of a dtype, and numbers near one of which some round to the same float64."""
    ends, near = np.iinfo(dtype), (0, 1, 2, 98, 509, 510, 511, 1021, 1022, 1023, 1024)
    numbers = {number + n for n in near} | {number - n for n in near} | {0, ends.min, ends.max}
    return np.array(sorted(n for n in numbers if ends.min <= n <= ends.max), dtype)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
@pytest.mark.parametrize("written", [int, float])
@pytest.mark.parametrize("dtype", DEFAULTS)
def test_missing_is_what_xarray_masks(tmp_path, dtype: str, written, name: str, zarr_format: int):
    """Attributes lose digits: a float64 holds none of netCDF's fills of 64 bits."""
    data = around(DEFAULTS[dtype], dtype)
    array = zarr.open_group(tmp_path, mode="w", zarr_format=zarr_format).create_array(
        "a",
        shape=data.shape,
        dtype=dtype,
        fill_value=None if zarr_format == 2 else 0,
        attributes={name: written(DEFAULTS[dtype]), "_ARRAY_DIMENSIONS": ["x"]},
        dimension_names=["x"] if zarr_format == 3 else None,
    )
    array[...] = data
    with xarray.open_zarr(tmp_path, consolidated=False) as opened:
        want = opened["a"].values
    packing = packing_of(open_source(array))
    assert np.isnan(want).any()
    assert packing is not None
    np.testing.assert_array_equal(packing.values(data), want)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_fills_that_float64_does_not_hold_are_left_out(dtype: str):
    data = around(DEFAULTS[dtype], dtype)
    given = {"_FillValue": float(DEFAULTS[dtype])}
    array = zarr.create_array({}, data=data, chunks=(4,), attributes=given)
    there = data[data.astype(float) != given["_FillValue"]].astype(float)
    got = cf.reduce(array, ["count", "min", "max"], mask_and_scale=True, skipna=True)
    assert got == {"count": there.size, "min": there.min(), "max": there.max()}


def test_the_fill_value_of_format_2_is_missing():
    kwargs = {"fill_value": -7, "zarr_format": 2}
    assert packing_of(open_source(array_of("i2", {}, **kwargs))) == Packing(missing=(-7,))
    assert packing_of(open_source(array_of("i2", {}, fill_value=-7))) is None


@pytest.mark.parametrize("dtype", ["i2", "f4"])
@pytest.mark.parametrize("fill", [0, 5, None])
@pytest.mark.parametrize("named", [5, None])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_of_two_fill_values_that_one_is_missing_which_is_to_xarray(
    tmp_path: Path, zarr_format: int, named: int | None, fill: int | None, dtype: str
):
    """Format 2's own comes before `_FillValue`; format 3's never stands for nothing."""
    _written_by_hand(tmp_path, zarr_format, named, fill, dtype)
    want = xarray.open_zarr(tmp_path, consolidated=False)["a"]
    got = cf.reduce(tmp_path / "a", ["sum", "count"], mask_and_scale=True, skipna=True)
    assert (got["sum"], got["count"]) == (want.sum(), want.count())


def _written_by_hand(
    folder: Path, zarr_format: int, named: int | None, fill: int | None, dtype: str
) -> None:
    """Write an array of 0, 5, 1 as other programs than xarray may."""
    group = zarr.open_group(folder, mode="w", zarr_format=zarr_format)
    attributes: dict = {} if zarr_format == 3 else {"_ARRAY_DIMENSIONS": ["x"]}
    if named is not None:
        coded_float = zarr_format == 3 and dtype == "f4"
        attributes["_FillValue"] = coded(named) if coded_float else named
    names = ["x"] if zarr_format == 3 else None
    given = {"dtype": dtype, "attributes": attributes, "dimension_names": names}
    made = group.create_array("a", shape=(3,), fill_value=fill or 0, **given)
    made[...] = np.array([0, 5, 1])
    if fill is None and zarr_format == 2:  # zarr-python would write 0
        file = folder / "a" / ".zarray"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"fill_value": None}))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("fill", [0, -7, None])
def test_what_xarray_writes_is_missing_where_it_reads_it(
    tmp_path: Path, zarr_format: int, fill: int | None
):
    values = xarray.DataArray(np.array([0, -7, 1], "i2"), dims="x", name="a")
    if fill is not None:
        values = values.astype("f4").where(values != fill)
        values.encoding = {"dtype": "i2", "_FillValue": fill}
    values.to_dataset().to_zarr(tmp_path / "s", zarr_format=zarr_format)
    want = xarray.open_zarr(tmp_path / "s")["a"]
    got = cf.reduce(tmp_path / "s" / "a", ["sum", "count"], mask_and_scale=True, skipna=True)
    assert (got["sum"], got["count"]) == (want.sum(), want.count())


def test_what_stands_in_the_place_of_fill_value_is_told():
    both = array_of("i2", {"_FillValue": -1}, fill_value=-7, zarr_format=2)
    assert list(packing_attributes(open_source(both))) == [
        "_FillValue -7, computed like any number"
    ]


@pytest.mark.parametrize(
    ("dtype", "attributes", "said"),
    [
        ("i2", {"scale_factor": "0.1 K"}, "scale_factor is '0.1 K', not a finite float64"),
        ("i2", {"add_offset": [1, 2]}, r"add_offset is \[1, 2\], not a finite float64"),
        ("i2", {"add_offset": True}, "add_offset is True, not a finite float64"),
        ("i2", {"scale_factor": 10**400}, "scale_factor is 1000.*000, not a finite float64"),
        ("i2", {"missing_value": list(range(101))}, "101 numbers missing, .* with 100 at most"),
        ("i2", {"_FillValue": "none"}, "'none' is called missing, but is not a number"),
        ("c8", {"scale_factor": 2}, "has scale_factor, but its elements are complex64"),
    ],
)
def test_attributes_that_are_no_numbers_are_named(dtype: str, attributes: dict, said: str):
    with pytest.raises(cf.PlanError, match=said):
        cf.plan(array_of(dtype, attributes), "sum", mask_and_scale=True)


@pytest.mark.parametrize("layout", [{"zarr_format": 2}, {}, {"shards": (8, 20)}])
def test_values_are_reduced_as_numpy_reduces_them(monkeypatch, layout: dict):
    """Chunks that are not stored are missing too, if their fill value is."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 256)
    attributes = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -99}
    array = zarr.create_array(
        {},
        shape=(30, 20),
        chunks=(4, 10),
        dtype="i2",
        fill_value=-99,
        attributes=attributes,
        **layout,
    )
    rng = np.random.default_rng(1)
    array[3:9] = rng.integers(-100, -95, (6, 20))
    array[20:30, :15] = rng.integers(-2000, 2000, (10, 15))
    stored = array[...]
    want = np.where(stored == -99, np.nan, stored * 0.01 + 273.15)
    for axis in (None, 0, 1):
        got = cf.reduce(array, ["sum", "min", "count"], axis=axis, mask_and_scale=True, skipna=True)
        np.testing.assert_allclose(got["sum"], np.nansum(want, axis=axis), rtol=1e-15)
        np.testing.assert_array_equal(got["count"], (~np.isnan(want)).sum(axis=axis))
        np.testing.assert_array_equal(got["min"], np.fmin.reduce(want, axis=axis))
        assert got["sum"].dtype == np.float64
    assert np.isnan(cf.reduce(array, "mean", mask_and_scale=True))
    assert cf.reduce(array, "min") == stored.min()
    last = cf.reduce(array, "argmax", selection=slice(20, 25), mask_and_scale=True, skipna=True)
    assert last == np.nanargmax(want[20:25])


def test_the_plan_says_how_values_are_made():
    array = array_of("i2", {"scale_factor": 0.01, "add_offset": -3, "_FillValue": -1})
    assert "unpacked to float64: stored * 0.01 - 3.0; missing: -1" in str(
        cf.plan(array, "sum", mask_and_scale=True)
    )
    assert "unpacked" not in str(cf.plan(array, "sum"))


def test_attributes_that_are_not_applied_can_be_told():
    given = {"scale_factor": 0.1, "_FillValue": coded(1e36), "missing_value": float("nan")}
    told = packing_attributes(open_source(array_of("f4", given)))
    assert list(told) == ["scale_factor 0.1", "_FillValue 1e+36, computed like any number"]
    of_xarray = array_of("i2", {"_ARRAY_DIMENSIONS": ["x"]}, fill_value=-7, zarr_format=2)
    assert list(packing_attributes(open_source(of_xarray))) == [
        "_FillValue -7, computed like any number"
    ]
    assert list(packing_attributes(open_source(array_of("i2", {}, zarr_format=2)))) == []


WHY = "refuses them: scale_factor is '0.1 K', not a finite float64: correct it)"
NO_TEXT = "not the text 'true' or 'false': computed as int8"


@pytest.mark.parametrize(
    ("dtype", "attributes", "before", "after"),
    [
        ("i2", {"scale_factor": 0.1}, ["not applied: scale_factor 0.1 (FLAG applies them)"], []),
        (
            "i2",
            {"scale_factor": "0.1 K", "_FillValue": -1},
            [
                "not applied: scale_factor '0.1 K'; _FillValue -1, computed like any number (FLAG "
                + WHY
            ],
            None,
        ),
        ("i2", {"_FillValue": float("nan"), "missing_value": "NaN"}, [], []),
        (
            "bool",
            {"_FillValue": 0},
            *[["never applied: _FillValue 0, because bool has no missing numbers"]] * 2,
        ),
        (
            "i1",
            {"_Unsigned": "true"},
            ["not applied: _Unsigned true, computed as int8 (FLAG applies them)"],
            [],
        ),
        ("u1", {"_Unsigned": "true"}, [], []),
        *(
            ("i1", {"_Unsigned": said}, *[[f"never applied: _Unsigned {said!r}, {NO_TEXT}"]] * 2)
            for said in ("True", True, 1)
        ),
        (
            "f4",
            {"valid_range": [0, 9], "valid_min": 0, "add_offset": 2},
            [
                "not applied: add_offset 2 (FLAG applies them)",
                "never applied: valid_range [0, 9], valid_min 0, numbers outside are computed too",
            ],
            ["never applied: valid_range [0, 9], valid_min 0, numbers outside are computed too"],
        ),
        ("str", {"_FillValue": "", "valid_min": "a"}, [], []),
    ],
)
def test_what_a_flag_does_and_does_not_is_told_alike(dtype, attributes, before, after):
    source = open_each(array_of(dtype, attributes))[0]
    assert list(unapplied(source, "FLAG", mask_and_scale=False)) == before
    if after is None:
        with pytest.raises(cf.PlanError, match=r"scale_factor is '0\.1 K', not a finite float64"):
            packing_of(source)
        return
    assert list(unapplied(source, "FLAG", mask_and_scale=True)) == after
    if dtype == "str":
        return
    for asked, told in ((False, before), (True, after)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PackedWarning)
            cf.submit(source, "count", mask_and_scale=asked).result()
        flag = "mask_and_scale=True"
        assert [str(one.message) for one in caught] == [
            f"{source.name}: {one.replace('FLAG', flag)}" for one in told
        ]
        lines = str(cf.plan(source, "count", mask_and_scale=asked)).splitlines()
        for one in told:
            assert lines.count(" " * 10 + one.replace("FLAG", "mask_and_scale")) == 1


def test_integers_of_another_sign_are_planned_so():
    source = array_of("i1", {"_Unsigned": "true"})
    assert "read as uint8" in str(cf.plan(source, "max", mask_and_scale=True))
    assert "read as" not in str(cf.plan(source, "max"))


def test_what_is_not_applied_is_told_where_it_was_asked():
    packed = array_of("i2", {"scale_factor": 0.1, "_FillValue": -1})
    told = (
        "not applied: scale_factor 0.1; _FillValue -1, computed like any number "
        r"\(mask_and_scale=True applies them\)"
    )
    with pytest.warns(PackedWarning, match=told) as caught:
        cf.reduce(packed)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", PackedWarning)
        cf.reduce(packed, mask_and_scale=True)
        cf.reduce(array_of("f4", {"_FillValue": coded(float("nan")), "units": "K"}))


@pytest.mark.parametrize("given", [False, True, 255, "AAAAAAAA+D8="])
def test_of_bools_in_format_2_nothing_is_said_of_their_fill_value(given: object):
    """All of them have one, in whose place xarray takes what `_FillValue` says."""
    array = zarr.create_array({}, data=np.array([True, False, True]), zarr_format=2)
    array.attrs["_FillValue"] = given
    with warnings.catch_warnings():
        warnings.simplefilter("error", PackedWarning)
        assert [cf.reduce(array, "sum", mask_and_scale=flag) for flag in (False, True)] == [2, 2]
    array.attrs["missing_value"] = 1
    with pytest.warns(PackedWarning, match="never applied: missing_value 1, because bool has no"):
        assert cf.reduce(array, "sum") == 2
