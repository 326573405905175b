"""HDF5 datasets: what they say of themselves, what is stored of them, and what misbehaves."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import chunkfold as cf
from chunkfold.errors import ChangedError
from chunkfold.sources.array_source import PartsSource
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.labels import read_labels
from chunkfold.sources.neighbours import group_attributes
from chunkfold.sources.opening import open_each, open_neighbour, open_source
from chunkfold.stores.remote import hint
from chunkfold.workflows.files.writing import write_results

STORED = np.arange(-30, 90, dtype="i2").reshape(10, 4, 3)


@pytest.fixture
def air(tmp_path: Path) -> Path:
    """Return a file as NetCDF-4 lays it out: packed numbers, scales, an axis with none."""
    with h5py.File(tmp_path / "air.nc", "w") as file:
        file.attrs["title"] = "of the air"
        for name, size in (("time", 10), ("lat", 4)):
            file[name] = np.arange(size, dtype="f8")
            file[name].attrs["units"] = "1"
            file[name].make_scale()
        file["lon"] = np.zeros(3, "f4")
        file["lon"].make_scale("This is a netCDF dimension but not a netCDF variable.         3")
        file["station"] = ["a", "b", "c", "d"]
        made = file.create_dataset(
            "air", STORED.shape, "i2", chunks=(3, 4, 3), compression="gzip", fillvalue=-30
        )
        made[:6] = STORED[:6]
        for axis, name in enumerate(("time", "lat", "lon")):
            made.dims[axis].attach_scale(file[name])
        made.attrs["scale_factor"] = np.float64(0.5)
        made.attrs["add_offset"] = np.array([100.0])
        made.attrs["_FillValue"] = np.array([-30], "i2")
        made.attrs["units"] = np.bytes_("K")
    return tmp_path / "air.nc"


def test_it_says_what_its_file_says(air: Path):
    source = open_source(f"{air}/air")
    assert source.dims == ("time", "lat", "lon")
    assert source.attributes == {
        "scale_factor": 0.5, "add_offset": 100.0, "_FillValue": -30, "units": "K"
    }  # fmt: skip
    assert source.fill == -30
    assert source.chunks == (3, 4, 3)
    packing = packing_of(source)
    assert (packing.scale, packing.offset, packing.missing) == (0.5, 100.0, (-30,))
    assert open_source(f"{air}/time").dims == ("time",)
    assert len(pickle.dumps(source)) < 2000


def test_values_are_those_that_xarray_reads(air: Path):
    values = np.where(STORED == -30, np.nan, STORED * 0.5 + 100)
    values[6:] = np.nan
    given = {"mask_and_scale": True, "skipna": True, "axis": "time"}
    assert np.array_equal(cf.reduce(f"{air}/air", "max", **given), np.nanmax(values, axis=0))


def test_chunks_that_were_never_written_are_fill_and_not_read(air: Path):
    source = open_source(f"{air}/air")
    listing = source.listing()
    assert (listing.sizes[:, 0, 0] > 0).tolist() == [True, True, False, False]
    assert "2 of 4 chunks" in str(cf.plan(source))


def test_what_has_no_value_for_what_was_never_written_is_read_as_zeros(tmp_path: Path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((2,))
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple((50_000,))
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_DOUBLE, space, plist)
        file["x"][:2] = 3
    assert open_source(f"{tmp_path}/a.h5/x").listing() is None
    assert cf.reduce(f"{tmp_path}/a.h5/x") == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda f: f.create_dataset(
            "x", data=np.array([1, 2, 2]), dtype=h5py.enum_dtype({"a": 1, "b": 2}, "i4")
        ),
        lambda f: f.create_dataset(
            "x", data=[1, 2, 2], dtype="i8", chunks=(2,), fletcher32=True, compression="lzf"
        ),
        lambda f: f.create_dataset(
            "x", data=np.array([1, 2, 2], "u1"), maxshape=(None,), chunks=(100,)
        ),
        lambda f: f.create_dataset("x", data=np.array([1, 2, 2], ">f8")),
    ],
    ids=["enumeration", "filters", "a chunk beyond its end", "in one piece"],
)  # fmt: skip
def test_however_it_is_stored_it_is_reduced(tmp_path: Path, make):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(file)
    source = open_source(f"{tmp_path}/a.h5/x")
    read = np.empty(3, source.dtype)
    source.read([slice(0, 3, 1)], read)
    assert read.tolist() == [1, 2, 2]
    source.read([slice(0, 3, 2)], read[:2])
    assert read.tolist() == [1, 2, 2]


def test_a_number_without_axes_is_one_too(tmp_path: Path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 2.5
    assert cf.reduce(f"{tmp_path}/a.h5/x") == 2.5


def test_chunks_that_hdf5_keeps_are_memory_that_is_told(air: Path):
    own = open_source(f"{air}/air").reading_bytes(1000, 1000)
    assert own == 1000 + 2 * 3 * 4 * 3 * 2
    with h5py.File(air, rdcc_nbytes=100) as file:
        assert open_source(file["air"]).reading_bytes(1000, 1000) == own + 100


def test_links_lead_to_other_files_which_are_compared_too(tmp_path: Path, air: Path):
    with h5py.File(tmp_path / "links.h5", "w") as file:
        file["far"] = h5py.ExternalLink("air.nc", "/time")
        file["near"] = h5py.SoftLink("/far")
    source = open_source(f"{tmp_path}/links.h5/near")
    assert cf.reduce(pickle.loads(pickle.dumps(source))) == 45
    with h5py.File(tmp_path / "links.h5") as file:
        assert cf.reduce(file["near"]) == cf.reduce(file["far"]) == 45
    os.truncate(air, 5000)
    with pytest.raises(ChangedError, match=r"near: changed .* its file .*air.nc was written to"):
        source.check_unchanged()


def test_a_virtual_dataset_wants_all_the_files_that_it_is_made_of(tmp_path: Path):
    layout = h5py.VirtualLayout((2, 5), "i4")
    for number in range(2):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = np.arange(5, dtype="i4")
        layout[number] = h5py.VirtualSource(f"{number}.h5", "x", (5,))
    with h5py.File(tmp_path / "all.h5", "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=-1)
    source = open_source(f"{tmp_path}/all.h5/x")
    assert cf.reduce(source) == 20
    (tmp_path / "1.h5").unlink()
    with pytest.raises(ChangedError, match=r"its file .*1.h5 is gone"):
        cf.reduce(source)
    with pytest.raises(cf.SourceError, match=r"and one of them is missing \(.*1.h5"):
        cf.reduce(f"{tmp_path}/all.h5/x")


def test_a_file_in_memory_stays_here_and_comes_with_blocks(tmp_path: Path):
    with h5py.File("nowhere", "w", driver="core", backing_store=False) as file:
        made = file.create_dataset("x", data=np.arange(30.0), chunks=(4,))
        made.attrs["units"] = "m"
        source = open_source(made)
        assert not source.travels
        assert source.attributes == {"units": "m"}
        assert isinstance(source.parted([[slice(0, 8, 1)]]), PartsSource)
        assert cf.reduce(made) == 435


def test_what_its_owner_has_not_written_yet_is_read_elsewhere_too(tmp_path: Path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(30.0)
        source = pickle.loads(pickle.dumps(open_source(file["x"])))
        assert cf.reduce(source) == 435


@pytest.mark.parametrize(
    ("inner", "told"),
    [
        ("", r"air.nc: is an HDF5 file, not an array; its arrays: .*air.nc/air, .*air.nc/time"),
        ("/nope", r"no dataset has this name; .*air.nc is a group; its arrays: .*/air"),
        ("/air/x", r"no dataset has this name; .*/air is an array"),
        ("/station", "dtype 'object' cannot be reduced"),
    ],
)
def test_what_is_no_dataset_is_told_in_one_sentence(air: Path, inner: str, told: str):
    with pytest.raises(cf.SourceError, match=told):
        cf.reduce(f"{air}{inner}")


def test_a_group_of_h5py_names_what_is_in_it(air: Path):
    with h5py.File(air) as file:
        with pytest.raises(cf.SourceError, match=r"not an array; its arrays: group\['air'\]"):
            cf.reduce(file)
        closed = file["air"]
    with pytest.raises(cf.SourceError, match="whose file is closed"):
        cf.reduce(closed)


def test_a_null_dataset_and_a_filter_that_is_not_there_are_refused(tmp_path: Path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["null"] = h5py.Empty("f4")
        file.create_dataset("x", data=np.ones(9), compression="gzip")
    with pytest.raises(cf.SourceError, match="null dataset"):
        cf.reduce(f"{tmp_path}/a.h5/null")
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda _: False)
    with pytest.raises(cf.SourceError, match=r"its filter 'gzip' \(number 1\) is missing: pip"):
        cf.reduce(f"{tmp_path}/a.h5/x")


def test_options_of_object_stores_are_refused(air: Path):
    with pytest.raises(cf.PlanError, match="storage_options are given"):
        cf.reduce(f"{air}/air", storage_options={"region": "x"})


def test_a_file_that_was_cut_is_named(air: Path):
    os.truncate(air, 3000)
    with pytest.raises(cf.SourceError, match=r"air.nc/air: cannot be opened as HDF5 \(.*truncated"):
        cf.reduce(f"{air}/air")


def test_a_chunk_that_is_damaged_is_named_and_can_be_left_out(tmp_path: Path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", data=np.arange(30.0), chunks=(10,), compression="gzip")
        at = made.id.get_chunk_info(1)
    with path.open("r+b") as file:
        file.seek(at.byte_offset + 2)
        file.write(b"\xff" * (at.size - 2))
    with pytest.raises(
        cf.ChunkError, match=r"a.h5/x: cannot read .* \(codecs? gzip; .*a.h5\): OSE"
    ):
        cf.reduce(f"{path}/x")
    run = cf.submit(f"{path}/x", on_bad_chunk="skip")
    assert run.result() == sum(range(10)) + sum(range(20, 30))
    assert sum(run.skipped.values()) == 10


@pytest.mark.parametrize("how", ["written", "gone", "cut"])
def test_what_changes_under_way_ends_the_run(air: Path, how: str):
    source = open_source(f"{air}/time")
    if how == "written":
        with h5py.File(air, "a") as file:
            file["time"][0] = 7
    elif how == "gone":
        air.unlink()
    else:
        os.truncate(air, 3000)
    with pytest.raises(ChangedError, match=r"air.nc/time.* changed while it was read"):
        cf.reduce(source)
    with pytest.raises(ChangedError, match="changed while it was read"):
        source.check_unchanged()
    if how == "written":
        assert cf.reduce(source.reopened()) == 45 + 7
    else:
        with pytest.raises(cf.SourceError, match="cannot be opened again"):
            source.reopened()


def test_a_single_writer_may_go_on_while_others_read(tmp_path: Path):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        made = file.create_dataset("x", data=np.arange(8.0), chunks=(4,), maxshape=(None,))
        file.swmr_mode = True
        with h5py.File(tmp_path / "a.h5", "r", swmr=True) as read:
            source = open_source(read["x"])
            made.resize(12, axis=0)
            made.flush()
            assert cf.reduce(source) == 28


def test_without_h5py_the_extra_is_named(air: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(cf.SourceError, match=r"pip install 'chunkfold\[hdf5\]'"):
        cf.reduce(f"{air}/air")


@pytest.mark.parametrize("address", ["https://host/air.nc/air", "s3://bucket/a.h5?x=1"])
def test_a_file_elsewhere_is_told_to_be_copied(address: str):
    assert "files of HDF5 are read from a local disk: copy it" in hint(address, "not found")
    assert not hint(address.replace(".nc", ".ncs").replace(".h5", ".zarr"), "not found")


def test_all_in_a_file_are_described_and_texts_have_a_reason(air: Path):
    names = [one.name.removeprefix(f"{air}/") for one in open_each(air)]
    assert names == ["air", "lat", "station", "time"]


def test_results_have_the_coordinates_of_a_file(air: Path, tmp_path: Path):
    source = open_source(f"{air}/air")
    assert group_attributes(source) == {"title": "of the air"}
    assert open_neighbour(source, "lat")[:].tolist() == [0, 1, 2, 3]
    assert open_neighbour(source, "station")[:].tolist() == ["a", "b", "c", "d"]
    assert open_neighbour(source, "nope") is None
    out, given = tmp_path / "out.zarr", {"axis": "time"}
    run = cf.submit(f"{air}/air", "max", mask_and_scale=True, **given)
    run.result()
    write_results(out, {"": run.results})
    made = xr.open_zarr(out, consolidated=False)
    assert made["max"].dims == ("lat", "lon")
    assert made["lat"].attrs["units"] == "1"


def test_labels_may_be_in_a_file_too(air: Path):
    with h5py.File(air, "a") as file:
        file["zones"] = np.array([0, 0, 1, 1])
    labels = read_labels(f"{air}/zones")
    assert labels.values.tolist() == [0, 0, 1, 1]
