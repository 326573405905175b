"""Every kind of source: the same answers, the same bits, and one sentence where it misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.errors import PlaceWarning
from chunkfold.sources.array_source import ArraySource, PartsSource, cells_of_chunks
from chunkfold.sources.opening import open_source
from tests.conftest import DEVICES

pytestmark = pytest.mark.unoptimised

DTYPES = ("int16", "float32", "float64", ">i4", "bool", "complex64", "datetime64[s]")
OPS = ("sum", "mean", "max", "count")


class ArrayLike:
    """What anyone may have: a shape, a dtype, chunks, and regions."""

    def __init__(self, values: np.ndarray, chunks: Any = None) -> None:
        self.shape, self.dtype, self.chunks, self._values = (
            values.shape,
            values.dtype,
            chunks,
            values,
        )

    def __getitem__(self, region: Any) -> np.ndarray:
        return self._values[region].copy()


def in_zarr(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> str:
    """Store it; return its path."""
    path = folder / "a.zarr"
    made = zarr.create_array(
        path, shape=values.shape, chunks=chunks, dtype=values.dtype, overwrite=True
    )
    made[...] = values
    return str(path)


def irregular(values: np.ndarray, chunks: tuple[int, ...], _: Path) -> ArrayLike:
    """Chunks of several extents along each axis."""
    cuts = []
    for size, chunk in zip(values.shape, chunks, strict=True):
        first = [1] * min(1, size)
        rest = [chunk] * ((size - len(first)) // chunk)
        left = size - len(first) - sum(rest)
        cuts.append(tuple(first + rest + [left] * bool(left)))
    return ArrayLike(values, tuple(cuts))


KINDS: dict[str, Callable[[np.ndarray, tuple[int, ...], Path], Any]] = {
    "a path": in_zarr,
    "zarr's array": lambda values, chunks, folder: zarr.open_array(in_zarr(values, chunks, folder)),
    "NumPy's array": lambda values, *_: values,
    "columns first": lambda values, *_: np.asfortranarray(values),
    "a view": lambda values, *_: np.repeat(values, 2, axis=-1)[..., ::2],
    "array-like": lambda values, *_: ArrayLike(values),
    "array-like, chunks": lambda values, chunks, _: ArrayLike(values, chunks),
    "array-like, irregular": irregular,
}
"""How an array becomes a source of each kind."""


def values_of(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return numbers of a dtype; some are large."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


def ops_of(dtype: str) -> tuple[str, ...]:
    kind = np.dtype(dtype).kind
    return {"c": ("sum", "mean", "count"), "M": ("max", "count")}.get(kind, OPS)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_the_same_bits_from_every_kind(kind: str, data: st.DataObject, tmp_path_factory):
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, size)) for size in shape)
    axis = data.draw(st.sampled_from([None, *range(len(shape))]))
    selection = tuple(
        slice(data.draw(st.integers(0, size)), None, data.draw(st.integers(1, 3))) for size in shape
    )
    values = values_of(dtype, shape)
    if not values[selection].size:
        return
    source = KINDS[kind](values, chunks, tmp_path_factory.mktemp("a"))
    ops = list(ops_of(dtype))
    plain = in_zarr(np.ascontiguousarray(values), shape, tmp_path_factory.mktemp("b"))
    found = cf.reduce(source, ops, axis=axis, selection=selection)
    wanted = cf.reduce(plain, ops, axis=axis, selection=selection)
    for op in ops:
        assert np.asarray(found[op]).tobytes() == np.asarray(wanted[op]).tobytes(), op
    if np.dtype(dtype).kind in "iubM":
        assert (found["max"] == values[selection].max(axis)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_its_memory_is_within_the_bound_that_is_told(kind: str, tmp_path: Path):
    values = values_of("float32", (40, 50, 60))
    plan = cf.plan(KINDS[kind](values, (7, 50, 9), tmp_path), axis=0)
    assert plan.memory.total >= plan.leaf_bytes
    assert str(plan).startswith("source    ")
    with pytest.raises(cf.PlanError, match="needs"):
        cf.plan(KINDS[kind](values, (7, 50, 9), tmp_path), axis=0, memory=100)


def test_every_element_is_asked_for_once():
    asked = np.zeros((30, 40), int)

    class Counting(ArrayLike):
        def __getitem__(self, region: Any) -> np.ndarray:
            asked[region] += 1
            return super().__getitem__(region)

    values = values_of("float32", (30, 40))
    cf.reduce(Counting(values, ((7, 7, 7, 9), (40,))), "max", axis=0)
    assert (asked == 1).all()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda region: np.zeros((1, 1), "f4"), "it gave float32 of shape"),
        (lambda region: np.zeros((30, 40), "f8")[region], "it gave float64"),
        (lambda region: 1 / 0, "ZeroDivisionError"),
        (lambda region: None, "it gave object"),
        (
            lambda region: np.ma.masked_less(np.arange(1200, dtype="f4").reshape(30, 40), 1)[
                region
            ],
            "it gave masked elements.*skipna",
        ),
        (
            lambda region: da.ma.masked_less(da.ones((30, 40), dtype="f4"), 2)[region],
            "it gave masked elements.*skipna",
        ),
    ],
)
def test_a_source_that_misbehaves_is_named_in_one_sentence(given: Callable[[Any], Any], told: str):
    class Bad(ArrayLike):
        name = "sensor 7"

        def __getitem__(self, region: Any) -> Any:
            return given(region)

    with pytest.raises(cf.ChunkError, match=f"sensor 7: cannot read region .*{told}"):
        cf.reduce(Bad(np.zeros((30, 40), "f4")))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (np.ma.array([1.0, 2.0]), "masked array.*skipna"),
        ({"a": 1}, "not dict"),
        (np.array(["a"]), "cannot be reduced"),
        (np.array([1], object), "cannot be reduced"),
        (ArrayLike(np.zeros((4, 4)), (3,)), "do not fit its shape"),
        (ArrayLike(np.zeros((4, 4)), ((3, 3), (4,))), "do not fit its shape"),
        (np.zeros(3, [("a", "i4")]), "cannot be reduced"),
    ],
)
def test_what_is_no_source_is_refused(given: Any, told: str):
    with pytest.raises(cf.SourceError, match=told):
        cf.reduce(given)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Return a client of two workers."""
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster) as connected:
        yield connected


