"""Kills of every role at random moments: with a ledger the same bits, and little read twice.

CHUNKFOLD_KILLS is how many there are, and CHUNKFOLD_CHAOS_SEED which.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pytest
import zarr

import chunkfold as cf
from chunkfold.events import Event, RunStarted
from chunkfold.workflows.images.pyramid import pyramid
from tests.conftest import DEVICES
from tests.ledgers import aged, files
from tests.processes import BIN, alive, all_ended, awaited, started, worker_command

KILLS = int(os.environ.get("CHUNKFOLD_KILLS", "24"))
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300 + 20 * KILLS)]
SEED = int(os.environ.get("CHUNKFOLD_CHAOS_SEED", "0"))
ROLES = ("all", "client", "worker", "worker", "nanny", "interrupt", "terminate", "scheduler")
RESUME = re.compile(r'resume"?: "?chunkfold reduce')
OPS = ("mean", "std", "argmax")
IN_FLIGHT = 8
"""Blocks that may be in flight, or on their way to the ledger: twice two workers' two threads."""
DEADLINE_S = 120.0


@dataclass
class Ended:
    """A command that has ended, or was killed."""

    code: int
    printed: str
    said: str
    done: int = 0
    """Blocks that it said were done."""
    seconds: float = 0.0
    """Time from its kill to its end."""
    at_work: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    """Store 384 MiB in chunks of 1 MB, and find out what is true of them."""
    path = tmp_path_factory.mktemp("data") / "a.zarr"
    rng = np.random.default_rng(0)
    array = zarr.create_array(path, shape=(384, 512, 512), chunks=(1, 512, 512), dtype="f4")
    for begin in range(0, 384, 64):
        array[begin : begin + 64] = rng.normal(begin, 1, size=(64, 512, 512))
    aged(path)
    return path, {op: float(value) for op, value in cf.reduce(path, list(OPS)).items()}


def _victims(command: subprocess.Popen[str], role: str, scheduler: int | None) -> list[int]:
    """Return the processes that are to be killed."""
    if role in ("client", "interrupt", "terminate"):
        return [command.pid]
    if role == "scheduler":
        return [] if scheduler is None else [scheduler]
    below = psutil.Process(command.pid).children(recursive=True)
    spawned = [one for one in below if "spawn_main" in " ".join(one.cmdline())]
    if role == "all":
        return [command.pid, *(one.pid for one in below)]
    workers = [one for one in spawned if not any(c in spawned for c in one.children())]
    if role == "nanny" and spawned:
        return [random.choice(spawned).pid]
    return [random.choice(workers).pid] if workers else []


def _run(words: list[object], role: str, after: int, scheduler: int | None = None) -> Ended:
    """Run a command and kill somebody when so many blocks are done; see how it ends."""
    command = subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    ended, killed = Ended(0, "", ""), 0.0
    assert command.stdout is not None
    assert command.stderr is not None
    reader = threading.Thread(target=lambda: ended.at_work.append(command.stdout.read()))
    reader.start()
    watchdog = threading.Timer(DEADLINE_S, os.killpg, (command.pid, signal.SIGKILL))
    watchdog.start()
    for line in command.stderr:
        ended.said += line
        with suppress(json.JSONDecodeError):
            event = json.loads(line)
            ended.done += event.get("event") == "BlockProgress" and event["done"]
        if role and not killed and ended.done >= after:
            killed = time.monotonic()
            how = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}.get(
                role, signal.SIGKILL
            )
            for pid in _victims(command, role, scheduler):
                with suppress(ProcessLookupError):
                    os.kill(pid, how)
    ended.code = command.wait(DEADLINE_S)
    ended.seconds = time.monotonic() - killed if killed else 0.0
    assert watchdog.is_alive(), f"nothing ended within {DEADLINE_S:.0f} s:\n{ended.said}"
    watchdog.cancel()
    reader.join()
    ended.printed = "".join(ended.at_work)
    assert all_ended(command.pid), alive(command.pid)
    return ended


def _reduce(path: Path, ledger: Path, *more: object) -> list[object]:
    ops = [word for op in OPS for word in ("--op", op)]
    return [BIN / "chunkfold", "reduce", path, *ops, "--ledger", ledger, "--json-lines", "--json",
            *more]  # fmt: skip


def _same(printed: str, true: dict[str, float]) -> dict[str, int]:
    found = json.loads(printed)
    assert {op: found["results"][op] for op in OPS} == true
    return found["ledger"]


def _moments() -> Iterator[tuple[str, int]]:
    rng = random.Random(SEED)
    for number in range(KILLS):
        yield ROLES[number % len(ROLES)], rng.randrange(0, 11)


