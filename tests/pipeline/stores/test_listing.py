"""What a store holds is listed whole, in ranges or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import obstore
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore, MemoryStore
from zarr.storage import ObjectStore

from chunkfold.sources import chunk_index
from chunkfold.sources.chunk_index import list_objects
from chunkfold.stores import listing
from chunkfold.stores.listing import listed

PAGE = 8


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of stores that are here, of which one lists in order and one does not."""
    monkeypatch.setattr(listing, "PAGE", PAGE)
    monkeypatch.setattr(chunk_index, "PAGE", PAGE)
    monkeypatch.setattr(listing, "_FROM_ANY_KEY", ("MemoryStore", "LocalStore"))


def sizes_of(array: zarr.Array) -> np.ndarray:
    listing = list_objects(array)
    assert listing is not None
    return listing.sizes


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list:
    """The ranges that are listed."""
    seen, between = [], listing._between

    def noted(*given: object) -> list:
        seen.append(given[-1])
        return between(*given)

    monkeypatch.setattr(listing, "_between", noted)
    return seen


@given(keys=st.sets(st.text("0123456789/", min_size=1, max_size=5), max_size=60), data=st.data())
@pytest.mark.parametrize("path", ["", "a/b"])
def test_marks_change_nothing_of_what_is_listed(path: str, keys: set[str], data: st.DataObject):
    keys = {key for key in keys if all(key.split("/"))}
    store = MemoryStore()
    for number, key in enumerate(sorted(keys)):
        obstore.put(store, f"{path}/{key}".lstrip("/"), b"x" * (number + 1))
    if path:
        obstore.put(store, f"{path}0/1", b"of another")
    marks = sorted(data.draw(st.sets(st.sampled_from([*sorted(keys), "", "5", "9/"]))))
    found = [(key, size) for key, size, _ in listed(store, path, marks)]
    assert sorted(found) == [(key, n + 1) for n, key in enumerate(sorted(keys))]


def test_a_large_array_is_listed_in_lots_that_are_alike(ranges: list):
    store = MemoryStore()
    array = zarr.create_array(
        ObjectStore(store), name="a", shape=(20, 30), chunks=(1, 1), dtype="i1", compressors=None
    )
    array[...] = 1
    array[3, 4:9] = 0  # what is fill is not stored
    assert (sizes_of(array) == array[...]).all()
    assert len(ranges) == chunk_index._RANGES
    keys = sorted(key for key, *_ in listed(store, "a"))
    sizes = [sum(behind < key <= (last or "~") for key in keys) for behind, last in ranges]
    assert max(sizes) <= 3 * len(keys) / len(ranges)


@pytest.mark.usefixtures("far_folders")
def test_a_store_that_lists_in_no_order_is_listed_at_one_go(tmp_path: Path, ranges: list):
    array = zarr.create_array(
        str(tmp_path / "a"), shape=(40, 40), chunks=(1, 1), dtype="i1", compressors=None
    )
    array[...] = 1
    store = ObjectStore(LocalStore(str(tmp_path)))
    first = [key for key, *_ in listed(store.store, "a")][:PAGE]
    assert first != sorted(first), "folders are in order here, so this shows nothing"
    assert np.all(sizes_of(zarr.open_array(store, path="a")) == 1)
    assert not ranges


def test_a_listing_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch, ranges: list):
    store = MemoryStore()
    for number in range(100):
        obstore.put(store, f"a/{number}", b"x")
    monkeypatch.setattr(listing, "DEADLINE_S", -1.0)
    with pytest.raises(TimeoutError, match="took more than"):
        list(listed(store, "a", ["3", "6"]))