def test_arrays_in_memory_stay_here_unless_a_client_is_named(client: Client):
    values = values_of("float64", (50, 60, 70))
    with pytest.warns(PlaceWarning, match="client= sends it there"):
        here = cf.reduce(values, ["sum", "std"], axis=1)
    there = cf.reduce(values, ["sum", "std"], axis=1, client=client)
    for op in here:
        assert here[op].tobytes() == there[op].tobytes()
    pair = cf.reduce((values, values[::-1]), "dot", client=client)
    assert pair == cf.reduce((values, values[::-1]), "dot", client=client)
    assert not any("dict" in key for key in client.futures)  # what was brought is let go


def test_blocks_bring_their_own_elements_alone():
    source = open_source(values_of("float32", (6, 5)))
    assert isinstance(source, ArraySource)
    part = source.parted([[slice(0, 4, 2), slice(1, 5, 1)]])
    assert isinstance(part, PartsSource)
    got = np.empty((1, 2), "f4")
    part.read([slice(2, 3, 2), slice(2, 4, 1)], got)
    assert (got == source.array[2:3, 2:4]).all()
    with pytest.raises(cf.SourceError, match="did not come with the block"):
        part.read([slice(1, 2, 2), slice(1, 2, 1)], got[:, :1])


def test_chunks_of_one_extent_are_a_regular_grid():
    assert cells_of_chunks(10, (4, 4, 2)).bounds is None
    assert cells_of_chunks(10, (4, 2, 4)).bounds == (0, 4, 6, 10)
    assert cells_of_chunks(0, ()).size == 0
