"""Threads that write chunks: each whole and once, what is all fill not at all, and errors told."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import zarr

from chunkfold.workflows.regionwise import chunk_writers
from chunkfold.workflows.regionwise.chunk_writers import ChunkWriters


def test_chunks_are_written_but_those_that_are_all_fill(tmp_path: Path):
    values = np.arange(1, 65, dtype="f4").reshape(8, 8)
    values[:4, 4:] = 0
    values[4:, :4] = -0.0  # which is not the fill value, bit by bit
    values[4, 4] = 0
    array = zarr.create_array(str(tmp_path / "a"), shape=(8, 8), chunks=(4, 4), dtype="f4")
    writers = ChunkWriters(1 << 20)
    for n in np.ndindex(2, 2):
        place = tuple(slice(4 * k, 4 * k + 4) for k in n)
        writers.put(n, array, place, values[place])
    writers.settle()
    writers.stop()
    np.testing.assert_array_equal(array[...].view("u4"), values.view("u4"))
    assert sorted(p.name for p in (tmp_path / "a" / "c" / "0").iterdir()) == ["0"]
    assert sorted(p.name for p in (tmp_path / "a" / "c" / "1").iterdir()) == ["0", "1"]


@pytest.mark.parametrize(("most_bytes", "at_once"), [(1 << 20, 3), (150, 1), (1, 1)])
def test_few_chunks_wait(tmp_path: Path, monkeypatch, most_bytes: int, at_once: int):
    running, most, lock = set[int](), list[int](), threading.Lock()
    monkeypatch.setattr(chunk_writers, "host_cores", lambda: 3)
    there = threading.Barrier(at_once)
    write = chunk_writers._write

    def watched(*given):
        with lock:
            running.add(threading.get_ident())
            most.append(len(running))
        there.wait(10)  # as many as may be are there together
        write(*given)
        with lock:
            running.discard(threading.get_ident())

    monkeypatch.setattr(chunk_writers, "_write", watched)
    array = zarr.create_array(str(tmp_path / "a"), shape=(144,), chunks=(24,), dtype="f4")
    writers = ChunkWriters(most_bytes)
    for n in range(6):
        place = (slice(24 * n, 24 * n + 24),)
        writers.put(n, array, place, np.full(24, n + 1, "f4"))
    writers.settle()
    writers.stop()
    assert max(most) == at_once
    np.testing.assert_array_equal(array[...], np.repeat(np.arange(1, 7), 24))


def test_what_keeps_a_chunk_from_being_written_is_told(tmp_path: Path):
    array = zarr.create_array(str(tmp_path / "a"), shape=(8,), chunks=(4,), dtype="f4")
    (tmp_path / "a" / "c").touch()  # where there is to be a folder
    writers = ChunkWriters(1 << 20)
    writers.put(0, array, (slice(0, 4),), np.ones(4, "f4"))
    with pytest.raises(OSError, match="c"):
        writers.settle()
    writers.stop()
