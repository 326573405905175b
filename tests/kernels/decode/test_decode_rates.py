"""Devices and cores are measured on the same chunks; what decodes wrong is not measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import Device, DeviceContext
from chunkfold.kernels.decode import decode_rates, device_decoder
from chunkfold.kernels.decode.codec_chain import CODECS
from chunkfold.kernels.decode.decode_batch import DecodeBatch
from chunkfold.kernels.decode.decode_rates import DecodeRates, measured_rates
from chunkfold.kernels.decode.device_decoder import DeviceDecoder
from chunkfold.kernels.decode.lz4 import Lz4
from chunkfold.kernels.decode.workspace import StageInput, Workspace
from chunkfold.kernels.errors import DeviceError


@pytest.fixture
def fresh(device: Device) -> DeviceContext:
    return DeviceContext(device)


@pytest.mark.parametrize("codec", CODECS)
def test_both_rates_are_those_of_bytes_decoded(fresh: DeviceContext, codec: str, monkeypatch):
    decoded, decode = list[int](), DeviceDecoder.decode

    def noted(self: DeviceDecoder, chunks: DecodeBatch, *given: Any) -> bool:
        decoded.append(len(chunks.places))
        return decode(self, chunks, *given)

    monkeypatch.setattr(DeviceDecoder, "decode", noted)
    # A second for whatever is done: rates are the bytes that it decodes.
    monkeypatch.setattr(decode_rates, "_best", lambda task: (task() and 1.0) or 1.0)
    found = measured_rates(fresh, codec)
    assert found == DecodeRates(codec, device=decoded[-1] << 20, core=2 << 20)
    assert decoded == [8, 8]  # one round that builds, and the one that took so long


def test_more_chunks_are_decoded_while_that_is_faster(fresh: DeviceContext, monkeypatch):
    monkeypatch.setattr(decode_rates, "_OF_A_BUFFER", 1)
    seconds = iter([0.008, 0.016, 0.064])
    monkeypatch.setattr(decode_rates, "_best", lambda _: next(seconds))
    monkeypatch.setattr(decode_rates, "_core_rate", lambda *_: 1.0)
    found = measured_rates(fresh, "lz4")
    assert found is not None
    assert found.device == pytest.approx((32 << 20) / 0.016)
    assert list(seconds) == []


def test_a_device_without_room_for_more_has_the_rate_of_few(fresh: DeviceContext, monkeypatch):
    decode = DeviceDecoder.decode

    def full(self: DeviceDecoder, chunks: DecodeBatch, *given: Any) -> bool:
        if len(chunks.places) > most:
            raise DeviceError("no room")
        return decode(self, chunks, *given)

    monkeypatch.setattr(DeviceDecoder, "decode", full)
    monkeypatch.setattr(decode_rates, "_best", lambda _: 0.001)
    monkeypatch.setattr(decode_rates, "_core_rate", lambda *_: 1.0)
    most = 8
    assert measured_rates(fresh, "lz4") == DecodeRates("lz4", (8 << 20) / 0.001, 1.0)
    most = 0
    assert measured_rates(fresh, "lz4") is None


def test_a_device_that_decodes_wrong_is_not_measured(fresh: DeviceContext, monkeypatch):
    class Wrong(Lz4):
        def decode(self, workspace: Workspace, given: StageInput) -> bool:
            done = super().decode(workspace, given)
            cl.enqueue_fill_buffer(workspace.queue, given.decoded, np.uint8(1), 70, 1)
            return done

    monkeypatch.setitem(device_decoder._KERNELS, "lz4", Wrong)
    monkeypatch.setattr(decode_rates, "_best", lambda _: pytest.fail("measured"))
    found = measured_rates(fresh, "lz4")
    assert found == DecodeRates("lz4", failure="the device decodes known chunks wrong")
