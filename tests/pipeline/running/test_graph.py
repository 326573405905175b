"""Reductions as arrays of Dask's: the same bits, one read, tasks that are bounded, no client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from dask.callbacks import Callback
from distributed import Client

import chunkfold as cf
import chunkfold.xarray
from chunkfold.planning import blocks, output_chunks, planner, rules
from chunkfold.planning.blocks import Tree
from chunkfold.worker import tasks
from chunkfold.worker.block_report import Report
from chunkfold.worker.fold_block import Folded
from chunkfold.worker.worker_device import PLUGIN
from tests.pipeline.running.test_shared_tasks import Counted, left

pytestmark = pytest.mark.unoptimised

VALUES = np.random.default_rng(0).normal(size=(12, 10, 8)).astype("f4")
MONTHS = np.arange(12) % 3
OPS = ["mean", "max", "argmin"]


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make leaves of a chunk, and blocks of two."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 400)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (640, 640))
    monkeypatch.setattr(blocks, "BLOCK_PER_PARTIAL", 0)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "a.zarr"
    names = ["time", "y", "x"]
    zarr.create_array(str(path), data=VALUES, chunks=(2, 5, 8), dimension_names=names)
    return str(path)


def same(lazy: Any, eager: Any) -> None:
    """See that an array of Dask's says what it is, and computes to the same bits."""
    assert (lazy.shape, lazy.dtype) == (np.shape(eager), np.asarray(eager).dtype)
    done = np.asarray(lazy.compute())
    assert (done.shape, done.dtype) == (lazy.shape, lazy.dtype)
    assert done.tobytes() == np.asarray(eager).tobytes()


@pytest.mark.parametrize(
    ("op", "options", "chunks"),
    [
        ("sum", {}, ()),
        ("mean", {"axis": 0}, ((5, 5), (8,))),
        ("max", {"axis": (0, 2), "keepdims": True}, ((1,), (5, 5), (1,))),
        (
            "mean",
            {"axis": 0, "selection": (slice(3, 9), slice(2, 10, 3))},
            ((2, 1), (8,)),
        ),  # alike but for the last
        ("minmax", {"axis": 1}, ((2,) * 6, (8,), (2,))),
        (cf.histogram([-1, 0, 1]), {"axis": 1}, ((2,) * 6, (8,), (2,))),
        ("sum", {"axis": 1, "weights": np.arange(10)[:, None]}, ((2,) * 6, (8,))),
        (
            "mean",
            {"axis": 2, "where": "x > 0", "selection": (slice(0, 0),), "allow_empty": True},
            ((0,), (5, 5)),
        ),
        ("sumsq", {"dtype": "f8"}, ()),
        ("max", {"axis": 0, "selection": (slice(None), slice(None, None, -1))}, ((5, 5), (8,))),
        ("max", {"axis": 2, "selection": ([7, 1, 4],)}, ((1, 1, 1), (5, 5))),
        ("mean", {"axis": 0, "by": MONTHS}, ((3,), (5, 5), (8,))),
        ("max", {"axis": 0, "by": (MONTHS, MONTHS % 2)}, ((3,), (2,), (5, 5), (8,))),
    ],
)
def test_the_same_bits_come_in_a_chunk_for_each_tile(path: str, op, options, chunks):
    lazy = cf.reduce(path, op, compute=False, **options)
    assert lazy.chunks == chunks
    same(lazy, cf.reduce(path, op, **options))


@pytest.mark.parametrize("kind", ["NumPy's", "Dask's", "anything like one", "several as one"])
def test_whatever_is_in_this_process_goes_into_the_graph(path: str, kind: str):
    sources: dict[str, Any] = {
        "NumPy's": VALUES,
        "Dask's": da.from_array(VALUES, chunks=(5, 4, 8)) + 1,
        "anything like one": Reads(VALUES),
        "several as one": cf.concatenate([path, VALUES]),
    }
    for axis in (None, 1):
        lazy = cf.reduce(sources[kind], "mean", axis=axis, compute=False)
        same(lazy, cf.reduce(sources[kind], "mean", axis=axis))


