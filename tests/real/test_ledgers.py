"""Ledgers, and outputs that are gone on with, in a real S3 server (Ceph).

CHUNKFOLD_OUTPUT_KILLS is how many runs are killed at most for each kind of output.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
import zarr
from zarr.storage import ObjectStore

import chunkfold as cf
from chunkfold.errors import LedgerError, PlanError
from chunkfold.events import Event, RunStarted
from chunkfold.planning import ledger_spans
from chunkfold.workflows.images.pyramid import pyramid
from chunkfold.workflows.regionwise.changed_parts import PartWriter
from chunkfold.workflows.transforms.normalize import apply, normalization
from tests.ledgers import asked, files, small_blocks, stored
from tests.real.servers import Ceph, ceph
from tests.workflows.test_cli import chunkfold

pytestmark = pytest.mark.real
VALUES = np.random.default_rng(0).normal(size=(64, 50, 50)).astype("f4")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceph]:
    with ceph(tmp_path_factory.mktemp("ceph")) as made:
        store = ObjectStore(made.bucket("data"))
        array = zarr.create_array(
            store, name="a", shape=VALUES.shape, chunks=(2, 50, 50), dtype="f4"
        )
        array[...] = VALUES
        made.bucket("kept")
        yield made


@pytest.fixture(autouse=True)
def _environment(s3: Ceph, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    small_blocks(monkeypatch, 1 << 15, (1 << 16, 1 << 17))
    monkeypatch.setattr(ledger_spans, "SETTLED_NS", (0, 0))  # chunks were written a moment ago


def test_a_ledger_in_s3_is_found_by_others(s3: Ceph, tmp_path: Path):
    for source in ("s3://data/a", tmp_path / "a.zarr"):
        if isinstance(source, Path):
            stored(source, VALUES, (2, 50, 50))
        place = f"s3://kept/{'disk' if isinstance(source, Path) else 's3'}"
        first = asked(source, ["mean", "max"], place, axis=0)
        assert first.ledger.kept == len(first.plan.blocks) > 1
        assert asked(source, ["mean", "max"], place, axis=0).plan.scan.nbytes == 0
        told = json.loads(chunkfold("ledger", "show", place, "--json").stdout)
        assert told["segments"] >= 1
        assert told["damaged"] == []


def test_chunks_in_s3_are_told_apart_by_their_bytes(s3: Ceph):
    given = {"ledger_verify": "content"}
    first = asked("s3://data/a", "sum", "s3://kept/content", **given)
    store = ObjectStore(s3.store("data"))
    zarr.open_array(store, path="a")[...] = VALUES  # written anew, and the same
    again = asked("s3://data/a", "sum", "s3://kept/content", **given)
    assert again.ledger.known == first.ledger.kept == len(first.plan.blocks)


def test_a_damaged_object_is_computed_anew(s3: Ceph):
    place = "s3://kept/damaged"
    asked("s3://data/a", "sum", place)
    store = s3.store("kept")
    for page in obstore.list(store, "damaged"):
        for one in page:
            content = bytearray(bytes(obstore.get(store, one["path"]).bytes()))
            content[-3] ^= 1
            obstore.put(store, one["path"], bytes(content))
    assert "damaged" in chunkfold("ledger", "verify", place, code=1).stdout
    run = asked("s3://data/a", "sum", place)
    assert run.ledger.damaged > 0
    assert "removed" in chunkfold("ledger", "prune", place).stdout
    assert asked("s3://data/a", "sum", place).ledger.damaged == 0


def test_a_bucket_that_is_missing_is_named(s3: Ceph):
    with pytest.raises(LedgerError, match=r"s3://none/l cannot be listed"):
        cf.reduce("s3://data/a", "sum", ledger="s3://none/l")


_KILLED = """
import json, os, signal, sys, threading, time
import numpy as np
from chunkfold.planning import blocks, planner, ledger_spans
planner.LEAF_BYTES = 1 << 12
blocks.BLOCK_BYTES = ledger_spans.BLOCK_BYTES = (1 << 13, 1 << 14)
ledger_spans.SETTLED_NS = 0, 0
from chunkfold.workflows.regionwise import changed_parts
from chunkfold.outputs import staged_objects
from chunkfold.workflows.transforms.normalize import apply, normalization
from chunkfold.workflows.images.pyramid import pyramid
changed_parts.NOTED_EVERY_S = 0.0
seconds, begun = float(sys.argv[2]), staged_objects._begun
def soon(*given):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()
    return begun(*given)
staged_objects._begun = soon
out, ledger = sys.argv[3:]
if sys.argv[1] == "pyramid":
    pyramid("s3://data/image", out, 3, ledger=ledger)
else:
    apply("s3://data/image", normalization("s3://data/image"), out, ledger=ledger)
