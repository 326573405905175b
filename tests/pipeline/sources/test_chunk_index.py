"""Chunks that are not stored: found out, never read, and counted all the same."""

from __future__ import annotations

import contextlib
import os
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import obstore
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.storage import ObjectStore

import chunkfold as cf
from chunkfold.axis_cuts import Cells
from chunkfold.decoding.direct import Direct
from chunkfold.errors import ChunkError
from chunkfold.kernels import Combiner
from chunkfold.planning import blocks, planner
from chunkfold.planning.blocks import cut_blocks, even_runs
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_objects import (
    SPARSE,
    ListingTerms,
    StoredLeaves,
    expected_objects,
    leaf_objects,
    with_objects,
)
from chunkfold.reading import tile_leaves
from chunkfold.selections import select
from chunkfold.sources import chunk_index
from chunkfold.sources.chunk_index import Listing, list_objects
from chunkfold.sources.opening import open_source
from tests.plans import planned

pytestmark = pytest.mark.unoptimised


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Many leaves and blocks, although the arrays are small."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 256)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (512, 1024))


def stored_sizes(made: zarr.Array) -> np.ndarray | None:
    listing = list_objects(made)
    return listing and listing.sizes


def sparse(path: Path, array: np.ndarray, kept: np.ndarray, **kwargs) -> tuple:
    """Store the chunks of an array that `kept` says; return it, and what it reads as."""
    made = zarr.create_array(
        str(path), shape=array.shape, dtype=array.dtype, overwrite=True, **kwargs,
    )  # fmt: skip
    unit = made.shards or made.chunks
    full = np.full(array.shape, made.fill_value, array.dtype)
    for place in np.argwhere(kept):
        cut = tuple(slice(n * u, (n + 1) * u) for n, u in zip(place, unit, strict=True))
        made[cut] = full[cut] = array[cut]
    return made, full


@pytest.mark.parametrize(
    "layout",
    [
        {"chunks": (3, 4)},
        {"chunks": (3, 4), "zarr_format": 2},
        {"chunks": (3, 4), "chunk_key_encoding": {"name": "default", "separator": "."}},
        {
            "chunks": (3, 4),
            "zarr_format": 2,
            "chunk_key_encoding": {"name": "v2", "separator": "/"},
        },
        {"chunks": (3, 4), "shards": (6, 8)},
    ],
)  # fmt: skip
@pytest.mark.parametrize("inside", ["", "group/deeper"])
def test_sizes_are_those_of_the_files(tmp_path: Path, layout: dict, inside: str):
    array = np.arange(1.0, 20 * 30 + 1).reshape(20, 30)
    grid = (4, 4) if "shards" in layout else (7, 8)
    kept = np.random.default_rng(0).random(grid) < 0.4
    path = tmp_path / "s.zarr" / inside
    made, _ = sparse(path, array, kept, **layout)
    (path / "c").mkdir(exist_ok=True)
    for stray in ("c/notes", "7.99", "c/99/0", ".DS_Store", "x.y"):  # none of them a chunk's
        (path / stray).parent.mkdir(exist_ok=True)
        (path / stray).write_text("not a chunk")
    sizes = stored_sizes(made)
    np.testing.assert_array_equal(sizes > 0, kept)
    for place in np.argwhere(kept):
        file = path / made.metadata.encode_chunk_key(tuple(map(int, place)))
        assert sizes[tuple(place)] == file.stat().st_size


@pytest.mark.parametrize("shape", [(30,), (5, 7, 3)])
@pytest.mark.parametrize("separator", ["/", "."])
@pytest.mark.parametrize(("zarr_format", "name"), [(2, "v2"), (3, "v2"), (3, "default")])
def test_keys_of_any_spelling_are_found(
    tmp_path: Path, shape: tuple[int, ...], separator: str, zarr_format: int, name: str
):
    array = np.arange(1.0, np.prod(shape) + 1).reshape(shape)
    made = zarr.create_array(
        str(tmp_path / "a"), shape=shape, chunks=(2,) * len(shape), dtype="f8",
        zarr_format=zarr_format, chunk_key_encoding={"name": name, "separator": separator},
    )  # fmt: skip
    made[...] = array
    assert (stored_sizes(made) > 0).all()
    assert cf.reduce(made) == array.sum()


