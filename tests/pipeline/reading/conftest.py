"""A device that looks as if its memory were its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chunkfold.kernels import Device, DeviceContext
from chunkfold.kernels.feed import feeder
from chunkfold.running import backend
from chunkfold.worker.worker_device import WorkerDevice


@pytest.fixture(params=["native", "python"])
def worker_device(request: pytest.FixtureRequest, device: Device, monkeypatch) -> WorkerDevice:
    """Return a device that looks as if its memory were its own."""
    without = frozenset() if request.param == "native" else frozenset({"native_feed"})
    apart = replace(device, unified_memory=False, without=without)
    made = WorkerDevice(DeviceContext(apart), 3)
    monkeypatch.setattr(backend, "process_device", lambda _: made)
    monkeypatch.setattr("chunkfold.planning.planner.LEAF_BYTES", 1 << 20)
    monkeypatch.setattr(feeder, "PIECE_BYTES", 1 << 18)
    return made
