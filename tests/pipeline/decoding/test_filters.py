"""Chunks with filters are decoded as zarr decodes them, or refused where zarr refuses them."""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numcodecs import LZ4, Blosc, Delta, FixedScaleOffset, Shuffle, Zlib, Zstd
from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec
from zarr.codecs import numcodecs as within_format_3

from chunkfold import ChunkError
from chunkfold.decoding.filters import filter_codec, filters_bytes
from chunkfold.kernels.decode.codec_chain import Filter
from chunkfold.sources.opening import open_source
from chunkfold.sources.zarr_source import ZarrSource
from tests.kernels.decode.frames import damaged

pytestmark = pytest.mark.filterwarnings(
    "ignore::zarr.errors.ZarrUserWarning", "ignore::RuntimeWarning"
)
INTEGERS = ("u1", "<i2", ">u2", "<i4", ">i4", "<u8", ">i8")
FLOATS = ("<f4", ">f4", "<f8", ">f8")
OTHERS = ("<M8[s]", "<c8", "?")


@st.composite
def filter_chains(draw: st.DrawFn, dtype: str, zarr_format: int) -> list[dict[str, Any]]:
    """Draw filters in the order in which they are applied.

    Those of format 2 take any elements for others that have as many bytes.
    """
    found: list[dict[str, Any]] = []
    number = {"<c8": "<i4", "<M8[s]": "<i8"}.get(dtype, dtype)
    differs = dtype in INTEGERS + FLOATS or (zarr_format == 2 and number != dtype)
    if draw(st.booleans(), "scaled") and dtype in INTEGERS + FLOATS:
        encoded = draw(st.sampled_from([*INTEGERS, number]), "encoded")
        numbers = st.sampled_from([1, 2, 0.5, -3, 10, 0.01, 7.3, 1e-300])
        scale, offset = draw(numbers, "scale"), draw(numbers, "offset")
        found.append({"id": "fixedscaleoffset", "dtype": number, "astype": encoded,
                      "scale": scale, "offset": offset})  # fmt: skip
        number = encoded
    if draw(st.booleans(), "difference") and differs:
        kind = np.dtype(number).kind
        narrower = [one for one in INTEGERS + FLOATS if np.dtype(one).kind == kind]
        encoded = draw(st.sampled_from([*narrower, number]), "encoded")
        found.append({"id": "delta", "dtype": number, "astype": encoded})
    if draw(st.booleans(), "shuffled") or not found:
        size = np.dtype(found[-1]["astype"] if found else dtype).itemsize
        found.append({"id": "shuffle", "elementsize": draw(st.sampled_from([0, 1, size]))})
    return found


def layout_of(filters: list[dict[str, Any]], compressor: str, *, big: bool) -> dict[str, Any]:
    """Return how an array of format 3 is made with filters."""
    named = {"delta": "Delta", "fixedscaleoffset": "FixedScaleOffset", "shuffle": "Shuffle"}
    made = [
        getattr(within_format_3, named[one["id"]])(**{k: v for k, v in one.items() if k != "id"})
        for one in filters
    ]
    last = {"zstd": [ZstdCodec()], "crc32c": [Crc32cCodec()], "none": []}.get(compressor)
    return {
        "filters": [one for one in made if not isinstance(one, within_format_3.Shuffle)],
        "serializer": BytesCodec(endian="big" if big else "little"),
        "compressors": [
            *(one for one in made if isinstance(one, within_format_3.Shuffle)),
            *([within_format_3.LZ4()] if last is None else last),
        ],
    }


def read(source: ZarrSource, region: tuple[slice, ...]) -> np.ndarray:
    out = np.full([cut.stop - cut.start for cut in region], 99).astype(source.dtype)
    source.read(region, out)
    return out


def chunk_files(folder: Path) -> list[Path]:
    return sorted(one for one in folder.rglob("*") if one.is_file() and one.name[0] not in ".z")


@contextmanager
def rejected_by_zarr() -> Iterator[None]:
    """Draw another example where numcodecs or zarr cannot encode or decode this one."""
    try:
        yield
    except (OverflowError, TypeError, ValueError):
        assume(False)


