"""Chunks that are not stored: fill, or the end of a run before it reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import MissingError
from chunkfold.planning.missing_chunks import Missing
from chunkfold.selections import select
from tests.web import served

pytestmark = pytest.mark.unoptimised
CHUNKS = (5, 10)


def array(path: Path, *, rows: int = 20, **given: Any) -> Path:
    """Store the first ten rows, and the first columns of the others; in parts also row 5 to 9."""
    made = zarr.create_array(path, shape=(rows, 30), chunks=CHUNKS, dtype="f4", **given)
    made[:10] = 1
    made[10:, :10] = 1
    return path


@pytest.mark.parametrize(
    ("selection", "told"),
    [
        (None, r"4 of 12 chunks .* by their indices \(2, 1\), \(2, 2\), \(3, 1\), \.\.\."),
        ([12, 0], r"2 of 6 chunks .* \(2, 1\), \(2, 2\):"),
        ((slice(None, None, -11), [29]), r"1 of 2 chunks .* \(3, 2\):"),
        (slice(10), ""),
        ((slice(None), [0, 3]), ""),
    ],
)  # fmt: skip
def test_what_can_be_listed_is_known_before_anything_is_read(selection, told, tmp_path: Path):
    given = {"selection": selection, "on_missing_chunk": "stop"}
    path = array(tmp_path / "a")
    if not told:
        assert cf.reduce(path, **given) == cf.reduce(path, selection=selection)
        return
    for file in (path / "c").rglob("*"):
        if file.is_file():
            file.write_bytes(b"unreadable")
    for does in (cf.plan, cf.reduce):
        with pytest.raises(MissingError, match=told):
            does(path, **given)
    assert cf.plan(path, selection=selection).missing


@pytest.mark.parametrize("skips", ["stop", "skip"])
def test_what_only_asking_tells_ends_the_run_where_it_is_read(skips: str, tmp_path: Path):
    array(tmp_path / "a"), array(tmp_path / "b", rows=12)
    given = {"on_missing_chunk": "stop", "on_bad_chunk": skips}
    with served(tmp_path) as web:
        found = cf.reduce(f"{web.url}/a", selection=slice(10), **given)
        assert found == 300
        with pytest.raises(MissingError, match=r"chunk 'c/[23]/[12]' is not stored"):
            cf.reduce(f"{web.url}/a", **given)
        parts = cf.concatenate([f"{web.url}/b", f"{web.url}/a"])  # whose chunks are no one grid
        with pytest.raises(MissingError, match=r"chunk 'c/[23]/[12]' is not stored"):
            cf.reduce(parts, selection=slice(5, None), **given)
        assert cf.reduce(parts, selection=slice(10), **given) == 300


def test_parts_that_are_no_one_grid_are_listed_each(tmp_path: Path):
    parts = cf.concatenate([array(tmp_path / "b", rows=12), array(tmp_path / "a")])
    with pytest.raises(MissingError, match=r"a: 2 of 6 chunks .* \(2, 1\), \(2, 2\)"):
        cf.plan(parts, selection=[3, 23, 15], on_missing_chunk="stop")


def test_a_shard_lacks_chunks_that_only_its_index_tells(tmp_path: Path):
    made = zarr.create_array(
        tmp_path / "a", shape=(20, 30), chunks=CHUNKS, shards=(10, 30), dtype="f4"
    )
    made[:5], made[10:] = 1, 1
    given = {"on_missing_chunk": "stop", "on_bad_chunk": "skip"}
    with pytest.raises(MissingError, match="shard 'c/0/0' lacks 3 of its chunks"):
        cf.reduce(made, **given)
    assert cf.reduce(made, selection=slice(5), **given) == 150


def test_chunks_of_hdf5_that_were_never_written_end_the_run(tmp_path: Path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", (20, 30), "f4", chunks=CHUNKS)[:10] = 1
    with pytest.raises(MissingError, match=r"6 of 12 chunks .* \(2, 0\)"):
        cf.reduce(tmp_path / "a.h5" / "a", on_missing_chunk="stop")
    assert cf.reduce(tmp_path / "a.h5" / "a", on_missing_chunk="stop", selection=slice(10)) == 300


def test_what_nobody_would_notice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("chunkfold.sources.h5_source.MOST_LISTED", 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", (20, 30), "f4", chunks=CHUNKS)[:] = 1
    with pytest.raises(cf.PlanError, match="cannot say which chunks are stored"):
        cf.plan(tmp_path / "a.h5" / "a", on_missing_chunk="stop")
    assert cf.reduce(tmp_path / "a.h5" / "a") == 600


def test_the_option_reads_as_that_of_bad_chunks():
    with pytest.raises(
        cf.PlanError, match="on_missing_chunk is 'skip'; use one of: 'fill', 'stop'"
    ):
        cf.plan(np.zeros(3), on_missing_chunk="skip")
    assert cf.reduce(np.ones(3), on_missing_chunk="stop") == 3  # has none that could be missing


def test_an_array_without_axes_has_one_object():
    assert Missing.of((), (), np.array(0)) == Missing(1, 1, [()])
    assert Missing.of(select(()), (), np.array(7)) == Missing(0, 1, [])