@pytest.mark.parametrize(("layout", "kind"), [({}, "chunks"), ({"shards": (3, 8)}, "shards")])
def test_a_plan_says_how_many_selected_objects_are_missing(tmp_path: Path, layout: dict, kind: str):
    kept = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0]])
    unit = (3, 8) if layout else (3, 4)
    made, _ = sparse(
        tmp_path / "s", np.ones((9, 3 * unit[1])), kept, chunks=(3, 4), fill_value=7, **layout
    )
    for chosen, missing in (
        (None, (6, 9)),
        (np.s_[6:, : unit[1] + 1], (0, 2)),
        (np.s_[::5], (5, 6)),
    ):
        plan = cf.plan(made, selection=chosen)
        (found,) = plan.missing.values()
        assert found == missing
        told = f"{missing[0]} of {missing[1]} {kind} of "
        assert (told in str(plan)) == bool(missing[0])
        assert ("its fill value, 7.0" in str(plan)) == bool(missing[0])
    assert str(cf.plan((made, made), "dot")).count("are not stored") == 1


@pytest.fixture(params=[0, 4], ids=["listed", "asked"])
def _few(monkeypatch, request: pytest.FixtureRequest) -> None:
    """Let small folders be listed, or each of their chunks be asked for."""
    monkeypatch.setattr(chunk_index, "_FEW", request.param)


@pytest.mark.usefixtures("_few")
def test_folders_that_lead_back_are_not_walked_for_ever(tmp_path: Path):
    made, full = sparse(tmp_path / "s.zarr", np.ones((4, 4)), np.eye(2) > 0, chunks=(2, 2))
    (tmp_path / "s.zarr/c/0/again").symlink_to(tmp_path / "s.zarr")
    (tmp_path / "s.zarr/more").symlink_to(tmp_path)
    np.testing.assert_array_equal(stored_sizes(made) > 0, np.eye(2) > 0)
    assert cf.reduce(made) == full.sum()


@pytest.mark.usefixtures("_few")
def test_whatever_else_lies_in_the_folder_is_passed_over(tmp_path: Path):
    made, full = sparse(tmp_path / "s.zarr", np.ones((4, 4)), np.eye(2) > 0, chunks=(2, 2))
    folder = tmp_path / "s.zarr"
    (folder / "latest").symlink_to("/nowhere")
    (folder / "c/0/1").symlink_to("/nowhere")
    (folder / "c/0" / ("9" * 30)).write_text("x")
    (folder / "c/1/0").mkdir()
    np.testing.assert_array_equal(stored_sizes(made) > 0, np.eye(2) > 0)
    assert cf.reduce(made) == full.sum() == made[...].sum()
    (folder / "c/0/1").unlink()
    (folder / "c/0/1").symlink_to(folder / "c/0/1")  # for ever: then nothing is known
    assert stored_sizes(made) is None
    with pytest.raises(ChunkError, match=r"'c/0/1' .* symbolic links"):
        cf.reduce(made)


def test_files_that_go_while_they_are_listed_are_not_there(tmp_path: Path, monkeypatch):
    made, _ = sparse(tmp_path / "s.zarr", np.ones((800,)), np.ones(400), chunks=(2,))
    true_scandir = os.scandir

    class Listing(contextlib.nullcontext):
        def __iter__(self):
            return iter(self.enter_result)

    def removing(folder: str) -> Listing:
        entries = list(true_scandir(folder))
        for name in ("0", "5"):
            Path(folder, name).unlink(missing_ok=True)
        return Listing(entries)

    monkeypatch.setattr(chunk_index.os, "scandir", removing)
    sizes = stored_sizes(made)
    assert np.flatnonzero(sizes == 0).tolist() == [0, 5]


