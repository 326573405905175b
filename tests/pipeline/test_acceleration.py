"""Under `accelerate` xarray's and Dask's own code has the results that it had, and is told on."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from dask.array.optimization import optimize
from flox import groupby_reduce

import chunkfold as cf
from chunkfold import acceleration
from chunkfold.errors import ChunkError, DeviceError, PlanError, RemarkWarning
from tests.accelerated import opened, same, written

pytestmark = pytest.mark.unoptimised


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("accelerated") / "s.zarr")


@pytest.fixture
def ds(store: Path) -> Iterator[xr.Dataset]:
    """A dataset of which nothing is too small."""
    with dask.config.set({"chunkfold.accelerate.least-bytes": 1}):
        yield opened(store)


TAKEN: dict[str, Callable[[xr.Dataset], Any]] = {
    "mean": lambda ds: ds.x.mean("time"),
    "mean with NaN": lambda ds: ds.x.mean("time", skipna=False),
    "mean of packed": lambda ds: ds.packed.mean(("lat", "lon")),
    "mean of integers": lambda ds: ds.whole.mean(),
    "cast": lambda ds: ds.x.astype("f8").mean("lat"),
    "sum": lambda ds: ds.x.sum("lat"),
    "sum with NaN": lambda ds: ds.x.sum("lat", skipna=False),
    "sum of integers": lambda ds: ds.whole.sum("time"),
    "min": lambda ds: ds.x.min(),
    "max": lambda ds: ds.packed.max("lon", skipna=False),
    "var": lambda ds: ds.double.var(ddof=1),
    "std": lambda ds: ds.x.std("time"),
    "any": lambda ds: ds.truth.any("time"),
    "all": lambda ds: ds.truth.all(),
    "count": lambda ds: ds.x.count("time"),
    "argmin": lambda ds: ds.x.argmin("time"),
    "argmax": lambda ds: ds.whole.argmax("lat"),
    "selected": lambda ds: ds.x.isel(time=slice(3, 40, 2), lat=1).sum("time"),
    "listed": lambda ds: ds.x.isel(lon=[4, 0, 2]).max("time"),
    "turned": lambda ds: ds.x.transpose("lon", "time", "lat").mean("lat"),
    "rechunked": lambda ds: ds.x.chunk(time=17, lat=2).mean("lon"),
    "median": lambda ds: ds.x.chunk(time=-1).median("time"),
    "quantile": lambda ds: ds.double.chunk(time=-1).quantile(0.3, "time"),
    "quantiles": lambda ds: ds.x.chunk(lat=-1).quantile([0.1, 0.5], "lat", skipna=False),
    "windows": lambda ds: ds.x.coarsen(lat=2, lon=4).mean(),
    "trimmed windows": lambda ds: ds.packed.coarsen(time=7, boundary="trim").max(),
    "months": lambda ds: ds.x.groupby("time.month").mean(),
    "months of all": lambda ds: ds.packed.groupby("time.month").std(..., ddof=1),
    "months, cohorts": lambda ds: ds.x.groupby("time.month").sum("time", method="cohorts"),
    "seasons": lambda ds: ds.x.groupby("time.season").max(method="map-reduce"),
    "spans": lambda ds: ds.x.resample(time="1MS").mean(),
    "enough in groups": lambda ds: ds.x.groupby("time.month").sum(min_count=30),
    "count of groups": lambda ds: ds.x.groupby("time.month").count(),
    "months of some": lambda ds: ds.x.isel(lat=2, time=slice(5, 50, 2)).groupby("time.month").sum(),
    "listed months": lambda ds: ds.x.isel(time=[4, 9, 30, 2]).groupby("time.month").mean(),
    "names": lambda ds: groupby_reduce(
        ds.x.data, np.array(list("abcabcaa")), func="nanmean", fill_value=np.nan
    )[0],
    "zones": lambda ds: ds.x.groupby("zone").mean(),
    "deviations": lambda ds: (ds.x.mean("time") - ds.packed.mean("time")) ** 2,
    "scaled": lambda ds: (ds.x * 2).mean(),
    "shifted": lambda ds: (ds.packed - 273.15).max("time"),
    "power": lambda ds: (ds.x**2).mean(),
    "speed": lambda ds: (ds.x**2 + ds.gaps**2).sum("time"),
    "two dtypes": lambda ds: (ds.packed / ds.double - ds.whole).std("lat"),
    "of some": lambda ds: ds.x.where(ds.x > 0).mean(),
    "of some, another": lambda ds: ds.x.where(ds.packed > 1, -1).sum("lat"),
    "filled": lambda ds: ds.x.fillna(0).mean("lon"),
    "condition": lambda ds: (ds.x > 0.5).sum("time"),
    "conditions": lambda ds: ((ds.x > 0.5) & ~ds.truth).sum("time"),
    "functions": lambda ds: np.sqrt(abs(ds.double)).clip(0.1, 2).mean("time"),
    "cast to fewer bits": lambda ds: (ds.double.astype("f4") * np.float32(3)).sum("time"),
    "cast to integers": lambda ds: ds.truth.astype("i4").mean("time"),
    "median of wider integers": lambda ds: ds.whole.astype("i8").chunk(time=-1).median("time"),
    "integers that wrap": lambda ds: (ds.whole.astype("i1") * np.int8(5)).sum("time"),
    "selected and computed": lambda ds: (ds.x.isel(time=slice(3, 40, 2), lat=1) + 1).sum("time"),
    "turned and computed": lambda ds: (2 - ds.x).transpose("lon", "time", "lat").mean("lat"),
    "rechunked and computed": lambda ds: (ds.x * 2).chunk(time=-1).median("time"),
    "months of computed": lambda ds: (ds.packed - 1).groupby("time.month").mean(),
    "windows of computed": lambda ds: (ds.x * 3).coarsen(lat=2, lon=4).max(),
    "dask": lambda ds: da.nanmax(ds.double.data, axis=1, keepdims=True),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_computed_here_has_the_same_values_dtype_and_labels(ds: xr.Dataset, name: str):
    lines: list[str] = []
    lazy = TAKEN[name](ds)
    want = lazy.compute()
    with cf.accelerate(verbose=lines.append):
        got = lazy.compute()
    assert any("is computed here" in line for line in lines), lines
    assert not any("left to Dask" in line for line in lines)
    same(want, got)


LEFT: dict[str, tuple[Callable[[xr.Dataset], Any], str]] = {
    "computed": (lambda ds: ds.x.cumsum("time").mean(), "computed by Dask before"),
    "own function": (lambda ds: ds.x.data.map_blocks(np.sort).mean(), "before"),
    "broadcast": (lambda ds: (ds.x * ds.x.isel(lat=0)).mean(), "not known"),
    "other places": (
        lambda ds: da.sum(ds.x.data[1:] * ds.x.data[:-1].rechunk(ds.x.data[1:].chunks)),
        "other",
    ),
    "half, computed": (lambda ds: (ds.half * 2).mean(), "its elements are float16"),
    "shared": (lambda ds: (ds.x - ds.x.mean("time")).max(), "for something else, too"),
    "some chunks": (lambda ds: ds.x.mean("time")[0], "only some of its chunks"),
    "ties": (lambda ds: da.argmax(ds.x.data), "which is the first"),
    "times": (lambda ds: da.min(ds.when.data), "its elements are datetime64"),
    "half": (lambda ds: ds.half.mean(), "its elements are float16"),
    "ddof": (lambda ds: ds.x.var("lat", ddof=2), "ddof is 2"),
    "filled groups": (
        lambda ds: groupby_reduce(
            ds.x.data, np.arange(8) // 3, func="nansum", expected_groups=np.arange(5), fill_value=0
        )[0],
        "become a number",
    ),
    "few integers of groups": (
        lambda ds: ds.whole.groupby("time.month").sum(min_count=100_000),
        "groups of few elements become NaN",
    ),
    "flox's own": (lambda ds: ds.x.groupby("time.month").first(), "is not known"),
    "weighted": (lambda ds: ds.x.weighted(ds.lat + 1).mean("lat"), "before"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_dask_is_its_own_and_says_why(ds: xr.Dataset, name: str):
    make, why = LEFT[name]
    lines: list[str] = []
    lazy = make(ds)
    want = lazy.compute()
    with cf.accelerate(verbose=lines.append):
        got = lazy.compute()
    assert any("left to Dask" in line and why in line for line in lines), lines
    assert not any("is computed here" in line for line in lines)
    np.testing.assert_array_equal(np.asarray(want), np.asarray(got))


def test_small_arrays_are_left_to_dask(store: Path):
    lines: list[str] = []
    with cf.accelerate(verbose=lines.append):
        opened(store).x.mean().compute()
    (line,) = lines
    assert "and Dask keeps those below 134,217,728" in line


@pytest.mark.parametrize(
    "lazy",
    [
        da.ones((4, 4), chunks=2).mean(),
        da.random.default_rng(0).normal(size=(6, 6), chunks=3).T @ da.ones((6, 2), chunks=3),
        dask.delayed(sum)([1, 2]),
        da.from_array(np.arange(12.0), chunks=5).cumsum(axis=0),
        da.map_overlap(lambda x: x, da.ones(9, chunks=3), depth=1),
    ],
    ids=["ones", "random", "delayed", "scan", "overlap"],
)
def test_graphs_that_are_not_known_are_optimised_as_ever(lazy: Any):
    graph, keys = lazy.__dask_graph__(), lazy.__dask_keys__()
    want = optimize(graph, keys)
    with dask.config.set({"chunkfold.accelerate.least-bytes": 1}), cf.accelerate():
        made = dask.config.get("array_optimize")(graph, keys)
    assert {*dict(made)} == {*dict(want)}


def test_the_setting_before_is_restored_and_obeyed():
    seen = []

    def own(graph: Any, keys: Any, **options: Any) -> Any:
        seen.append(keys)
        return optimize(graph, keys, **options)

    with dask.config.set(array_optimize=own):
        with cf.accelerate():
            da.ones(4, chunks=2).sum().compute()
            assert dask.config.get("array_optimize") is not own
        assert dask.config.get("array_optimize") is own
    assert len(seen) == 1
    assert "array_optimize" not in dask.config.config


def test_with_optimisation_off_graphs_are_not_optimised(ds: xr.Dataset):
    with dask.config.set(array_optimize=False), cf.accelerate():
        same(ds.x.mean("time").compute(), TAKEN["mean"](ds).compute(scheduler="synchronous"))
        made = dask.config.get("array_optimize")
        graph = da.ones(4, chunks=2).__dask_graph__()
        assert made(graph, []) is graph


def test_it_nests_and_the_innermost_counts(ds: xr.Dataset):
    outer: list[str] = []
    inner: list[str] = []
    with cf.accelerate(verbose=outer.append):
        with cf.accelerate(verbose=inner.append):
            ds.x.max().compute()
        assert (len(inner), outer) == (1, [])
        with cf.accelerate(on=False):
            ds.x.max().compute()
        assert outer == []
        ds.x.max().compute()
    assert (len(inner), len(outer)) == (1, 1)
    assert "array_optimize" not in dask.config.config


def test_a_session_lasts_until_it_is_ended(ds: xr.Dataset):
    lines: list[str] = []
    cf.accelerate(verbose=lines.append)
    try:
        ds.x.max().compute()
    finally:
        cf.accelerate(False)
    ds.x.max().compute()
    assert len(lines) == 1
    assert "array_optimize" not in dask.config.config


def test_reductions_of_one_array_share_one_read(ds: xr.Dataset, monkeypatch: pytest.MonkeyPatch):
    asked = []

    def counted(source: Any, questions: Any, **options: Any) -> Any:
        asked.append(len(questions))
        return cf.reduce(source, questions, **options)

    monkeypatch.setattr(acceleration, "reduce", counted)
    want = dask.compute(ds.x.mean("time"), ds.x.max(), ds.x.groupby("time.month").sum())
    with cf.accelerate():
        got = dask.compute(ds.x.mean("time"), ds.x.max(), ds.x.groupby("time.month").sum())
    assert asked == [3]
    for one, other in zip(want, got, strict=True):
        same(one, other)


def test_expressions_of_one_array_that_dask_reads_once_are_its_own(ds: xr.Dataset):
    lines: list[str] = []
    several = (ds.x * 2).mean(), (ds.x > 0.5).sum("time"), ds.x.max()
    want = dask.compute(*several)
    with cf.accelerate(verbose=lines.append):
        got = dask.compute(*several)
    assert sum("read for something else" in line for line in lines) == 2
    assert not any("is computed here" in line for line in lines)
    for one, other in zip(want, got, strict=True):
        same(one, other)
    lines.clear()
    scaled = ds.x * 2
    with cf.accelerate(verbose=lines.append):
        dask.compute(scaled.mean(), scaled.max("time"), (ds.packed - 1).max())
    assert sum("is computed here" in line for line in lines) == 3


def test_threads_share_it_and_do_not_disturb_each_other(ds: xr.Dataset):
    want = ds.x.mean("time").compute()
    got: list[Any] = []
    with cf.accelerate():
        threads = [
            threading.Thread(target=lambda: got.append(ds.x.mean("time").compute()))
            for _ in range(4)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
    assert len(got) == 4
    for one in got:
        same(want, one)


def test_own_graphs_are_not_handed_over_again(ds: xr.Dataset):
    lines: list[str] = []
    with cf.accelerate(verbose=lines.append):
        made = cf.reduce((ds.x - ds.x.mean("time")).data, "nanmax")
    assert lines == []
    np.testing.assert_allclose(made, float((ds.x - ds.x.mean("time")).max()), rtol=1e-6)


def test_a_damaged_chunk_is_named(store: Path, tmp_path: Path):
    path = tmp_path / "d.zarr"
    array = zarr.create_array(path, data=np.arange(64.0), chunks=(16,))
    (path / "c" / "1").write_bytes(b"no chunk")
    with (
        dask.config.set({"chunkfold.accelerate.least-bytes": 1}),
        cf.accelerate(),
        pytest.raises(ChunkError, match="chunk"),
    ):
        da.from_zarr(array).sum().compute()


@pytest.mark.parametrize(("error", "warns"), [(PlanError, False), (DeviceError, True)])
def test_what_chunkfold_cannot_do_is_left_to_dask(
    ds: xr.Dataset, monkeypatch: pytest.MonkeyPatch, error: type[Exception], warns: bool
):
    def refuse(*_: Any, **__: Any) -> Any:
        raise error("it cannot")

    monkeypatch.setattr(acceleration, "reduce", refuse)
    lines: list[str] = []
    with cf.accelerate(verbose=lines.append):
        if warns:
            with pytest.warns(RemarkWarning, match="left to Dask: it cannot"):
                got = ds.x.mean("time").compute()
        else:
            got = ds.x.mean("time").compute()
    assert "left to Dask: it cannot" in lines[0]
    same(ds.x.mean("time").compute(), got)


def test_a_position_of_nothing_but_nan_is_an_error_as_ever(ds: xr.Dataset):
    with cf.accelerate(), pytest.raises(ValueError, match=r"All.NaN"):
        ds.gaps.argmax("time").compute()


def test_verbose_writes_to_standard_error(ds: xr.Dataset, capsys: pytest.CaptureFixture[str]):
    with cf.accelerate(verbose=True):
        ds.x.mean("time").compute()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("chunkfold: mean of ")
    assert " over 0 is computed here (mean_agg-aggregate-" in captured.err


def test_a_cluster_gets_dasks_own_optimisation(ds: xr.Dataset):
    lines: list[str] = []
    with cf.accelerate(verbose=lines.append):
        made = pickle.loads(pickle.dumps(dask.config.get("array_optimize")))
    assert made is optimize
    assert "pass dask.optimize" in lines[0]


def test_an_optimised_collection_has_the_results(ds: xr.Dataset):
    with cf.accelerate():
        (made,) = dask.optimize(ds.x.mean("time"))
    same(ds.x.mean("time").compute(), made.compute())
    assert not any("open_dataset-x" in str(key) for key in dict(made.__dask_graph__()))
