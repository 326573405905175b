"""Devices, cores and memory are shared out to workers."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from distributed.system import MEMORY_LIMIT

from chunkfold.kernels import split
from chunkfold.planning import workers
from chunkfold.planning.workers import posts
from tests.conftest import DEVICES


def _devices(gpus: int, cpus: int) -> list:
    plain = replace(DEVICES[0], most_parts=2)
    return [replace(plain, kind="gpu", uuid=f"g{n}", unified_memory=False) for n in range(gpus)] + [
        replace(plain, kind="cpu", uuid=f"c{n}", unified_memory=True) for n in range(cpus)
    ]


@pytest.mark.parametrize(
    ("cores", "gpus", "cpus", "expected"),
    [
        (2, 0, 1, [2]),
        (8, 0, 1, [8]),
        (15, 0, 1, [15]),
        (4, 1, 0, [4]),
        (8, 1, 0, [8]),
        (12, 1, 0, [6, 6]),
        (128, 1, 0, [16, 16, 16, 16]),
        (16, 2, 0, [8, 8]),
        (128, 8, 0, [8] * 16),
        (8, 1, 1, [4, 4]),
        (2, 8, 0, [2] * 8),
    ],
)
def test_a_gpu_has_as_many_workers_as_cores_that_decode_for_it_ask_for(
    monkeypatch, cores, gpus, cpus, expected
):
    monkeypatch.setattr(workers, "allowed_cores", lambda: frozenset(range(cores)))
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


@pytest.mark.parametrize("other", [{"host": "b"}, {"boot": "1"}, {"uuid": f"{UUID(int=1)}"}])
def test_workers_of_equal_devices_have_names_of_their_own(other):
    """On other hosts, whose names or clones may repeat; and the same name each time on one."""
    mine = replace(_devices(0, 1)[0], uuid=f"{UUID(int=0)}", host="a", boot="0", compute_units=2)
    given = (mine, replace(mine, **other), mine)
    names = [post.name for device in given for post in posts([device], 2)]
    assert len(set(names)) == 4
    assert names[:2] == names[4:]


@pytest.mark.parametrize(
    ("cores", "most_parts", "given", "expected"),
    [
        (16, 16, None, 2),
        (17, 17, None, 2),
        (64, 64, None, 8),
        (64, 4, None, 4),
        (64, 1, None, 1),
        (4, 4, 2, 2),
        (64, 64, 1, 1),
    ],
)
def test_a_cpu_is_split_among_its_workers(monkeypatch, cores, most_parts, given, expected):
    monkeypatch.setattr(workers, "allowed_cores", lambda: frozenset(range(cores)))
    plain = replace(DEVICES[0], part=None, most_parts=most_parts, compute_units=cores)
    cpu = replace(plain, kind="cpu", unified_memory=True)
    found = posts([cpu], given)
    whole = [cpu] if expected == 1 else list(split(cpu, expected))
    assert [post.device for post in found] == whole
    assert len({post.name for post in found}) == expected
    assert [post.readers for post in found] == [min(16, cores // expected)] * expected
    assert len(posts(split(cpu, most_parts), None)) == most_parts, "parts are not split again"


def test_what_is_given_holds_for_every_device(monkeypatch):
    monkeypatch.setattr(workers, "allowed_cores", lambda: frozenset(range(12)))
    given = _devices(1, 1)
    found = posts(given, 3, 1 << 30)  # the CPU has two units
    assert [post.name for post in found] == [
        f"{device.kind}-{device.identity}{number}"
        for device in given
        for number in ("", "-1", "-2")
    ]
    assert {(post.readers, post.memory) for post in found} == {(2, 1 << 30)}
