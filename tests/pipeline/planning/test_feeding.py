"""Large leaves and few readers where GPUs are fed by files as they are stored; else as ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from numcodecs import FixedScaleOffset, Shuffle

from chunkfold.decoding.codecs import stored_bound
from chunkfold.errors import PlanError
from chunkfold.kernels.decode.decode_rates import DecodeRates
from chunkfold.kernels.decode.zstd import zstd_stage_bytes
from chunkfold.planning import blocks, feeding, planner
from chunkfold.planning.workers import slowest
from chunkfold.sources.opening import open_source
from tests.plans import planned


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An array of 64 chunks of 64 KiB."""
    zarr.create_array(
        tmp_path / "a", shape=(64, 16384), chunks=(1, 16384), dtype="f4", compressors=None
    )[...] = np.float32(1)
    return tmp_path / "a"


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    monkeypatch.setattr(planner, "LEAF_BYTES", 64 << 10)
    monkeypatch.setattr(feeding, "LEAF_BYTES", 256 << 10)
    monkeypatch.setattr(feeding, "LEAF_BYTES_DECODED", 256 << 10)


def test_gpus_have_large_leaves_and_few_readers(path: Path):
    plan = planned(path, own_memory=True, readers=16)
    assert (plan.scan.leaf_bytes, plan.readers) == (256 << 10, feeding.READERS)
    other = planned(path, own_memory=False, readers=16)
    assert (other.scan.leaf_bytes, other.readers) == (64 << 10, 16)


def test_hdf5_without_filters_is_fed_as_chunks_without_codecs_are(tmp_path: Path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, given in (("plain", {}), ("packed", {"compression": "gzip"})):
            file.create_dataset(name, (64, 16384), "f4", chunks=(1, 16384), **given)[...] = 1
    found = [planned(tmp_path / "a.h5" / name, own_memory=True) for name in ("plain", "packed")]
    assert [plan.scan.leaf_bytes for plan in found] == [256 << 10, 64 << 10]


def test_each_worker_has_some_leaves(path: Path):
    assert planned(path, own_memory=True, workers=4).scan.leaf_bytes == 128 << 10
    assert planned(path, own_memory=True, workers=40).scan.leaf_bytes == 64 << 10


def test_leaves_are_a_small_part_of_a_devices_memory(path: Path):
    assert planned(path, own_memory=True, buffer_bytes=1 << 20).scan.leaf_bytes == 128 << 10


def zstd(path: Path, codec: object = "auto") -> Path:
    zarr.create_array(path, shape=(64, 16384), chunks=(1, 16384), dtype="f4", compressors=codec)[
        ...
    ] = 1
    return path


def test_what_the_host_decodes_is_read_by_all_readers(tmp_path: Path):
    plan = planned(zstd(tmp_path / "z"), own_memory=True, decode="host", readers=16)
    assert (plan.scan.leaf_bytes, plan.readers) == (64 << 10, 16)
    assert plan.device_decoding == (False, "decode is 'host'")


def test_zstd_is_decoded_by_devices_with_memory_of_their_own(tmp_path: Path):
    path = zstd(tmp_path / "z")
    plan = planned(path, own_memory=True, readers=16)
    assert (plan.scan.leaf_bytes, plan.readers) == (256 << 10, feeding.READERS_DECODED)
    assert plan.device_decoding.used
    assert "decoding  on the device: zstd" in str(plan)
    host = planned(path, own_memory=True, decode="host", readers=plan.readers)
    assert plan.memory.decoding - host.memory.decoding > 2 * plan.readers * plan.scan.leaf_bytes
    other = planned(path, own_memory=False, readers=16)
    assert (other.scan.leaf_bytes, other.readers) == (64 << 10, 16)
    assert "decoding  on the host: devices share the host's memory" in str(other)


def test_large_chunks_are_decoded_by_the_host_unless_told(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(feeding, "MOST_CHUNK_BYTES", {"zstd": 1 << 10})
    path = zstd(tmp_path / "z")
    assert "too few" in planned(path, own_memory=True).device_decoding.because
    assert planned(path, own_memory=True, decode="device").device_decoding.used


RATES = {"fast": (52e9, 0.2e9), "equal": (3.2e9, 0.2e9), "slow": (0.4e9, 0.2e9)}
"""Of a device, and of one core of a host that has 16."""


def rates(device: str, codec: str = "zstd") -> DecodeRates:
    return DecodeRates(codec, *RATES[device], cores=16)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("fast", "on the device: zstd, measured 52 GB/s by the device against 3.2 GB/s by 16 co"),
        ("equal", "on the device: zstd, measured 3.2 GB/s by the device against 3.2 GB/s by 16 co"),
        ("slow", "on the host: zstd, measured 3.2 GB/s by 16 cores against 0.4 GB/s by the device"),
    ],
)
def test_who_was_measured_to_be_faster_decodes(tmp_path: Path, device: str, said: str):
    path, given = zstd(tmp_path / "z"), {"own_memory": True, "decode_rates": (rates(device),)}
    plan = planned(path, readers=16, **given)
    assert plan.device_decoding.used == (device != "slow")
    assert f"decoding  {said}" in str(plan)
    assert plan.readers == (16 if device == "slow" else feeding.READERS_DECODED)
    assert planned(path, decode="device", **given).device_decoding.used
    assert not planned(path, decode="host", **given).device_decoding.used