def test_an_array_without_axes_is_stored_or_not(tmp_path: Path):
    made = zarr.create_array(str(tmp_path / "s.zarr"), shape=(), dtype="f8", fill_value=2.5)
    assert stored_sizes(made) == 0
    assert cf.reduce(made) == 2.5
    made[...] = 4.0
    assert stored_sizes(made) > 0
    assert cf.reduce(made) == 4.0


def test_an_empty_file_is_a_bad_chunk_not_a_missing_one(tmp_path: Path):
    made, _ = sparse(tmp_path / "s.zarr", np.ones((4, 4)), np.eye(2) > 0, chunks=(2, 2))
    (tmp_path / "s.zarr/c/1/1").write_bytes(b"")
    with pytest.raises(cf.ChunkError, match="c/1/1"):
        cf.reduce(made)


FILLS = [0.0, 3.0, -0.0, 1e308, 5e-324, 1e-200, float("nan"), float("inf")]
OPS = ["sum", "nansum", "mean", "var", "nanstd", "minmax", "norm2", "count"]


@given(
    st.integers(0, 2**32),
    st.sampled_from(FILLS),
    st.sampled_from([None, 0, 1, (0, 1), (0, 2), ()]),
    st.floats(0, 1),
    st.booleans(),
    st.booleans(),
    st.sampled_from([256, 512, 2048]),
    st.sampled_from([0, 300]),
)
@settings(max_examples=40)
def test_what_is_not_stored_counts_as_if_it_were(
    tmp_path_factory, seed: int, fill: float, axis, share: float, whole: bool, positions: bool,
    leaf_bytes: int, read_bytes: int,
):  # fmt: skip
    """Bit for bit what the same array gives that has all of its chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "LEAF_BYTES", leaf_bytes)
        patch.setattr(tile_leaves, "READ_BYTES", read_bytes)
        _check_fill(tmp_path_factory, seed, fill, axis, share, whole, positions)


def _check_fill(
    tmp_path_factory, seed: int, fill: float, axis, share: float, whole: bool, positions: bool
) -> None:
    folder = tmp_path_factory.mktemp("sparse")
    rng = np.random.default_rng(seed)
    array = np.ldexp(rng.standard_normal((7, 6, 5)), rng.integers(-40, 40))
    kept = rng.random((3, 2, 3)) < share
    layout = {"chunks": (3, 3, 2), "fill_value": fill}
    positions &= not np.isnan(fill)  # there is none of nothing but NaN
    made, full = sparse(folder / "s.zarr", array, kept, **layout)
    dense = zarr.create_array(
        str(folder / "d.zarr"), shape=full.shape, dtype="f8", config={"write_empty_chunks": True},
        **layout,
    )  # fmt: skip
    dense[...] = full
    assert (stored_sizes(made) == 0).any() == (not kept.all())
    cut = None if whole else (slice(1, None, 2), slice(None), slice(0, 4))
    ops = [*OPS, "argmin"] if positions else OPS
    run = cf.submit(made, ops, axis=axis, selection=cut)
    got, want = run.result(), cf.reduce(dense, ops, axis=axis, selection=cut)
    read = sum(device.nbytes for device in run.profile.values())
    assert abs(read - run.plan.scan.nbytes) <= run.plan.layout.elements
    for op in ops:
        assert got[op].tobytes() == want[op].tobytes(), (op, got[op], want[op])
    if whole and not np.isnan(full).any():
        np.testing.assert_array_equal(got["count"], np.ones_like(full).sum(axis=axis))


@pytest.mark.parametrize("op", ["prod", "var", "sum", "logsumexp"])
@pytest.mark.parametrize("axis", [None, 0])
def test_what_rounds_is_near(tmp_path: Path, op: str, axis):
    array = np.random.default_rng(0).random((12, 10)) + 0.5
    kept = np.random.default_rng(1).random((6, 5)) < 0.3
    made, full = sparse(tmp_path / "s.zarr", array, kept, chunks=(2, 2), fill_value=1.01)
    got = cf.reduce(made, op, axis=axis, mode="fast")
    want = (
        np.log(np.exp(full).sum(axis=axis)) if op == "logsumexp" else getattr(full, op)(axis=axis)
    )
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int16", "uint64", "M8[s]", "complex64"])
def test_fill_values_of_any_dtype_count(tmp_path: Path, dtype: str):
    array = np.arange(1, 101).astype(dtype).reshape(10, 10)
    kept = np.eye(5) > 0
    fill = np.array(7).astype(dtype)[()]
    made, full = sparse(tmp_path / "s.zarr", array, kept, chunks=(2, 2), fill_value=fill)
    op = "max" if dtype == "M8[s]" else "sum"
    assert cf.reduce(made, op) == getattr(full, op)()
    np.testing.assert_array_equal(cf.reduce(made, op, axis=1), getattr(full, op)(axis=1))


FIRST_ABOVE = cf.Monoid(
    "first_above",
    fields={"i": "int64"},
    zero="highest",
    lift=lambda x, i: cf.where(x > 2, i, 2**63 - 1),
    op="min",
)
LAST = cf.Monoid(
    "last",
    fields={"i": "int64"},
    zero=-1,
    lift=lambda x, i: cf.where(x == 3, i, -1),
    op="max",
)
"""One that the first of equal elements decides, and one that it does not."""


@given(
    st.integers(0, 2**32),
    st.sampled_from([0.0, 3.0, 7.0, float("nan")]),
    st.sampled_from([None, 0, 1, (0, 2)]),
    st.floats(0, 0.6),
    st.booleans(),
    st.booleans(),
    st.sampled_from([256, 2048]),
)
@settings(max_examples=20)
def test_positions_are_of_the_first_stored_or_not(
    tmp_path_factory, seed: int, fill: float, axis, share: float, whole: bool, every: bool,
    leaf_bytes: int,
):  # fmt: skip
    """What the same arrays give that have all of their chunks; elements are often equal."""
    folder, rng = tmp_path_factory.mktemp("sparse"), np.random.default_rng(seed)
    pairs = []
    for name in "ab":
        array = rng.integers(0, 6, (7, 6, 5)).astype("f4")
        kept = rng.random((3, 2, 3)) < share
        layout = {"chunks": (3, 3, 2), "fill_value": fill}
        made, full = sparse(folder / name, array, kept, **layout)
        dense = zarr.create_array(
            str(folder / f"{name}-dense"), data=full, config={"write_empty_chunks": True},
            chunks=(3, 3, 2),
        )  # fmt: skip
        pairs.append((made, dense))
    given = {"axis": axis, "selection": None if whole else (slice(1, None, 2), ..., slice(0, 4))}
    ops = ["argmin", "argmax", "nanargmin", "nanargmax", "sum", FIRST_ABOVE, *[LAST] * every]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "LEAF_BYTES", leaf_bytes)
        patch.setattr(tile_leaves, "READ_BYTES", 0)
        (one, other), (dense, dense_other) = zip(*pairs, strict=True)
        for sources, full_ones, asked in (
            (one, dense, ops),
            ([one, other], [dense, dense_other], ["first_mismatch", "max_abs_diff"]),
        ):
            got = cf.reduce(sources, asked, **given)
            want = cf.reduce(full_ones, asked, **given)
            for name, found in got.items():
                assert found.tobytes() == want[name].tobytes(), (name, found, want[name])


def test_positions_in_1e12_elements_of_which_none_is_stored_are_found_at_once(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (32 << 20, 1 << 30))
    given = {"shape": (10**9, 1000), "chunks": (10**5, 1000), "fill_value": 3.0}
    one, other = (zarr.create_array(str(tmp_path / n), dtype="f4", **given) for n in "ab")
    ops = ["argmin", "argmax", "nanargmax", "sum", FIRST_ABOVE]
    assert list(cf.reduce(one, ops).values()) == [0, 0, 0, 3e12, 0]
    assert cf.reduce([one, other], "first_mismatch") == -1
    assert "one by one" not in str(cf.plan(one, ops))


def test_a_plan_says_where_each_index_counts(tmp_path: Path):
    made, full = sparse(tmp_path / "s.zarr", np.ones(300), np.arange(10) == 4, chunks=(30,),
                        fill_value=3.0)  # fmt: skip
    plan = str(cf.plan(made, [LAST, "argmin"]))
    said = "fill values of 9 of them are reduced one by one: last may read each index"
    assert said in plan
    assert cf.reduce(made, LAST) == np.flatnonzero(full == 3).max()


def test_histograms_count_what_is_not_stored(tmp_path: Path):
    array = np.linspace(0, 1, 100).reshape(10, 10)
    made, full = sparse(tmp_path / "s.zarr", array, np.eye(5) > 0, chunks=(2, 2), fill_value=0.5)
    edges = [0, 0.3, 0.6, 1]
    got = cf.reduce(made, cf.histogram(edges))
    np.testing.assert_array_equal(got["count"], np.histogram(full, edges)[0])


def test_two_inputs_are_absent_where_both_are(tmp_path: Path):
    array, kept = np.arange(1.0, 101).reshape(10, 10), np.eye(5) > 0
    one, full = sparse(tmp_path / "a.zarr", array, kept, chunks=(2, 2), fill_value=2.0)
    two, other = sparse(
        tmp_path / "b.zarr", array, np.roll(kept, 1, axis=0), chunks=(2, 2), fill_value=5.0
    )
    assert cf.reduce([one, two], "dot") == np.dot(full.ravel(), other.ravel())
    # Three cells of five in a row are in neither.
    assert cf.plan([one, two], "dot").scan.unstored > 0


@pytest.fixture
def regions(monkeypatch) -> list[tuple[tuple[int, int], ...]]:
    """The regions that are read without zarr, in their order."""
    seen: list[tuple[tuple[int, int], ...]] = []
    true_read = Direct.read

    def kept(self: Direct, name: str, region, *given) -> None:
        seen.append(tuple((cut.start, cut.stop) for cut in region))
        true_read(self, name, region, *given)

    monkeypatch.setattr(Direct, "read", kept)
    return seen


def test_nothing_absent_is_read(tmp_path: Path, regions: list):
    array, kept = np.ones((1000, 64), "f4"), np.zeros((1000, 1), bool)
    kept[[3, 700]] = True
    made, full = sparse(tmp_path / "s.zarr", array, kept, chunks=(1, 64), fill_value=0.5)
    run = cf.submit(made, ["sum", "argmax"])
    assert run.result() == {"sum": full.sum(), "argmax": 3 * 64}
    assert sorted(regions) == [((3, 4), (0, 64)), ((700, 701), (0, 64))]
    regions.clear()
    run = cf.submit(made, "sum")
    assert run.result() == full.sum()
    assert len(regions) == 2
    assert run.plan.scan.nbytes == 2 * 64 * 4
    assert run.plan.scan.unstored == 998
    assert "998 of them have no stored chunks" in str(run.plan)


@pytest.mark.parametrize("axis", [None, 0])
def test_of_a_leaf_that_is_stored_in_part_only_that_is_read(
    tmp_path: Path, monkeypatch, regions: list, axis
):
    monkeypatch.setattr(planner, "LEAF_BYTES", 16 * 8 * 4)  # 16 chunks, 8 outputs
    monkeypatch.setattr(tile_leaves, "READ_BYTES", 7 * 32)  # 2 are worth it of 16, 3 are not
    array, kept = np.arange(1.0, 801, dtype="f4").reshape(100, 8), np.zeros((100, 1), bool)
    kept[[3, 8, 33, 37, 41, 96]] = True
    made, full = sparse(tmp_path / "s.zarr", array, kept, chunks=(1, 8), fill_value=0.5)
    run = cf.submit(made, "sum", axis=axis)
    np.testing.assert_array_equal(run.result(), full.sum(axis=axis, dtype="f8"))
    rows = [(3, 4), (8, 9), (32, 48), (96, 100)]
    assert sorted(regions) == [(along, (0, 8)) for along in rows]
    assert run.plan.scan.nbytes == 32 * 6


@pytest.mark.parametrize("op", ["sum", "argmax"])
def test_one_chunk_of_many_that_a_step_passes_over_is_read(tmp_path: Path, op: str):
    """Less than a byte of its leaf, by its share of the chunks that the leaf touches."""
    array, kept = np.full(1000, 9, "u1"), np.arange(1000) == 640
    made, full = sparse(tmp_path / "s.zarr", array, kept, chunks=(1,), fill_value=1)
    assert cf.reduce(made, op, selection=slice(0, None, 64)) == getattr(full[::64], op)()


def test_chunks_that_a_step_passes_over_count_for_nothing(tmp_path: Path):
    array = np.ones((64, 8), "u1")
    for there, elements in ((slice(0, None, 4), 64 // 4 * 8), (slice(2, None, 4), 0)):
        kept = np.zeros((64, 1), bool)
        kept[there] = True
        made, _ = sparse(tmp_path / "s.zarr", array, kept, chunks=(1, 8))
        run = cf.submit(made, "sum", selection=slice(None, None, 4))
        assert run.result() == run.plan.scan.nbytes == elements
        assert sum(device.nbytes for device in run.profile.values()) == elements
        shutil.rmtree(tmp_path / "s.zarr")


def test_two_inputs_are_read_where_either_is_stored(tmp_path: Path, monkeypatch):
    """Whatever the chunks of each: where neither is, the products of their fills are counted."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    monkeypatch.setattr(tile_leaves, "READ_BYTES", 0)
    rng = np.random.default_rng(0)
    array = rng.integers(1, 99, (18, 20)).astype("f8")
    for number in range(20):
        share = rng.random() * 0.6
        one, full = sparse(
            tmp_path / f"a{number}.zarr", array, rng.random((9, 10)) < share, chunks=(2, 2),
            fill_value=2.0,
        )  # fmt: skip
        two, other = sparse(
            tmp_path / f"b{number}.zarr", array, rng.random((6, 4)) < share, chunks=(3, 5),
            fill_value=5.0,
        )  # fmt: skip
        for axis in (None, 0, 1):
            got = cf.reduce([one, two], "dot", axis=axis)
            np.testing.assert_array_equal(got, (full * other).sum(axis=axis))


