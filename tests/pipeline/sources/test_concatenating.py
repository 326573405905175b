"""Several sources as one: what NumPy makes of them, their parts alone where they are read."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import ChangedError
from chunkfold.outputs.output_places import refuse_origins
from chunkfold.planning.work import Work
from chunkfold.sources.array_source import ArraySource
from chunkfold.sources.concatenation import ConcatenatedSource
from chunkfold.sources.opening import open_source
from tests.plans import planned


def stored(
    folder: Path, name: str, values: np.ndarray, chunks: tuple[int, ...], **given: object
) -> str:
    path = folder / f"{name}.zarr"
    made = zarr.create_array(
        path, shape=values.shape, chunks=chunks, dtype=values.dtype, **{"fill_value": 0, **given}
    )
    made[...] = values
    return str(path)


def ramp(size: int, first: int = 0) -> np.ndarray:
    return np.arange(first * 5, (first + size) * 5, dtype="f4").reshape(size, 5)


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    """Return three arrays of 4, 6 and 3 rows, in chunks of 2, named "time" and "x"."""
    names = {"dimension_names": ["time", "x"], "attributes": {"units": "K", "file": "a"}}
    made = [
        stored(tmp_path, str(first), ramp(size, first), (2, 5), **names)
        for first, size in ((0, 4), (4, 6), (10, 3))
    ]
    zarr.open_array(made[1]).attrs["file"] = "b"
    return made


def read(source: object, *region: slice) -> np.ndarray:
    assert isinstance(source, ConcatenatedSource)
    out = np.empty([len(range(cut.start, cut.stop, cut.step)) for cut in region], source.dtype)
    source.read(region, out)
    return out


def test_it_says_what_all_say(parts: list[str]):
    source = cf.concatenate(parts, axis="time")
    assert source.shape == (13, 5)
    assert source.dims == ("time", "x")
    assert source.attributes == {"units": "K"}
    assert source.grid[0].bounds is None  # chunks of all make up one grid
    assert source.chunks == (2, 5)
    assert "3 along axis 0" in source.name
    assert cf.concatenate(parts, axis=-2).shape == (13, 5)
    assert cf.concatenate([parts[0]]).shape == (4, 5)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 12])
@pytest.mark.parametrize("start", [0, 1, 3, 4, 9, 12])
def test_a_region_has_what_each_part_has_of_it(parts: list[str], start: int, step: int):
    source = cf.concatenate(parts)
    for stop in range(start + 1, 14):
        found = read(source, slice(start, stop, step), slice(1, 5, 2))
        assert (found == ramp(13)[start:stop:step, 1:5:2]).all()


def test_parts_without_elements_take_no_place(tmp_path: Path, parts: list[str]):
    empty = stored(tmp_path, "empty", ramp(0), (2, 5))
    source = cf.concatenate([empty, parts[0], empty, empty, parts[1], empty])
    assert (read(source, slice(0, 10, 1), slice(0, 5, 1)) == ramp(10)).all()


def test_chunks_that_are_not_stored_are_listed_where_they_make_up_one_grid(tmp_path: Path):
    values = ramp(6)
    values[2:4] = 0
    one, other = (stored(tmp_path, name, values, (2, 5)) for name in "ab")
    listed = cf.concatenate([one, other]).listing()
    assert (listed.sizes[:, 0] > 0).tolist() == [True, False, True] * 2
    assert "2 of 6 chunks" in str(cf.plan(cf.concatenate([one, other])))
    odd = stored(tmp_path, "odd", ramp(3), (2, 5))
    assert cf.concatenate([odd, one]).listing() is None
    filled = stored(tmp_path, "filled", values, (2, 5), fill_value=7)
    several = cf.concatenate([one, filled])
    assert several.listing() is None  # what is missing is 0 here and 7 there
    assert cf.reduce(several) == 2 * values.sum()


def test_the_order_of_bytes_may_differ(tmp_path: Path):
    native = np.arange(4.0)
    source = cf.concatenate([native, native.astype(">f8")])
    assert source.dtype == np.dtype("f8")
    assert (read(source, slice(0, 8, 1)) == [0, 1, 2, 3] * 2).all()


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (
            ramp(3),
            ramp(3).astype("f8"),
            "dtypes are float32 and float64, which chunkfold does not cast",
        ),
        (ramp(3), np.zeros((3, 4), "f4"), r"shapes are \(3, 5\) and \(3, 4\)"),
        (ramp(3), np.zeros(3, "f4"), r"shapes are \(3, 5\) and \(3,\)"),
    ],
)
def test_what_does_not_go_together_is_refused(one: np.ndarray, other: np.ndarray, told: str):
    with pytest.raises(cf.PlanError, match=told):
        cf.concatenate([one, other])


@pytest.mark.parametrize(
    ("name", "here", "there"),
    [("scale_factor", 0.5, 0.25), ("_FillValue", -1, None), ("units", "K", "degC")],
)
def test_equal_numbers_that_mean_different_things_are_refused_with_both(
    tmp_path: Path, name: str, here: object, there: object
):
    one, other = (
        stored(tmp_path, called, ramp(2), (2, 5), attributes={} if said is None else {name: said})
        for called, said in (("one", here), ("other", there))
    )
    with pytest.raises(cf.PlanError, match=f"{name} is {here!r} of one and {there!r} of the other"):
        cf.concatenate([one, other])


@pytest.mark.parametrize(
    ("sources", "axis", "told"),
    [
        ([], 0, "no sources were given"),
        ("a.zarr", 0, "give several, as a list"),
        ([ramp(2)], 2, "axis 2 is out of range"),
        ([ramp(2)], "time", "has no axis 'time'"),
        ([ramp(2)], None, "axis is None"),
        ([np.float64(3)], 0, "has no axes"),
    ],
)
def test_what_is_no_axis_or_no_sources_is_refused(sources: object, axis: object, told: str):
    with pytest.raises(cf.PlanError, match=told):
        cf.concatenate(sources, axis)


def test_names_of_axes_that_differ_are_refused(tmp_path: Path, parts: list[str]):
    other = stored(tmp_path, "other", ramp(2), (2, 5), dimension_names=["x", "time"])
    with pytest.raises(cf.PlanError, match="axes are time, x and x, time"):
        cf.concatenate([parts[0], other])


def test_the_part_that_misbehaves_is_named(parts: list[str]):
    source = cf.concatenate(parts)
    Path(parts[1], "c", "0", "0").write_bytes(b"cut")
    with pytest.raises(cf.ChunkError, match=r"4.zarr: cannot read chunk 'c/0/0'"):
        read(source, slice(0, 13, 1), slice(0, 5, 1))
    zarr.open_array(parts[2]).resize((1, 5))
    with pytest.raises(ChangedError, match=r"10.zarr: its metadata changed"):
        source.check_unchanged()
    assert cf.concatenate(parts[:2]).reopened().shape == (10, 5)


def test_outputs_may_be_no_part(parts: list[str]):
    with pytest.raises(
        cf.PlanError, match=r"source .*4.zarr are the same, or one is inside the other"
    ):
        refuse_origins(parts[1], cf.concatenate(parts).addresses)


def test_what_is_in_memory_comes_with_blocks(parts: list[str]):
    source = cf.concatenate([parts[0], ramp(3, 4)])
    assert not source.travels
    assert isinstance(open_source(ramp(2)), ArraySource)
    part = pickle.loads(pickle.dumps(source.parted([[slice(2, 6, 1), slice(0, 5, 1)]])))
    found = np.empty((4, 5), "f4")
    part.read([slice(2, 6, 1), slice(0, 5, 1)], found)
    assert (found == ramp(7)[2:6]).all()


def test_a_block_brings_the_parts_alone_that_it_reads(parts: list[str]):
    source = cf.concatenate(parts)
    few = pickle.loads(pickle.dumps(source.parted([[slice(5, 9, 1), slice(0, 5, 1)]])))
    assert sorted(few.parts) == [0, 1]
    assert (read(few, slice(5, 9, 1), slice(0, 5, 1)) == ramp(13)[5:9]).all()
    assert (few.shape, few.chunks) == (source.shape, source.chunks)
    with pytest.raises(cf.SourceError, match="part 2 did not come with the block"):
        read(few, slice(5, 12, 1), slice(0, 5, 1))


def test_a_thousand_parts_are_planned_in_a_second_and_blocks_stay_small(tmp_path: Path):
    one = open_source(stored(tmp_path, "one", np.ones((365, 4), "f4"), (30, 4)))
    source = cf.concatenate([one] * 1000)
    began = time.monotonic()
    made = planned(source, "mean", axis=0, workers=8, threads=2)
    assert time.monotonic() - began < 5  # of a loaded machine
    work = Work.of("run", made)
    common = work.common()
    most = max(len(pickle.dumps((common, work.data_of(block)))) for block in made.blocks)
    assert most < len(pickle.dumps(work)) / 4
    assert len(pickle.dumps(common)) < 100_000