def test_a_device_that_decodes_wrong_leaves_it_to_the_host(tmp_path: Path):
    wrong = DecodeRates("zstd", failure="the device decodes known chunks wrong")
    plan = planned(zstd(tmp_path / "z"), own_memory=True, decode_rates=(wrong,))
    assert plan.device_decoding == (False, "zstd: the device decodes known chunks wrong")


def test_rates_of_other_codecs_decide_nothing(tmp_path: Path):
    path, other = zstd(tmp_path / "z"), rates("slow", "lz4")
    assert planned(path, own_memory=True, decode_rates=(other,)).device_decoding.used


def test_one_codec_that_the_host_decodes_faster_decides_for_both_inputs(tmp_path: Path):
    one = zstd(tmp_path / "z")
    other = zstd(tmp_path / "b", zarr.codecs.BloscCodec())
    for of_zstd, of_blosc, used in (("fast", "fast", True), ("fast", "slow", False)):
        measured = rates(of_zstd), rates(of_blosc, "blosc")
        plan = planned((one, other), "dot", own_memory=True, decode_rates=measured)
        assert plan.device_decoding.used == used
        assert plan.device_decoding.because.startswith("blosc, measured")
        assert ("zstd, measured 52 GB/s" in plan.device_decoding.because) == used


def test_the_slowest_device_of_several_workers_decides():
    few, many = (replace(rates("fast"), cores=cores) for cores in (8, 400))
    assert slowest([rates("fast"), rates("slow"), rates("fast", "lz4")]) == (
        rates("fast", "lz4"),
        rates("slow"),
    )
    assert slowest([few, many]) == (many,)


def test_only_what_may_be_decoded_by_either_is_measured(tmp_path: Path):
    path = zstd(tmp_path / "z")
    plain = zstd(tmp_path / "p", None)
    gzip = zstd(tmp_path / "g", zarr.codecs.GzipCodec())
    asked = {
        (of, decode): feeding.codecs_to_measure(planned(of, decode=decode).request)
        for of, decode in ((path, "auto"), (path, "host"), (plain, "auto"), (gzip, "auto"))
    }
    assert {one: codecs for one, codecs in asked.items() if codecs} == {(path, "auto"): ("zstd",)}


def test_cores_are_not_measured_against_themselves(tmp_path: Path):
    plan = planned(zstd(tmp_path / "z"), kinds=frozenset({"cpu"}))
    assert "on the host: CPU devices have the host's cores, which decode" in str(plan)


def scaled(path: Path) -> Path:
    codecs = [FixedScaleOffset(0, 10, "f4", "i2"), Shuffle(2)]
    zarr.create_array(
        path, shape=(64, 16384), chunks=(1, 16384), dtype="f4", zarr_format=2, filters=codecs
    )[...] = 1
    return path


def test_devices_without_float64_leave_what_was_scaled_to_the_host(tmp_path: Path):
    path = scaled(tmp_path / "s")
    assert "on the device: zstd and shuffle and fixedscaleoffset" in str(
        planned(path, own_memory=True)
    )
    lacking = planned(path, own_memory=True, fp64=False).device_decoding
    assert lacking == (False, f"{path} was scaled in float64, which a device lacks")


def test_what_filters_are_undone_into_has_room(tmp_path: Path):
    """What the compressor and each filter decode to, in two buffers in turn."""
    source = open_source(scaled(tmp_path / "s"))
    touched, chunk = 1 << 20, 64 << 10
    alone = feeding.decoding_bytes(open_source(zstd(tmp_path / "z")), touched)
    stored = (touched // chunk) * (stored_bound(chunk) - stored_bound(chunk // 2))
    tables = zstd_stage_bytes(touched, chunk) - zstd_stage_bytes(touched // 2, chunk // 2)
    assert feeding.decoding_bytes(source, touched) == alone + touched - stored - tables


@pytest.mark.parametrize(
    ("own_memory", "codec", "said"),
    [
        (False, zarr.codecs.ZstdCodec(), "decode is 'device', but devices share the host's memory"),
        (True, zarr.codecs.GzipCodec(), "z is not a Zarr array of zstd, blosc, lz4 chunks"),
    ],
)
def test_what_devices_cannot_decode_is_refused_if_they_are_to(
    tmp_path: Path, codec: object, said: str, *, own_memory: bool
):
    zarr.create_array(
        tmp_path / "z", shape=(64, 16384), chunks=(1, 16384), dtype="f4", compressors=codec
    )[...] = 1
    with pytest.raises(PlanError, match=said):
        planned(tmp_path / "z", own_memory=own_memory, kinds=frozenset({"gpu"}), decode="device")


def test_blocks_of_what_is_fed_have_some_leaves(path: Path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1 << 10, 256 << 10))
    assert len(planned(path).blocks) == 16
    fed = planned(path, own_memory=True)
    assert fed.scan.leaf_bytes * feeding.LEAVES_OF_A_BLOCK == 2 << 20
    assert len(fed.blocks) == 2