@given(data=st.data())
@settings(max_examples=60)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_any_chain_of_filters_is_read_as_zarr_reads_it(zarr_format: int, data: st.DataObject):
    dtype = data.draw(st.sampled_from(INTEGERS + FLOATS + OTHERS), "dtype")
    filters = data.draw(filter_chains(dtype, zarr_format), "filters")
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=2), "shape"))
    chunks = tuple(data.draw(st.integers(1, 5), "chunk") for _ in shape)
    if zarr_format == 2:
        compressors = [None, Zstd(), LZ4(), Blosc(shuffle=0), Zlib()]
        compressor = data.draw(st.sampled_from(compressors), "compressor")
        layout: dict[str, Any] = {
            "filters": [numcodecs.get_codec(one) for one in filters],
            "compressors": compressor,
            "zarr_format": 2,
        }
    else:
        compressor = data.draw(st.sampled_from(["zstd", "crc32c", "none", "lz4"]), "compressor")
        layout = layout_of(filters, compressor, big=data.draw(st.booleans(), "big"))
        if data.draw(st.booleans(), "sharded"):
            layout["shards"] = tuple(2 * size for size in chunks)
    count = int(np.prod(shape))
    rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    most = data.draw(st.sampled_from([2, 100, 30_000]), "most")
    values = rng.integers(0, most, count) / data.draw(st.sampled_from([1, 3]), "divisor")
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        # Without a fill value zarr encodes whatever memory had beyond the edge, or fails to.
        made = zarr.create_array(
            folder, shape=shape, chunks=chunks, dtype=dtype, fill_value=0, **layout
        )
        with rejected_by_zarr():
            made[...] = values.astype(dtype).reshape(shape)
        for path in chunk_files(Path(folder)):
            if data.draw(st.integers(0, 4), "missing") == 0:
                path.unlink()
        source = open_source(folder)
        assert source.direct is not None
        cuts = [(data.draw(st.integers(0, size - 1)), size) for size in shape]
        region = tuple(
            slice(first, data.draw(st.integers(first + 1, size))) for first, size in cuts
        )
        with rejected_by_zarr():
            want = np.asarray(zarr.open_array(folder)[region]).astype(source.dtype)
        assert read(source, region).tobytes() == want.tobytes()


CHAINS: dict[str, dict[str, Any]] = {
    "shuffle": {"filters": [Shuffle(4)], "compressors": Zstd(), "zarr_format": 2},
    "plain shuffle": {"filters": [Shuffle(4)], "compressors": None, "zarr_format": 2},
    "delta": {"filters": [Delta("<i4", "<i2")], "compressors": Zlib(), "zarr_format": 2},
    "scaled": {
        "filters": [FixedScaleOffset(1, 0.5, "<i4", "<i2"), Shuffle(2)],
        "compressors": None,
        "zarr_format": 2,
    },
    "format 3": {
        "filters": within_format_3.Delta(dtype="<i4"),
        "compressors": [within_format_3.Shuffle(elementsize=4), ZstdCodec(checksum=True)],
    },
}


def stored(folder: Path, chain: str) -> tuple[np.ndarray, Path]:
    """Write a chunk of 50 elements; return its values and its file."""
    made = zarr.create_array(folder, shape=(50,), chunks=(50,), dtype="<i4", **CHAINS[chain])
    made[...] = np.random.default_rng(0).integers(0, 999, 50)
    return made[...], next(iter(chunk_files(folder)))


@pytest.mark.parametrize("chain", CHAINS)
def test_chunks_of_another_size_are_named(tmp_path: Path, chain: str):
    _, file = stored(tmp_path / "a", chain)
    for count, length in enumerate((49, 51)):
        other = tmp_path / str(count)
        made = zarr.create_array(
            other, shape=(length,), chunks=(length,), dtype="<i4", **CHAINS[chain]
        )
        made[...] = np.arange(length)
        next(iter(chunk_files(other))).replace(file)
        with pytest.raises(ChunkError, match=r"cannot read chunk .*\b(196|204) bytes|or more"):
            read(open_source(tmp_path / "a"), (slice(0, 50),))


@pytest.mark.parametrize("chain", CHAINS)
def test_damaged_chunks_are_refused_where_zarr_refuses_them(tmp_path: Path, chain: str):
    """Where zarr takes one, its elements are the same."""
    _, file = stored(tmp_path / "a", chain)
    whole, refused = file.read_bytes(), 0
    array, source = zarr.open_array(tmp_path / "a"), open_source(tmp_path / "a")
    for seed in range(150):
        file.write_bytes(damaged(whole, seed))
        try:
            want: np.ndarray | None = array[...]
        except Exception:  # noqa: BLE001 # whatever a codec raises
            want = None
        try:
            found: np.ndarray | None = read(source, (slice(0, 50),))
        except ChunkError:
            found = None
        if found is None:
            refused += 1
            continue
        assert want is not None
        assert found.tobytes() == want.tobytes()
    assert refused


