"""Pyramids: each level is NumPy's of the whole windows of the image, from one read."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, GzipCodec

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.kernels.accumulator.exact_integers import nearest_integers
from chunkfold.outputs import outputs
from chunkfold.planning import blocks, planner
from chunkfold.workflows.images.pyramid import pyramid
from chunkfold.workflows.images.pyramid_plan import plan_pyramid
from chunkfold.workflows.regionwise import zarr_tiles
from tests.conftest import DEVICES
from tests.kernels.catalogue.test_window_modes import counted
from tests.ome_images import valid_image
from tests.pipeline.test_by import hard
from tests.pipeline.test_coarsen import windowed
from tests.pipeline.test_skipping import damaged, removed

pytestmark = pytest.mark.unoptimised


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Several chunks to a leaf, several leaves to a block, several blocks."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4096, 8192))


def image(folder: Path, values: np.ndarray, chunks: Sequence[int], **given: Any) -> Path:
    """Store an image in a group, as its array 0."""
    names = ("t", "c", "z", "y", "x")[-values.ndim :]
    group = zarr.open_group(str(folder), mode="w")
    group.create_array(
        "0", data=values, chunks=tuple(chunks), **{"dimension_names": names, **given}
    )
    return folder / "0"


def check_ome(group: zarr.Group) -> list[str]:
    """See that metadata are those of OME-Zarr 0.5; return the paths of levels, finest first."""
    (one,) = valid_image(group).attributes.ome.multiscales
    names, sizes = tuple(axis.name for axis in one.axes), []
    for dataset in one.datasets:
        array: Any = group[dataset.path]
        assert array.metadata.dimension_names == names
        sizes.append([*dataset.coordinateTransformations[0].scale, -array.size])
    assert sizes == sorted(sizes), "from the finest to the coarsest"
    return [dataset.path for dataset in one.datasets]


def check_levels(
    group: zarr.Group, paths: Sequence[str], values: np.ndarray, by: Mapping[int, int], op: str
) -> None:
    for n, path in enumerate(paths, 1):
        windows = {axis: factor**n for axis, factor in by.items()}
        want = windowed(op, values, windows, "pad")
        got: Any = group[path]
        assert got.dtype == values.dtype
        if values.dtype.kind in "iu" and want.dtype.kind == "f":
            want = nearest_integers(want, values.dtype)
        np.testing.assert_array_equal(got[...], want.astype(values.dtype), f"{op} {path}")


@settings(max_examples=4)
@given(
    shape=st.tuples(st.integers(3, 70), st.integers(3, 50)),
    chunks=st.tuples(st.integers(1, 30), st.integers(5, 50)),
    by=st.sampled_from([{0: 2, 1: 2}, {0: 3, 1: 2}, {1: 4}]),
    levels=st.integers(1, 3),
)
def test_levels_are_exact_whatever_chunks_and_extents(tmp_path_factory, shape, chunks, by, levels):
    folder = tmp_path_factory.mktemp("image")
    values = hard("float32", shape)
    path = image(folder / "a", values, [min(a, b) for a, b in zip(chunks, shape, strict=True)])
    most = next(n for n in range(1, 9) if all(shape[axis] <= k**n for axis, k in by.items()))
    made = pyramid(path, folder / "b", min(levels, most), factor=by)
    paths = check_ome(made)
    check_levels(made, paths, values, by, "mean")
    told: Any = made.attrs["chunkfold"]["statistics"]
    for op in ("min", "max", "mean", "std"):
        assert told[op] == pytest.approx(float(getattr(np, op)(values.astype("f8"))), rel=1e-6), op


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("op", ["mean", "nanmean"])
def test_means_of_64_bit_integers_are_rounded_once(tmp_path: Path, dtype: str, op: str):
    """A float64 of them would be some hundreds off."""
    info, rng = np.iinfo(dtype), np.random.default_rng(8)
    values = rng.integers(info.max - 9, info.max, (8, 12), dtype, endpoint=True)
    values[4:] = rng.integers(0, 9, (4, 12))  # among which halves go to even ones
    values[2] = info.min
    made = pyramid(image(tmp_path / "a", values, (4, 5)), tmp_path / "b", 2, op=op)
    for path, factor in (("1", 2), ("2", 4)):
        got: Any = made[path]
        windows = values.reshape(8 // factor, factor, 12 // factor, factor)
        sums = windows.astype(object).sum((1, 3))
        want = [[round(Fraction(one, factor**2)) for one in row] for row in sums.tolist()]
        assert got[...].tolist() == want


def test_at_no_moment_an_image_names_levels_that_are_not_there(tmp_path: Path, monkeypatch):
    values = np.random.default_rng(1).integers(0, 99, (32, 32)).astype("u2")
    path = image(tmp_path / "a", values, (8, 8))
    pyramid(path, tmp_path / "a", 2, "max", statistics=False)
    named = []

    def move(made: Path, place: Path) -> None:
        told: Any = zarr.open_group(str(tmp_path / "a"), mode="r").attrs["ome"]
        named.append([one["path"] for one in told["multiscales"][0]["datasets"]])
        if place.name == "2":
            raise KeyboardInterrupt
        outputs.moved(made, place)

    monkeypatch.setattr("chunkfold.workflows.images.pyramid.moved", move)
    with pytest.raises(KeyboardInterrupt):
        pyramid(path, tmp_path / "a", 2, "min", statistics=False, overwrite=True)
    assert named == [["0"], ["0"]]
    monkeypatch.undo()
    made = pyramid(path, tmp_path / "a", 2, "min", statistics=False, overwrite=True)
    check_levels(made, check_ome(made)[1:], values, {0: 2, 1: 2}, "min")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["0", "1", "2", "zarr.json"]


def test_fewer_levels_leave_none_of_those_before(tmp_path: Path):
    values = np.random.default_rng(1).integers(0, 99, (64, 64)).astype("u2")
    path = image(tmp_path / "a", values, (8, 8))
    pyramid(path, tmp_path / "a", 4, "max", statistics=False)
    zarr.create_array(str(tmp_path / "a" / "9"), shape=(1,), dtype="u2")  # somebody's own
    made = pyramid(path, tmp_path / "a", 2, "max", statistics=False, overwrite=True)
    check_levels(made, check_ome(made)[1:], values, {0: 2, 1: 2}, "max")
    names = sorted(each.name for each in (tmp_path / "a").iterdir())
    assert names == ["0", "1", "2", "9", "zarr.json"]
    # Of a level: what is finer stays.
    pyramid(tmp_path / "a" / "1", tmp_path / "a", 1, "max", statistics=False, overwrite=True)
    assert (tmp_path / "a" / "0").is_dir()


def test_only_levels_that_were_made_here_are_removed(tmp_path: Path):
    values = np.random.default_rng(1).integers(0, 99, (64, 64)).astype("u2")
    image(tmp_path / "a", values, (8, 8))
    for name in ("5", "levels"):  # as staging was once called
        shutil.copytree(tmp_path / "a" / "0", tmp_path / "a" / name)
    pyramid(tmp_path / "a" / "5", tmp_path / "a", 3, "max", statistics=False)
    group = zarr.open_group(str(tmp_path / "a"))
    ome: Any = group.attrs["ome"]
    ome["multiscales"][0]["datasets"].append({"path": "9"})
    zarr.create_array(str(tmp_path / "a" / "9"), shape=(1,), dtype="u2")
    shutil.rmtree(tmp_path / "a" / "8")
    zarr.create_array(str(tmp_path / "a" / "8" / "mine"), shape=(1,), dtype="u2")
    zarr.open_group(str(tmp_path / "a" / "8"), mode="a")
    (tmp_path / "a" / "7").rename(tmp_path / "seven")
    (tmp_path / "a" / "7").symlink_to(tmp_path / "seven")
    group.attrs["ome"] = ome
    pyramid(tmp_path / "a" / "0", tmp_path / "a", 1, "max", statistics=False, overwrite=True)
    names = sorted(each.name for each in (tmp_path / "a").iterdir())
    assert names == ["0", "1", "5", "7", "8", "9", "levels", "zarr.json"]
    assert (tmp_path / "a" / "8" / "mine").is_dir()
    for name in ("0", "5", "levels"):
        assert np.array_equal(cf.reduce(str(tmp_path / "a" / name), "max", axis=0), values.max(0))


def test_a_group_keeps_its_other_images(tmp_path: Path):
    values = np.random.default_rng(1).integers(0, 99, (64, 64)).astype("u2")
    path = image(tmp_path / "a", values, (8, 8))
    other = {"name": "other", "axes": [], "datasets": [{"path": "aux"}]}
    odd = {"datasets": ["abc", {"path": "1"}]}
    zarr.open_group(str(tmp_path / "a")).attrs["ome"] = {"multiscales": ["abc", other, odd]}
    made = pyramid(path, tmp_path / "a", 1, "max", statistics=False)
    told: Any = made.attrs["ome"]
    assert [one.get("name") for one in told["multiscales"]] == ["0", "other"]


def test_consolidated_metadata_tell_of_the_levels_that_there_are(tmp_path: Path):
    values = np.random.default_rng(1).integers(0, 99, (64, 64)).astype("u2")
    path = image(tmp_path / "a", values, (8, 8))
    pyramid(path, tmp_path / "a", 3, "max", statistics=False)
    zarr.consolidate_metadata(str(tmp_path / "a"))
    pyramid(path, tmp_path / "a", 1, "max", statistics=False, overwrite=True)
    group = zarr.open_group(str(tmp_path / "a"), mode="r")
    assert group.metadata.consolidated_metadata is not None
    assert sorted(group.keys()) == ["0", "1"]


@pytest.mark.parametrize("op", ["mean", "max", "min"])
def test_levels_beside_the_image_have_its_dtype_and_its_metadata(tmp_path: Path, op: str):
    values = np.random.default_rng(0).integers(0, 65535, (2, 3, 40, 33)).astype("u2")
    ome = {
        "version": "0.5",
        "omero": {"channels": []},
        "multiscales": [{
            "axes": [{"name": "c", "type": "channel"},
                     *({"name": n, "type": "space", "unit": "micrometer"} for n in "zyx")],
            "datasets": [{"path": "0", "coordinateTransformations": [
                {"type": "scale", "scale": [1.0, 5.0, 0.5, 0.5]}]}],
        }],
    }  # fmt: skip
    path = image(tmp_path / "a", values, (1, 1, 16, 16))
    zarr.open_group(str(tmp_path / "a")).attrs["ome"] = ome
    made = pyramid(path, tmp_path / "a", 2, op, statistics=False)
    paths = check_ome(made)
    assert paths == ["0", "1", "2"]
    check_levels(made, paths[1:], values, {2: 2, 3: 2}, op)
    told: Any = made.attrs["ome"]
    assert told["omero"] == {"channels": []}
    (one,) = told["multiscales"]
    assert one["axes"][3]["unit"] == "micrometer"
    assert one["datasets"][2]["coordinateTransformations"] == [
        {"type": "scale", "scale": [1.0, 5.0, 2.0, 2.0]},
        {"type": "translation", "translation": [0.0, 0.0, 0.75, 0.75]},
    ]
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["0", "1", "2", "zarr.json"]
    with pytest.raises(PlanError, match="exists"):
        pyramid(path, tmp_path / "a", 2, op)


def test_sums_that_expansions_lose_are_exact_on_all_levels(tmp_path: Path):
    rng = np.random.default_rng(1)
    values = rng.standard_normal((40, 24)) * 2.0 ** rng.integers(-900, 900, (40, 24))
    values[3] = np.repeat([1e300, 1.0, -1e300], 8)
    made = pyramid(image(tmp_path / "a", values, (7, 9)), tmp_path / "b", 3, factor=2)
    check_levels(made, check_ome(made), values, {0: 2, 1: 2}, "mean")


def test_chunks_are_read_once_and_what_is_missing_is_fill(tmp_path: Path):
    path = image(tmp_path / "a", np.zeros((64, 64), "f4"), (16, 16), fill_value=3)
    array: Any = zarr.open_array(str(path))
    values = np.full((64, 64), 3, "f4")
    array[...] = values
    values[16:32, 16:32] = array[16:32, 16:32] = hard("float32", (16, 16))
    plan = plan_pyramid(path, tmp_path / "b", 4)
    made = cf.plan(plan.request)
    assert made.scan.nbytes <= values.nbytes
    assert "are decoded" not in str(made)
    group = pyramid(path, tmp_path / "b", 4)
    check_levels(group, check_ome(group), values, {0: 2, 1: 2}, "mean")


EDGES = [-1e30, -2.0, 0.0, 0.5, 3.0, 1e30]


def check_whole(told: Mapping[str, Any], values: np.ndarray) -> None:
    """See that statistics and the histogram are those of all elements."""
    for op in ("min", "max", "mean", "std"):
        assert told[op] == pytest.approx(float(getattr(np, op)(values.astype("f8"))), rel=1e-6), op
    counts = [one["count"] for one in told["histogram"]]
    np.testing.assert_array_equal(counts, np.histogram(values, EDGES)[0])


@pytest.mark.parametrize("op", ["mean", "max", "sum"])
def test_statistics_and_a_histogram_of_the_whole_image_are_of_the_same_read(tmp_path: Path, op):
    path = image(tmp_path / "a", np.zeros((70, 51), "f4"), (16, 16), fill_value=2.25)
    array: Any = zarr.open_array(str(path))
    values = np.full((70, 51), 2.25, "f4")
    array[...] = values  # so that nothing is stored
    values[16:50, 16:32] = array[16:50, 16:32] = hard("float32", (34, 16))
    plan = plan_pyramid(path, tmp_path / "b", 3, op, histogram=EDGES)
    assert cf.plan(plan.request).scan.nbytes <= values.nbytes
    made = pyramid(path, tmp_path / "b", 3, op, histogram=EDGES)
    check_whole(made.attrs["chunkfold"]["statistics"], values)
    check_levels(made, check_ome(made), values, {0: 2, 1: 2}, op)


def test_a_histogram_without_edges_has_all_elements(tmp_path: Path):
    values = np.random.default_rng(3).integers(0, 999, (40, 33)).astype("u2")
    path = image(tmp_path / "a", values, (16, 16))
    made = pyramid(path, tmp_path / "b", 2, statistics=False, histogram=True)
    told: Any = made.attrs["chunkfold"]["statistics"]
    assert set(told) == {"histogram"}
    own, counts = np.unique(values, return_counts=True)
    for one in told["histogram"]:
        within = (one["left"] <= own) & (own < one["right"])
        assert one["count"] == counts[within].sum()
    assert sum(one["count"] for one in told["histogram"]) == values.size


def test_what_is_left_out_of_levels_is_left_out_of_the_whole(tmp_path: Path):
    values = np.random.default_rng(4).normal(1, 2, (64, 64)).astype("f4")
    path = image(tmp_path / "a", values, (8, 8))
    file = path / "c" / "5" / "3"
    file.write_bytes(file.read_bytes()[:-3])
    rest = values.copy()
    rest[40:48, 24:32] = np.nan
    made = pyramid(path, tmp_path / "b", 3, histogram=EDGES, on_bad_chunk="skip")
    told: Any = made.attrs["chunkfold"]["statistics"]
    check_whole(told, rest[~np.isnan(rest)])


@settings(max_examples=6)
@given(
    op=st.sampled_from(["mean", "sum", "max"]),
    levels=st.integers(1, 3),
    factor=st.integers(2, 5),
    share=st.sampled_from([0.05, 0.3]),
    seed=st.integers(0, 99),
)
def test_statistics_leave_out_what_is_bad_and_have_what_is_not_stored(
    tmp_path_factory, op: str, levels: int, factor: int, share: float, seed: int
):
    folder = tmp_path_factory.mktemp("image")
    rng = np.random.default_rng(seed)
    values = rng.normal(1, 2, (60, 50)).astype("f4")
    bad, gone = rng.random((6, 5)) < share, rng.random((6, 5)) < 0.6
    bad[0, 0] = False
    (folder / "a").mkdir()
    rest = damaged(folder / "a" / "0", values, bad, chunks=(10, 10), dimension_names=("y", "x"))
    removed(folder / "a" / "0", rest, gone)
    plan = plan_pyramid(folder / "a" / "0", folder / "b", levels, op, factor, histogram=EDGES,
                        on_bad_chunk="skip")  # fmt: skip
    if op == "max" and bad.any():
        op = "sum"  # a window of nothing but bad chunks has no maximum
    made = pyramid(folder / "a" / "0", folder / "b", levels, op, factor, histogram=EDGES,
                   on_bad_chunk="skip")  # fmt: skip
    check_whole(made.attrs["chunkfold"]["statistics"], rest.compressed())
    told = str(cf.plan(plan.request))
    assert "question  levels" in told
    assert "question  statistics" in told
    if op == "sum":
        left = rest.filled(0)
        check_levels(made, check_ome(made), left, {0: factor, 1: factor}, op)


def test_the_memory_of_a_histogram_is_planned(tmp_path: Path):
    path = image(tmp_path / "a", np.ones((64, 64), "f4"), (8, 8))
    without, one = (
        cf.plan(
            plan_pyramid(path, tmp_path / "b", 2, statistics=False, histogram=bins).request
        ).memory.total
        for bins in (False, True)
    )
    assert one - without > 3 * 8131 * np.dtype("i8").itemsize


@pytest.mark.parametrize(("levels", "factor"), [(7, 2), (1, 128)])
def test_a_window_of_many_chunks_is_of_one_block(tmp_path: Path, levels: int, factor: int):
    values = hard("float32", (128, 128))
    path = image(tmp_path / "a", values, (8, 8))
    made = pyramid(path, tmp_path / "b", levels, factor=factor, histogram=EDGES)
    check_levels(made, check_ome(made), values, {0: factor, 1: factor}, "mean")
    check_whole(made.attrs["chunkfold"]["statistics"], values)


@pytest.mark.parametrize(
    ("dtype", "channels", "least", "most"), [("u1", 3, 0, 255), ("f4", 1, 7, 200)],
)  # fmt: skip
def test_viewers_are_told_from_where_to_where(tmp_path: Path, dtype, channels, least, most):
    values = np.random.default_rng(5).integers(8, 200, (channels, 20, 30)).astype(dtype)
    values[0, 3, 4], values[-1, 5, 6] = 7, 200
    path = image(tmp_path / "a", values, (1, 10, 10), dimension_names=("c", "y", "x"))
    none: Any = pyramid(path, tmp_path / "b", 2, statistics=False).attrs["ome"]
    assert "omero" not in none
    ome: Any = pyramid(path, tmp_path / "a", 2).attrs["ome"]
    found = ome["omero"]["channels"]
    for one, own in zip(found, values, strict=True):
        ends = {"start": own.min(), "end": own.max()}
        whole = {"min": least, "max": most} if dtype == "u1" else {"min": 7, "max": 200}
        assert one["window"] == whole | ends
    assert all(re.fullmatch("[0-9A-F]{6}", one["color"]) for one in found)


@pytest.mark.parametrize(
    ("compressors", "shards"),
    [(None, None), (GzipCodec(level=2), (16, 16)), (BloscCodec(cname="lz4"), None)],
)
def test_levels_are_compressed_as_the_image_is(tmp_path: Path, compressors, shards):
    values = hard("float32", (32, 32))
    path = image(tmp_path / "a", values, (8, 8), compressors=compressors, shards=shards)
    made = pyramid(path, tmp_path / "b", 2)
    check_levels(made, check_ome(made), values, {0: 2, 1: 2}, "mean")
    for name in ("1", "2"):
        level: Any = made[name]
        assert level.compressors == zarr.open_array(str(path)).compressors


def test_chunks_that_wait_for_others_are_written_where_there_is_no_room(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(zarr_tiles, "MOST_OPEN", 600)
    values = hard("float32", (64, 64))
    made = pyramid(image(tmp_path / "a", values, (8, 64)), tmp_path / "b", 2)
    check_levels(made, check_ome(made), values, {0: 2, 1: 2}, "mean")


@pytest.mark.parametrize("beside", [False, True])
def test_a_run_that_fails_leaves_nothing(tmp_path: Path, beside: bool):
    path = image(tmp_path / "a", hard("float32", (64, 64)), (8, 8))
    file = path / "c" / "7" / "7"
    file.write_bytes(file.read_bytes()[:-3])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(cf.ChunkError):
        pyramid(path, tmp_path / ("a" if beside else "b"), 3)
    assert sorted(tmp_path.rglob("*")) == before
    assert "ome" not in zarr.open_group(str(tmp_path / "a")).attrs


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"op": "mode"}, "op='mode' counts labels, which are whole numbers, but .* has float32"),
        ({"op": "argmax"}, "argmax returns positions"),
        ({"op": "minmax"}, "minmax has its own axes"),
        ({"levels": 0}, "levels is 0; a pyramid has 1 or more"),
        ({"levels": 9}, "level 4 has one element .* give 4 at most"),
        ({"factor": 1}, "makes nothing coarser"),
        ({"factor": "2"}, "factor is '2'; give 2"),
        ({"factor": {"q": 2}}, "has no axis 'q'"),
        ({"axis": 0}, "pyramid takes no axis"),
    ],
)
def test_what_makes_no_pyramid_is_refused(tmp_path: Path, given: dict[str, Any], said: str):
    path = image(tmp_path / "a", hard("float32", (12, 10)), (4, 10))
    with pytest.raises(PlanError, match=said):
        pyramid(path, tmp_path / "b", **given)
    assert not (tmp_path / "b").exists()


@settings(max_examples=6)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(3, 50), st.integers(3, 50)),
    chunks=st.tuples(st.integers(1, 2), st.integers(1, 30), st.integers(5, 50)),
    by=st.sampled_from([{1: 2, 2: 2}, {1: 3, 2: 2}, {0: 2, 2: 4}]),
    dtype=st.sampled_from(["uint8", "int32", "uint64"]),
    seed=st.integers(0, 9),
)
def test_modes_count_every_label_of_the_image(
    tmp_path_factory, shape, chunks, by, dtype: str, seed: int
):
    folder, rng = tmp_path_factory.mktemp("labels"), np.random.default_rng(seed)
    regions = rng.integers(0, 4, (3, 10, 10)) * (np.iinfo(dtype).max // 3)
    values = np.kron(regions, np.ones((1, 5, 5))).astype(dtype)[tuple(map(slice, shape))]
    values[rng.random(shape) < 0.3] = 7
    cut = [min(a, b) for a, b in zip(chunks, shape, strict=True)]
    path = image(folder / "a", values, cut, config={"write_empty_chunks": True})
    removed(path, values, rng.random([-(-n // c) for n, c in zip(shape, cut, strict=True)]) < 0.2)
    stored: Any = zarr.open_array(path)[...]
    most = next(n for n in range(1, 9) if all(shape[axis] <= k**n for axis, k in by.items()))
    made = pyramid(path, folder / "b", min(3, most), op="mode", factor=by)
    paths = check_ome(made)
    ome: Any = made.attrs["ome"]
    assert ome["multiscales"][0]["type"] == "mode"
    assert "omero" not in ome
    for number, one in enumerate(paths, 1):
        got: Any = made[one]
        assert got.dtype == values.dtype
        windows = [by.get(axis, 1) ** number for axis in range(3)]
        np.testing.assert_array_equal(got[...], counted(stored, windows))
    told: Any = made.attrs["chunkfold"]["statistics"]
    assert (told["min"], told["max"]) == (stored.min(), stored.max())


def test_modes_come_from_workers_and_stand_beside_their_image(tmp_path: Path):
    values = np.random.default_rng(3).integers(0, 3, (40, 56)).astype("u2")
    path = image(tmp_path / "a", values, (16, 16))
    workers = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with workers as cluster, Client(cluster) as client:
        made = pyramid(path, tmp_path / "a", 2, op="mode", client=client)
    for number, one in enumerate(check_ome(made)[1:], 1):
        got: Any = made[one]
        np.testing.assert_array_equal(got[...], counted(values, [2**number] * 2))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"where": lambda x: x > 1}, "omit where"),
        ({"where": np.ones((12, 10), bool)}, "omit where"),
        ({"initial": 3}, "omit initial"),
        ({"on_bad_chunk": "skip"}, "omit on_bad_chunk='skip'"),
        ({"skipna": True}, "omit skipna"),
        ({"factor": 0}, "a window of 0 for axis 0"),
        ({"factor": {0: 2.5}}, "a window of 2.5 for axis 0"),
    ],
)
def test_modes_are_of_all_labels(tmp_path: Path, given: dict[str, Any], said: str):
    path = image(tmp_path / "a", np.ones((12, 10), "i4"), (4, 10))
    with pytest.raises(PlanError, match=said):
        pyramid(path, tmp_path / "b", 2, op="mode", statistics=False, **given)


def test_an_image_has_axes_that_ome_zarr_has(tmp_path: Path):
    path = image(tmp_path / "a", np.ones((4, 4, 4), "u1"), (4, 4, 4), dimension_names="xyt")
    with pytest.raises(PlanError, match="its axes are 'x', 'y', 't'; OME-Zarr images"):
        pyramid(path, tmp_path / "b", 1)
    zarr.open_group(str(tmp_path / "c")).create_array("0", data=np.float32(3))
    with pytest.raises(PlanError, match="its axes are none; OME-Zarr images"):
        pyramid(tmp_path / "c" / "0", tmp_path / "b", 1)


def test_the_command_writes_one(tmp_path: Path, command: Callable):
    values = np.random.default_rng(0).integers(0, 255, (3, 20, 30)).astype("u1")
    image(tmp_path / "a", values, (1, 10, 10), dimension_names=("z", "y", "x"))
    command("pyramid", "a/0", "a", "--levels", 2, "--factor", "z=2,y=2,x=2", "-q",
              "--edges", "0:256:4", cwd=tmp_path)  # fmt: skip
    group = zarr.open_group(str(tmp_path / "a"))
    check_levels(group, check_ome(group)[1:], values, {0: 2, 1: 2, 2: 2}, "mean")
    told = command("pyramid", "a/0", "b", "--factor", "two", cwd=tmp_path, code=2)
    assert "'two' is not a number" in told.stderr
    found = json.loads(json.dumps(group.attrs["chunkfold"]))["statistics"]
    assert found["max"] == values.max()
    counts = [one["count"] for one in found["histogram"]]
    assert counts == np.histogram(values, 4, (0, 256))[0].tolist()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_means_of_the_ends_of_64_bits_are_these(dtype: str, tmp_path: Path):
    ends = np.iinfo(dtype)
    values = np.full((8, 8), ends.max, dtype)
    values[:, :4] = ends.min
    made = pyramid(image(tmp_path / "a.zarr", values, (4, 4)), tmp_path / "b.zarr", levels=1)
    np.testing.assert_array_equal(made["1"][...], values[::2, ::2])


@pytest.mark.parametrize("dtype", ["i4", "u1"])
def test_means_of_integers_of_nothing_are_zero(dtype: str, tmp_path: Path):
    source = image(tmp_path / "a.zarr", np.full((8, 8), 7, dtype), (4, 4))
    (source / "c" / "0" / "0").write_bytes(b"spoiled")
    made = pyramid(source, tmp_path / "b.zarr", levels=1, on_bad_chunk="skip")
    want = np.full((4, 4), 7)
    want[:2, :2] = 0
    np.testing.assert_array_equal(made["1"][...], want)


def test_means_of_labels_are_told(tmp_path: Path):
    group = zarr.open_group(str(tmp_path / "labels"), mode="w")
    group.create_array("0", data=np.arange(64, dtype="u2").reshape(8, 8), chunks=(4, 4))
    with pytest.warns(UserWarning, match="seems to have labels: op='mode' keeps them"):
        pyramid(tmp_path / "labels/0", tmp_path / "out.zarr", levels=1)
