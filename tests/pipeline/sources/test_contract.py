"""Every kind of source: the same answers, the same bits, and one sentence where it misbehaves."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import fsspec
import h5py
import icechunk
import numpy as np
import pytest
import zarr
from distributed import Client
from fsspec.implementations.reference import LazyReferenceMapper
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.storage import ZipStore

import chunkfold as cf
from chunkfold.errors import PlaceWarning
from chunkfold.sources.array_source import ArraySource, PartsSource, cells_of_chunks
from chunkfold.sources.opening import open_source
from tests.conftest import DEVICES
from tests.pipeline.test_reduce import selected

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


def in_h5(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> str:
    """Store it in an HDF5 file, with filters; return the path of the dataset."""
    with h5py.File(folder / "a.h5", "w") as file:
        # HDF5 has no times: h5py stores them as what it does not look into.
        times = values.dtype.kind in "mM"
        file.create_dataset(
            "deep/a",
            data=values.astype(h5py.opaque_dtype(values.dtype)) if times else values,
            chunks=chunks,
            **({} if times else {"compression": "gzip", "shuffle": True}),
        )
    return f"{folder}/a.h5/deep/a"


def by_h5py(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> h5py.Dataset:
    """Return a dataset whose file is open."""
    return h5py.File(in_h5(values, chunks, folder).removesuffix("/deep/a"))["deep/a"]


def in_memory_h5(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> h5py.Dataset:
    """Return a dataset of a file in memory, which nobody else can open."""
    stored = Path(in_h5(values, chunks, folder).removesuffix("/deep/a")).read_bytes()
    return h5py.File(io.BytesIO(stored))["deep/a"]


def in_zip(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> str:
    """Store it in an archive."""
    with ZipStore(f"{folder}/a.zarr.zip", mode="w") as store:
        made = zarr.create_array(
            store, name="a", shape=values.shape, chunks=chunks, dtype=values.dtype
        )
        made[...] = values
    return f"{folder}/a.zarr.zip/a"


def referred(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> dict[str, Any]:
    """Return references to the chunks of an array."""
    group = zarr.open_group(folder / "g.zarr", mode="w", zarr_format=2)
    made = group.create_array("a", shape=values.shape, chunks=chunks, dtype=values.dtype)
    made[...] = values
    refs: dict[str, Any] = {}
    for path in (path for path in (folder / "g.zarr").rglob("*") if path.is_file()):
        small = path.name.startswith(".z")
        where = [str(path), 0, path.stat().st_size]
        refs[path.relative_to(folder / "g.zarr").as_posix()] = path.read_text() if small else where
    return refs


def by_references(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> str:
    """Store it, and references to it as JSON."""
    refs = {"version": 1, "refs": referred(values, chunks, folder)}
    (folder / "refs.json").write_text(json.dumps(refs))
    return f"{folder}/refs.json/a"


def by_tables(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> str:
    """Store it, and references to it as tables."""
    files = fsspec.filesystem("file")
    where = f"{folder}/refs.parquet"
    made = LazyReferenceMapper.create(where, fs=files, record_size=7, engine="pyarrow")
    for key, to in sorted(referred(values, chunks, folder).items()):
        made[key] = to
    made.flush()
    return f"{where}/a"


def in_icechunk(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> str:
    """Commit it to a repository."""
    icechunk.set_logs_filter("error")
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(f"{folder}/repo"))
    session = made.writable_session("main")
    array = zarr.create_array(
        session.store, name="a", shape=values.shape, chunks=chunks, dtype=values.dtype
    )
    array[...] = values
    session.commit("all of it")
    return f"icechunk://{folder}/repo/a"


def joined(axis: int) -> Callable[[np.ndarray, tuple[int, ...], Path], Any]:
    """Return what stores it in several parts along an axis, whose chunks do not go together."""

    def parts(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> Any:
        stores = itertools.cycle((in_zarr, in_h5, lambda values, *_: values))
        cut = np.array_split(values, min(3, values.shape[axis]), axis=axis)
        made = []
        for number, part in enumerate(cut):
            (folder / str(number)).mkdir()
            smaller = tuple(min(n, size) for n, size in zip(chunks, part.shape, strict=True))
            made.append(next(stores)(part, smaller, folder / str(number)))
        return cf.concatenate(made, axis)

    return parts


def joined_chunks(values: np.ndarray, chunks: tuple[int, ...], folder: Path) -> Any:
    """Store it in parts of whole chunks along the first axis."""
    made = []
    for start in range(0, values.shape[0], 2 * chunks[0]):
        (folder / str(start)).mkdir()
        part = values[start : start + 2 * chunks[0]]
        path = folder / str(start) / "a.zarr"
        array = zarr.create_array(path, shape=part.shape, chunks=chunks, dtype=part.dtype)
        array[...] = part
        made.append(path)
    return cf.concatenate(made)


KINDS: dict[str, Callable[[np.ndarray, tuple[int, ...], Path], Any]] = {
    "a path": in_zarr,
    "zarr's array": lambda values, chunks, folder: zarr.open_array(in_zarr(values, chunks, folder)),
    "NumPy's array": lambda values, *_: values,
    "columns first": lambda values, *_: np.asfortranarray(values),
    "a view": lambda values, *_: np.repeat(values, 2, axis=-1)[..., ::2],
    "array-like": lambda values, *_: ArrayLike(values),
    "array-like, chunks": lambda values, chunks, _: ArrayLike(values, chunks),
    "array-like, irregular": irregular,
    "Dask's array": lambda values, chunks, _: da.from_array(values, chunks=chunks),
    "Dask's, irregular": lambda values, *given: da.from_array(
        values, chunks=irregular(values, *given).chunks
    ),
    "a path into HDF5": in_h5,
    "h5py's dataset": by_h5py,
    "h5py's dataset in memory": in_memory_h5,
    "a path into an archive": in_zip,
    "references": by_references,
    "tables of references": by_tables,
    "Icechunk": in_icechunk,
    "several as one": joined(0),
    "several as one, last axis": joined(-1),
    "several as one, whole chunks": joined_chunks,
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


def entries(size: int) -> st.SearchStrategy[Any]:
    """What may be selected of an axis, of which something is left."""
    slices = st.builds(slice, st.integers(0, size), st.none(), st.integers(1, 3))
    turned = st.builds(slice, st.none(), st.none(), st.integers(-3, -1))
    places = st.lists(st.integers(-size, size - 1), min_size=1, max_size=size + 2)
    bools = st.lists(st.booleans(), min_size=size, max_size=size)
    return slices | turned | places | bools


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(data=st.data())
def test_the_same_bits_from_every_kind(kind: str, data: st.DataObject, tmp_path_factory):
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, size)) for size in shape)
    axis = data.draw(st.sampled_from([None, *range(len(shape))]))
    selection = tuple(data.draw(entries(size)) for size in shape)
    values = values_of(dtype, shape)
    chosen = selected(values, selection)
    if not chosen.size:
        return
    source = KINDS[kind](values, chunks, tmp_path_factory.mktemp("a"))
    ops = list(ops_of(dtype))
    plain = in_zarr(np.ascontiguousarray(values), shape, tmp_path_factory.mktemp("b"))
    found = cf.reduce(source, ops, axis=axis, selection=selection)
    wanted = cf.reduce(plain, ops, axis=axis, selection=selection)
    for op in ops:
        assert np.asarray(found[op]).tobytes() == np.asarray(wanted[op]).tobytes(), op
    if np.dtype(dtype).kind in "iubM":
        assert (found["max"] == chosen.max(axis)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_its_memory_is_within_the_bound_that_is_told(kind: str, tmp_path: Path):
    values = values_of("float32", (40, 50, 60))
    source = KINDS[kind](values, (7, 50, 9), tmp_path)
    plan = cf.plan(source, axis=0)
    assert plan.memory.total >= plan.scan.leaf_bytes
    assert str(plan).startswith("source    ")
    with pytest.raises(cf.PlanError, match="needs"):
        cf.plan(source, axis=0, memory=100)


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


@pytest.mark.parametrize(
    "kind",
    ["a path into HDF5", "h5py's dataset", "tables of references", "Icechunk", "several as one"],
)
def test_workers_open_by_themselves_what_has_an_address(kind: str, client: Client, tmp_path: Path):
    values = values_of("int16", (50, 60))
    source = KINDS[kind](values, (7, 60), tmp_path)
    assert (cf.reduce(source, axis=1, client=client) == values.sum(1)).all()


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
