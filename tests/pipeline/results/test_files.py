"""Results are written whole or not at all, and read again as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import numpy as np
import pytest
import xarray as xr
import zarr
from kerchunk.hdf import SingleHdf5ToZarr
from obstore.store import LocalStore as LocalObjects
from zarr.storage import FsspecStore, LocalStore, ObjectStore, WrapperStore

import chunkfold as cf
from chunkfold.errors import PlanError

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).normal(280, 9, (4, 3, 5)).astype("f4")
AIR = xr.DataArray(
    VALUES,
    {"time": np.arange(4), "lat": ("lat", [10.0, 20.0, 30.0], {"units": "degrees_north"})},
    ("time", "lat", "lon"),
    "air",
    {"units": "K"},
)


def opened(path: Path) -> xr.Dataset:
    return xr.open_dataset(path, engine="h5netcdf" if path.suffix == ".nc" else "zarr")


def written(result: cf.Result, path: Path, **given) -> Path:
    (result.to_netcdf if path.suffix == ".nc" else result.to_zarr)(path, **given)
    return path


@pytest.fixture(params=["r.nc", "r.zarr"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


def reduced(op: object = "mean", **given) -> cf.Result:
    return cf.submit(AIR, op, **given).labelled()


def test_a_file_has_values_coordinates_and_units(path: Path):
    result = reduced(axis="time")
    with opened(written(result, path)) as got:
        xr.testing.assert_identical(got["mean"].load(), result.to_xarray())


def test_what_is_there_stays_unless_it_is_to_go(path: Path):
    written(reduced(axis="time"), path)
    with pytest.raises(PlanError, match=r"exists; remove it, .*overwrite=True"):
        written(reduced("max", axis="time"), path)
    written(reduced("max", axis="time"), path, overwrite=True)
    with opened(path) as got:
        assert list(got.data_vars) == ["max"]
    with pytest.raises(PlanError, match="cannot be written"):
        written(reduced(axis="time"), path.parent / "no" / path.name)
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name]


def test_only_a_zarr_makes_room_for_another(tmp_path: Path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    with pytest.raises(PlanError, match="is a folder, but not a Zarr"):
        reduced().to_zarr(tmp_path / "home", overwrite=True)
    assert (tmp_path / "home" / "thesis.tex").exists()


@pytest.mark.parametrize("where", ["air.zarr", "air.zarr/t", "."])
def test_the_source_makes_no_room(tmp_path: Path, where: str):
    zarr.create_array(tmp_path / "air.zarr", name="t", data=VALUES)
    means = cf.submit(tmp_path / "air.zarr" / "t", "mean", axis=0).labelled()
    for result in (means, means - 273.15, 2 * means + means):
        with pytest.raises(
            PlanError, match=r"are the same, or one is inside the other|is a folder, but not a Zarr"
        ):
            result.to_zarr(tmp_path / where, overwrite=True)
    assert cf.reduce(tmp_path / "air.zarr" / "t", "count") == VALUES.size


@pytest.mark.parametrize("what", ["weights", "mask", "labels"])
def test_what_else_it_was_read_from_makes_no_room(tmp_path: Path, what: str):
    zarr.create_array(tmp_path / "air.zarr", name="t", data=VALUES)
    own = {"weights": "f8", "mask": "b1", "labels": "i4"}
    shape = (4,) if what == "labels" else (4, 1, 1)
    held = zarr.create_array(tmp_path / "held.zarr", name=what, data=np.ones(shape, own[what]))
    option = {"weights": "weights", "mask": "where", "labels": "by"}[what]
    for given in (tmp_path / "held.zarr" / what, held):
        result = cf.submit(
            tmp_path / "air.zarr" / "t", "mean", axis=0, **{option: given}
        ).labelled()
        for place in ("held.zarr", f"held.zarr/{what}"):
            with pytest.raises(PlanError, match="are the same, or one is inside the other"):
                result.to_zarr(tmp_path / place, overwrite=True)
    assert zarr.open_array(tmp_path / "held.zarr" / what).shape == shape


@pytest.mark.parametrize("prefix", [True, False])
def test_whichever_store_reads_a_folder_it_makes_no_room(tmp_path: Path, prefix: bool):
    zarr.create_array(tmp_path / "air.zarr", data=VALUES)
    objects = ObjectStore(LocalObjects(tmp_path) if prefix else LocalObjects(), read_only=True)
    files = FsspecStore.from_url(f"file://{tmp_path}", read_only=True)
    at = "air.zarr" if prefix else f"{tmp_path}/air.zarr".strip("/")
    for store, path in ((objects, at), (files, "air.zarr")):
        result = cf.submit(zarr.open_array(store, path=path, mode="r"), "mean", axis=0).labelled()
        with pytest.raises(PlanError, match="are the same, or one is inside the other"):
            result.to_zarr(tmp_path / "air.zarr", overwrite=True)
    assert zarr.open_array(tmp_path / "air.zarr").shape == VALUES.shape


def lazily(folder: Path, **given: Any) -> xr.DataArray:
    return xr.open_zarr(folder, consolidated=False, **given).air


SOURCES: dict[str, Callable[[Path], Any]] = {
    "concatenated objects": lambda at: cf.concatenate([by_objects(at)] * 2, axis=0),
    "concatenated": lambda at: cf.concatenate([lazily(at)] * 2, axis="time"),
    "wrapped": lambda at: zarr.open_array(WrapperStore(LocalStore(at)), path="air", mode="r"),
    "cached": lambda at: zarr.open_array(
        FsspecStore.from_url(f"simplecache::file://{at}", read_only=True), path="air", mode="r"
    ),
    "turned": lambda at: lazily(at).transpose("lon", "time", "lat"),
    "computed": lambda at: lazily(at) * 2,
    "Dask's": lambda at: da.from_zarr(f"{at}/air"),
    "inlined": lambda at: da.from_array(zarr.open_array(at / "air", mode="r"), inline_array=True),
    "inlined by xarray": lambda at: (
        xr.open_dataset(at, engine="zarr", consolidated=False, chunks={}, inline_array=True).air + 1
    ),
    "turned by xarray": lambda at: lazily(at, chunks=None).transpose("lon", "time", "lat"),
}


def by_objects(at: Path) -> zarr.Array:
    return zarr.open_array(
        ObjectStore(LocalObjects(at.parent), read_only=True), path=f"{at.name}/air", mode="r"
    )


@pytest.mark.parametrize("kind", SOURCES)
def test_whatever_is_computed_of_it_a_source_makes_no_room(tmp_path: Path, kind: str):
    AIR.to_dataset().to_zarr(tmp_path / "a.zarr", consolidated=False)
    result = cf.submit(SOURCES[kind](tmp_path / "a.zarr"), "mean", axis=0).labelled()
    with pytest.raises(PlanError, match="are the same, or one is inside the other"):
        result.to_zarr(tmp_path / "a.zarr", overwrite=True)


@pytest.mark.parametrize("chunks", [None, {}])
def test_a_file_that_xarray_reads_makes_no_room(tmp_path: Path, chunks: Any):
    AIR.to_dataset().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf", chunks=chunks) as given:
        result = cf.submit(given.air, "mean", axis="time").labelled()
        with pytest.raises(PlanError, match="are the same, or one is inside the other"):
            result.to_netcdf(tmp_path / "a.nc", overwrite=True)


def test_files_that_others_lead_to_make_no_room(tmp_path: Path):
    AIR.to_dataset().to_netcdf(tmp_path / "air.nc", engine="h5netcdf")
    with h5py.File(tmp_path / "link.nc", "w") as file:
        file["air"] = h5py.ExternalLink("air.nc", "air")
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(VALUES.shape, "f4")
        layout[...] = h5py.VirtualSource("air.nc", "air", VALUES.shape)
        file.create_virtual_dataset("air", layout)
    made = SingleHdf5ToZarr(str(tmp_path / "air.nc"), inline_threshold=0).translate()
    (tmp_path / "refs.json").write_text(json.dumps(made))
    for name in ("link.nc", "virtual.h5", "refs.json"):
        result = cf.submit(tmp_path / name / "air", "mean", axis=0).labelled()
        with pytest.raises(PlanError, match="are the same, or one is inside the other"):
            result.to_netcdf(tmp_path / "air.nc", overwrite=True)


@pytest.mark.parametrize(
    ("what", "chunks"),
    [("weights", None), ("weights", {}), ("where", None), ("where", {}), ("by", {})],
)
def test_what_xarray_weighs_and_groups_by_makes_no_room(tmp_path: Path, what: str, chunks: Any):
    for name in ("a.zarr", "b.zarr"):
        AIR.to_dataset().to_zarr(tmp_path / name, consolidated=False)
    other = xr.open_zarr(tmp_path / "b.zarr", consolidated=False, chunks=chunks).air[0]
    given = {"where": ("x > y", other), "by": other.astype("i4")}.get(what, other)
    result = cf.submit(tmp_path / "a.zarr" / "air", "mean", axis=(1, 2), **{what: given})
    with pytest.raises(PlanError, match="are the same, or one is inside the other"):
        result.labelled().to_zarr(tmp_path / "b.zarr", overwrite=True)


def test_a_zarr_opens_without_a_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder):
    reduced().to_zarr(tmp_path / "a.zarr")
    recwarn.clear()
    xr.open_zarr(tmp_path / "a.zarr").load()
    assert not recwarn.list


def test_coordinates_of_the_source_make_no_room(tmp_path: Path):
    AIR.to_dataset().to_zarr(tmp_path / "air.zarr", consolidated=False)
    result = cf.submit(tmp_path / "air.zarr" / "air", "mean", axis=0).labelled()
    with pytest.raises(PlanError, match="in the same Zarr group"):
        result.to_zarr(tmp_path / "air.zarr" / "lat", overwrite=True)
    for again in (False, True):
        result.to_zarr(tmp_path / "air.zarr" / "mean", overwrite=again)
    assert zarr.open_array(tmp_path / "air.zarr" / "lat")[0] == 10


def test_files_are_called_as_what_they_are(tmp_path: Path):
    with pytest.raises(PlanError, match=r"ends in '.nc'; use .zarr for Zarr"):
        reduced().to_zarr(tmp_path / "a.nc")
    with pytest.raises(PlanError, match=r"ends in '.zarr'; use .nc"):
        reduced().to_netcdf(tmp_path / "a.zarr")
    for name in ("x" * 300 + ".zarr", "x\0y.zarr"):
        with pytest.raises(PlanError):
            reduced().to_zarr(tmp_path / name)


def test_bins_are_texts_with_their_edges_beside(path: Path):
    bands = reduced(by=cf.bins([0, 15, 40], of="lat"))
    with opened(written(bands, path)) as got:
        assert got["lat_bins"].values.tolist() == ["[0, 15)", "[15, 40)"]
        assert got["lat_bins_left"].values.tolist() == [0, 15]
        assert got["lat_bins_right"].attrs["units"] == "degrees_north"


def test_histograms_have_their_edges(path: Path):
    bins = reduced(cf.histogram(edges=[250, 280, 310]), axis="time")
    with opened(written(bins, path)) as got:
        assert got["count"].dims == ("lat", "lon", "bin")
        assert got["left"].values.tolist() == [250, 280]
        assert got["bin"].attrs["units"] == "K"


def test_netcdf_has_what_it_has_no_type_for(tmp_path: Path):
    numbers = np.array([1 + 2j, 3 - 1j])
    written(cf.Result("sum", numbers, ("x",), {}), tmp_path / "c.nc")
    with opened(tmp_path / "c.nc") as got:
        np.testing.assert_array_equal(got["sum_real"] + 1j * got["sum_imag"], numbers)
    written(cf.Result("sum", numbers.real.astype("f2"), ("x",), {}), tmp_path / "h.nc")
    with opened(tmp_path / "h.nc") as got:
        assert got["sum"].dtype == np.float32


def test_tables_have_a_row_for_each_value():
    result = reduced(axis=("time", "lon"))
    table = result.to_dataframe()
    assert table.index.tolist() == [10, 20, 30]
    assert table["mean"].tolist() == result.tolist()
    assert reduced().to_dataframe()["mean"].tolist() == [reduced().item()]
    bins = reduced("histogram").to_dataframe()
    assert bins["count"].sum() == VALUES.size
