"""Workers keep to the cores near their devices, on hosts that are made up and on this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold import near_cores
from chunkfold.cluster.joining import connect
from chunkfold.near_cores import (
    CoreShare,
    NumaNode,
    cores_text,
    node_of,
    numa_nodes,
    parse_cores,
    share_cores,
)
from chunkfold.planning import workers
from chunkfold.planning.workers import posts
from tests.conftest import DEVICES

ALL = frozenset(range(128))


def pci(number: int) -> str:
    return f"0000:{number:02x}:00.0"


def made_up(
    folder: Path,
    nodes: Mapping[int, str],
    gpus: Sequence[int],
    distances: Mapping[int, str] | None = None,
) -> Path:
    """Write what Linux tells of NUMA nodes, by their lists of cores, and of the nodes of GPUs."""
    for number, cores in nodes.items():
        far = " ".join("10" if other == number else "21" for other in nodes)
        place = folder / f"devices/system/node/node{number}"
        place.mkdir(parents=True)
        (place / "cpulist").write_text(f"{cores}\n")
        (place / "distance").write_text(f"{(distances or {}).get(number, far)}\n")
    for number, node in enumerate(gpus):
        place = folder / "bus/pci/devices" / pci(number)
        place.mkdir(parents=True)
        (place / "numa_node").write_text(f"{node}\n")
    return folder


def shared(sysfs: Path, gpus: int, allowed: frozenset[int], each: int = 1) -> list[CoreShare]:
    """Share cores among so many workers of each GPU."""
    places = [node_of(pci(gpu), sysfs) for gpu in range(gpus) for _ in range(each)]
    return share_cores(places, numa_nodes(sysfs), allowed)


def test_eight_gpus_on_two_nodes_share_the_cores_of_their_nodes(tmp_path: Path):
    sysfs = made_up(tmp_path, {0: "0-63", 1: "64-127"}, [0] * 4 + [1] * 4)
    low, high = frozenset(range(64)), frozenset(range(64, 128))
    assert shared(sysfs, 8, ALL) == [CoreShare(low, 16)] * 4 + [CoreShare(high, 16)] * 4
    assert shared(sysfs, 8, ALL, each=2) == [CoreShare(low, 8)] * 8 + [CoreShare(high, 8)] * 8


def test_hyperthreads_stay_with_their_node(tmp_path: Path):
    sysfs = made_up(tmp_path, {0: "0-7,16-23", 1: "8-15,24-31"}, [0, 1])
    first, second = shared(sysfs, 2, ALL)
    assert (cores_text(first.cores), first.own) == ("0-7,16-23", 16)
    assert (cores_text(second.cores), second.own) == ("8-15,24-31", 16)


def test_on_one_node_nothing_changes(tmp_path: Path):
    sysfs = made_up(tmp_path, {0: "0-127"}, [0] * 4)
    assert shared(sysfs, 4, ALL) == [CoreShare(ALL, 32)] * 4
    assert shared(sysfs, 1, ALL) == [CoreShare(ALL, 128)]


def test_nodes_that_share_out_unequal_numbers_of_gpus_give_unequal_shares(tmp_path: Path):
    sysfs = made_up(tmp_path, {0: "0-63", 1: "64-127"}, [0, 0, 0, 1])
    assert [share.own for share in shared(sysfs, 4, ALL)] == [21, 21, 21, 64]


def test_cores_near_no_gpu_serve_the_nearest_ones(tmp_path: Path):
    """Left idle they would decode nothing."""
    one = made_up(tmp_path / "one", {0: "0-63", 1: "64-127"}, [0, 0])
    assert shared(one, 2, ALL) == [CoreShare(ALL, 64)] * 2
    # Two sockets of two nodes each, a GPU on the second node of each socket.
    distances = {0: "10 12 32 32", 1: "12 10 32 32", 2: "32 32 10 12", 3: "32 32 12 10"}
    nodes = {n: f"{32 * n}-{32 * n + 31}" for n in range(4)}
    four = made_up(tmp_path / "four", nodes, [1, 3], distances)
    low, high = frozenset(range(64)), frozenset(range(64, 128))
    assert shared(four, 2, ALL) == [CoreShare(low, 64), CoreShare(high, 64)]


def test_a_gpu_of_which_no_node_is_known_has_a_share_of_all_cores(tmp_path: Path):
    sysfs = made_up(tmp_path, {0: "0-63", 1: "64-127"}, [0, -1, 1])
    low, high = frozenset(range(64)), frozenset(range(64, 128))
    assert shared(sysfs, 3, ALL) == [CoreShare(low, 32), CoreShare(ALL, 42), CoreShare(high, 32)]
    assert node_of("", sysfs) is node_of(pci(1), sysfs) is node_of("0000:ff:00.0", sysfs) is None
    assert numa_nodes(tmp_path / "nothing") == {}
    assert shared(tmp_path / "nothing", 2, ALL) == [CoreShare(ALL, 64)] * 2


@pytest.mark.parametrize(
    ("allowed", "first", "second"),
    [
        ("0-15,64-79", ("0-15", 16), ("64-79", 16)),
        ("0-15", ("0-15", 8), ("0-15", 8)),  # none near the second: it keeps what there is
        ("60-71", ("60-63", 4), ("64-71", 8)),
    ],
)
def test_no_core_is_given_that_this_process_may_not_use(tmp_path: Path, allowed, first, second):
    sysfs = made_up(tmp_path, {0: "0-63", 1: "64-127"}, [0, 1])
    found = shared(sysfs, 2, parse_cores(allowed))
    assert [(cores_text(share.cores), share.own) for share in found] == [first, second]


def test_every_core_has_somebody_and_none_is_counted_twice():
    rng = np.random.default_rng(0)
    for _ in range(200):
        count = int(rng.integers(1, 5))
        owners = rng.integers(0, count, 24)
        distance = rng.integers(11, 40, (count, count))
        nodes = {
            n: NumaNode(
                frozenset(np.flatnonzero(owners == n).tolist()),
                dict(enumerate(np.where(np.arange(count) == n, 10, distance[n]).tolist())),
            )
            for n in range(count)
        }
        allowed = frozenset(rng.choice(24, int(rng.integers(1, 25)), replace=False).tolist())
        places = [None if p == count else int(p) for p in rng.integers(0, count + 1, 6)]
        found = share_cores(places, nodes, allowed)
        assert frozenset().union(*(share.cores for share in found)) == allowed
        assert all(share.cores for share in found)
        assert sum(share.own for share in found) <= len(allowed)


def test_posts_follow_the_nodes_unless_that_is_switched_off(tmp_path: Path, monkeypatch):
    sysfs = made_up(tmp_path, {0: "0-15", 1: "16-63"}, [0, 1])
    monkeypatch.setattr(near_cores, "SYSFS", sysfs)
    monkeypatch.setattr(workers, "allowed_cores", lambda: frozenset(range(64)))
    plain = replace(DEVICES[0], kind="gpu", unified_memory=False)
    gpus = [replace(plain, uuid=f"g{n}", pci=pci(n)) for n in range(2)]
    found = [(cores_text(post.cores), post.readers) for post in posts(gpus)]
    assert found == [("0-15", 8)] * 2 + [("16-63", 12)] * 4
    with dask.config.set({"chunkfold.workers.near-cores": False}):
        assert [(post.cores, post.readers) for post in posts(gpus)] == [(frozenset(), 8)] * 8
    with (
        dask.config.set({"chunkfold.workers.near-cores": "near"}),
        pytest.raises(cf.PlanError, match="near-cores is 'near'; give true or false"),
    ):
        posts(gpus)
    assert {post.cores for post in posts([replace(gpu, pci="") for gpu in gpus])} == {frozenset()}


def test_a_variable_of_the_environment_switches_it_off():
    done = subprocess.run(
        [sys.executable, "-c", "from chunkfold import settings; print(settings.uses_near_cores())"],
        env=os.environ | {"DASK_CHUNKFOLD__WORKERS__NEAR_CORES": "false"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "False"


def allowed_of_threads() -> dict[str, str]:
    """Return for each thread of this process the cores that it may use, as Linux writes them."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            for line in (task / "status").read_text().splitlines():
                if line.startswith("Cpus_allowed_list:"):
                    found[task.name] = line.split()[1]
    return found