def test_fill_is_folded_once_for_many_tiles(tmp_path: Path, monkeypatch):
    combines: list[int] = []
    true_combine = Combiner.combine

    def counted(self: Combiner, partials) -> object:
        combines.append(len(partials))
        return true_combine(self, partials)

    monkeypatch.setattr(Combiner, "combine", counted)
    made, _ = sparse(
        tmp_path / "s.zarr", np.ones((1000, 37)), np.zeros((100, 10)), chunks=(10, 4),
        fill_value=0.1,
    )  # fmt: skip
    run = cf.submit(made, axis=1)
    np.testing.assert_array_equal(run.result(), [float(37 * Fraction(0.1))] * 1000)
    # 37, 18, 9, 4, 2: five combines, and no more for any other tile of a block.
    assert len(combines) == 5 * len(run.plan.blocks)
    assert len(run.plan.blocks) < run.plan.layout.tiles == 100


def test_results_that_nothing_is_stored_of_are_shared_out_too(tmp_path: Path):
    made, _ = sparse(tmp_path / "s.zarr", np.ones((1000, 8)), np.zeros((100, 2)), chunks=(10, 4))
    assert len(cf.plan(made, axis=1, workers=2).blocks) > 4


def test_more_leaves_than_can_be_planned_are_refused(tmp_path: Path):
    made = zarr.create_array(
        str(tmp_path / "s.zarr"), shape=(1 << 22, 1 << 22), chunks=(8, 8), dtype="f4"
    )
    with pytest.raises(cf.PlanError, match=r"leaves of at most .*: select less, or use larger"):
        cf.reduce(made)
    assert stored_sizes(made) is None
    assert cf.reduce(made, selection=(slice(0, 16), slice(0, 16))) == 0