@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_elements_are_chosen_where_one_read_is_enough(dtype: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(planner, "LEAF_BYTES", 16 << 20)
    values = (VALUES * 100).astype(dtype)
    for options in ({"axis": 0}, {"axis": 0, "by": MONTHS}, {}):
        lazy = cf.reduce(values, "median", compute=False, **options)
        same(lazy, cf.reduce(values, "median", **options))


def test_several_reads_are_refused(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(rules.VARIABLE, "kept_elements")
    with pytest.raises(cf.ChunkfoldError, match="median: the data are read up to 2 times"):
        cf.reduce(path, "median", compute=False)


def test_the_order_that_is_asked_for_is_that_of_axes_behind_several_labels(path: str):
    turned = {"selection": (slice(None), slice(None, None, -1)), "by": (MONTHS, MONTHS % 2)}
    plain = cf.reduce(path, "max", axis=0, by=turned["by"])
    for compute in (True, False):
        made = cf.reduce(path, "max", axis=0, compute=compute, **turned)
        np.testing.assert_array_equal(np.asarray(made), plain.values[:, :, ::-1])


class Reads:
    """An array that is read, and counts how much of it was."""

    def __init__(self, values: np.ndarray) -> None:
        self._values, self.shape, self.dtype = values, values.shape, values.dtype
        self.chunks, self.elements = (2, 5, 8), 0

    def __getitem__(self, region: Any) -> np.ndarray:
        part = self._values[region]
        self.elements += part.size
        return part


def test_nothing_is_read_before_and_all_at_once_for_several():
    source = Reads(VALUES)
    lazy = cf.reduce(source, OPS, axis=0, compute=False)
    assert source.elements == 0
    done = dict(zip(lazy, dask.compute(*lazy.values()), strict=True))
    assert source.elements == VALUES.size
    eager = cf.reduce(VALUES, OPS, axis=0)
    assert all(done[op].tobytes() == eager[op].tobytes() for op in OPS)
    (lazy["mean"] - lazy["max"]).compute()
    assert source.elements == 2 * VALUES.size


def test_of_a_chunk_no_more_is_read_than_it_needs():
    source = Reads(VALUES)
    lazy = cf.reduce(source, "mean", axis=0, compute=False)
    assert (lazy[:5].compute() == cf.reduce(VALUES, "mean", axis=0)[:5]).all()
    assert source.elements == VALUES.size / 2


def test_graphs_have_a_task_for_each_block_combine_and_chunk(path: str):
    plan = cf.plan(path, OPS, axis=0)
    combines = sum(
        sum(Tree(n, plan.largest_tree.fan_in).sizes[1:]) for n in plan.tile_ranges.values()
    )
    lazy = cf.reduce(plan, compute=False)
    merged = {**lazy["mean"].dask, **lazy["max"].dask, **lazy["argmin"].dask}
    assert len(plan.blocks) > 4
    tasks = len(plan.blocks) + combines + len(OPS) * plan.layout.tiles
    assert tasks <= len(merged) <= tasks + 1 + len(OPS)  # what tasks have in common


def test_tiles_share_chunks_where_they_are_many(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output_chunks.output_chunks, "__defaults__", (4,))
    lazy = cf.reduce(path, "max", axis=2, compute=False)
    assert lazy.chunks == ((4, 4, 4), (10,))
    same(lazy, VALUES.max(2))


def test_partials_are_combined_before_others_are_made():
    """What is held of them does not grow with their number."""
    most = []

    class Holding(Callback):
        def _posttask(self, key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
            most.append(sum(isinstance(one, Folded) for one in state["cache"].values()))

    many = da.from_array(np.tile(VALUES, (40, 1, 1)), chunks=(2, 5, 8))
    lazy = cf.reduce(many, "sum", compute=False)
    plan = cf.plan(many, "sum")
    assert len(plan.blocks) > 100
    with Holding():
        lazy.compute(num_workers=2)
    assert max(most) <= plan.largest_tree.height * plan.largest_tree.fan_in + 2


def test_it_is_computed_by_any_client(client: Client, tmp_path: Path):
    counted = Counted(tmp_path)
    eager = cf.reduce(counted.array, ["max", "min"], axis=1)
    for mark in tmp_path.iterdir():
        mark.unlink()
    lazy = cf.reduce(counted.array, ["max", "min"], axis=1, compute=False, client=client)
    with client.as_current():
        done = dask.compute(lazy["max"], lazy["min"] + 1)
        assert (done[0] == eager["max"]).all()
        assert (done[1] == eager["min"] + 1).all()
        assert set(counted.ran.values()) == {1}
        kept = lazy["min"].persist()
        assert (kept.compute() == eager["min"]).all()
        kept.to_zarr(str(tmp_path / "out.zarr"))
        held = counted.array.persist()
        later = cf.reduce(held, "max", axis=1, compute=False)
        assert (later.compute() == eager["max"]).all()
        del kept, held, later
    assert (zarr.open_array(tmp_path / "out.zarr")[...] == eager["min"]).all()
    assert not left(client)


@pytest.mark.parametrize("kind", ["NumPy's", "labels and a mask", "a Dataset"])
def test_workers_have_all_that_is_needed(path: str, kind: str, client: Client):
    ds = xr.Dataset({"a": (("time", "y", "x"), VALUES)})
    with client.as_current():
        if kind == "a Dataset":
            made = ds.chunkfold.max("time", compute=False)
            assert made.a.chunks == ((10,), (8,))
            assert (made.compute().a == VALUES.max(0)).all()
            return
        source: Any = VALUES
        options: dict[str, Any] = {}
        if kind == "labels and a mask":
            source, options = path, {"by": MONTHS, "where": VALUES[0] > -2}
        lazy = cf.reduce(source, "max", axis=(0, 2), compute=False, **options)
        same(lazy, cf.reduce(source, "max", axis=(0, 2), client=client, **options))


@pytest.mark.parametrize("op", ["var", "nanstd", "norm2", "norminf", "approx_nunique"])
@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_reductions_of_every_make_go_to_workers(op: str, dtype: str, client: Client):
    source = VALUES.astype(dtype)
    with client.as_current():
        lazy = cf.reduce(source, op, axis=0, compute=False)
        same(lazy, cf.reduce(source, op, axis=0))


def test_a_worker_without_device_says_so(path: str, client: Client):
    def lose(dask_worker: Any) -> Any:
        plugin = dask_worker.plugins[PLUGIN]
        plugin.failure, plugin.kept, plugin.worker_device = (
            "it was lost",
            plugin.worker_device,
            None,
        )

    def find(dask_worker: Any) -> Any:
        plugin = dask_worker.plugins[PLUGIN]
        plugin.worker_device = plugin.kept

    lazy = cf.reduce(path, compute=False, client=client)
    client.run(lose)
    try:
        with client.as_current(), pytest.raises(cf.DeviceError, match="has no device: it was lost"):
            lazy.compute()
    finally:
        client.run(find)


@pytest.mark.parametrize("several", [False, True])
def test_labels_are_those_of_results(path: str, several: bool):
    op: Any = ["mean"] if several else "mean"
    made = cf.reduce(path, op, axis="time", by=MONTHS, compute=False)
    eager = cf.reduce(path, "mean", axis="time", by=MONTHS)
    lazy = made["mean"] if several else made
    assert isinstance(lazy.data, da.Array)
    assert lazy.dims == eager.dims
    assert lazy.group.values.tolist() == eager.labels.tolist()
    xr.testing.assert_identical(lazy.compute(), eager.to_xarray())
    named = cf.reduce(path, "max", axis="time", labels=True, compute=False)
    wanted = cf.reduce(path, "max", axis="time", labels=True).to_xarray()
    xr.testing.assert_identical(named.compute(), wanted)
    bins = cf.reduce(path, cf.histogram([0, 1, 2]), labels=True, compute=False)
    assert isinstance(bins["count"].data, da.Array)
    assert bins["count"].compute().sum() == ((VALUES >= 0) & (VALUES <= 2)).sum()


def test_what_is_xarrays_stays_so():
    times = np.arange("2001-01", "2002-01", dtype="M8[M]").astype("M8[ns]")
    array = xr.DataArray(VALUES, {"time": times}, ("time", "y", "x"), "air", {"units": "K"})
    lazy = array.chunkfold.mean("time", compute=False)
    assert isinstance(lazy.data, da.Array)
    xr.testing.assert_identical(lazy.compute(), array.chunkfold.mean("time"))
    both = array.to_dataset().chunkfold.reduce(["min", "max"], "time", compute=False)
    eager = array.to_dataset().chunkfold.reduce(["min", "max"], "time")
    assert both.keys() == eager.keys()
    for op, made in both.items():
        assert isinstance(made.air.data, da.Array)
        xr.testing.assert_identical(made.compute(), eager[op])


def differs(fields: Any, _context: Any) -> Any:
    return np.zeros((len(fields["s"]), 2 if fields["s"].any() else 1))


ODD = cf.Monoid("odd", fields={"s": "float64"}, zero=0, lift=cf.real, op="add", finish=differs)


@pytest.mark.parametrize(
    ("op", "options", "told"),
    [
        ("sum", {"on_event": print}, "on_event reports a run, but with compute=False"),
        ("sum", {"on_bad_chunk": "skip"}, "chunkfold cannot report what was skipped"),
        ("histogram", {}, "depends on the data; give it edges, or omit compute=False"),
        ("sum", {"axis": 3}, "axis 3"),
    ],
)
def test_what_cannot_be_said_later_is_refused(path: str, op, options: dict[str, Any], told: str):
    with pytest.raises(cf.ChunkfoldError, match=told):
        cf.reduce(path, op, compute=False, **options)


def test_what_goes_wrong_later_is_said_in_a_sentence(tmp_path: Path):
    with pytest.raises(cf.MonoidError, match=r"finish of 'odd' made .*\(2,\).*\(1,\)"):
        cf.reduce(VALUES, ODD, compute=False).compute()
    made = zarr.create_array(str(tmp_path / "a"), data=VALUES, chunks=(2, 5, 8))
    lazy, other = (cf.reduce(tmp_path / "a", op, compute=False) for op in ("sum", "max"))
    (tmp_path / "a" / "c" / "0" / "0" / "0").write_bytes(b"none")
    with pytest.raises(cf.ChunkfoldError, match=re.escape("c/0/0/0")):
        lazy.compute()
    made.attrs["units"] = "K"
    with pytest.raises(cf.ChunkfoldError, match="changed while it was read"):
        other.compute()


def test_what_saw_too_little_is_no_result(path: str):
    lazy = cf.reduce(path, compute=False)
    folded = Folded((), Report(1, {}))
    ending = next(one for key, one in lazy.dask.items() if str(key).endswith("-ending"))
    root = tasks.Root((0, 1), 2)
    with pytest.raises(cf.IncompleteError, match="saw 1 elements of 2"):
        tasks.graph_chunk(ending.value, (), [0], [root], folded)


def test_results_that_are_elements_and_estimates_are_given_later():
    x = np.arange(12, dtype="i1").reshape(3, 4)
    ops = [cf.quantile(0.5, method="lower"), "nunique", "approx_nunique"]
    eager = cf.reduce(x, ops, axis=0)
    for name, lazy in cf.reduce(x, ops, axis=0, compute=False).items():
        same(lazy, eager[name])


@pytest.mark.parametrize(
    "selection", [(slice(3, 40), slice(5, 60)), ([0, 7, 9, 31, 38], slice(2, 31))]
)
def test_chunks_are_alike_so_that_zarr_stores_them(tmp_path: Path, selection):
    values = np.random.default_rng(0).normal(size=(40, 60, 50)).astype("f4")
    dims = ("y", "x", "t")
    xr.Dataset({"a": (dims, values)}).to_zarr(
        tmp_path / "s.zarr", encoding={"a": {"chunks": (8, 7, 50)}}
    )
    given = {"axis": "t", "selection": (*selection, slice(None)), "memory": "3MiB"}
    lazy = cf.reduce(tmp_path / "s.zarr/a", "mean", compute=False, labels=True, **given)
    for sizes in lazy.chunks:
        assert len({*sizes[:-1]} | {sizes[0]}) == 1
        assert sizes[-1] <= sizes[0]
    lazy.to_zarr(tmp_path / "o.zarr")
    got = xr.open_zarr(tmp_path / "o.zarr")["mean"]
    np.testing.assert_array_equal(got, cf.reduce(tmp_path / "s.zarr/a", "mean", **given))