_KEPT = """
import os, threading
from pathlib import Path
from chunkfold.near_cores import cores_text, keep_to

def every():
    return {cores_text(os.sched_getaffinity(int(task.name))) for task in tasks.iterdir()}

tasks = Path("/proc/self/task")
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
first, second = sorted(os.sched_getaffinity(0))[:2]
keep_to(frozenset([second]))
kept = every()
keep_to(frozenset([first]))
keep_to(frozenset([first, second]))
assert len(list(tasks.iterdir())) >= 4
print(second, *kept, *every())
"""


needs_two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="this process may use one core only"
)


@needs_two_cores
def test_all_threads_keep_to_cores_and_none_gets_more():
    done = subprocess.run(
        [sys.executable, "-c", _KEPT], capture_output=True, text=True, check=True, timeout=120
    )
    second, *kept = done.stdout.split()
    assert kept == [second, second]


@pytest.mark.short
@needs_two_cores
@pytest.mark.spawned
def test_workers_keep_all_their_threads_near_their_devices(tmp_path: Path, monkeypatch):
    """A CPU device stands in for two GPUs, each said to be near a core of its own."""
    first, second = sorted(os.sched_getaffinity(0))[:2]
    sysfs = made_up(tmp_path / "sys", {0: str(first), 1: str(second)}, [0, 1])
    monkeypatch.setattr(near_cores, "SYSFS", sysfs)
    two = [replace(DEVICES[0], host=f"{n}", pci=pci(n)) for n in range(2)]  # names tell hosts
    path = str(tmp_path / "a.zarr")
    zarr.create_array(path, data=np.arange(4096), chunks=(64,))
    before = allowed_of_threads()
    with (
        cf.LocalOpenCLCluster(two, dashboard_address=None) as cluster,
        connect(cluster.scheduler_address) as client,
    ):
        assert cf.reduce(path, client=client) == 4095 * 2048
        found = client.run(allowed_of_threads)
        names = {info["id"]: address for address, info in cluster.scheduler_info["workers"].items()}
        cores = {post.name: post.cores for post in posts(two)}
        assert sorted(cores.values(), key=min) == [{first}, {second}]
        for name, address in names.items():
            assert set(found[address].values()) == {cores_text(cores[name])}
            assert len(found[address]) > 4  # readers, Dask's, the driver's
    after = allowed_of_threads()
    assert {after[thread] for thread in before if thread in after} == set(before.values())
