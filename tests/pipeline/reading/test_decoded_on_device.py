"""Devices with memory of their own decode chunks: the same bits as the host's, or the host's.

CPU runtimes stand in for them, as in `test_fed`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from numcodecs import LZ4, Blosc, Delta, FixedScaleOffset, Shuffle
from numcodecs import zstd as codec
from obstore.store import LocalStore as LocalByObstore
from zarr.codecs import BloscCodec, BytesCodec
from zarr.codecs import numcodecs as within_format_3
from zarr.storage import ObjectStore

import chunkfold as cf
from chunkfold.kernels.cache.entries import write_entry
from chunkfold.kernels.decode import zstd
from chunkfold.kernels.feed.fed_buffer import FedBuffer
from chunkfold.kernels.tuning.decode_request import DecodeRequest
from chunkfold.planning.workers import host_cores
from chunkfold.worker.worker_device import WorkerDevice
from tests.pipeline.reading.test_fed import QUESTIONS, SHAPE, wild
from tests.web import served

# Python feeds devices with the same bytes: `test_fed`.
pytestmark = pytest.mark.parametrize("worker_device", ["native"], indirect=True)
ZSTD = zarr.codecs.ZstdCodec()
LAYOUTS = {
    "rows": {"chunks": (8, 60, 500)},
    "side by side": {"chunks": (8, 15, 100)},
    "edges": {"chunks": (7, 25, 300)},
    "checksums": {"chunks": (8, 30, 500), "compressors": zarr.codecs.ZstdCodec(checksum=True)},
    "shards": {"chunks": (4, 15, 100), "shards": (8, 60, 500)},
    "format 2": {"chunks": (8, 20, 500), "zarr_format": 2, "compressors": {"id": "zstd"}},
    "odd bytes": {"chunks": (5, 11, 67), "dtype": "u1"},
}
OTHER_CODECS = {
    "Blosc": {"chunks": (8, 60, 500), "compressors": BloscCodec(cname="lz4", shuffle="shuffle")},
    "Blosc in shards": {
        "shards": (8, 60, 500),
        "chunks": (4, 15, 100),
        "compressors": BloscCodec(),
    },
    "Blosc of bytes": {"chunks": (7, 11, 99), "dtype": "u1", "compressors": BloscCodec()},
    "Blosc in format 2": {"chunks": (7, 25, 300), "zarr_format": 2, "compressors": Blosc()},
    "lz4": {"chunks": (7, 25, 300), "zarr_format": 2, "compressors": LZ4(), "dtype": ">f4"},
}
FILTERED = {
    "shuffle": {
        "chunks": (8, 60, 500),
        "filters": [Shuffle(4)],
        "compressors": {"id": "zstd"},
        "zarr_format": 2,
    },
    "shuffle alone": {
        "chunks": (7, 25, 300),
        "filters": [Shuffle(4)],
        "compressors": None,
        "zarr_format": 2,
    },
    "delta": {
        "chunks": (8, 30, 500),
        "filters": [Delta("<i4", "<i2"), Shuffle(2)],
        "dtype": "i4",
        "compressors": LZ4(),
        "zarr_format": 2,
    },
    "delta of odd bytes": {
        "chunks": (5, 11, 67),
        "filters": [Delta("u1")],
        "dtype": "u1",
        "compressors": Blosc(shuffle=0),
        "zarr_format": 2,
    },
    "scaled": {
        "chunks": (7, 25, 300),
        "filters": [FixedScaleOffset(1.5, 10, ">f4", ">i2"), Delta(">i2"), Shuffle(2)],
        "dtype": ">f4",
        "compressors": {"id": "zstd"},
        "zarr_format": 2,
    },
    "scaled, in shards": {
        "chunks": (4, 15, 100),
        "shards": (8, 60, 500),
        "filters": within_format_3.FixedScaleOffset(offset=0, scale=10, dtype="<f4", astype="<i4"),
        "compressors": [within_format_3.Shuffle(elementsize=4), ZSTD],
    },
    "big endian": {"chunks": (7, 25, 300), "serializer": BytesCodec(endian="big")},
}


@pytest.fixture
def counted(monkeypatch) -> dict[str, int]:
    """Count reads that the device decoded, that it refused, and that the host decoded."""
    counts = {"by device": 0, "refused": 0, "by host": 0}
    on_device, begin = FedBuffer.decode, FedBuffer.begin

    def noted(self: FedBuffer, *given: object) -> bool:
        done = on_device(self, *given)  # type: ignore[arg-type]
        counts["by device" if done else "refused"] += 1
        return done

    def begun(self: FedBuffer) -> np.ndarray:
        counts["by host"] += 1
        return begin(self)

    monkeypatch.setattr(FedBuffer, "decode", noted)
    monkeypatch.setattr(FedBuffer, "begin", begun)
    return counts


def values(dtype: str = "f4") -> np.ndarray:
    return (np.abs(wild()) % 200).astype(dtype) if dtype in ("u1", "i4") else np.round(wild(), 1)


def stored(path: Path, **layout: object) -> Path:
    given = {"dtype": "f4", "compressors": ZSTD, **layout}
    made = zarr.create_array(path, shape=SHAPE, **given)  # type: ignore[arg-type]
    made[...] = values(str(given["dtype"]))
    return path


# Each layout for some questions, each question for one layout.
ASKED = [
    *itertools.product(LAYOUTS, ["part"]),
    *itertools.product(OTHER_CODECS, ["part"]),
    *itertools.product(FILTERED, ["part", "sum"]),
    *itertools.product(["side by side"], [one for one in QUESTIONS if one != "median"]),
]


@pytest.mark.parametrize(("layout", "question"), dict.fromkeys(ASKED))
def test_answers_have_the_same_bits(
    worker_device: WorkerDevice, tmp_path: Path, counted, layout: str, question: str
):
    op, words = QUESTIONS[question]
    path = stored(tmp_path / "a", **(LAYOUTS | OTHER_CODECS | FILTERED)[layout])
    found = cf.reduce(path, op, **words)
    wanted = cf.reduce(zarr.open_array(path)[...], op, **words)
    for name, one in found.items() if isinstance(found, dict) else [("", found)]:
        np.testing.assert_array_equal(one, wanted[name] if name else wanted)
    assert counted["by device"] or question == "steps"
    assert not counted["refused"]


def test_all_is_decoded_by_the_device(worker_device: WorkerDevice, tmp_path: Path, counted):
    path = stored(tmp_path / "a", chunks=(4, 60, 500))
    run = cf.submit(path, "sum")
    run.result()
    assert counted == {"by device": run.plan.layout.leaves, "refused": 0, "by host": 0}
    cf.reduce(path, "sum", decode="host")
    assert counted["by host"] == run.plan.layout.leaves


@pytest.mark.parametrize(("device_rate", "by"), [(9e12, "by device"), (1e3, "by host")])
def test_who_was_measured_to_be_faster_decodes_to_the_same_bits(
    worker_device: WorkerDevice, tmp_path: Path, counted, monkeypatch, device_rate: float, by: str
):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CHUNKFOLD_TIES")
    rates = {"codec": "zstd", "device": device_rate, "core": 1e9}
    write_entry(DecodeRequest(worker_device.device, "zstd").path, json.dumps(rates).encode())
    path = stored(tmp_path / "a", chunks=(4, 60, 500))
    found = cf.reduce(path, "sum")
    assert {name for name, count in counted.items() if count} == {by}
    assert found == cf.reduce(values(), "sum")
    plan = cf.plan(path, "sum", device=worker_device.device)
    assert plan.device_decoding.used == (by == "by device")
    cores = min(16, host_cores())
    assert f" {cores} GB/s by {cores} core" in str(plan)
    (why,) = (one for one in plan.explain() if one.what == "decoding")
    assert why[1:] == (f"on the {by.removeprefix('by ')}", plan.device_decoding.because)


def test_parts_of_a_concatenation_are_decoded_by_the_device(
    worker_device: WorkerDevice, tmp_path: Path, counted
):
    paths = [stored(tmp_path / name, chunks=(8, 60, 500)) for name in "abc"]
    whole = np.concatenate([values()] * 3)
    joined = cf.concatenate(paths)
    np.testing.assert_array_equal(cf.reduce(joined, "sum", axis=0), cf.reduce(whole, "sum", axis=0))
    assert counted["by device"]


@pytest.mark.parametrize("shards", [None, (8, 60, 500)])
def test_chunks_that_are_not_stored_are_fill(
    worker_device: WorkerDevice, tmp_path: Path, counted, shards: object
):
    path = stored(tmp_path / "a", chunks=(8, 20, 500), shards=shards, fill_value=7)
    array, wanted = zarr.open_array(path), values()
    array[16:24, 20:40] = wanted[16:24, 20:40] = 7
    np.testing.assert_array_equal(cf.reduce(path, "min", axis=0), wanted.min(0))
    assert counted["by device"]
    assert not counted["by host"]


def test_a_frame_that_the_device_refuses_is_decoded_by_the_host(
    worker_device: WorkerDevice, tmp_path: Path, counted
):
    """Checksums of two frames in one chunk are none of the device's."""
    path = stored(tmp_path / "a", chunks=(8, 60, 500))
    chunk, elements = path / "c" / "2" / "0" / "0", values()[16:24].tobytes()
    half = len(elements) // 2
    chunk.write_bytes(zstd_frame(elements[:half]) + zstd_frame(elements[half:]))
    assert cf.reduce(path, "max") == values().max()
    assert counted["refused"] == 1
    assert counted["by host"] == 1