def test_an_array_with_nothing_stored_is_all_fill(tmp_path: Path):
    made, _ = sparse(
        tmp_path / "s.zarr", np.ones((10, 10)), np.zeros((5, 5)), chunks=(2, 2), fill_value=1.5
    )
    assert cf.reduce(made) == 150
    assert cf.reduce(made, "mean", axis=0).tolist() == [1.5] * 10
    shutil.rmtree(tmp_path / "s.zarr/c", ignore_errors=True)
    assert cf.reduce(made, ["sum", "count"]) == {"sum": 150, "count": 100}


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 40))
def test_runs_are_even_and_cover_a_row(costs: list[int], wanted: int):
    runs = even_runs(costs, wanted)
    assert [n for first, last in runs for n in range(first, last)] == list(range(len(costs)))
    # Within one item of the same.
    mean = sum(costs) / max(1, len(runs))
    assert all(sum(costs[a:b]) <= max(mean, wanted) * 2 + 2 * max(costs) for a, b in runs)


def test_blocks_share_stored_bytes_not_leaves(tmp_path: Path):
    """All that is stored lies in one tenth of the array: as many blocks share that."""
    array, kept = np.ones((1000, 64), "f4"), np.zeros((1000, 1), bool)
    kept[100:200] = True
    made, _ = sparse(tmp_path / "s.zarr", array, kept, chunks=(1, 64), compressors=None)
    source = open_source(made)
    plan = planned(source, "sum", listings=[source.listing()], workers=4)
    held = [int((~block.unstored_parts(0)).sum()) for block in plan.blocks]
    assert sum(held) == 100
    assert len(held) >= 16
    assert max(held) <= 2 * 100 / len(held)


