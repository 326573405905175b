"""Objects that are not those that were listed end the run, however and wherever they are read."""

from __future__ import annotations

import shutil
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import obstore
import pytest
import zarr
from obstore.store import LocalStore
from zarr.storage import ObjectStore

import chunkfold as cf
from chunkfold.errors import ChangedError
from chunkfold.events import BlockProgress
from chunkfold.planning import blocks, planner
from chunkfold.sources import chunk_index
from chunkfold.sources.opening import open_source
from chunkfold.stores.expected import Listed, ObjectState
from tests.plans import planned
from tests.web import served

pytestmark = pytest.mark.unoptimised
ROWS = 400
LAYOUTS = {
    "raw": {"chunks": (1, 64), "compressors": None},
    "zstd": {"chunks": (1, 64)},
    "sharded": {"chunks": (1, 64), "shards": (2, 64)},
    "by zarr": {"chunks": (1, 64), "zarr_format": 2, "order": "F"},
}


@pytest.fixture
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of them wait while the first are read."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (2048, 4096))


def made(folder: Path, layout: str, rows: int = ROWS) -> tuple[Path, str]:
    """Store an array; return the file of its last row, and its key."""
    array = zarr.create_array(str(folder), shape=(rows, 64), dtype="i4", **LAYOUTS[layout])
    array[...] = np.random.default_rng(0).integers(1, 2**30, array.shape)
    unit = array.shards or array.chunks
    key = array.metadata.encode_chunk_key(((rows - 1) // unit[0], 0))
    return folder / key, key


def rewritten(file: Path) -> None:
    time.sleep(0.02)  # the clock of file systems ticks every few milliseconds
    file.write_bytes(file.read_bytes())


def replaced(file: Path) -> None:
    """By an array whose metadata and sizes are the same."""
    array = next(folder for folder in file.parents if folder.name == "a")
    time.sleep(0.02)
    shutil.copytree(array, array.parent / "new", copy_function=shutil.copyfile)
    array.rename(array.parent / "old")
    (array.parent / "new").rename(array)


ACCIDENTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (Path.unlink, "is gone"),
    "longer": (lambda file: file.write_bytes(file.read_bytes() + b"more"), "bytes when the run"),
    "cut": (lambda file: file.write_bytes(file.read_bytes()[:-7]), "bytes when the run"),
    "rewritten": (rewritten, "was written at .* after the run was planned"),
    "replaced": (replaced, "was written at .* after the run was planned"),
}


def reduced_while(source: object, happens: Callable[[], object], **given) -> cf.Run:
    """Reduce a source, to which something happens once the first block has been read."""
    happening, happened = threading.Lock(), threading.Event()

    def on_event(event: object) -> None:
        with happening:  # so other blocks wait for it
            if isinstance(event, BlockProgress) and event.done and not happened.is_set():
                happened.set()
                happens()

    run = cf.submit(source, on_event=on_event, **given)
    assert len(run.plan.blocks) > 20
    run.result()
    assert happened.is_set()
    return run


@pytest.mark.parametrize("accident", ACCIDENTS)
@pytest.mark.usefixtures("_many_blocks")
@pytest.mark.parametrize(
    ("layout", "on_bad_chunk"),
    list(zip(LAYOUTS, ["stop", "skip"] * 2, strict=True)),
)
def test_a_file_that_changes_while_the_run_goes_on_ends_it(
    tmp_path: Path, layout: str, accident: str, on_bad_chunk: str
):
    file, key = made(tmp_path / "a", layout)
    happens, told = ACCIDENTS[accident]
    named = r"'[^']+'" if accident == "replaced" else f"'{key}'"
    with pytest.raises(ChangedError, match=rf"a: \w+ {named} changed while it was read: .*{told}"):
        reduced_while(tmp_path / "a", lambda: happens(file), on_bad_chunk=on_bad_chunk)


@pytest.mark.usefixtures("_many_blocks", "far_folders")
@pytest.mark.parametrize("accident", ["deleted", "cut", "rewritten"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_object_that_changes_behind_obstore_ends_the_run(
    tmp_path: Path, layout: str, accident: str
):
    file, key = made(tmp_path / "a", layout)
    store = ObjectStore(LocalStore(str(tmp_path)))
    happens, told = ACCIDENTS[accident]

    def later() -> None:
        if accident == "rewritten":
            time.sleep(1.1)  # times are told in seconds
        happens(file)

    with pytest.raises(ChangedError, match=rf"'{key}' changed while it was read: .*{told}"):
        reduced_while(zarr.open_array(store, path="a", mode="r"), later)


@pytest.mark.usefixtures("_many_blocks")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_stored_meanwhile_is_left_as_it_was_planned(tmp_path: Path, layout: str):
    """Half of it would be seen, and half not."""
    file, _ = made(tmp_path / "a", layout)
    kept = file.read_bytes()
    file.unlink()
    want = zarr.open_array(str(tmp_path / "a"), mode="r")[...].sum()
    run = reduced_while(tmp_path / "a", lambda: file.write_bytes(kept))
    assert next(iter(run.values.values())) == want


@pytest.mark.usefixtures("_many_blocks")
@pytest.mark.parametrize("layout", ["zstd", "sharded"])
def test_what_the_web_did_not_have_is_counted_once(tmp_path: Path, layout: str):
    file, _ = made(tmp_path / "a", layout, 40)
    file.unlink()
    want = zarr.open_array(str(tmp_path / "a"), mode="r")[...].sum()
    kind, objects = ("shards", 20) if layout == "sharded" else ("chunks", 40)
    with served(tmp_path) as web:
        run = cf.submit(f"{web.url}/a", ["sum", "argmax"])
        assert run.result()["sum"] == want
        assert run.missing == {f"{web.url}/a": (1, objects)}
        (told,) = run.remarks()
        assert told.startswith(f"1 of {objects} {kind} of {web.url}/a are not stored: ")
        assert list(run.plan.remarks()) == []  # nobody knew


def test_many_chunks_that_the_web_does_not_have_are_told(tmp_path: Path):
    zarr.create_array(str(tmp_path / "a"), shape=(100, 64), chunks=(1, 64), dtype="f4")
    with served(tmp_path) as web:
        run = cf.submit(f"{web.url}/a", selection=(slice(0, 100, 2),))
        assert run.result() == 0.0
        assert "50 of 50 chunks of" in next(run.remarks())


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "is gone"),
        (ObjectState(6, 10), "had 5 bytes .* has 6"),
        (ObjectState(5, 11), "was written at"),
        (ObjectState(5, 10), ""),
        (ObjectState(5, 3), ""),
    ],
)
@pytest.mark.parametrize("size", [5, 0])
def test_an_object_is_compared_with_its_entry(size: int, found: ObjectState | None, told: str):
    known = Listed((3, 1), np.array([[5, 0], [5, 5]], np.uint32), size, 10, by_seconds=False)
    if told:
        with pytest.raises(ChangedError, match=told):
            known.check((4, 2), found)
    else:
        known.check((4, 2), found)


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [((10**7 << 18,), (1 << 18,)), ((10_000, 100 << 9, 10 << 9), (1, 1 << 9, 1 << 9))],
)
@pytest.mark.parametrize("axis", [None, 0])
def test_ten_million_chunks_are_planned_in_little_memory(shape, chunks, axis):
    """With what was listed of each, and with what is noted of a block."""
    source = open_source(zarr.create_array({}, shape=shape, chunks=chunks, dtype="f4"))
    tracemalloc.start()
    try:
        sizes = np.full(source.object_grid, 10**6, np.uint32)
        sizes.reshape(-1)[::1001] = 0
        sizes.reshape(-1)[::7] = np.arange(0, sizes.size, 7)
        plan = planned(
            source, "mean", mode="exact", axis=axis, listings=[chunk_index.Listing(sizes, 5)]
        )
        sent = plan.sent(plan.blocks[len(plan.blocks) // 2])
        missing, objects = plan.missing[source.name]
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
    assert (missing, objects) == (np.count_nonzero(sizes == 0), 10**7)
    assert sent.objects


def test_times_in_seconds_are_not_compared_closer():
    known = Listed((0,), np.array([5], np.uint32), 0, 1_999_999_999, by_seconds=True)
    known.check((0,), ObjectState(5, 1_000_000_000))
    with pytest.raises(ChangedError):
        known.check((0,), ObjectState(5, 2_000_000_000))


def test_an_empty_object_is_one_that_is_stored(tmp_path: Path):
    store = LocalStore(str(tmp_path))
    obstore.put(store, "c/0", b"")
    array = zarr.create_array(str(tmp_path / "b"), shape=(1,), chunks=(1,), dtype="i1")
    (tmp_path / "b/c").mkdir()
    (tmp_path / "b/c/0").write_bytes(b"")
    listing = chunk_index.list_objects(array)
    assert listing is not None
    Listed((0,), listing.sizes, 0, listing.newest, by_seconds=False).check(
        (0,), ObjectState(0, listing.newest)
    )