NOT_TAKEN: dict[str, dict[str, Any]] = {
    "another filter": {"filters": [numcodecs.BitRound(3)], "zarr_format": 2, "dtype": "f4"},
    "another order": {"filters": [Shuffle(4)], "zarr_format": 2, "order": "F"},
    "eight bytes of one": {
        "filters": [FixedScaleOffset(0, 1, "u1", "i8")],
        "dtype": "u1",
        "chunks": (400, 300),
        "zarr_format": 2,
    },
    "between others": {
        "filters": [zarr.codecs.TransposeCodec(order=(1, 0)), within_format_3.Delta(dtype="i4")]
    },
}


@pytest.mark.parametrize("layout", NOT_TAKEN)
def test_other_chains_go_through_zarr(tmp_path: Path, layout: str):
    given = {"dtype": "i4", "chunks": (4, 3), **NOT_TAKEN[layout]}
    made = zarr.create_array(tmp_path, shape=(9, 7), **given)
    made[...] = np.arange(63).reshape(9, 7)
    source = open_source(tmp_path)
    assert source.direct is None
    np.testing.assert_array_equal(read(source, (slice(1, 9), slice(0, 7))), made[1:])


def test_a_filter_of_another_dtype_than_the_array_goes_through_zarr(tmp_path: Path):
    """zarr casts then: to decode it in place would take its bytes for others."""
    codec = within_format_3.Delta(dtype="<i2")
    made = zarr.create_array(tmp_path, shape=(9,), chunks=(4,), dtype="<i4", filters=codec)
    assert open_source(made).direct is None


def test_settings_that_numcodecs_refuses_are_left_to_zarr():
    assert filter_codec({"id": "delta", "dtype": "O"}) is None
    assert filter_codec({"id": "delta"}) is None
    assert filter_codec({"id": "shuffle", "elementsize": None}) is None
    assert filter_codec({"id": "zstd"}) is None


def filters(*chain: Any) -> Iterator[Filter]:
    for one in chain:
        found = filter_codec(one.get_config())
        assert found is not None
        assert found.filter is not None
        yield found.filter


def test_memory_of_filters_is_that_of_the_one_that_takes_most():
    chain = tuple(filters(Shuffle(2), FixedScaleOffset(0, 2, "f4", "i2")))
    assert filters_bytes(chain, 400) == 200 + 16 * 100 + 400
    assert filters_bytes(tuple(filters(Shuffle(4))), 400) == 800
    assert filters_bytes((), 400) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"id": "delta", "dtype": "|V0"},
        {"id": "fixedscaleoffset", "dtype": "|S0", "astype": "u1", "scale": 1, "offset": 0},
        {"id": "fixedscaleoffset", "dtype": "<U500", "astype": "<i4", "scale": 1, "offset": 0},
        {"id": "fixedscaleoffset", "dtype": "f4", "astype": "i4", "scale": [[1], [2]], "offset": 0},
        {"id": "fixedscaleoffset", "dtype": "f4", "astype": "i4", "scale": 1, "offset": "2"},
    ],
)
def test_settings_that_make_other_than_numbers_are_left_to_zarr(settings: dict[str, Any]):
    assert filter_codec(settings) is None


@pytest.mark.parametrize("count", [1, 2, 3])
def test_filters_make_no_more_than_a_chunk_has(tmp_path: Path, count: int):
    """A small chunk is decoded to more at each filter: it is refused before there is much of it."""
    chain = [Delta("<i8", "|i1")] * count
    made = zarr.create_array(
        tmp_path, shape=(1 << 14,), chunks=(1 << 14,), dtype="<i8", zarr_format=2,
        filters=chain, compressors=Zlib(9),
    )  # fmt: skip
    stored = Zlib(9).encode(bytes(4 << 17))
    (tmp_path / "0").write_bytes(stored)
    tracemalloc.start()
    with pytest.raises(ChunkError, match="bytes"):
        read(open_source(made), (slice(0, 1 << 14),))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 16 << 17