def test_blocks_of_many_tiles_keep_their_absent_leaves():
    absent = np.random.default_rng(0).random((40, 3)) < 0.5
    costs = np.where(absent, 0, 100)
    costs[7] = 10**6  # a heavy tile is cut by itself
    absent[7] = False
    seen = np.zeros((40, 3), int)
    for block in cut_blocks(costs, absent, 2, 0):
        for tile in range(*block.tiles):
            np.testing.assert_array_equal(
                block.unstored_parts(tile), absent[tile, slice(*block.parts)]
            )
            seen[tile, slice(*block.parts)] += 1
    assert (seen == 1).all()


@given(
    st.integers(0, 2**32),
    st.sampled_from([(3, 4), (6, 8), (5, 5)]),
    st.floats(0, 1),
    st.booleans(),
)
@settings(max_examples=30)
def test_gaps_are_of_the_objects_that_leaves_touch(seed: int, leaf, share: float, remote: bool):
    rng = np.random.default_rng(seed)
    sizes = np.where(rng.random((7, 8)) < share, 9, 0)
    axes = select([Cells(20, leaf[0]), Cells(30, leaf[1])], (slice(1, 19, 2), slice(None)))
    layout = Layout(axes, (0,))
    store = ObjectStore(obstore.store.MemoryStore()) if remote else {}
    source = open_source(zarr.create_array(store, shape=(20, 30), chunks=(3, 4), dtype="f8"))
    assert source.remote == remote
    listing = Listing(sizes.astype(np.uint32), 0)
    terms = [ListingTerms.of(listing)]
    stored = StoredLeaves.of(layout, [source], [listing])
    made = cut_blocks(np.full(stored.unstored.shape, 900), stored.unstored, 2, 0)
    for block in made:
        sent = with_objects(block, layout, [source], [listing], terms)
        for tile in range(*block.tiles):
            for part in range(*block.parts):
                box = leaf_objects(layout, tile, part, (3, 4))
                there = sizes[box] > 0
                if there.any():
                    (known,) = expected_objects(layout, [source], terms, sent, tile, part, [set()])
                    np.testing.assert_array_equal(known.sizes, sizes[box])
                assert stored.unstored[tile, part] == (not there.any())
                left_out = remote or there.mean() <= SPARSE
                assert stored.decoded[tile, part] == pytest.approx(
                    8 * layout.leaf_elements()[tile, part] * (there.mean() if left_out else 1)
                )
                rows = [piece.source for piece in layout.leaf(tile, part)]
                touched = {(r // 3, c // 4) for r in range(20)[rows[0]] for c in range(30)[rows[1]]}
                assert touched <= {(r, c) for r in range(7)[box[0]] for c in range(8)[box[1]]}
