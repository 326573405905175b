"""Memory that chunks pass through begins where a page does, and is kept while it suffices."""

from __future__ import annotations

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.stores import objects
from chunkfold.stores.objects import Scratch


@given(st.lists(st.integers(1, 3 * mmap.PAGESIZE), min_size=1, max_size=6))
def test_it_begins_at_a_page_and_is_kept(sizes: list[int]):
    scratch, most, before = Scratch(), -1, None
    for size in sizes:
        memory = scratch.buffer("a", size)
        assert (memory.nbytes, memory.ctypes.data % mmap.PAGESIZE) == (size, 0)
        if size <= most:
            assert memory.ctypes.data == before
        most, before = max(most, size), memory.ctypes.data
        memory[:] = 1


def test_uses_have_memory_of_their_own():
    scratch = Scratch()
    one, other = scratch.buffer("a", 10), scratch.buffer("b", 10)
    one[:], other[:] = 1, 2
    assert one.tolist() == [1] * 10


@pytest.mark.parametrize("size", [100, 101])
def test_large_memory_is_not_kept(monkeypatch, size: int):
    monkeypatch.setattr(objects, "_KEPT_BYTES", 100)
    scratch = Scratch()
    memory = scratch.buffer("a", size)
    assert memory.ctypes.data % mmap.PAGESIZE == 0
    again = scratch.buffer("a", size)
    assert (memory.ctypes.data == again.ctypes.data) == (size == 100)
