"""Jobs from file to output and manifest; one run at a time; nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import MissingWarning
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.job.lock import lock_path, locked
from chunkfold.workflows.job.running import plan_job, run_job
from chunkfold.workflows.job.sources import job_sources
from chunkfold.workflows.transforms.normalize import apply, normalization
from chunkfold.workflows.transforms.project import project
from tests.conftest import DEVICES
from tests.plans import counted
from tests.processes import alive, all_ended
from tests.workflows.files.test_tables import rows
from tests.workflows.test_cli import CHUNKFOLD, chunkfold

pytestmark = pytest.mark.unoptimised

VALUES = {name: np.random.default_rng(n).normal(280, 9, (6, 5, 4)) for n, name in enumerate("ab")}


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with cf.LocalOpenCLCluster(DEVICES[0].spec) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for year in (2025, 2026):
        group = zarr.open_group(str(tmp_path / f"{year}.zarr"), mode="w")
        for name, values in VALUES.items():
            names = ("time", "y", "x")
            group.create_array(name, data=values, chunks=(2, 5, 4), dimension_names=names)
    (tmp_path / "notes.txt").write_text("no Zarr")
    return tmp_path


def test_commands_plan_each_array_once_and_list_it_once(
    folder: Path, scheduler: str, here, monkeypatch
):
    calls = counted(monkeypatch)
    given = ("--op", "max", "--axis", "0", "--scheduler", scheduler, "--out", folder / "o.zarr")
    code, _, said = here("reduce", folder / "2026.zarr/a", *given)
    assert (code, calls) == (0, {"plans": 1, "listings": 1}), said
    job(folder, scheduler, "j.json", statistics="max")  # of two arrays
    code, _, said = here("run", folder / "job.toml")
    assert (code, calls) == (0, {"plans": 3, "listings": 3}), said
    given = ("--op", "max", "--axis", "0", "--scheduler", scheduler)
    code, _, said = here("project", folder / "2026.zarr/a", folder / "p.zarr", *given)
    assert (code, calls) == (0, {"plans": 4, "listings": 4}), said


def job(folder: Path, scheduler: str, output: str, *overrides: str, statistics="mean, max"):
    path = folder / "job.toml"
    names = ", ".join(f'"{name}"' for name in statistics.split(", "))
    path.write_text(
        f'schema = 1\nsources = "2026.zarr"\n[reduce]\nstatistics = [{names}]\n'
        f'[output]\npath = "{output}"\n[cluster]\nkind = "address"\naddress = "{scheduler}"\n'
    )
    return load_job(path, overrides)


def manifest(folder: Path, output: str) -> dict:
    return json.loads((folder / f"{output}.manifest.json").read_text())


@pytest.mark.parametrize("output", ["o.json", "o.csv", "o.parquet", "o.zarr"])
def test_a_group_is_reduced_into_every_format(folder: Path, scheduler: str, output: str):
    run_job(job(folder, scheduler, output, "reduce.axes='time'"))
    made, want = folder / output, VALUES["b"].max(axis=0)
    if output == "o.json":
        assert json.loads(made.read_text())["b"]["max"] == want.tolist()
    elif output == "o.csv":
        at = ("y_position", "x_position")
        got = {(r["source"], *(int(r[n]) for n in at)): float(r["max"]) for r in rows(made)}
        assert [got["b", y, x] for y in range(5) for x in range(4)] == want.ravel().tolist()
    elif output == "o.zarr":
        np.testing.assert_array_equal(zarr.open(str(made))["b/max"][...], want)
        assert zarr.open(str(made))["a/mean"].metadata.dimension_names == ("y", "x")
    assert sorted(path.name for path in folder.iterdir()) == [
        "2025.zarr", "2026.zarr", "job.toml", "notes.txt", output, f"{output}.manifest.json",
    ]  # fmt: skip


def test_values_are_unpacked_if_asked_for(folder: Path, scheduler: str):
    zarr.open(str(folder / "2026.zarr/b"), mode="a").attrs["scale_factor"] = 0.5
    run_job(job(folder, scheduler, "o.json", "reduce.mask_and_scale=true"))
    assert json.loads((folder / "o.json").read_text())["b"]["max"] == VALUES["b"].max() * 0.5


def test_the_manifest_tells_what_was_done(folder: Path, scheduler: str):
    run_job(job(folder, scheduler, "o.json", "limits.time='1 h'", "name=night"))
    told = manifest(folder, "o.json")
    assert (told["name"], told["status"], told["error"]) == ("night", "done", None)
    assert told["versions"]["chunkfold"]
    assert told["settings"]["limits"]["time"] == 3600
    entry = told["runs"]["a"]
    mean = cf.reduce(array_of(folder), "mean")
    assert entry["results"] == {"mean": mean, "max": VALUES["a"].max()}
    assert (entry["elements"], entry["retries"]) == (120, {"blocks": 0, "workers": []})
    (device,) = entry["devices"]
    assert (device["uuid"], device["bytes"]) == (DEVICES[0].uuid, 960)
    assert {one["pass"] for one in device["passes"]} >= {0}
    hashes = {key: run["sources"][0]["metadata_sha256"] for key, run in told["runs"].items()}
    assert hashes["a"] == hashes["b"]  # of equal shape, chunks and dtype
    (folder / "o.json").unlink()
    zarr.open(str(folder / "2026.zarr/b"), mode="a").attrs["units"] = "K"
    run_job(job(folder, scheduler, "o.json"))
    assert manifest(folder, "o.json")["runs"]["b"]["sources"][0]["metadata_sha256"] != hashes["b"]


def array_of(folder: Path) -> zarr.Array:
    return zarr.open(str(folder / "2026.zarr/a"))


def test_an_interrupt_stays_one_where_slurm_is_asked():
    """dask-jobqueue takes SIGINT for itself when it is imported, and exits with 0."""
    code = (
        "import signal; from chunkfold.workflows.job import clusters; clusters._jobqueue(); "
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_large_results_and_secrets_do_not_stand_in_the_manifest(folder: Path, scheduler: str):
    zarr.create_array(str(folder / "2026.zarr/w"), data=np.ones((3, 2000)), chunks=(1, 2000))
    asked = job(folder, scheduler, "o.zarr", "reduce.axes=0", "sources='2026.zarr/w'")
    asked = asked.model_copy(update={"exclude": ["s3://me:hush@host/x?token=hush"]})
    run_job(asked)
    text = (folder / "o.zarr.manifest.json").read_text()
    assert "hush" not in text
    found = json.loads(text)["runs"]["w"]["results"]["mean"]
    assert (found["dtype"], found["shape"], len(found["sha256"])) == ("float64", [2000], 64)


def test_sources_are_called_by_what_tells_them_apart(folder: Path):
    def names(*patterns: str, exclude=()) -> list[str]:
        return list(job_sources([f"{folder}/{pattern}" for pattern in patterns], exclude))

    assert names("2026.zarr/a") == ["a"]
    assert names("2026.zarr") == ["a", "b"]
    assert names("*.zarr") == ["2025.zarr/a", "2025.zarr/b", "2026.zarr/a", "2026.zarr/b"]
    assert names("202[6]*/b", "2025.zarr/a") == ["2026.zarr/b", "a"]
    assert names("**/b") == ["2025.zarr/b", "2026.zarr/b"]
    assert names("*", exclude=["*/b", "2025*"]) == ["2026.zarr/a"]
    assert names("2026.zarr", exclude=["*/b"]) == ["a"]
    assert names("2026.zarr", "2026.zarr/a") == ["a", "b"]  # the same array twice is one
    for patterns, sentence in (
        (["nothing*"], "nothing.* matches no Zarr array or group"),
        (["no/such/*"], "matches nothing: .*no/such is not a folder"),
        (["gone.zarr"], "gone.zarr: no such path"),
        (["2025.zarr", "2026.zarr"], "2026.zarr/a would both be written as 'a': name the folder"),
    ):
        with pytest.raises(cf.ChunkfoldError, match=sentence):
            names(*patterns)
    with pytest.raises(cf.JobError, match="excludes all arrays"):
        names("2026.zarr", exclude=["*"])
    with pytest.raises(cf.JobError, match="patterns are for local paths and stores that can be"):
        job_sources(["https://host/*.zarr"])


def test_arrays_in_archives_are_sources_too(folder: Path, scheduler: str):
    for year in ("2025", "2026"):
        shutil.make_archive(f"{folder}/{year}", "zip", folder / f"{year}.zarr")
    for source, names in (
        ("2026.zip/a", ["a"]),
        ("2026.zip", ["a", "b"]),
        ("zip://::2026.zip", ["a", "b"]),
        ("zip://b::2026.zip", ["b"]),
        ("*.zip/b", ["2025.zip/b", "2026.zip/b"]),
        ("*.zip/?", ["2025.zip/a", "2025.zip/b", "2026.zip/a", "2026.zip/b"]),
        ("2025.zip/*", ["a", "b"]),
    ):
        found = job_sources(job(folder, scheduler, "o.json", f"sources={source!r}").sources)
        assert list(found) == names
        for name, opened in found.items():
            assert opened.array.path == name.rpartition("/")[2]
    with pytest.raises(cf.JobError, match="matches no Zarr array or group"):
        job_sources([f"{folder}/*.zip/nothing"])


def test_a_check_plans_and_leaves_nothing(folder: Path, scheduler: str):
    before = set(folder.iterdir())
    plans = plan_job(job(folder, "tcp://127.0.0.1:9", "o.json"))
    assert list(plans) == ["a", "b"]
    assert "mean, max over" in str(plans["a"])
    assert set(folder.iterdir()) - before == {folder / "job.toml"}


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["reduce.axes='lat'"], r"has no axis 'lat'; its axes are .*exclude = \['a'\]"),
        (["reduce.axes='lat'"], r"(?s)exclude = \['a'\]\n.*b has no axis.*exclude = \['b'\]"),
        (["reduce.axes=3"], "axis 3 is out of range"),
        (["output.path=no/such/o.json"], "no/such does not exist"),
        (["output.path=2025.zarr"], "2025.zarr exists; remove it, choose another, or overwrite"),
        (["output.path=o.txt"], "ends in '.txt'"),
        (["output.path=o.csv", "reduce.statistics='histogram'"], "histogram has its own axes"),
        (["output.path=o.zarr", "reduce.statistics='sum'", "reduce.dtype='object'"], "no data ty"),
        (["output.manifest=no/such/m.json"], "no/such does not exist"),
        (["cluster={kind='slurm', workers=1, cores=1, memory='1 GiB'}"], "slurm"),
        (["limits.memory='1 kB'"], "a worker needs"),
        (["output.manifest='2026.zarr'"], "write it elsewhere"),
        (["output.manifest='notes.txt'"], r"ends in '.txt'; use .json for JSON"),
        (["output.report='job.toml'"], r"ends in '.toml'; use .html for a page"),
        (["output.manifest='o.json'"], "are the same, or one is inside the other"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_is_found_before_the_work(
    folder: Path, scheduler: str, monkeypatch, overrides: list[str], sentence: str
):
    monkeypatch.setenv("PATH", "")
    before = set(folder.iterdir())
    with pytest.raises(cf.ChunkfoldError, match=sentence):
        run_job(job(folder, scheduler, "o.json", *overrides))
    left = {path.name for path in set(folder.iterdir()) - before}
    assert left <= {"job.toml", "o.json.manifest.json"}  # a run that failed is told, too


@pytest.mark.parametrize("out", ["2026.zarr", "2026.zarr/a", "2026.zarr/a/inner.zarr", "link.zarr"])
def test_a_source_is_never_overwritten(folder: Path, scheduler: str, out: str, command: Callable):
    (folder / "link.zarr").symlink_to(folder / "2026.zarr")
    sentence = (
        r"output .* and source .* are the same, or one is inside the other; write it elsewhere"
    )
    inner = r"output .* lies in the Zarr array .*: write it elsewhere"
    with pytest.raises(cf.PlanError, match=inner if out.endswith("inner.zarr") else sentence):
        run_job(job(folder, scheduler, out, "output.overwrite=true"))
    source, target = folder / "2026.zarr/a", folder / out
    with pytest.raises(cf.PlanError, match=sentence):
        project(source, target, "max", axis=0, overwrite=True)
    with pytest.raises(cf.PlanError, match=sentence):
        apply(source, normalization(source), target, overwrite=True)
    words = ("reduce", source, "--out", target, "--overwrite")
    assert "write it elsewhere" in " ".join(command(*words, code=2).stderr.split())
    np.testing.assert_array_equal(zarr.open(str(source))[...], VALUES["a"])


def test_results_of_two_sources_do_not_stand_in_each_other(folder: Path, scheduler: str):
    for key in ("mean", "b"):
        group = zarr.open_group(str(folder / "in" / key), mode="a")
        group.create_array("mean" if key == "b" else "x", data=np.ones(3))
    zarr.open_group(str(folder / "in"), mode="a")
    zarr.create_array(str(folder / "c/b"), data=np.ones(3))
    asked = job(folder, scheduler, "o.zarr", "sources=['in', 'c/b']")
    with pytest.raises(
        cf.JobError, match="the mean of 'b' and results of 'b/mean' would have the same path"
    ):
        run_job(asked)


def test_only_a_zarr_is_overwritten(folder: Path, scheduler: str):
    (folder / "thesis.zarr").mkdir()
    (folder / "thesis.zarr" / "thesis.txt").write_text("years of work")
    with pytest.raises(cf.PlanError, match="is a folder, but not a Zarr"):
        run_job(job(folder, scheduler, "thesis.zarr", "output.overwrite=true"))
    assert (folder / "thesis.zarr" / "thesis.txt").exists()


def test_a_pattern_does_not_match_the_job_s_own_output(folder: Path, scheduler: str):
    asked = ("sources='*.zarr'", "output.overwrite=true", "reduce.axes=0")
    for _ in range(2):
        made = run_job(job(folder, scheduler, "o.zarr", *asked))
    assert list(made.reduced) == ["2025.zarr/a", "2025.zarr/b", "2026.zarr/a", "2026.zarr/b"]
    for _ in range(2):
        made = run_job(job(folder, scheduler, "2026.zarr/o.zarr", "output.overwrite=true"))
    assert list(made.reduced) == ["a", "b"]


def test_one_run_at_a_time(folder: Path, scheduler: str):
    asked = job(folder, scheduler, "o.json")
    with locked(asked.output.path):
        with pytest.raises(cf.BusyError, match=f"process {os.getpid()} on .*, started 20"):
            run_job(asked)
        done = chunkfold("run", folder / "job.toml", code=5)
        assert "BusyError: another run of this job is under way" in " ".join(done.stderr.split())
    assert not lock_path(asked.output.path).exists()
    run_job(asked)


def test_a_lock_of_the_dead_holds_nobody(folder: Path, scheduler: str):
    asked = job(folder, scheduler, "o.json")
    code = (
        "import sys, time\nfrom chunkfold.workflows.job.lock import locked\n"
        f"with locked({asked.output.path!r}):\n    print('held', flush=True)\n    time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(cf.BusyError):
        run_job(asked)
    process.kill()
    process.wait(30)
    process.stdout.close()
    assert lock_path(asked.output.path).exists()
    run_job(asked)
    assert not lock_path(asked.output.path).exists()


def test_locks_of_remote_outputs_are_this_host_s(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with locked("s3://bucket/o.json"), pytest.raises(cf.BusyError):
        locked("s3://bucket/o.json").__enter__()


def large(folder: Path) -> None:
    """An array that takes minutes: its chunks are all there to be looked for."""
    layout = {"shape": (900_000, 1000), "chunks": (1, 1000), "dtype": "f4"}
    zarr.create_array(str(folder / "2026.zarr/large"), **layout)


def test_a_job_that_takes_too_long_is_ended(folder: Path, scheduler: str):
    large(folder)
    limits = ("sources='2026.zarr/large'", "limits.time='20 ms'", "reduce.axes=1")
    with pytest.raises(cf.TimeLimitError, match=r"took longer than limits.time, 0.02 s"):
        run_job(job(folder, scheduler, "o.json", *limits))
    told = manifest(folder, "o.json")
    assert (told["status"], told["error"].partition(":")[0]) == ("failed", "TimeLimitError")
    assert not (folder / "o.json").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_a_job_cleanly(folder: Path, number: int):
    large(folder)
    job(folder, "tcp://127.0.0.1:9", "o.json")
    words = [CHUNKFOLD, "run", str(folder / "job.toml"), "--json-lines"]
    for override in ("cluster={kind='local'}", "sources='2026.zarr/large'", "reduce.axes=1"):
        words += ["--set", override]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for line in process.stderr:
        if '"BlockProgress"' in line or '"RunStarted"' in line:
            break
    os.kill(process.pid, number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert manifest(folder, "o.json")["status"] == "interrupted"
    left = {path.name for path in folder.iterdir()}
    assert left == {"2025.zarr", "2026.zarr", "job.toml", "notes.txt", "o.json.manifest.json"}
    assert all_ended(process.pid), alive(process.pid)


def test_chunks_that_are_left_out_are_told(folder: Path, scheduler: str, command: Callable):
    (folder / "2026.zarr/b/c/0/0/0").write_bytes(b"broken")
    job(folder, scheduler, "o.json")
    words = ("run", folder / "job.toml")
    done = command(*words, code=4)
    assert "ChunkError" in done.stderr
    assert manifest(folder, "o.json")["status"] == "failed"
    assert not (folder / "o.json").exists()
    done = command(*words, "--set", "limits.on_bad_chunk=skip", "--json", code=3)
    assert "skipped: 40 of 240 elements" in done.stderr
    assert json.loads(done.stdout)["status"] == manifest(folder, "o.json")["status"] == "skipped"
    assert json.loads((folder / "o.json").read_text())["b"]["max"] == VALUES["b"][2:].max()


def test_the_command_prints_results_plans_and_events(
    folder: Path, scheduler: str, command: Callable
):
    job(folder, scheduler, "o.json")
    words = ("run", folder / "job.toml")
    assert "mean, max over" in command(*words, "--check").stdout
    done = command(*words, "--json-lines")
    assert f"max {VALUES['b'].max()}" in done.stdout
    events = [json.loads(line) for line in done.stderr.splitlines()]
    kinds = [event["event"] for event in events]
    assert (kinds[0], kinds[-1], kinds.count("RunFinished")) == ("RunStarted", "RunFinished", 2)
    assert events[0]["devices"] == {DEVICES[0].identity: DEVICES[0].spec}
    assert "exists; remove it" in " ".join(command(*words, code=2).stderr.split())
    done = command(*words, "--overwrite", "--quiet")
    assert (done.stdout, done.stderr) == ("", "")
    assert json.loads(command("run", "--schema").stdout)["title"] == "Job"


def test_reduce_writes_a_manifest_too(folder: Path, scheduler: str, command: Callable):
    words = ("reduce", folder / "2026.zarr/a", "--scheduler", scheduler, "--manifest", "m.json")
    command(*words, cwd=folder)
    told = json.loads((folder / "m.json").read_text())
    (entry,) = told["runs"].values()
    assert entry["results"] == {"sum": cf.reduce(array_of(folder))}
    assert told["settings"]["scheduler"] == scheduler


def test_links_in_a_circle_lead_nowhere_twice(folder: Path, scheduler: str):
    (folder / "again").symlink_to(folder)
    (folder / "self").symlink_to("self")
    found = job(folder, scheduler, "o.json", "sources='**/*.zarr/a'").sources
    assert sorted(job_sources(found)) == ["2025.zarr/a", "2026.zarr/a"]


def test_a_name_that_no_output_can_hold_is_refused(folder: Path, scheduler: str):
    (folder / "2025.zarr").rename(os.fsdecode(bytes(folder) + b"/caf\xe9.zarr"))
    with pytest.raises(cf.JobError, match=r"caf\\udce9\.zarr.* is not UTF-8"):
        job_sources(job(folder, scheduler, "o.json", "sources='caf*.zarr'").sources)


@pytest.mark.parametrize("pattern", ["*.zarr", "*.zarr/a", "**/*.zarr"])
def test_a_name_that_no_output_can_hold_is_a_row_with_its_reason(
    folder: Path, scheduler: str, here, pattern: str
):
    (folder / "2025.zarr").rename(os.fsdecode(bytes(folder) + b"/caf\xe9.zarr"))
    job(folder, scheduler, "o.csv")
    changed = ("--set", f"sources='{pattern}'", "--set", "output.report=r.html")
    code, _, said = here("run", folder / "job.toml", *changed)
    assert code == 3, said
    assert "is not UTF-8: no output can hold that name" in said
    told = json.loads((folder / "o.csv.manifest.json").read_text())
    assert told["status"] == "skipped"
    assert {one["name"] for one in told["left_out"]} >= {"caf\\xe9.zarr/a"}
    assert all("is not UTF-8" in one["reason"] for one in told["left_out"])
    assert "2026.zarr/a" in told["runs"]
    assert {row["source"] for row in rows(folder / "o.csv")} == set(told["runs"])
    assert 'data-of="array">caf\\xe9.zarr/a</td>' in (folder / "r.html").read_text()


def test_coordinates_of_a_group_are_reduced_if_they_are_named(tmp_path: Path):
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("x", data=np.arange(4.0), dimension_names=("x",))
    with pytest.raises(cf.JobError, match="coordinates of axes are omitted, unless"):
        job_sources([str(tmp_path / "g.zarr")])
    group.create_array("t", data=np.ones((2, 4)), dimension_names=("y", "x"))
    group.create_array("depth", data=np.ones(4), dimension_names=("x",))
    assert sorted(job_sources([str(tmp_path / "g.zarr")])) == ["depth", "t"]
    assert list(job_sources([str(tmp_path / "g.zarr/x")])) == ["x"]
    assert sorted(job_sources([str(tmp_path / "*.zarr")])) == ["g.zarr/depth", "g.zarr/t"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_that_only_consolidated_metadata_name_is_told(tmp_path: Path, zarr_format: int):
    """The other arrays are reduced, never fill values in the place of its own."""
    group = zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=zarr_format)
    for name in ("gone", "kept"):
        group.create_array(name, data=np.arange(8.0), chunks=(4,))
    zarr.consolidate_metadata(tmp_path / "g.zarr", zarr_format=zarr_format)
    shutil.rmtree(tmp_path / "g.zarr" / "gone")
    with pytest.warns(MissingWarning, match="g.zarr/gone: is gone, but the consolidated"):
        assert list(job_sources([str(tmp_path / "g.zarr")])) == ["kept"]
    consolidated = zarr.open_group(tmp_path / "g.zarr", mode="r", use_consolidated=True)
    for named in (tmp_path / "g.zarr" / "gone", consolidated["gone"]):
        with pytest.raises(cf.SourceError, match=r"no such path|cannot be opened again"):
            cf.reduce(named)
    shutil.rmtree(tmp_path / "g.zarr" / "kept")
    with (
        pytest.warns(MissingWarning),
        pytest.raises(cf.JobError, match=r"no array of .*g\.zarr exists any more"),
    ):
        job_sources([str(tmp_path / "g.zarr")])
