"""Jobs on a real Slurm of one node: by sbatch, and with workers that the job starts itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.processes import BIN
from tests.real.servers import slurm

pytestmark = pytest.mark.real

DEPLOY = Path(__file__).parents[2] / "deploy"
VALUES = np.random.default_rng(0).normal(280, 9, (20, 30, 40))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with slurm(tmp_path_factory.mktemp("slurm")) as made:
        yield made | {"PATH": f"{BIN}:{os.environ['PATH']}"}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The job of deploy/, with its data."""
    tmp_path.chmod(0o755)
    names = ("time", "y", "x")
    data = zarr.create_group(str(tmp_path / "data" / "2026.zarr"))
    data.create_array("air", data=VALUES, chunks=(5, 30, 40), dimension_names=names)
    (tmp_path / "results").mkdir()
    path = tmp_path / "nightly.toml"
    path.write_text((DEPLOY / "nightly.toml").read_text())
    return path


def called(environment: dict[str, str], job: Path, *words: object) -> subprocess.CompletedProcess:
    folder = {"DATA": str(job.parent / "data"), "RESULTS": str(job.parent / "results"), "DATE": "d"}
    return subprocess.run(
        [*map(str, words)], cwd=job.parent, env=environment | folder,
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def submit(environment: dict[str, str], job: Path, script: str, *words: str) -> str:
    """Hand a job in; return its number."""
    limits = ("--mem=4G", "--cpus-per-task=1")
    path = DEPLOY / "slurm" / script
    done = called(environment, job, "sbatch", "--parsable", *limits, path, job, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def exit_code(environment: dict[str, str], job: Path, number: str) -> int:
    """Wait for a job's end; `sbatch --wait` looks every ten seconds only."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        told = called(environment, job, "scontrol", "--oneliner", "show", "job", number).stdout
        if re.search(r"JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT)", told):
            return int(re.search(r"ExitCode=(\d+):", told)[1])
        time.sleep(0.3)
    raise AssertionError(f"{told}{said(job)}")


def said(job: Path) -> str:
    return "".join(path.read_text() for path in job.parent.glob("slurm-*.out"))


def results(job: Path) -> zarr.Group:
    return zarr.open_group(str(job.parent / "results" / "climatology-d.zarr"), mode="r")


def check_results(job: Path) -> None:
    made = results(job)["2026.zarr/air"]
    np.testing.assert_array_equal(made["max"][...], VALUES.max(axis=0))
    np.testing.assert_allclose(made["mean"][...], VALUES.mean(axis=0), rtol=1e-15)
    assert made["mean"].metadata.dimension_names == ("y", "x")


@pytest.mark.parametrize("script", ["one-node.sbatch", "nodes.sbatch"])
def test_sbatch_runs_a_job_and_hands_its_exit_code_on(environment, job: Path, script: str):
    def code(*words: str) -> int:
        return exit_code(environment, job, submit(environment, job, script, *words))

    assert code() == 0, said(job)
    check_results(job)
    assert code("--set", "reduce.axes='lat'") == 2
    assert "has no axis 'lat'" in " ".join(said(job).split())
    (job.parent / "data/2026.zarr/air/c/0/0/0").write_bytes(b"broken")
    assert code() == 4
    assert "ChunkError" in said(job)
    assert json.loads(manifest(job).read_text())["status"] == "failed"
    check_results(job)  # those of the first run are still there


def manifest(job: Path) -> Path:
    return job.parent / "results" / "climatology-d.zarr.manifest.json"


@pytest.mark.parametrize("script", ["one-node.sbatch", "nodes.sbatch"])
def test_slurm_s_warning_ends_a_job_cleanly(environment, job: Path, script: str):
    layout = {"shape": (900_000, 1000), "chunks": (1, 1000), "dtype": "f4"}
    zarr.create_array(str(job.parent / "data/2026.zarr/large"), **layout)
    words = ["--set", "sources='data/2026.zarr/large'", "--set", "reduce.axes=1", "--json-lines"]
    number = submit(environment, job, script, *words)
    deadline = time.monotonic() + 120
    while '"RunStarted"' not in said(job):
        assert time.monotonic() < deadline, said(job)
        time.sleep(0.2)
    called(environment, job, "scancel", "--signal=TERM", "--batch", number)
    assert exit_code(environment, job, number) == 130, said(job)
    assert json.loads(manifest(job).read_text())["status"] == "interrupted"
    assert list((job.parent / "results").iterdir()) == [manifest(job)]


def test_a_job_starts_its_workers_in_slurm(environment, job: Path):
    cluster = "{kind='slurm', workers=2, cores=1, memory='3 GiB', interface='lo'}"
    words = (BIN / "chunkfold", "run", job, "--set", f"cluster={cluster}", "--quiet")
    done = called(environment, job, *words)
    assert done.returncode == 0, done.stderr + said(job)
    check_results(job)
    # Cancelled workers may still be completing: none may be left to start or at work.
    left = called(environment, job, "squeue", "-h", "--states=PENDING,RUNNING")
    assert left.stdout.strip() == ""


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        ("directives=['--begin=now+1hour']", 4, "only 0 of 1 worker came within 3 s"),
        (
            "partition='nowhere'",
            2,
            "refuses what cluster requests: allocation failure: Invalid p",
        ),
        ("memory='1 TiB'", 2, "refuses what cluster requests: allocation failure: "),
    ],
)
def test_workers_that_do_not_come_are_not_waited_for_forever(
    environment, job: Path, more: str, code: int, sentence: str
):
    asked = "kind='slurm', workers=1, cores=1, interface='lo', wait='3 s'"
    memory = "" if "memory" in more else "memory='3 GiB', "
    words = (BIN / "chunkfold", "run", job, "--set", f"cluster={{{asked}, {memory}{more}}}")
    done = called(environment, job, *words)
    assert done.returncode == code, done.stderr
    assert sentence in " ".join(done.stderr.split())
