"""The command line with a ledger: what it keeps, shows, verifies and prunes, and how it resumes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.job.running import run_job
from tests.ledgers import stored


@pytest.fixture
def source(tmp_path: Path) -> Path:
    values = np.random.default_rng(0).normal(size=(40, 50, 60)).astype("f4")
    stored(tmp_path / "a.zarr", values, (4, 50, 60))
    return tmp_path / "a.zarr"


def test_a_reduction_says_what_the_ledger_had(source: Path, tmp_path: Path, command: Callable):
    words = ("reduce", source, "--op", "mean", "--op", "max", "--ledger", tmp_path / "l")
    first = command(*words)
    assert f"ledger {tmp_path / 'l'}: had 0 blocks, keeps 1 more" in first.stderr
    again = command("reduce", source, "--op", "max", "--ledger", tmp_path / "l", "--json")
    told = json.loads(again.stdout)["ledger"]
    assert datetime.now(UTC) - datetime.fromisoformat(told.pop("oldest")) < timedelta(hours=1)
    assert told == {"blocks": 1, "known": 1, "kept": 0, "damaged": 0}
    assert "had 1 block, keeps 0 more" in again.stderr


def test_statistics_are_kept_by_the_way(source: Path, tmp_path: Path, command: Callable):
    words = ("--op", "sum", "--axis", "0", "--ledger", tmp_path / "l", "--ledger-statistics")
    assert "1 block; statistics of 63.8 KiB a block" in command("plan", source, *words).stdout
    first = json.loads(command("reduce", source, *words, "--json").stdout)
    assert list(first["results"]) == ["sum"]
    described = ("describe", source, "--ledger", tmp_path / "l")
    assert "1 of 1 block, since 2" in " ".join(command(*described).stdout.split())
    (told,) = json.loads(command(*described, "--json").stdout)
    assert (told["ledger"]["blocks"], told["ledger"]["known"]) == (1, 1)


def test_it_is_shown_verified_and_pruned(source: Path, tmp_path: Path, command: Callable):
    command("reduce", source, "--op", "mean", "--ledger", tmp_path / "l")
    shown = command("ledger", "show", tmp_path / "l")
    assert str(source) in shown.stdout.replace("\n", "")
    assert "mean" in shown.stdout
    assert "1 partial in 1 file" in shown.stdout
    told = json.loads(command("ledger", "show", tmp_path / "l", "--json").stdout)
    assert told["sources"][0]["ops"] == ["mean"]
    assert told["sources"][0]["decoded_bytes"] == 40 * 50 * 60 * 4
    assert "0 damaged" in command("ledger", "verify", tmp_path / "l").stdout
    (file,) = (tmp_path / "l").iterdir()
    content = bytearray(file.read_bytes())
    content[-1] ^= 255
    file.write_bytes(content)
    damaged = command("ledger", "verify", tmp_path / "l", code=1)
    assert "1 partial, 1 damaged" in damaged.stdout
    assert "the checksum of an entry differs" in damaged.stderr
    (tmp_path / "l" / ".new-1").touch()
    os.utime(tmp_path / "l" / ".new-1", (1, 1))
    told = command("ledger", "show", tmp_path / "l").stdout
    assert "1 file of killed writers, which prune removes" in told
    assert json.loads(command("ledger", "show", tmp_path / "l", "--json").stdout)["abandoned"] == 1
    assert "removed 2 files" in command("ledger", "prune", tmp_path / "l").stdout
    assert list((tmp_path / "l").iterdir()) == []


def test_a_plan_makes_no_ledger(source: Path, tmp_path: Path, command: Callable):
    planned = command("plan", source, "--op", "mean", "--ledger", tmp_path / "l")
    assert "has 0 of 1 block" in planned.stdout
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ledger", "show", "{tmp}/none"), "the folder does not exist"),
        (("ledger", "prune", "{tmp}", "--older-than", "soon"), "give an age with its unit"),
        (("ledger", "prune", "{tmp}", "--older-than", "-1d"), "give an age with its unit"),
        (("reduce", "{tmp}/a.zarr", "--ledger", "http://host/l"), "cannot be written"),
        (
            ("reduce", "{tmp}/a.zarr", "--ledger", "{tmp}/o.zarr/l", "--out", "{tmp}/o.zarr"),
            "are the same, or one is inside the other: give each its own name",
        ),
        (
            ("project", "{tmp}/a.zarr", "{tmp}/l", "--axis", "0", "--ledger", "{tmp}/l"),
            "are the same, or one is inside the other: give each its own name",
        ),
        (("reduce", "{tmp}/a.zarr", "--ledger", "{tmp}/l", "--mode", "fast"), "ledger keeps exact"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    source: Path, tmp_path: Path, words, says: str, command: Callable
):
    ended = command(*(word.format(tmp=tmp_path) for word in words), code=2)
    assert says in ended.stderr.replace("\n", " ")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("words", [("describe",), ("normalize", "--channels", "0")])
def test_descriptions_and_normalizations_read_once(
    source: Path, tmp_path: Path, words, command: Callable
):
    each = [command(*words, source, "--ledger", tmp_path / "l") for _ in range(2)]
    assert each[0].stdout == re.sub("1 (of 1 block), since .*", r"0 \1", each[1].stdout)
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "l").iterdir()}
    assert len(files) == 1


def test_a_job_resumes_and_removes_what_is_old(source: Path, tmp_path: Path, command: Callable):
    (tmp_path / "job.toml").write_text(
        """schema = 1
sources = ["a.zarr"]
[reduce]
statistics = ["mean"]
[output]
path = "out.json"
overwrite = true
[limits]
ledger = "l"
ledger_keep = "90 d"
[cluster]
kind = "local"
"""
    )
    job = load_job(tmp_path / "job.toml")
    runs = []
    for _ in range(2):
        (run,) = run_job(job).record.runs.values()
        runs.append((run.ledger.known, run.ledger.kept))
    assert runs == [(0, 1), (1, 0)]
    assert len(list((tmp_path / "l").iterdir())) == 1
    manifest = json.loads((tmp_path / "out.json.manifest.json").read_text())
    assert '"known": 1' in json.dumps(manifest)
    old = load_job(tmp_path / "job.toml", ["limits.ledger_keep=1ms"])
    run_job(old)
    assert list((tmp_path / "l").iterdir()) == []
    told = command("run", tmp_path / "job.toml").stderr.replace("\n", "")
    assert f"a.zarr: ledger {tmp_path / 'l'}: had 0 blocks, keeps 1 more" in told


def test_a_projection_is_written_anew_of_what_was_kept(
    source: Path, tmp_path: Path, command: Callable
):
    words = ("project", source, "--axis", "0", "--op", "mean", "--op", "max")
    command(*words, tmp_path / "alone.zarr")
    for number in range(2):
        out = tmp_path / f"{number}.zarr"
        command(*words, out, "--ledger", tmp_path / "l")
        for op in ("mean", "max"):
            made, alone = (zarr.open_array(one / op)[:] for one in (out, tmp_path / "alone.zarr"))
            assert made.tobytes() == alone.tobytes()
        assert len(list((tmp_path / "l").iterdir())) == 1
