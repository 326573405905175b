"""Filters are undone bit for bit as numcodecs does, on every device."""

from __future__ import annotations

from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chunkfold.kernels import DeviceContext
from chunkfold.kernels.decode.codec_chain import PLAIN, CodecChain, Filter
from chunkfold.kernels.decode.filter_kernel import FilterKernel
from tests.kernels.decode.frames import Bench

INTEGERS = ("u1", "i1", "<i2", ">u2", "<u2", ">i4", "<u4", "<i8", ">u8")
FLOATS = ("<f4", ">f4", "<f8", ">f8")
COUNTS = st.one_of(st.integers(1, 200), st.integers(1, 9000), st.sampled_from([1024, 2048, 4096]))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(st.integers(-9, 9), st.integers(), FINITE)


def shuffle(width: int) -> Filter:
    return Filter("shuffle", np.dtype(f"V{width}"), np.dtype(f"V{width}"))


def scaled(decoded: str, encoded: str, scale: float, offset: float) -> Filter:
    return Filter("fixedscaleoffset", np.dtype(decoded), np.dtype(encoded), scale, offset)


def decoded_by_host(filter: Filter, stored: bytes) -> bytes:  # noqa: A002 # as numcodecs calls it
    codec: Any = numcodecs.Shuffle(filter.decoded.itemsize)
    if filter.name == "delta":
        codec = numcodecs.Delta(filter.decoded, filter.encoded)
    elif filter.name == "fixedscaleoffset":
        given = filter.offset, filter.scale, filter.decoded, filter.encoded
        codec = numcodecs.FixedScaleOffset(*given)
    with np.errstate(all="ignore"):
        return np.asarray(codec.decode(stored)).tobytes()


def check(opened: DeviceContext, filter: Filter, count: int, seed: int) -> None:  # noqa: A002
    """Undo a filter of three chunks of any bits, both ways."""
    rng = np.random.default_rng(seed)
    stored = [rng.bytes(count * filter.encoded.itemsize) for _ in range(3)]
    bench = Bench(opened, FilterKernel(opened, filter))
    found = bench.decode(stored, count * filter.decoded.itemsize)
    assert found == [decoded_by_host(filter, one) for one in stored]


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=COUNTS, seed=st.integers(0, 99))
def test_shuffled_bytes_are_put_in_order(opened: DeviceContext, width: int, count: int, seed: int):
    check(opened, shuffle(width), count, seed)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    decoded=st.sampled_from(INTEGERS), encoded=st.sampled_from(INTEGERS), count=COUNTS,
    seed=st.integers(0, 99),
)  # fmt: skip
def test_differences_are_added_up(
    opened: DeviceContext, decoded: str, encoded: str, count: int, seed: int
):
    one = Filter("delta", np.dtype(decoded), np.dtype(encoded))
    assume(one.on_devices)
    check(opened, one, count, seed)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    decoded=st.sampled_from(FLOATS), encoded=st.sampled_from(INTEGERS), count=COUNTS,
    seed=st.integers(0, 99),
    scale=NUMBERS,
    offset=NUMBERS,
)  # fmt: skip
def test_numbers_are_scaled_in_float64(
    opened: DeviceContext, decoded: str, encoded: str, count: int, seed: int, scale: float,
    offset: float,
):  # fmt: skip
    if opened.device.lacks("fp64"):
        pytest.skip("no float64")
    one = scaled(decoded, encoded, scale, offset)
    assume(one.on_devices)
    check(opened, one, count, seed)


@pytest.mark.parametrize(
    "filter",
    [
        shuffle(3),
        Filter("delta", np.dtype("f4"), np.dtype("f4")),
        Filter("delta", np.dtype("m8[s]"), np.dtype("m8[s]")),
        Filter("delta", np.dtype("?"), np.dtype("?")),
        scaled("f4", "f4", 10, 0),
        scaled("i4", "i2", 10, 0),
        scaled("f2", "i2", 10, 0),
        scaled("f4", "i2", 0, 0),
        Filter("delta", np.dtype("i8"), np.dtype("u8")),
        scaled("f4", "i2", 2, float("inf")),
        scaled("f4", "i2", float("nan"), 0),
        scaled("f4", "i2", 2, 10**400),
        scaled("f4", "i2", True, 0),
    ],
)
def test_what_devices_would_decode_to_other_bits_is_left_to_the_host(filter: Filter):  # noqa: A002
    assert not filter.on_devices


def test_chunks_that_are_no_whole_elements_are_left_to_the_host():
    delta = Filter("delta", np.dtype("i4"), np.dtype("i2"))
    chain = CodecChain("zstd", (shuffle(2), delta))
    assert chain.sizes(400) == [200, 200, 400]
    assert chain.on_devices(400)
    assert not chain.on_devices(402)
    assert not CodecChain(PLAIN, (shuffle(8), delta)).on_devices(8)
    assert not chain.on_devices(1 << 31)
    assert not CodecChain("gzip").on_devices(400)
