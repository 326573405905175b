"""Devices, cores and memory are shared out to workers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from distributed.system import MEMORY_LIMIT

from chunkfold import staffing
from chunkfold.staffing import posts
from tests.conftest import DEVICES


def _devices(gpus: int, cpus: int) -> list:
    plain = DEVICES[0]
    return [replace(plain, kind="gpu", uuid=f"g{n}", unified_memory=False) for n in range(gpus)] + [
        replace(plain, kind="cpu", uuid=f"c{n}", unified_memory=True) for n in range(cpus)
    ]


@pytest.mark.parametrize(
    ("cores", "gpus", "cpus", "expected"),
    [
        (2, 0, 1, [2]),
        (64, 0, 1, [16]),
        (4, 1, 0, [4]),
        (8, 1, 0, [8]),
        (16, 1, 0, [8, 8]),
        (24, 1, 0, [8, 8, 8]),
        (128, 1, 0, [16, 16, 16, 16]),
        (32, 2, 0, [8, 8, 8, 8]),
        (128, 8, 0, [8] * 16),
        (16, 1, 1, [8, 8]),
        (2, 8, 0, [2] * 8),
    ],
)
def test_a_gpu_has_as_many_workers_as_cores_that_decode_for_it_ask_for(
    monkeypatch, cores, gpus, cpus, expected
):
    monkeypatch.setattr(staffing, "_cores", lambda: cores)
    found = posts(_devices(gpus, cpus))
    assert [post.readers for post in found] == expected
    assert len({post.name for post in found}) == len(found)
    assert all(post.memory == MEMORY_LIMIT // len(found) for post in found)
    each, rest = divmod(len(found) - cpus, max(1, gpus))
    assert rest == 0
    assert [post.device.uuid for post in found] == [
        *(f"g{n}" for n in range(gpus) for _ in range(each)),
        *(f"c{n}" for n in range(cpus)),
    ]


def test_what_is_given_holds_for_every_device(monkeypatch):
    monkeypatch.setattr(staffing, "_cores", lambda: 12)
    found = posts(_devices(1, 1), 3, 1 << 30)
    assert [post.name for post in found] == [
        "gpu-g0", "gpu-g0-1", "gpu-g0-2", "cpu-c0", "cpu-c0-1", "cpu-c0-2",
    ]  # fmt: skip
    assert {(post.readers, post.memory) for post in found} == {(2, 1 << 30)}
