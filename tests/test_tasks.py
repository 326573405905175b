"""Everyday tasks, each in at most ten lines of a user's code, as pages of docs/ show them."""

from __future__ import annotations

import ast
import inspect
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from tests.processes import BIN

pytestmark = pytest.mark.short

DAYS = pd.date_range("2001-01-01", "2003-12-31")
SIZES = {"time": len(DAYS), "lat": 9, "lon": 12}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three years of temperatures, a copy of a model's, and an image with labels."""
    folder, rng = tmp_path_factory.mktemp("tasks"), np.random.default_rng(0)
    season = 12 * np.cos(2 * np.pi * (DAYS.dayofyear.to_numpy() - 200) / 365.25)
    air = 285 + season[:, None, None] + rng.normal(0, 3, tuple(SIZES.values()))
    coords = {"time": DAYS, "lat": np.linspace(60, 28, 9), "lon": np.linspace(0, 33, 12)}
    dims, attrs = ("time", "lat", "lon"), {"units": "K", "long_name": "air temperature"}
    country = xr.DataArray(rng.integers(0, 4, (9, 12)), {d: coords[d] for d in dims[1:]}, dims[1:])
    ds = xr.Dataset({"t2m": (dims, air.astype("f4"), attrs)}, coords)
    ds["country"] = country
    ds.chunk(time=100).to_zarr(folder / "era5.zarr")
    ds.assign(t2m=ds.t2m + 0.5).chunk(time=365).to_zarr(folder / "model.zarr")
    image = rng.integers(0, 4000, (3, 64, 80)).astype("u2")
    zarr.create_array(folder / "image.zarr", data=image, chunks=(1, 32, 32))
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xr.DataArray:
    """Work in a folder of the data; return what is true of them, as xarray has it."""
    for one in made.iterdir():
        shutil.copytree(one, tmp_path / one.name)
    monkeypatch.chdir(tmp_path)
    return xr.open_zarr("era5.zarr").t2m.astype("f8").load()


def near(found: object, expected: object, rtol: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=1e-4)


def test_monthly_climatology(here: xr.DataArray):
    def task() -> cf.Result:
        return cf.reduce("era5.zarr/t2m", "mean", axis="time", by="time.month")

    near(task(), here.groupby("time.month").mean())


def test_standardised_anomaly_to_a_store(here: xr.DataArray):
    def task() -> xr.DataArray:
        from chunkfold.workflows.transforms.transform import transform

        transform("era5.zarr/t2m", "away.zarr", "standardize", axis="time", by="time.month")
        return xr.open_zarr("away.zarr").t2m

    months = here.groupby("time.month")
    near(task(), (months - months.mean()).groupby("time.month") / months.std())


def test_mean_over_countries(here: xr.DataArray):
    def task() -> cf.Result:
        return cf.reduce("era5.zarr/t2m", "mean", axis=("lat", "lon"), by="country")

    country = xr.open_zarr("era5.zarr").country.load()
    near(task(), here.groupby(country).mean(), rtol=1e-4)


def test_weighted_mean_of_the_globe(here: xr.DataArray):
    def task() -> np.ndarray:
        return cf.reduce("era5.zarr/t2m", "mean", axis=("lat", "lon"), weights="cos(lat)")

    near(task(), here.weighted(np.cos(np.deg2rad(here.lat))).mean(("lat", "lon")))


def test_zones(here: xr.DataArray):
    def task() -> cf.Result:
        return cf.reduce("era5.zarr/t2m", "mean", axis="lat", by=cf.bins([20, 40, 50, 70], "lat"))

    found = task()
    near(found.values[:, 0], here.sel(lat=slice(39.9, 20)).mean("lat"))


def test_days_above_a_threshold(here: xr.DataArray):
    def task() -> cf.Result:
        asked = {"axis": "time", "by": "time.year", "where": "x > 290"}
        return cf.reduce("era5.zarr/t2m", "count", **asked)

    near(task(), (here.astype("f4") > 290).groupby("time.year").sum())


def test_the_95th_percentile_in_bounded_memory(here: xr.DataArray):
    def task() -> np.ndarray:
        return cf.reduce("era5.zarr/t2m", "p95", axis="time", memory="300 MiB")

    near(task(), here.quantile(0.95, "time"))


