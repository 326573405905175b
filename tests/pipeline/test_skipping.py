"""Chunks that cannot be read: the run ends with their names, or leaves them out and says so."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold import bad_chunks
from chunkfold.cluster.joining import connect
from chunkfold.planning import blocks, planner
from chunkfold.reading import readers, tile_leaves
from chunkfold.stores.objects import LocalObjects
from tests.conftest import DEVICES, workers_of
from tests.exactly import expected

pytestmark = pytest.mark.unoptimised


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Several chunks to a leaf, several leaves to a block."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 4 * 9 * 8)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1200, 2400))
    monkeypatch.setattr(tile_leaves, "READ_BYTES", 100)  # a chunk has 72


def damaged(folder: Path, array: np.ndarray, bad: np.ndarray, **layout) -> np.ma.MaskedArray:
    """Store an array, cut the chunks that `bad` says; return what is left of it."""
    made = zarr.create_array(
        str(folder), shape=array.shape, dtype=array.dtype, config={"write_empty_chunks": True},
        **layout,
    )  # fmt: skip
    made[...] = array
    mask = np.zeros(array.shape, bool)
    unit = made.shards or made.chunks
    for place in np.argwhere(bad):
        file = folder / made.metadata.encode_chunk_key(tuple(map(int, place)))
        file.write_bytes(file.read_bytes()[:-3])
        mask[tuple(slice(n * u, (n + 1) * u) for n, u in zip(place, unit, strict=True))] = True
    return np.ma.MaskedArray(array, mask)


def removed(folder: Path, rest: np.ma.MaskedArray, gone: np.ndarray) -> None:
    """Remove the chunks that `gone` says, and put the fill value, 0, in their place."""
    made = zarr.open_array(folder)
    unit = made.shards or made.chunks
    for place in np.argwhere(gone):
        (folder / made.metadata.encode_chunk_key(tuple(map(int, place)))).unlink()
        rest[tuple(slice(n * u, (n + 1) * u) for n, u in zip(place, unit, strict=True))] = 0


LAYOUTS = {
    "zstd": {"chunks": (3, 3)},
    "uncompressed": {"chunks": (3, 3), "compressors": None},
    "by zarr": {"chunks": (3, 3), "zarr_format": 2, "order": "F"},
    "shards": {"chunks": (3, 3), "shards": (6, 3)},
}


@given(
    st.integers(0, 2**32),
    st.sampled_from(list(LAYOUTS)),
    st.sampled_from([None, 0, 1]),
    st.floats(0, 0.7),
    st.sampled_from([0, 0, 0.5, 0.9]),
    st.booleans(),
)
@settings(max_examples=40)
def test_the_rest_is_reduced_exactly(
    tmp_path_factory, seed: int, layout: str, axis, share: float, gone: float, cut: bool
):
    folder = tmp_path_factory.mktemp("bad") / "a"
    rng = np.random.default_rng(seed)
    array = rng.standard_normal((17, 11))
    grid = (3 if layout == "shards" else 6, 4)
    rest = damaged(folder, array, rng.random(grid) < share, **LAYOUTS[layout])
    removed(folder, rest, rng.random(grid) < gone)
    selection = (slice(1, None, 2), slice(2, 10)) if cut else None
    left = rest if selection is None else rest[selection]
    ops = ["sum", "mean", "std", "count"]
    run = cf.submit(folder, ops, axis=axis, selection=selection, on_bad_chunk="skip")
    got = run.result()
    assert sum(run.skipped.values()) == left.mask.sum()
    for op in ops:
        np.testing.assert_array_equal(got[op], of_rest(left, axis, op), err_msg=op)
    assert all(chunk and chunk.array == str(folder) for chunk in run.skipped)


def of_rest(left: np.ma.MaskedArray, axis, op: str) -> np.ndarray:
    """Reduce the elements left, each output by itself, by rationals."""
    rows = [left.ravel()] if axis is None else np.moveaxis(left, axis, -1)
    values = [row.compressed().tolist() for row in rows]
    done = [len(row) if op == "count" else expected(op, row, "f8") for row in values]
    return np.array(done[0] if axis is None else done)


def test_every_chunk_left_out_is_named_with_codec_and_store(tmp_path: Path):
    bad = np.zeros((6, 4), bool)
    bad[[0, 2, 5], [1, 3, 0]] = True
    damaged(tmp_path / "a", np.ones((17, 11)), bad, **LAYOUTS["zstd"])
    run = cf.submit(tmp_path / "a", "sum", on_bad_chunk="skip")
    assert run.result() == 17 * 11 - 9 - 3 * 2 - 2 * 3
    chunks = [chunk for chunk in run.skipped if chunk]
    assert sorted(chunk.key for chunk in chunks) == ["c/0/1", "c/2/3", "c/5/0"]
    for chunk in chunks:
        assert (chunk.kind, chunk.codecs, chunk.store) == ("chunk", ("zstd",), str(tmp_path / "a"))
    with pytest.raises(cf.ChunkError, match=r"cannot read chunk 'c/./.'") as caught:
        cf.reduce(tmp_path / "a", "sum")
    assert caught.value.chunk in chunks
    assert str(caught.value) == str(caught.value.chunk)


def test_sums_that_expansions_lose_are_right_without_bad_chunks_too(tmp_path: Path):
    array = np.ones((12, 6))
    array[0], array[4], array[8] = 1e300, 1e-300, -1e300  # three terms do not hold all of it
    array[1, 2] = 2.0**-1000
    bad = np.zeros((4, 2), bool)
    bad[2, 0] = True  # rows 6 to 8 of columns 0 to 2
    rest = damaged(tmp_path / "a", array, bad, chunks=(3, 3))
    got = cf.reduce(tmp_path / "a", "sum", axis=0, on_bad_chunk="skip")
    assert got.tolist() == of_rest(rest, 0, "sum").tolist()


def test_outputs_of_nothing_but_bad_chunks_have_no_minimum(tmp_path: Path):
    bad = np.zeros((4, 2), bool)
    bad[:, 0] = True
    damaged(tmp_path / "a", np.ones((12, 6)), bad, chunks=(3, 3))
    with pytest.raises(
        cf.ChunkError, match=r"min of .* no value in 3 outputs: every chunk .* skipped"
    ):
        cf.reduce(tmp_path / "a", ["sum", "min"], axis=0, on_bad_chunk="skip")
    got = cf.reduce(tmp_path / "a", ["sum", "mean"], axis=0, on_bad_chunk="skip")
    np.testing.assert_array_equal(got["sum"], [0, 0, 0, 12, 12, 12])
    np.testing.assert_array_equal(got["mean"], [np.nan] * 3 + [1] * 3)


def test_two_inputs_leave_out_what_either_lacks(tmp_path: Path):
    one = damaged(tmp_path / "a", np.full((12, 6), 2.0), np.eye(4, 2) > 0, chunks=(3, 3))
    two = damaged(tmp_path / "b", np.full((12, 6), 3.0), np.eye(3, 2) > 0, chunks=(4, 5))
    run = cf.submit([tmp_path / "a", tmp_path / "b"], "dot", on_bad_chunk="skip")
    left = ~(one.mask | two.mask)
    assert run.result() == 6 * left.sum()
    assert sum(run.skipped.values()) == (~left).sum()


def test_what_is_skipped_is_bounded(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(bad_chunks, "MOST_SKIPPED", 3)
    damaged(tmp_path / "a", np.ones((18, 12)), np.ones((6, 4)) > 0, chunks=(3, 3))
    run = cf.submit(tmp_path / "a", "sum", on_bad_chunk="skip")
    assert run.result() == 0
    assert len(run.skipped) == 4
    assert run.skipped[None] == 21 * 9
    assert sum(run.skipped.values()) == 18 * 12


def test_a_read_that_never_returns_is_not_skipped(tmp_path: Path, monkeypatch):
    import threading

    from chunkfold.sources.zarr_source import ZarrSource

    never = threading.Event()
    damaged(tmp_path / "a", np.ones((18, 12)), np.zeros((6, 4)), chunks=(3, 3))
    monkeypatch.setattr(readers, "READ_DEADLINE_S", 0.3)
    monkeypatch.setattr(ZarrSource, "read", lambda *_: never.wait(60))
    monkeypatch.setattr(
        ZarrSource, "each", lambda _, regions, __: (never.wait(60) for _ in regions)
    )
    with pytest.raises(cf.ChunkError, match="took longer"):
        cf.reduce(tmp_path / "a", on_bad_chunk="skip")
    never.set()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_where_the_machine_is_short_no_chunk_is_left_out(tmp_path: Path, monkeypatch, number: int):
    rng = np.random.default_rng(5)
    damaged(tmp_path / "a", rng.random((18, 12)), np.zeros((6, 4)), chunks=(3, 3))

    def fails(self, key, *_):
        raise OSError(number, "short of it", key)

    monkeypatch.setattr(LocalObjects, "open", fails)
    monkeypatch.setattr(LocalObjects, "read_short", fails)
    with pytest.raises(cf.ClusterError, match=r"a: cannot read chunk .*short of it"):
        cf.reduce(tmp_path / "a", on_bad_chunk="skip")


def test_an_unknown_way_is_refused(tmp_path: Path):
    damaged(tmp_path / "a", np.ones((3, 3)), np.zeros((1, 1)), chunks=(3, 3))
    with pytest.raises(cf.PlanError, match="on_bad_chunk is 'ignore'; use one of: 'stop', 'skip'"):
        cf.reduce(tmp_path / "a", on_bad_chunk="ignore")


def test_workers_leave_out_what_this_process_would(tmp_path: Path):
    rng = np.random.default_rng(5)
    rest = damaged(tmp_path / "a", rng.random((60, 40)), rng.random((20, 14)) < 0.1, chunks=(3, 3))
    with (
        cf.LocalOpenCLCluster(workers_of(DEVICES[0], 2), dashboard_address=None) as cluster,
        connect(cluster.scheduler_address) as client,
    ):
        run = cf.submit(tmp_path / "a", "sum", axis=0, on_bad_chunk="skip", client=client)
        got = run.result(120)
    assert sum(run.skipped.values()) == rest.mask.sum()
    assert got.tobytes() == cf.reduce(tmp_path / "a", axis=0, on_bad_chunk="skip").tobytes()


def test_the_command_line_says_what_it_left_out(tmp_path: Path, command: Callable):
    bad = np.zeros((6, 4), bool)
    bad[2, 3] = True
    damaged(tmp_path / "a", np.ones((17, 11)), bad, **LAYOUTS["zstd"])
    done = command("reduce", tmp_path / "a", "--on-bad-chunk", "skip", "--json", code=3)
    told = json.loads(done.stdout)
    assert told["results"] == {"sum": 17 * 11 - 6}
    (bad_one,) = told["skipped"]
    assert bad_one.pop("reason")
    assert bad_one == {
        "array": str(tmp_path / "a"), "kind": "chunk", "key": "c/2/3", "codecs": ["zstd"],
        "store": str(tmp_path / "a"), "elements": 6,
    }  # fmt: skip
    assert "skipped: 6 of 187 elements" in done.stderr
    assert "c/2/3" in done.stderr.replace("\n", "")
    done = command("reduce", tmp_path / "a", "--on-bad-chunk", "skip", "--json-lines", code=3)
    finished = next(line for line in done.stderr.splitlines() if "RunFinished" in line)
    (told_last,) = json.loads(finished)["skipped"]
    assert told_last.pop("reason")
    assert told_last == bad_one
