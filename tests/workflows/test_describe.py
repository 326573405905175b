"""What `describe` says of arrays is what NumPy says of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.decoding.direct import Direct
from chunkfold.errors import ChunkError, MissingError, SourceError
from chunkfold.planning.living_statistics import STATISTICS
from chunkfold.workflows.describe import describe

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
        assert set(one.statistics) == set(STATISTICS)
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


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A group with a good array at either end, and between them one of each kind of bad one."""
    path = tmp_path / "g.zarr"
    group = zarr.open_group(path, mode="w")
    for name in ("a", "all bad", "broken", "packed", "part bad", "removed", "z"):
        group.create_array(name, data=np.arange(6.0), chunks=(3,))
    zarr.consolidate_metadata(path)
    for spoiled in ("all bad/c/0", "all bad/c/1", "part bad/c/0"):
        (path / spoiled).write_bytes(b"spoiled")
    (path / "broken/zarr.json").write_text("{ not")
    zarr.open_array(path / "packed", mode="a").attrs["scale_factor"] = "a tenth"
    shutil.rmtree(path / "removed")
    zarr.open_array(path / "z", mode="a").append(np.full(3, 9.0))
    return path


def test_each_array_of_a_group_has_statistics_or_a_reason(damaged: Path):
    given = {"on_bad_chunk": "skip", "mask_and_scale": True}
    found = {one.name.removeprefix(f"{damaged}/"): one for one in describe(damaged, **given)}
    reasons = {
        "a": "",
        "all bad": "none of its chunks can be read: all were skipped",
        "broken": "cannot be opened (JSONDecodeError",
        "packed": "scale_factor is 'a tenth', not a finite float64: correct it",
        "part bad": "",
        "removed": "is gone, but the consolidated metadata of its group name it",
        "z": "",
    }
    assert list(found) == list(reasons)
    for name, reason in reasons.items():
        assert found[name].reason.startswith(reason)
        assert bool(found[name].statistics) == (not reason)
        assert found[name].bad == (bool(reason) and name != "removed")
    assert sum(found["all bad"].skipped.values()) == 6
    assert found["part bad"].statistics["min"] == 3
    assert found["z"].shape == (9,)
    assert found["z"].statistics["max"] == 9


def test_what_is_wrong_for_all_arrays_or_the_only_one_is_an_error(damaged: Path):
    with pytest.raises(cf.PlanError, match="memory is '0'"):
        describe(damaged, on_bad_chunk="skip", memory="0")
    with pytest.raises(cf.PlanError, match="on_bad_chunk is 'none'"):
        describe(damaged, on_bad_chunk="none")
    with pytest.raises(ChunkError, match="all bad: cannot read chunk"):
        describe(damaged)
    with pytest.raises(cf.PlanError, match="scale_factor is 'a tenth'"):
        describe(damaged / "packed", mask_and_scale=True)
    (alone,) = describe(damaged / "all bad", on_bad_chunk="skip")
    assert alone.bad


def test_arrays_may_change_before_they_are_read(tmp_path: Path, monkeypatch):
    """Of a group's arrays the last is read long after all were opened."""
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    for name in ("a", "b"):
        group.create_array(name, data=np.arange(6.0), chunks=(3,))
    each = Direct.each

    def appended(self: Direct, name: str, *given):
        last = zarr.open_array(tmp_path / "g.zarr/b", mode="a")
        if name.endswith("/a") and last.shape == (6,):
            last.append(np.full(3, 9.0))
        yield from each(self, name, *given)

    monkeypatch.setattr(Direct, "each", appended)
    first, last = describe(tmp_path / "g.zarr")
    assert (first.statistics["count"], last.statistics["count"]) == (6, 9)


def test_the_command_ends_with_3_if_an_array_is_bad(damaged: Path, here: Callable):
    with cf.LocalOpenCLCluster(dashboard_address=None) as cluster:
        on = ("--scheduler", cluster.scheduler_address, "--on-bad-chunk", "skip", "--json")
        code, told, said = here("describe", damaged, *on)
        shutil.rmtree(damaged / "broken")
        shutil.rmtree(damaged / "all bad")
        shutil.rmtree(damaged / "part bad")
        well, shown, _ = here("describe", damaged, *on[:-1])
    assert (code, well) == (3, 0)
    entries = {entry["name"].removeprefix(f"{damaged}/"): entry for entry in json.loads(told)}
    assert len(entries) == 7
    assert entries["broken"]["shape"] is None
    assert entries["z"]["statistics"]["max"] == 9
    assert "broken: cannot be opened" in said
    assert "removed" in shown


def test_a_chunk_that_is_to_be_there_ends_it_as_one_that_cannot_be_read(store: Path):
    next((store / "counts" / "c").iterdir()).unlink()
    assert len(describe(store)) == 11
    with pytest.raises(MissingError, match="counts: 1 of 143 chunks"):
        describe(store, on_missing_chunk="stop", on_bad_chunk="skip")