def test_a_histogram(here: xr.DataArray):
    def task() -> cf.Result:
        return cf.reduce("era5.zarr/t2m", cf.histogram(edges=np.arange(260, 311, 5)))

    near(task()["count"], np.histogram(here, np.arange(260, 311, 5))[0])


def test_a_reduction_of_your_own(here: xr.DataArray):
    def task() -> np.float64:
        energy = cf.Monoid(
            "energy", fields={"s": "sum"}, zero=0, lift=lambda x: x**4 * 5.67e-8, op="add"
        )
        return cf.reduce("era5.zarr/t2m", energy)

    near(task(), float((here**4).sum() * 5.67e-8), rtol=1e-4)


def test_two_models(here: xr.DataArray):
    def task() -> dict[str, np.ndarray]:
        return cf.reduce(("model.zarr/t2m", "era5.zarr/t2m"), ["bias", "rmse"], axis="time")

    near(task()["bias"], np.full((9, 12), 0.5))


def test_tendency_statistics(here: xr.DataArray):
    def task() -> dict[str, np.float32]:
        return cf.reduce("era5.zarr/t2m", ["mean", "std", "rmse"], tendency="time")

    near(task()["std"], here.diff("time").std())


def test_normalization_for_training(here: xr.DataArray):
    def task() -> np.ndarray:
        from chunkfold.workflows.transforms.normalize import apply, normalization

        found = normalization("image.zarr", channels=0)
        return apply("image.zarr", found, "scaled.zarr")[...]

    scaled = task()
    near(scaled.mean(axis=(1, 2)), np.zeros(3))
    near(scaled.std(axis=(1, 2)), np.ones(3))


def test_contrast_limits_and_a_pyramid_of_an_image(here: xr.DataArray):
    def task() -> list[float]:
        from chunkfold.workflows.images.pyramid import pyramid

        pyramid("image.zarr", "slide.zarr", levels=3, factor={1: 2, 2: 2})
        return cf.reduce("image.zarr", cf.quantile([0.01, 0.998])).tolist()

    near(task(), np.quantile(zarr.open_array("image.zarr")[...], [0.01, 0.998]))
    assert zarr.open_array("slide.zarr/2").shape == (3, 16, 20)


def test_a_selection_by_coordinates(here: xr.DataArray):
    def task() -> np.float32:
        part = {"time": slice("2001-06", "2001-08"), "lat": slice(60, 40)}
        return cf.reduce("era5.zarr/t2m", "mean", sel=part)

    near(task(), here.sel(time=slice("2001-06", "2001-08"), lat=slice(60, 40)).mean())


def test_summers_alone(here: xr.DataArray):
    def task() -> np.ndarray:
        return cf.reduce("era5.zarr/t2m", "max", axis="time", sel={"time.season": "JJA"})

    near(task(), here.sel(time=here.time.dt.season == "JJA").max("time"))


def test_days_above_the_90th_percentile_of_each_place(here: xr.DataArray):
    def task() -> cf.Result:
        p90 = cf.reduce("era5.zarr/t2m", "p90", axis="time")
        where = ("x > y", p90)
        return cf.reduce("era5.zarr/t2m", "count", axis="time", by="time.month", where=where)

    above = here.astype("f4") > here.astype("f4").quantile(0.9, "time").astype("f4")
    near(task(), above.groupby("time.month").sum())


def test_the_longest_cold_spell(here: xr.DataArray):
    def task() -> np.ndarray:
        return cf.reduce("era5.zarr/t2m", cf.longest_run("x < 280"), axis="time")

    cold, longest, run = here.values < 280, np.zeros((9, 12), int), np.zeros((9, 12), int)
    for day in cold:
        run = np.where(day, run + 1, 0)
        longest = np.maximum(longest, run)
    near(task(), longest)


def test_a_trend_of_each_place(here: xr.DataArray):
    def task() -> np.ndarray:
        time = xr.open_zarr("era5.zarr").time
        years = (time - time[0]).dt.days / 365.25
        away = years - years.mean()
        sums = cf.reduce("era5.zarr/t2m", "sum", axis="time", weights=away)
        return sums / float((away**2).sum())

    years = (here.time - here.time[0]).dt.days / 365.25
    near(task(), np.polyfit(years, here.values.reshape(len(DAYS), -1), 1)[0].reshape(9, 12), 1e-3)


