"""Results of too few elements are missing, and results begin with what is asked for."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
import chunkfold.xarray
from chunkfold.workflows.job.schema import Job

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)
SHAPE = (6, 8)
OPS = ("sum", "mean", "max", "std", "prod")


def gaps(dtype: str = "float64") -> np.ndarray:
    values = RNG.normal(size=SHAPE)
    values[RNG.random(SHAPE) < 0.5] = np.nan
    values[0] = np.nan
    return values.astype(dtype)


def stored(values: np.ndarray) -> zarr.Array:
    made = zarr.create_array(store={}, shape=SHAPE, chunks=(2, 3), dtype=values.dtype)
    made[...] = values
    return made


@pytest.mark.parametrize("least", [1, 3, 100])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_results_of_too_few_elements_are_nan(axis: int | None, least: int):
    values = gaps()
    got = cf.reduce(stored(values), OPS, axis=axis, skipna=True, min_count=least)
    plain = cf.reduce(stored(values), OPS, axis=axis, skipna=True)
    few = (~np.isnan(values)).sum(axis) < least
    for op in OPS:
        np.testing.assert_array_equal(got[op], np.where(few, np.nan, plain[op]))
    held = xr.DataArray(values)
    for op in ("sum", "prod"):
        want = getattr(held, op)(None if axis is None else f"dim_{axis}", min_count=least)
        np.testing.assert_allclose(got[op], want)


@pytest.mark.parametrize("what", ["a mask", "a condition", "weights", "times"])
def test_elements_are_missing_for_whatever_reason(what: str):
    values = RNG.normal(size=SHAPE)
    given: dict[str, Any] = {"axis": 1, "min_count": 4}
    there = np.ones(SHAPE, bool)
    if what == "a condition":
        given["where"], there = "x > 0", values > 0
    elif what == "times":
        values = (values * 1000).astype("m8[s]")
        values[values < np.timedelta64(0, "s")] = "NaT"
        given["skipna"], there = True, ~np.isnat(values)
    else:
        there = RNG.random(SHAPE) < 0.5
        given["where"] = there
    if what == "weights":
        given["weights"] = np.arange(8.0)
    got = cf.reduce(stored(values), "mean", **given)
    missing = np.isnat(got) if what == "times" else np.isnan(got)
    np.testing.assert_array_equal(missing, there.sum(1) < 4)


@pytest.mark.parametrize("where", [None, "x > 0"])
def test_groups_have_counts_of_their_own(where: str | None):
    values, labels = RNG.normal(size=SHAPE), np.array([0, 0, 1, 2, 2, 2, 2, -1])
    given: dict[str, Any] = {"axis": 1, "by": labels, "groups": range(4), "where": where}
    got = cf.reduce(stored(values), ["sum", "max"], min_count=2, **given)
    counts = cf.reduce(stored(values), "count", **given).values
    plain = cf.reduce(stored(values), "sum", **given).values
    np.testing.assert_array_equal(got["sum"].values, np.where(counts < 2, np.nan, plain))
    np.testing.assert_array_equal(np.isnan(got["max"].values), counts < 2)


def test_counts_beside_others_are_as_they_were_and_integers_are_refused():
    values = gaps()
    got = cf.reduce(values, ["mean", "count", "argmax"], axis=1, skipna=True, min_count=4)
    np.testing.assert_array_equal(got["count"], (~np.isnan(values)).sum(1))
    np.testing.assert_array_equal(np.isnan(got["mean"]), got["count"] < 4)
    whole = np.arange(6)
    for op in ("sum", "max", ["mean", "sum"]):
        with pytest.raises(cf.ChunkfoldError, match=r"has no NaN: omit it, or give dtype="):
            cf.reduce(whole, op, min_count=7)
    assert np.isnan(cf.reduce(whole, "sum", min_count=7, dtype="float64"))
    assert np.isnan(cf.reduce(whole, "mean", min_count=7))
    with pytest.raises(cf.ChunkfoldError, match="count has no NaN; sums, means"):
        cf.reduce(values, "count", min_count=1)
    for wrong in (-1, 1.5, True, False, "a"):
        with pytest.raises(cf.PlanError, match="give how many elements, 0 or more"):
            cf.reduce(values, min_count=wrong)


def test_extremes_of_nothing_have_a_value_where_one_is_asked_for():
    nothing = np.zeros((0, 3), "f4")
    with pytest.raises(cf.PlanError, match="has no value"):
        cf.reduce(nothing, "max", axis=0)
    assert np.isnan(cf.reduce(nothing, "max", axis=0, min_count=1)).all()
    assert (cf.reduce(nothing, "max", axis=0, initial=4) == 4).all()
    whole = stored(np.arange(48).reshape(SHAPE))
    got = cf.reduce(whole, ["max", "min"], axis=1, where="x > 40", initial=7)
    assert got["max"].tolist() == [7, 7, 7, 7, 7, 47]
    assert got["min"].tolist() == [7] * 6
    grouped = cf.reduce(whole, "max", by=[0, 1, -1, 0, 0, 0, 0, 0], groups=[0, 1, 5], initial=-3)
    assert grouped.values.tolist() == [47, 41, -3]


def test_what_begins_with_nothing_is_refused():
    with pytest.raises(cf.PlanError, match="but mean, count has none; sum, prod, min, max"):
        cf.reduce(gaps(), ["mean", "sum", "count"], initial=0)
    with pytest.raises(cf.PlanError, match="not where elements are weighed"):
        cf.reduce(gaps(), "sum", weights=np.ones(8), initial=0)


def test_a_dataset_is_as_xarrays(tmp_path: Path):
    held = xr.Dataset(
        {"a": (("x", "y"), gaps()), "whole": (("x", "y"), np.arange(48).reshape(SHAPE))}
    )
    xr.testing.assert_allclose(
        held.chunkfold.sum("y", min_count=4), held.sum("y", min_count=4)
    )  # fmt: skip
    mask = xr.DataArray(np.arange(8) < 3, dims="y")
    got = held.chunkfold.sum("y", min_count=4, where=mask)
    xr.testing.assert_allclose(got, held.where(mask).sum("y", min_count=4))


def test_the_shell_and_job_files_say_it(tmp_path: Path, command: Callable):
    values, path = gaps("float32"), tmp_path / "a.zarr"
    zarr.save_array(path, values)
    told = command("reduce", path, "--op", "sum,min", "--axis", "1", "--skipna", "--min-count",
                     "3", "--initial", "2.5", "--json")  # fmt: skip
    want = cf.reduce(values, ["sum", "min"], axis=1, skipna=True, min_count=3, initial=2.5)
    found = json.loads(told.stdout)["results"]
    for op, each in want.items():
        assert np.array_equal(np.array(found[op], float), each, equal_nan=True)
    text = """
        schema = 1
        sources = ["a.zarr"]
        reduce = { statistics = ["max"], min_count = 2, initial = -1 }
        output = { path = "b.zarr" }
    """
    options = Job.model_validate(tomllib.loads(text)).options
    assert (options.min_count, options.initial) == (2, -1)


@pytest.mark.parametrize("dtype", ["i1", "i4", "u8"])
def test_quantiles_that_are_elements_have_no_nan_of_integers(dtype: str):
    values, op = np.arange(12, dtype=dtype).reshape(3, 4), cf.quantile(0.5, method="lower")
    for ops in (op, ["mean", op]):
        with pytest.raises(
            cf.ChunkfoldError, match=r"quantile\(0.5, .* of .*int.*, which has no NaN"
        ):
            cf.reduce(values, ops, axis=0, min_count=2)
    assert np.isnan(cf.reduce(values, op, axis=0, min_count=4, dtype="float64")).all()
    assert np.isnan(cf.reduce(values, "median", axis=0, min_count=4)).all()


@pytest.mark.parametrize("skipna", [False, True])
def test_integers_are_refused_whatever_else_is_asked(skipna: bool):
    with pytest.raises(
        cf.ChunkfoldError, match="min_count is 2, but 'sum' of int64 is int64, which has no NaN"
    ):
        cf.reduce(np.arange(5), "sum", skipna=skipna, min_count=2)


@pytest.mark.parametrize("dtype", ["int16", "uint64", "bool"])
@pytest.mark.parametrize("op", ["mean", "var", "norm2"])
@pytest.mark.parametrize("by", [None, np.arange(SHAPE[0]) % 2])
def test_integers_that_none_is_missing_of_have_a_count_too(dtype: str, op: str, by: Any):
    values = RNG.integers(0, 9, SHAPE).astype(dtype)
    given: dict[str, Any] = {"axis": 0, "skipna": True, "by": by}
    plain, each = cf.reduce(values, op, **given), SHAPE[0] if by is None else SHAPE[0] // 2
    np.testing.assert_array_equal(cf.reduce(values, op, min_count=each, **given), plain)
    assert np.isnan(cf.reduce(values, op, min_count=each + 1, **given)).all()
