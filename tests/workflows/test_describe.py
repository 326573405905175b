"""What `describe` says of arrays is what NumPy says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.direct import Direct
from chunkfold.errors import ChunkError, SourceError
from chunkfold.workflows.describe import OPS, describe

pytestmark = pytest.mark.unoptimised


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A group of arrays, two of which have nothing to reduce, on two levels."""
    path, rng = tmp_path / "s.zarr", np.random.default_rng(0)
    group = zarr.open_group(str(path), mode="w")
    air = rng.normal(280, 15, (30, 40)).astype("f4")
    air[3, 4:9] = np.nan
    data = {
        "air/temperature": air,
        "air/pressure": rng.normal(1e5, 1e3, (30, 40)),
        "counts": rng.integers(0, 2**16, 1000).astype("u2"),
        "mask": np.arange(100) % 3 == 0,
        "waves": np.array([1j, 2 - 1j], "c8"),
        "time": np.array(["2020-01-01", "NaT", "2020-01-03"], "M8[s]"),
        "gaps": np.full(5, np.nan),
        "one": np.array(7, "i4"),
        "none": np.empty((0, 4), "f4"),
        "odd[/b]name": np.arange(3),
    }
    for name, values in data.items():
        made = group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=tuple(7 for _ in values.shape)
        )
        made[...] = values
    group.create_array("names", shape=(3,), dtype="str")
    return path


def test_statistics_are_numpys_of_what_is_not_missing(store: Path):
    found = {one.name.removeprefix(f"{store}/"): one for one in describe(store)}
    assert list(found) == sorted(found)
    assert len(found) == 11
    for name in ("air/temperature", "air/pressure", "counts", "mask", "one"):
        one, array = found[name], zarr.open_array(store, path=name, mode="r")[...]
        there = array[~np.isnan(array)]
        assert set(one.statistics) == set(OPS)
        assert one.missing == array.size - there.size
        assert (one.shape, one.dtype, one.nbytes) == (array.shape, array.dtype, array.nbytes)
        assert one.statistics["min"] == there.min()
        assert one.statistics["max"] == there.max()
        for op in ("mean", "std"):
            assert one.statistics[op] == pytest.approx(getattr(there.astype("f8"), op)(), rel=1e-6)
        assert one.statistics["histogram"]["count"].sum() == there.size
    assert found["waves"].statistics == {"count": 2, "mean": np.complex64(1 + 0j)}
    time = found["time"]
    assert (time.missing, str(time.statistics["mean"])) == (1, "2020-01-02T00:00:00")
    assert found["gaps"].missing == 5
    assert np.isnan(found["gaps"].statistics["max"])
    assert found["none"].reason == "it has no elements"
    assert "cannot be reduced" in found["names"].reason
    assert found["names"].missing is None


def test_packed_values_are_described_unpacked(tmp_path: Path):
    values = np.arange(-1, 99, dtype="i2")
    zarr.create_array(
        str(tmp_path / "a"), data=values, attributes={"scale_factor": 0.5, "_FillValue": -1}
    )
    (plain,) = describe(tmp_path / "a")
    (unpacked,) = describe(tmp_path / "a", mask_and_scale=True)
    assert (plain.missing, plain.statistics["max"]) == (0, 98)
    assert (unpacked.missing, unpacked.statistics["max"]) == (1, 49.0)


def test_every_chunk_is_read_once(store: Path, monkeypatch):
    read: dict[str, np.ndarray] = {}
    true_read = Direct.read

    def counting(self: Direct, name: str, region, out, known=None) -> None:
        read.setdefault(name, np.zeros(zarr.open_array(name, mode="r").shape, int))[region] += 1
        true_read(self, name, region, out, known)

    monkeypatch.setattr(Direct, "read", counting)
    found = describe(store)
    assert set(read) == {one.name for one in found if one.statistics}
    assert all((times == 1).all() for times in read.values())


def test_what_is_stored_is_told(tmp_path: Path):
    made = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(10, 4), chunks=(5, 4), dtype="i4", compressors=None
    )
    made[5:] = 1
    (one,) = describe(tmp_path / "a.zarr")
    assert one.stored is not None
    assert one.stored.tolist() == [[0], [80]]
    assert one.statistics["mean"] == 0.5


def test_bad_chunks_end_it_or_are_left_out(tmp_path: Path):
    made = zarr.create_array(str(tmp_path / "a.zarr"), shape=(9,), chunks=(3,), dtype="f8")
    made[...] = [1, 2, 3, 4, 5, 6, 7, 8, np.nan]
    (tmp_path / "a.zarr/c/1").write_bytes(b"spoiled")
    with pytest.raises(ChunkError, match="c/1"):
        describe(made)
    (one,) = describe(made, on_bad_chunk="skip")
    assert (sum(one.skipped.values()), one.missing, one.statistics["max"]) == (3, 1, 8)


def test_a_group_without_arrays_is_refused(tmp_path: Path):
    zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    with pytest.raises(SourceError, match=r"g\.zarr: is a Zarr group without arrays"):
        describe(tmp_path / "g.zarr")


def test_the_command_shows_a_row_for_each_array(store: Path, here: Callable):
    with cf.LocalOpenCLCluster(dashboard_address=None) as cluster:
        on = ("--scheduler", cluster.scheduler_address)
        _, shown, _ = here("describe", store, *on)
        _, told, _ = here("describe", store / "counts", "--json", "--quiet", *on)
    rows = shown.splitlines()
    assert len(rows) == 1 + 11
    assert "histogram" in rows[0]
    (row,) = [row for row in rows if "air/temperature" in row]
    assert "30x40" in row
    assert any("datetime64[s]" in row for row in rows)
    assert "█" in row
    entries = json.loads(told)
    assert [entry["missing"] for entry in entries] == [0]
    assert entries[0]["statistics"]["histogram"][0]["count"] > 0