def test_a_refused_leaf_that_lacks_a_chunk_has_its_fill(
    worker_device: WorkerDevice, tmp_path: Path, counted
):
    path = stored(tmp_path / "a", chunks=(8, 20, 500), fill_value=7)
    array, wanted = zarr.open_array(path), values()
    array[16:24, 20:40] = wanted[16:24, 20:40] = 7
    chunk, elements = path / "c" / "2" / "0" / "0", wanted[16:24, :20].tobytes()
    half = len(elements) // 2
    chunk.write_bytes(zstd_frame(elements[:half]) + zstd_frame(elements[half:]))
    np.testing.assert_array_equal(cf.reduce(path, "min", axis=0), wanted.min(0))
    assert counted["refused"]


def zstd_frame(raw: bytes) -> bytes:
    return bytes(codec.compress(raw, 3, checksum=True))


@pytest.mark.parametrize("do", ["cut", "longer", "empty", "bits", "smaller"])
def test_a_damaged_chunk_is_told_as_the_host_does(
    worker_device: WorkerDevice, tmp_path: Path, counted, do: str
):
    path = stored(tmp_path / "a", chunks=(8, 60, 500))
    chunk = path / "c" / "2" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 64
    damaged = {
        "cut": bytes(content[:-500]),
        "longer": chunk.read_bytes() + b"x",
        "empty": b"",
        "bits": bytes(content[:5]) + bytes(40) + bytes(content[45:]),
        "smaller": zstd_frame(values()[:7].tobytes()),
    }
    chunk.write_bytes(damaged[do])
    with pytest.raises(cf.ChunkError, match=r"a: cannot read chunk 'c/2/0/0'") as on_device:
        cf.reduce(path)
    with pytest.raises(cf.ChunkError) as on_host:
        cf.reduce(path, decode="host")
    assert str(on_device.value) == str(on_host.value)
    run = cf.submit(path, "max", on_bad_chunk="skip")
    assert run.result() == np.delete(values(), slice(16, 24), 0).max()
    assert list(run.skipped.values()) == [values()[16:24].size]


