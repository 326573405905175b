"""Processes that tests start, watch and stop."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from chunkfold.kernels.tuning import trial

BIN = Path(sys.executable).parent


def worker_command(address: str, *specs: str) -> list:
    """`chunkfold worker` for some devices."""
    return [BIN / "chunkfold", "worker", address, *(w for s in specs for w in ("--device", s))]


def finished(
    command: Sequence[object], seconds: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever that is, within a deadline."""
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env=environment,
    )


def alive(group: int) -> list[str]:
    """Processes of a process group, by its leader's pid, that have not ended."""
    listed = finished(["ps", "-ww", "-o", "pid,stat,args", "-g", group], 30)
    return [line for line in listed.stdout.splitlines()[1:] if " Z" not in line]


def all_ended(group: int, seconds: float = 20) -> bool:
    """Wait until nobody of a process group is alive."""
    deadline = time.monotonic() + seconds
    while alive(group) and time.monotonic() < deadline:
        time.sleep(0.2)
    return not alive(group)


def first_trial_dies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the next child that tries kernels die of a signal, as PoCL 3.1's compiler does.

    Returns a list of one item once it did.
    """
    deaths: list[int] = []
    real = subprocess.Popen

    def start(command, **kwargs):
        if not deaths:
            deaths.append(1)
            command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"]
        return real(command, **kwargs)

    trial.processes.stop()
    monkeypatch.setattr(subprocess, "Popen", start)
    return deaths


@contextlib.contextmanager
def started(command: Sequence[object], log: Path) -> Iterator[subprocess.Popen]:
    """Run a command with its output in a file; stop it in the end."""
    with log.open("w") as file:
        process = subprocess.Popen([str(word) for word in command], stdout=file, stderr=file)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def awaited(log: Path, pattern: str, process: subprocess.Popen, seconds: float = 60) -> str:
    """Wait until a line of the log matches; return its first group."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text())
        if found:
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())