def test_a_table_of_the_cells_of_an_image(here: xr.DataArray):
    labels = np.kron(np.arange(20, dtype="i4").reshape(4, 5), np.ones((16, 16), "i4"))
    zarr.create_array("cells.zarr", data=labels, chunks=(32, 32))
    zarr.create_array("one.zarr", data=zarr.open_array("image.zarr")[0], chunks=(32, 32))

    def task() -> pd.DataFrame:
        command = ("regions", "one.zarr", "cells.zarr", "--out", "cells.csv")
        subprocess.run([BIN / "chunkfold", *command], check=True)
        return pd.read_csv("cells.csv")

    found = task()
    assert found.area.tolist() == [256] * 19
    near(
        found["mean"], [zarr.open_array("one.zarr")[...][labels == n].mean() for n in range(1, 20)]
    )


def test_a_picture(here: xr.DataArray):
    def task() -> str:
        axes = cf.reduce("era5.zarr/t2m", "mean", axis="time", labels=True).plot()
        axes.figure.savefig("mean.png")
        return axes.get_ylabel()

    assert task().startswith("lat")
    assert Path("mean.png").stat().st_size > 5000


def test_xarray_code_as_it_is(here: xr.DataArray):
    def task() -> xr.DataArray:
        ds = xr.open_zarr("era5.zarr")
        with cf.accelerate():
            return ds.t2m.groupby("time.month").mean().compute()

    near(task(), here.groupby("time.month").mean())


def test_xarrays_accessor(here: xr.DataArray):
    def task() -> xr.Dataset:
        import chunkfold.xarray

        assert chunkfold.xarray
        return xr.open_zarr("era5.zarr").chunkfold.mean("time")

    near(task().t2m, here.mean("time"))


def test_many_questions_in_one_read(here: xr.DataArray):
    def task() -> dict[str, object]:
        months = cf.ask("mean", axis="time", by="time.month")
        return cf.reduce("era5.zarr/t2m", {"months": months, "warmest": cf.ask("max")})

    near(task()["warmest"], here.max())


def test_is_my_copy_right(here: xr.DataArray):
    def task() -> bool:
        from chunkfold.workflows.comparisons.diff import diff

        return diff("era5.zarr/t2m", "model.zarr/t2m").equal

    assert not task()


def test_is_my_archive_sound(here: xr.DataArray):
    def task() -> bool:
        from chunkfold.workflows.checks.check import check

        return check("era5.zarr").ok

    assert task()
    Path("era5.zarr/t2m/c/3/0/0").write_bytes(b"\x28\xb5\x2f\xfd")
    assert not task()


def test_a_nightly_job(here: xr.DataArray):
    def task() -> int:
        lines = ['schema = 1', 'sources = ["era5.zarr/t2m"]', '[reduce]', 'statistics = ["mean"]',
                 '[output]', 'path = "out.json"', '[limits]', 'ledger = "l"']  # fmt: skip
        Path("job.toml").write_text("\n".join(lines))
        return subprocess.run([BIN / "chunkfold", "run", "job.toml"], check=False).returncode

    assert task() == 0
    assert Path("out.json").is_file()


def test_a_result_goes_on_in_pandas_and_netcdf(here: xr.DataArray):
    def task() -> xr.Dataset:
        command = ("reduce", "era5.zarr/t2m", "--op", "mean", "--by", "time.year", "--out", "y.nc")
        subprocess.run([BIN / "chunkfold", *command, "--axis", "time"], check=True)
        return xr.open_dataset("y.nc")

    near(task()["mean"], here.groupby("time.year").mean())


def test_tasks_are_at_most_ten_lines():
    tree = ast.parse(inspect.getsource(inspect.getmodule(near)))
    found = [one for one in ast.walk(tree) if getattr(one, "name", "") == "task"]
    assert len(found) >= 21
    assert max(one.end_lineno - one.lineno for one in found) <= 10