def test_filters_that_devices_would_undo_otherwise_are_left_to_the_host(
    worker_device: WorkerDevice, tmp_path: Path, counted
):
    """Differences of floats are added up in one order."""
    layout = {"chunks": (8, 60, 500), "filters": [Delta("f4")], "zarr_format": 2}
    path = stored(tmp_path / "a", compressors={"id": "zstd"}, **layout)
    assert cf.reduce(path, "max") == zarr.open_array(path)[...].max()
    assert not counted["by device"]
    assert not counted["refused"]
    with pytest.raises(cf.PlanError, match=r"a is not a Zarr array of .* or has other filters"):
        cf.reduce(path, "max", decode="device")


@pytest.mark.parametrize("cname", ["blosclz", "zlib"])
def test_the_host_decodes_what_devices_cannot(
    worker_device: WorkerDevice, tmp_path: Path, counted, cname: str
):
    codec = BloscCodec(cname=cname)
    path = stored(tmp_path / "a", chunks=(8, 60, 500), compressors=codec)
    assert cf.reduce(path, "max") == values().max()
    assert not counted["refused"]
    with pytest.raises(cf.PlanError, match="a is not a Zarr array of zstd, blosc, lz4 chunks"):
        cf.reduce(path, "max", decode="device")


def test_the_host_decodes_where_the_device_has_no_room(
    worker_device: WorkerDevice, tmp_path: Path, counted, monkeypatch
):
    monkeypatch.setattr(zstd, "_MORE_BLOCKS", -10_000)
    path = stored(tmp_path / "a", chunks=(8, 60, 500))
    assert cf.reduce(path, "max") == values().max()
    assert not counted["by device"]
    assert counted["by host"]