"""
KILLS = int(os.environ.get("CHUNKFOLD_OUTPUT_KILLS", "6"))


@pytest.fixture(scope="module")
def image(s3: Ceph) -> np.ndarray:
    values = np.random.default_rng(1).integers(0, 999, (512, 640)).astype("u2")
    store = ObjectStore(s3.store("data"))
    array = zarr.create_array(
        store, name="image", shape=values.shape, chunks=(32, 32), dtype="u2",
        dimension_names=("y", "x"),
    )  # fmt: skip
    array[...] = values
    return values


@pytest.mark.parametrize("what", ["pyramid", "normalized"])
def test_outputs_in_s3_of_runs_that_were_killed_are_gone_on_with(
    s3: Ceph, image: np.ndarray, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
):
    """At random moments, also of those in which objects are copied."""
    small_blocks(monkeypatch, 1 << 12, (1 << 13, 1 << 14))
    every, read = list[int](), list[int]()
    store, rng = s3.store("kept"), random.Random(2)
    out, ledger = f"s3://kept/{what}.zarr", f"s3://kept/{what}.ledger"
    if what == "pyramid":
        own = tmp_path / "own.ledger"
        pyramid("s3://data/image", tmp_path / "expected", 3, ledger=own, on_event=blocks_to(every))
    else:
        apply("s3://data/image", normalization("s3://data/image"), tmp_path / "expected")
    expected, ended = files(tmp_path / "expected"), list[int]()
    for _ in range(KILLS):
        told = [what, f"{rng.uniform(0.1, 4):.3f}", out, ledger]
        done = subprocess.run([sys.executable, "-c", _KILLED, *told], check=False, timeout=200)
        ended.append(done.returncode)
        keys = [one["path"] for page in obstore.list(store, f"{what}.zarr") for one in page]
        assert (f"{what}.zarr/zarr.json" in keys) == (done.returncode == 0)
        if not done.returncode:
            break
    assert set(ended) <= {0, -signal.SIGKILL}
    assert -signal.SIGKILL in ended
    if ended[-1]:
        if what == "pyramid":
            pyramid("s3://data/image", out, 3, ledger=ledger, on_event=blocks_to(read))
            assert read[0] < every[0]
        else:
            write = PartWriter.__call__
            counted = lambda own, box: (read.append(1), write(own, box))[1]  # noqa: E731
            monkeypatch.setattr(PartWriter, "__call__", counted)
            apply("s3://data/image", normalization("s3://data/image"), out, ledger=ledger)
            assert len(read) < image.size // 32**2
    found = {
        one["path"].removeprefix(f"{what}.zarr/"): bytes(obstore.get(store, one["path"]).bytes())
        for page in obstore.list(store, f"{what}.zarr")
        for one in page
    }
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []
    assert not [one for page in obstore.list(store, f".{what}.zarr.staged") for one in page]


def test_a_run_that_was_stopped_and_replaced_changes_nothing(
    s3: Ceph, image: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As one on a node that was cut off for a while."""
    small_blocks(monkeypatch, 1 << 12, (1 << 13, 1 << 14))
    pyramid("s3://data/image", tmp_path / "expected", 3)
    out, ledger, store = "s3://kept/b.zarr", "s3://kept/b.ledger", s3.store("kept")
    told = ["pyramid", "1000", out, ledger]
    with subprocess.Popen([sys.executable, "-c", _KILLED, *told], stderr=subprocess.PIPE) as first:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not keys_below(store, "b.ledger"):
            time.sleep(0.02)
        try:
            os.kill(first.pid, signal.SIGSTOP)
            pyramid("s3://data/image", out, 3, ledger=ledger)
        finally:
            os.kill(first.pid, signal.SIGCONT)
        assert b"another run writes it now" in first.communicate(timeout=100)[1]
    expected = files(tmp_path / "expected")
    assert keys_below(store, "b.zarr") == {f"b.zarr/{name}" for name in expected}
    for name, content in expected.items():
        assert bytes(obstore.get(store, f"b.zarr/{name}").bytes()) == content
    assert keys_below(store, ".b.zarr.staged") == set()


def keys_below(store: Any, prefix: str) -> set[str]:
    return {one["path"] for page in obstore.list(store, prefix) for one in page}


def blocks_to(read: list[int]) -> Callable[[Event], None]:
    def hear(event: Event) -> None:
        if isinstance(event, RunStarted):
            read.append(event.blocks)

    return hear


def test_workers_of_a_cluster_write_to_s3(s3: Ceph, image: np.ndarray, tmp_path: Path):
    """Each is a process of its own, which opens the output anew."""
    words = ["normalize", "s3://data/image", "-q", "--device", "cpu", "--apply"]
    chunkfold(*words, "s3://kept/by-workers.zarr", "--ledger", "s3://kept/by-workers.ledger")
    chunkfold(*words, tmp_path / "local.zarr")
    found = zarr.open_array(ObjectStore(s3.store("kept")), path="by-workers.zarr", mode="r")
    expected = zarr.open_array(str(tmp_path / "local.zarr"), mode="r")
    assert (found[...] == expected[...]).all()
    told = chunkfold(*words, "s3://kept/by-workers.zarr", code=2).stderr
    assert "exists; remove it" in told


def test_an_output_that_s3_refuses_is_named(s3: Ceph, image: np.ndarray):
    with pytest.raises(PlanError, match=r"output s3://none/b\.zarr cannot be written"):
        pyramid("s3://data/image", "s3://none/b.zarr", 3, ledger="s3://kept/none.ledger")
