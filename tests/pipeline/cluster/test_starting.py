"""Workers that do not start: users see what they lack, or what they said last."""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from distributed import LocalCluster

import chunkfold as cf
from chunkfold.cluster import starting
from chunkfold.cluster.starting import ending, words_of
from tests.conftest import DEVICES
from tests.processes import BIN, finished, worker_command

pytestmark = pytest.mark.spawned

_READ_ONLY_LOCKS = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o ro none /dev/shm"]


def _can_hide_locks() -> bool:
    return bool(shutil.which("unshare")) and not finished(_READ_ONLY_LOCKS, 30).returncode


@pytest.fixture(scope="module")
def reduce(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "a.zarr"
    zarr.create_array(str(path), data=np.arange(100), chunks=(10,))
    return shlex.join([str(BIN / "chunkfold"), "reduce", str(path), "--device", DEVICES[0].spec])


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (
            "ulimit -n 30",
            "may have 30 files open and has .* takes 32 more to start 1 worker: allow it",
        ),
        ("mkdir gone; cd gone; rmdir ../gone", r"working directory is missing \(.*: change to one"),
        ("export DASK_TEMPORARY_DIRECTORY=/proc/x", "no cluster could be started: .*'/proc/x'"),
        pytest.param(
            "mount -t tmpfs -o ro none /dev/shm",
            r"no lock can be made for worker processes \(.*Read-only.*/dev/shm",
            marks=pytest.mark.skipif(not _can_hide_locks(), reason="needs a mount namespace"),
        ),
    ],
)
def test_what_a_host_lacks_is_said_at_once(reduce, condition, words, tmp_path: Path):
    began = time.monotonic()
    shell = _READ_ONLY_LOCKS[:2] if "mount" in condition else []
    done = finished([*shell, "sh", "-c", f"cd {tmp_path}; {condition}; {reduce}"], 60)
    assert done.returncode == 4, done.stderr
    (line,) = done.stderr.splitlines()
    assert re.match(f"ClusterError: .*{words}", line), line
    assert time.monotonic() - began < 30


@contextmanager
def preloaded(tmp_path: Path, code: str) -> Iterator[None]:
    """Let every worker run this before it starts."""
    file = tmp_path / "preloaded.py"
    file.write_text(code)
    with dask.config.set({"distributed.worker.preload": [str(file)]}):
        yield


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise OSError(28, 'No space left on device', '/x')", r"OSError: \[Errno 28\] .*: '/x'"),
        ("import os; os.kill(os.getpid(), 9)", r"its process was killed by signal 9 \(SIGKILL\)"),
        ("import os; os._exit(3)", "its process ended with exit code 3 as it started"),
    ],
)
def test_the_last_words_of_a_worker_that_dies_as_it_starts_are_shown(tmp_path, code, words):
    began = time.monotonic()
    with (
        preloaded(tmp_path, code),
        pytest.raises(cf.ClusterError, match=f"only 0 of 1 worker started: {words}"),
    ):
        cf.LocalOpenCLCluster([DEVICES[0]], dashboard_address=None)
    assert time.monotonic() - began < 30


def test_last_words_are_short_and_keep_secrets(tmp_path):
    code = "raise ValueError('much to say\\n' * 500 + 'of https://me:hush@host/x?key=hush')"
    with preloaded(tmp_path, code), pytest.raises(cf.ClusterError) as raised:
        cf.LocalOpenCLCluster([DEVICES[0]], workers_per_device=2, dashboard_address=None)
    said = str(raised.value)
    assert "only 0 of 2 workers started" in said
    assert said.count("of https://host/x") == 1
    assert "hush" not in said
    assert len(said.splitlines()) < 20


def test_a_worker_that_starts_is_not_one_that_does_not(tmp_path):
    """One of two workers fails."""
    code = (
        "import os, pathlib\n"
        f"first = pathlib.Path({str(tmp_path / 'first')!r})\n"
        "if not first.exists(): first.write_text(str(os.getpid()))\n"
        "assert first.read_text() == str(os.getpid()), 'I come second'"
    )
    with (
        preloaded(tmp_path, code),
        pytest.raises(
            cf.ClusterError,
            match="only 1 of 2 workers started: 1 of them: AssertionError: I come s",
        ),
    ):
        cf.LocalOpenCLCluster([DEVICES[0]], workers_per_device=2, dashboard_address=None)


@pytest.mark.parametrize(
    "code", ["import time; time.sleep(600)", "import os; os.kill(os.getpid(), 19)"]
)
def test_a_worker_that_hangs_or_is_stopped_as_it_starts_is_ended(tmp_path, code):
    began = time.monotonic()
    with (
        dask.config.set({"chunkfold.workers.start": 2}),
        preloaded(tmp_path, code),
        pytest.raises(cf.ClusterError, match=r"0 of 1 .* it has not answered yet") as raised,
    ):
        cf.LocalOpenCLCluster([DEVICES[0]], dashboard_address=None)
    assert time.monotonic() - began < 30
    process = re.search(r"\(process (\d+)\)$", str(raised.value))
    assert process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(int(process[1]), 0)


def test_a_worker_that_joins_says_why_it_did_not_start(tmp_path):
    file = tmp_path / "preloaded.py"
    file.write_text("raise ImportError('no libfoo.so')")
    environment = os.environ | {"DASK_DISTRIBUTED__WORKER__PRELOAD": str(file)}
    with LocalCluster(n_workers=0, dashboard_address=None) as made:
        done = finished(worker_command(made.scheduler_address, DEVICES[0].spec), 60, environment)
    assert done.returncode == 4
    *_, last = done.stderr.splitlines()
    assert last.startswith("ClusterError: only 0 of 1 worker started: ImportError: no libfoo.so")


def test_files_are_counted_for_every_worker(monkeypatch):
    """What one worker has enough of, nine have not."""
    used, (_, hard) = (
        len([*Path("/proc/self/fd").iterdir()]),
        resource.getrlimit(resource.RLIMIT_NOFILE),
    )
    monkeypatch.setattr(resource, "getrlimit", lambda _: (used + 60, hard))
    starting.check_host(1)
    with pytest.raises(cf.ClusterError, match="takes 112 more to start 9 workers"):
        starting.check_host(9)


def test_what_dask_adds_as_it_tidies_up_does_not_hide_an_error():
    full = OSError(28, "No space left on device", "/x")
    tidying, wrapped = AttributeError("'NoneType' has no 'kill'"), RuntimeError("failed to start.")
    wrapped.__cause__, tidying.__context__ = tidying, full
    full.__context__ = FileExistsError(17, "File exists", "/")  # which it was raised beside
    assert words_of(wrapped) == "OSError: [Errno 28] No space left on device: '/x'"


def test_how_a_process_ended_is_said():
    assert ending(0) == "ended with exit code 0"
    assert ending(-11) == "was killed by signal 11 (SIGSEGV)"
    assert ending(-64 - 1) == "was killed by signal 65 (unknown)"
