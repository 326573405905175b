"""The memory of workers: within what the plan says, whatever the array's size."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.cluster.joining import connect
from tests.conftest import DEVICES
from tests.processes import finished

pytestmark = pytest.mark.spawned

CHUNK = (8, 721, 1440)
SIZES = (2.0, 8.0, 32.0) if os.environ.get("CHUNKFOLD_LARGE") else (2.0, 4.0)
"""GiB of decoded elements."""


def linked(folder: Path, gib: float) -> tuple[Path, float]:
    """Write an array all of whose chunks are one file; return it, and its sum."""
    count = round(gib * 2**30 / (4 * np.prod(CHUNK)))
    shape = (count * CHUNK[0], *CHUNK[1:])
    array = zarr.create_array(str(folder), shape=shape, chunks=CHUNK, dtype="f4")
    values = np.rint(np.random.default_rng(0).normal(280, 15, CHUNK)).astype("f4")
    array[: CHUNK[0]] = values
    for number in range(1, count):
        place = folder / f"c/{number}/0/0"
        place.parent.mkdir(parents=True)
        os.link(folder / "c/0/0/0", place)
    return folder, count * float(values.sum(dtype="f8"))


def peak_mib(pid: int | str, *, anew: bool = False) -> float:
    """Return the most memory that a process had resident, perhaps from now on."""
    if anew:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.short
@pytest.mark.parametrize("device", DEVICES[:1], ids=lambda device: device.spec)
@pytest.mark.parametrize(("axis", "mode"), [(None, "exact"), (0, "fast")])
def test_memory_does_not_grow_with_the_array(tmp_path: Path, device, axis, mode):
    arrays = [linked(tmp_path / f"{gib}", gib) for gib in SIZES]
    peaks = []
    with (
        cf.LocalOpenCLCluster([device], dashboard_address=None) as cluster,
        connect(cluster.scheduler_address) as client,
    ):
        (pid,) = client.run(os.getpid).values()
        cf.reduce(arrays[0][0], selection=slice(0, 8), axis=axis, mode=mode, client=client)
        idle = peak_mib(pid, anew=True)
        for path, total in (arrays[0], *arrays):  # once to warm up
            peak_mib(pid, anew=True)
            run = cf.submit(path, axis=axis, mode=mode, client=client)
            assert np.sum(run.result(600), dtype="f8") == pytest.approx(total, rel=1e-6)
            peaks.append(peak_mib(pid))
    bound = run.plan.memory.total / 2**20
    print(f"{device.spec}, axis {axis}: idle {idle:.0f} MiB, peaks {peaks[1:]}, bound {bound:.0f}")
    assert max(peaks[1:]) < 1.1 * min(peaks[1:])
    assert max(peaks) < idle + bound + 50


HERE = """
import gc, sys
import numpy as np
import chunkfold as cf
from chunkfold.kernels import Partial
from tests.pipeline.planning.test_memory import peak_mib

values = np.random.default_rng(0).random((40, 800, 1000), "f4")
given = {"coarsen": {0: 2, 1: 2, 2: 2}} if sys.argv[1] == "coarsen" else {"axis": 0}
gc.disable()
cf.reduce(values[:8, :40], sys.argv[2], **given)
before = peak_mib("self", anew=True)
run = cf.submit(values, sys.argv[2], **given)
run.result(300)
took, bound = peak_mib("self") - before, run.plan.memory.total / 2**20
left = sum(isinstance(one, Partial) for one in gc.get_objects())
print(f"{took:.0f} MiB for {bound:.0f} planned, {left} partial(s) left")
sys.exit(not (took < bound and left == 0))
"""
"""Reduces in a process of its own; no cycle of references is collected meanwhile."""


@pytest.mark.parametrize("words", ["coarsen mean", "coarsen std", "axis std"])
def test_partials_go_as_results_are_made_of_them(words: str):
    """They are most of what the caller's process holds: never two of each."""
    done = finished([sys.executable, "-c", HERE, *words.split()], 240)
    assert done.returncode == 0, done.stdout + done.stderr