def test_kills_of_every_role_change_no_bit_and_repeat_what_was_in_flight(
    data: tuple[Path, dict[str, float]], tmp_path: Path
):
    path, true = data
    told = Counter[str]()
    for number, (role, after) in enumerate(_moments()):
        ledger = tmp_path / f"{number}.ledger"
        if role == "scheduler":
            ended, again = _with_scheduler(path, ledger, after, tmp_path / str(number))
        else:
            device = ("--device", f"{DEVICES[0].spec}/2")
            ended = _run(_reduce(path, ledger, *device), role, after)
            again = _run(_reduce(path, ledger, *device), "", 0)
        told[f"{role}: {ended.code}"] += 1
        assert again.code == 0, again.said
        had = _same(again.printed, true)
        assert had["known"] + had["kept"] == again.done + had["known"]
        assert had["known"] >= ended.done - IN_FLIGHT, (role, after, ended.done, had)
        if ended.code == 0:
            _same(ended.printed, true)
            assert had["kept"] == 0
        else:
            told["blocks that were done"] += ended.done
            told["done again"] += max(0, ended.done - had["known"])
        if role in ("interrupt", "terminate") and ended.code:
            assert ended.code == 130
            all_done = '"error": null' in ended.said  # it was about to print its results
            assert RESUME.search(ended.said) or not had["known"] or all_done
            told["slowest stop, ms"] = max(told["slowest stop, ms"], round(1e3 * ended.seconds))
        if role == "scheduler" and ended.code:
            assert ended.code == 4, ended.said
            assert "Traceback" not in ended.said
            assert RESUME.search(ended.said) or not had["known"]
    print("\n" + "\n".join(f"{name}: {count}" for name, count in sorted(told.items())))


def _with_scheduler(path: Path, ledger: Path, after: int, folder: Path) -> tuple[Ended, Ended]:
    """Kill a scheduler that is a process of its own; then reduce with another."""
    folder.mkdir()
    found = []
    for role in ("scheduler", ""):
        words = [BIN / "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        log = folder / f"scheduler-{role}.log"
        with started(words, log) as scheduler:
            address = awaited(log, r"Scheduler at:\s+(tcp://\S+)", scheduler)
            with started(worker_command(address, f"{DEVICES[0].spec}/2"), folder / "worker.log"):
                words = _reduce(path, ledger, "--scheduler", address)
                found.append(_run(words, role, after, scheduler.pid))
    return found[0], found[1]


def test_pyramids_of_which_all_processes_were_killed_are_the_same_files(
    data: tuple[Path, dict[str, float]], tmp_path: Path
):
    path, rng, told = data[0], random.Random(SEED), Counter[str]()
    expected, read = tmp_path / "expected.zarr", list[int]()

    def hear(event: Event) -> None:
        if isinstance(event, RunStarted):
            read.append(event.blocks)

    pyramid(path, expected, 4, ledger=tmp_path / "own", on_event=hear)
    for number in range(max(2, KILLS // 3)):
        out, ledger = tmp_path / f"{number}.zarr", tmp_path / f"{number}.ledger"
        words = [BIN / "chunkfold", "pyramid", path, out, "--levels", "4", "--ledger", ledger,
                 "--device", f"{DEVICES[0].spec}/2"]  # fmt: skip
        for _ in range(rng.choice([1, 1, 3])):
            wanted = len(list(ledger.glob("*"))) + rng.randrange(1, 4)
            _killed_at(words, ledger, wanted, rng.random())
            assert not out.exists() or files(out) == files(expected)
        if out.exists():
            told["ended before their kill"] += 1
            continue
        pyramid(path, out, 4, ledger=ledger, on_event=hear)
        assert files(out) == files(expected)
        assert read[-1] < read[0]
        told["blocks"] += read[0]
        told["blocks read again"] += read[-1]
        assert not list(tmp_path.glob(f".{out.name}.*-*"))
    print("\n" + "\n".join(f"{name}: {count}" for name, count in sorted(told.items())))


def _killed_at(words: list[object], ledger: Path, wanted: int, pause: float) -> None:
    """Kill all processes of a command, some time after its ledger has so many files."""
    command = subprocess.Popen(
        [str(word) for word in words], stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + DEADLINE_S
    while command.poll() is None and len(list(ledger.glob("*"))) < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(pause)
    with suppress(ProcessLookupError):
        os.killpg(command.pid, signal.SIGKILL)
    command.wait(DEADLINE_S)
    assert all_ended(command.pid), alive(command.pid)


def test_ninety_percent_are_not_read_again(data: tuple[Path, dict[str, float]], tmp_path: Path):
    path, true = data
    ledger = tmp_path / "l"
    blocks = int(
        re.findall(r"has 0 of ([\d,]+) blocks", str(cf.plan(path, list(OPS), ledger=ledger)))[0]
    )
    ended = _run(_reduce(path, ledger, "--device", DEVICES[0].spec), "all", blocks * 9 // 10)
    assert ended.code == -signal.SIGKILL
    again = _run(_reduce(path, ledger, "--device", DEVICES[0].spec), "", 0)
    had = _same(again.printed, true)
    assert had["known"] >= blocks * 9 // 10 - IN_FLIGHT
