"""Rates of decoding are measured once, in a child process, and kept while all is as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chunkfold.kernels import Device
from chunkfold.kernels.cache.entries import write_entry
from chunkfold.kernels.decode.decode_rates import DecodeRates
from chunkfold.kernels.tuning import decode_request, trial
from chunkfold.kernels.tuning.decode_request import DecodeRequest, decode_rates, known_rates
from chunkfold.kernels.tuning.trial_process import ChildEndedError, TrialProcesses
from tests.processes import first_trial_dies

_SCRIPT = """
import json, sys
from dataclasses import asdict, replace
from chunkfold.kernels import devices
from chunkfold.kernels.tuning.decode_request import decode_rates
from chunkfold.kernels.tuning.trial_process import TrialProcess

asked, ask = [], TrialProcess.ask
TrialProcess.ask = lambda self, *given: asked.append(1) or ask(self, *given)
(device,) = devices(sys.argv[1])
(found,) = decode_rates(replace(device, unified_memory=False), ["lz4"])
print(json.dumps([len(asked), asdict(found)]))
"""


@pytest.fixture
def apart(device: Device, tmp_path: Path, monkeypatch) -> Device:
    """Return a device that looks as if its memory were its own, of which nothing is known."""
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path))
    monkeypatch.delenv("CHUNKFOLD_TIES")
    return replace(device, unified_memory=False)


def answers(monkeypatch, *given: object) -> list[object]:
    """Let a child answer these, one by one; return those that were not asked for yet."""
    left = list(given)

    def ask(*_: object) -> bytes:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()

    monkeypatch.setattr(TrialProcesses, "ask", ask)
    return left


def rates(device: float) -> dict[str, object]:
    return {"codec": "lz4", "device": device, "core": 1e9, "cores": 1, "failure": ""}


def test_a_second_process_does_not_measure(apart: Device):
    found = []
    for _ in range(2):
        command = [sys.executable, "-c", _SCRIPT, apart.spec]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        found.append(json.loads(done.stdout))
    (first, measured), (second, known) = found
    assert (first, second) == (1, 0)
    assert known == measured
    assert measured["device"] > 0
    assert measured["core"] > 0
    assert not measured["failure"]


def test_what_is_damaged_is_measured_anew(apart: Device, monkeypatch):
    left = answers(monkeypatch, *(rates(number) for number in (1e9, 2e9, 3e9)))
    path = DecodeRequest(apart, "lz4").path
    assert decode_rates(apart, ["lz4"])[0].device == 1e9
    path.write_bytes(path.read_bytes()[:-3])
    assert decode_rates(apart, ["lz4"])[0].device == 2e9
    write_entry(path, b'{"rates": 7}')
    assert known_rates(apart, "lz4") is None
    assert decode_rates(apart, ["lz4"])[0].device == 3e9
    assert decode_rates(apart, ["lz4"])[0].device == 3e9
    assert not left


@pytest.mark.parametrize(
    "other", [{"driver": "next"}, {"name": "other"}, {"compute_units": 77}, {"platform": "other"}]
)
def test_other_devices_and_drivers_are_measured_themselves(
    apart: Device, other: dict[str, object], monkeypatch
):
    answers(monkeypatch, rates(1e9))
    assert decode_rates(apart, ["lz4"])
    assert known_rates(replace(apart, **other), "lz4") is None
    assert known_rates(apart, "zstd") is None
    assert known_rates(apart, "lz4") == DecodeRates("lz4", 1e9, 1e9)


@pytest.mark.parametrize(
    ("name", "value"), [("_processor", lambda: "other"), ("_sources", lambda: "other")]
)
def test_other_hosts_and_kernels_are_measured_themselves(apart, name, value, monkeypatch):
    answers(monkeypatch, rates(1e9))
    assert decode_rates(apart, ["lz4"])
    monkeypatch.setattr(decode_request, name, value)
    assert known_rates(apart, "lz4") is None


def test_a_host_with_fewer_cores_is_measured_itself(apart: Device, monkeypatch):
    answers(monkeypatch, rates(1e9))
    assert decode_rates(apart, ["lz4"])
    monkeypatch.setattr(os, "cpu_count", lambda: 77)
    assert known_rates(apart, "lz4") is None


def test_a_crash_is_remembered(apart: Device, monkeypatch):
    deaths = first_trial_dies(monkeypatch)
    for _ in range(2):
        (found,) = decode_rates(apart, ["lz4"])
        assert "crashed (signal 11)" in found.failure
        assert found.gain == 0
    assert len(deaths) == 1


def test_what_may_go_well_another_time_is_not_kept(apart: Device, monkeypatch):
    left = answers(monkeypatch, ChildEndedError(None, ""), None, rates(1e9))
    assert decode_rates(apart, ["lz4"]) == ()  # it hung
    assert decode_rates(apart, ["lz4"]) == ()  # the device had no room
    assert decode_rates(apart, ["lz4"]) == (DecodeRates("lz4", 1e9, 1e9),)
    assert not left


def test_nothing_is_measured_where_the_host_decodes_anyway(apart: Device, monkeypatch):
    monkeypatch.setattr(trial.processes, "ask", lambda *_: pytest.fail("measured"))
    assert decode_rates(replace(apart, unified_memory=True), ["lz4"]) == ()
    assert decode_rates(replace(apart, without=frozenset({"device_decode"})), ["lz4"]) == ()
    monkeypatch.setenv("CHUNKFOLD_TIES", "table")
    assert decode_rates(apart, ["lz4"]) == ()
