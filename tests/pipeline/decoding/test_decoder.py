"""Rows of a chunk go straight to where they are wanted, whatever stands between them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.decoding import decoder
from chunkfold.decoding.decoder import Decoder, scattered
from chunkfold.stores.objects import LocalObjects


@pytest.fixture(autouse=True)
def _short_rows(monkeypatch) -> None:
    """Let rows of one element be worth a piece of memory."""
    monkeypatch.setattr(decoder, "_LEAST_ROW_BYTES", 1)


@st.composite
def parts(draw) -> tuple[tuple[int, ...], tuple[slice, ...], np.ndarray]:
    """Draw the shape of a chunk, a part of it, and memory for that which may have gaps."""
    shape = draw(st.lists(st.integers(1, 5), max_size=4).map(tuple))
    source = []
    for size in shape:
        start = draw(st.integers(0, size - 1))
        source.append(slice(start, draw(st.integers(start + 1, size)), 1))
    extents = tuple(along.stop - along.start for along in source)
    room = np.full([extent + draw(st.integers(0, 2)) for extent in extents], -1, np.int32)
    if shape and draw(st.booleans()):
        room = np.asfortranarray(room)
    return shape, tuple(source), room[(*map(slice, extents), ...)]


@given(parts())
def test_pieces_are_all_from_the_first_to_the_last_element_and_rows_go_to_the_target(part) -> None:
    shape, source, target = part
    chunk = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    found = scattered(source, shape, target)
    assert found is not None
    at, pieces = found
    stored = chunk.tobytes()
    for piece in pieces:
        piece[:] = stored[at : at + piece.nbytes]
        at += piece.nbytes
    np.testing.assert_array_equal(target, chunk[(*source, ...)])


def test_what_is_taken_by_steps_or_in_short_or_many_rows_is_copied(monkeypatch) -> None:
    every_other, rows = (slice(0, 4, 2), slice(0, 2, 1)), (slice(0, 4, 1), slice(0, 2, 1))
    assert scattered(every_other, (4, 4), np.empty((2, 2))) is None
    many = (slice(0, 300, 1), slice(0, 2, 1))
    assert scattered(many, (300, 4), np.empty((300, 2))) is None
    monkeypatch.setattr(decoder, "_LEAST_ROW_BYTES", 17)
    assert scattered(rows, (4, 4), np.empty((4, 2))) is None
    assert scattered(rows, (4, 2), np.empty((4, 2))) is not None  # they are one row


def test_files_that_come_in_several_reads_fill_all_pieces(tmp_path: Path, monkeypatch) -> None:
    chunk = np.arange(6 * 7 * 5, dtype=np.int32).reshape(6, 7, 5)
    (tmp_path / "chunk").write_bytes(chunk.tobytes())
    true_preadv, reads = os.preadv, []

    def some(descriptor: int, pieces: list[memoryview], offset: int) -> int:
        """Read 37 bytes at most, as a network's file system may."""
        reads.append(offset)
        left, taken = 37, []
        for piece in pieces:
            taken.append(piece[:left])
            left -= taken[-1].nbytes
        return true_preadv(descriptor, taken, offset)

    monkeypatch.setattr(os, "preadv", some)
    decoder, source = Decoder(chunk.shape, chunk.dtype, ()), (slice(1, 5), slice(2, 6))
    target = np.zeros((4, 4, 9), np.int32)[:, :, 2:7]
    with LocalObjects(str(tmp_path)).open("chunk", chunk.nbytes, None) as stored:
        assert stored is not None
        decoder.read(stored, (0, chunk.nbytes), (*source, slice(0, 5)), target)
        np.testing.assert_array_equal(target, chunk[source])
        assert len(reads) > 10
        with pytest.raises(ValueError, match=r"it ends after \d+ of 1,000 bytes: it was cut"):
            stored.read_into([memoryview(bytearray(1000))], 4)