@pytest.fixture(params=["listed", "not listed"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], object]]:
    """Open the array "a" of this folder, behind a store of objects or a web server."""
    if request.param == "listed":
        request.getfixturevalue("far_folders")
        store = ObjectStore(LocalByObstore(tmp_path), read_only=True)
        yield lambda: zarr.open_array(store, path="a", mode="r")
    else:
        with served(tmp_path) as web:
            yield lambda: f"{web.url}/a"


@pytest.mark.parametrize("layout", ["edges", "shards"])
def test_chunks_behind_a_network_are_decoded_by_the_device(
    worker_device: WorkerDevice, tmp_path: Path, counted, remote, layout: str
):
    path = stored(tmp_path / "a", **LAYOUTS[layout])
    part = slice(3, 37), slice(None), slice(10, 490)
    found = cf.reduce(remote(), ["sum", "max"], axis=1, selection=part)
    wanted = cf.reduce(zarr.open_array(path)[...], ["sum", "max"], axis=1, selection=part)
    for name, one in found.items():
        np.testing.assert_array_equal(one, wanted[name])
    assert counted["by device"]
    assert not counted["refused"]


@pytest.mark.parametrize("shards", [None, (8, 60, 500)])
def test_chunks_that_are_not_stored_behind_a_network_are_fill(
    worker_device: WorkerDevice, tmp_path: Path, counted, remote, shards: object
):
    path = stored(tmp_path / "a", chunks=(8, 20, 500), shards=shards, fill_value=7)
    array, wanted = zarr.open_array(path), values()
    array[16:24, 20:40] = wanted[16:24, 20:40] = 7
    run = cf.submit(remote(), "min", axis=0)
    np.testing.assert_array_equal(run.result(), wanted.min(0))
    assert counted["by device"]
    assert not counted["by host"]


def test_a_refused_frame_behind_a_network_is_decoded_by_the_host(
    worker_device: WorkerDevice, tmp_path: Path, counted, remote
):
    path = stored(tmp_path / "a", chunks=(8, 60, 500))
    elements = values()[16:24].tobytes()
    half = len(elements) // 2
    frames = zstd_frame(elements[:half]) + zstd_frame(elements[half:])
    (path / "c" / "2" / "0" / "0").write_bytes(frames)
    assert cf.reduce(remote(), "max") == values().max()
    assert counted["refused"] == 1
    assert counted["by host"] == 1


@pytest.mark.parametrize("shards", [None, (8, 60, 500)])
def test_a_damaged_chunk_behind_a_network_is_told_as_the_host_does(
    worker_device: WorkerDevice, tmp_path: Path, counted, remote, shards: object
):
    path = stored(tmp_path / "a", chunks=(8, 60, 500), shards=shards)
    chunk = path / "c" / "2" / "0" / "0"
    content = chunk.read_bytes()
    for damaged in (content[:99], b"", content[:5] + bytes(40) + content[45:]):
        chunk.write_bytes(damaged)
        with dask.config.set({"chunkfold.remote.retry": "0.1s"}):
            with pytest.raises(cf.ChunkError) as on_device:
                cf.reduce(remote(), "max")
            with pytest.raises(cf.ChunkError) as on_host:
                cf.reduce(remote(), "max", decode="host")
        assert str(on_device.value) == str(on_host.value)
    assert counted["by host"]


def test_faults_of_a_server_pass(worker_device: WorkerDevice, tmp_path: Path, counted):
    stored(tmp_path / "a", chunks=(8, 60, 500))
    with served(tmp_path, failing=lambda path, before: "" if before else "503") as web:
        assert cf.reduce(f"{web.url}/a", "max") == values().max()
    assert counted["by device"]
    assert not counted["by host"]
