"""The command line, as people and batch jobs call it: output, errors, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold import near_cores
from chunkfold.kernels import all_devices
from chunkfold.kernels.cache.entries import write_entry
from chunkfold.kernels.tuning.decode_request import DecodeRequest
from chunkfold.settings import NEAR_CORES
from chunkfold.workflows.cli import COMMANDS, main
from chunkfold.workflows.cli.devices_command import (
    _as_json,
    _details,
    known_decoding,
    node_words,
)
from chunkfold.workflows.files.results_json import device_json
from tests.conftest import DEVICES
from tests.processes import alive, all_ended
from tests.web import served
from tests.wheels import installed

pytestmark = pytest.mark.unoptimised

CHUNKFOLD = str(Path(sys.executable).parent / "chunkfold")


def chunkfold(*words: object, cwd: Path | None = None, code: int = 0, **environment: str):
    done = subprocess.run(
        [CHUNKFOLD, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        env=os.environ | environment,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "s.zarr"
    group = zarr.open_group(str(path), mode="w")
    array = group.create_array("a", shape=(30, 40), chunks=(7, 9), dtype="f8")
    array[...] = np.arange(1200.0).reshape(30, 40)
    group.create_array("n", shape=(3,), dtype="i4")
    group.create_array("text", shape=(3,), dtype="str")
    (path / "not-zarr").mkdir()
    return path


def test_devices_lists_everything_there_is():
    done = chunkfold("devices")
    for device in DEVICES:
        assert device.spec in done.stdout
        assert device.uuid in done.stdout
    assert "left out: the same hardware as" in done.stdout or len(DEVICES) == 1


def test_devices_verbose_shows_limits_extensions_and_tried_variants(command: Callable):
    shown = command("devices", "--verbose").stdout
    for device in DEVICES:
        assert device.driver in shown
        assert f"at most {device.max_work_group_size} work-items" in shown
    assert "cl_khr_fp64" in shown
    assert shown.count("ran right: tree") == len(DEVICES)


def test_devices_verbose_shows_measured_rates_of_decoding(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path))
    device = replace(DEVICES[0], unified_memory=False)
    assert known_decoding(device) == []
    for one in (
        {"codec": "zstd", "device": 52e9, "core": 2e8},
        {"codec": "lz4", "failure": "the device decodes known chunks wrong"},
    ):
        write_entry(DecodeRequest(device, str(one["codec"])).path, json.dumps(one).encode())
    rows = dict(zip(*(column.cells for column in _details(device).columns), strict=True))
    assert rows["decodes zstd"] == "measured 52 GB/s, a core of this host 0.2 GB/s"
    assert rows["decodes lz4"] == "the device decodes known chunks wrong"
    assert "decodes blosc" not in rows
    assert _as_json(device, default=True, verbose=True)["decoding"][0]["device"] == 52e9


def test_devices_verbose_says_near_which_cores_a_device_is(tmp_path: Path, monkeypatch):
    for place, text in {
        "devices/system/node/node0/cpulist": "0-3,8-11",
        "devices/system/node/node0/distance": "10 21",
        "devices/system/node/node1/cpulist": "4-7,12-15",
        "devices/system/node/node1/distance": "21 10",
        "bus/pci/devices/0000:1b:00.0/numa_node": "1",
    }.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text + "\n")
    monkeypatch.setattr(near_cores, "SYSFS", tmp_path)
    near = replace(DEVICES[0], pci="0000:1b:00.0")
    assert node_words(near) == "1 of 2, cores 4-7,12-15"
    assert node_words(DEVICES[0]) == "not known: this host does not say which cores are near it"
    told = _as_json(near, default=True, verbose=True)
    assert (told["numa_node"], told["near_cores"]) == (1, [4, 5, 6, 7, 12, 13, 14, 15])
    with dask.config.set({NEAR_CORES: False}):
        assert node_words(near).endswith("near-cores is false: workers use any cores")


def test_devices_for_machines(command: Callable):
    entries = json.loads(command("devices", "--json", "--verbose").stdout)
    assert [entry["uuid"] for entry in entries] == [device.uuid for device in all_devices()]
    assert sum(entry["default"] for entry in entries) == 1
    assert entries[0]["variants"]["tree"].startswith("ran right")


def test_reduce_prints_results_on_stdout_and_the_rest_on_stderr(store: Path):
    done = chunkfold("reduce", store / "a", "--op", "sum", "--op", "min", "--op", "mean")
    assert done.stdout == "sum 719400.0\nmin 0.0\nmean 599.5\n"
    assert DEVICES[0].spec in done.stderr or DEVICES[-1].spec in done.stderr


def test_reduce_says_which_chunks_are_fill(tmp_path: Path, command: Callable):
    made = zarr.create_array(str(tmp_path / "a"), shape=(9,), chunks=(3,), dtype="i4", fill_value=4)
    made[:3] = 1
    done = command("reduce", tmp_path / "a", "--json")
    told = "2 of 3 chunks of {} are not stored: their elements are its fill value, 4"
    assert told.format(tmp_path / "a") in done.stderr
    assert json.loads(done.stdout)["not_stored"] == {str(tmp_path / "a"): 2}
    assert "not stored" not in command("reduce", tmp_path / "a", "--select", ":3").stderr


def test_reduce_says_that_nothing_is_selected(store: Path, command: Callable):
    """A sum of nothing is 0, as NumPy has it: no one should take it for a result."""
    words = (store / "a", "--op", "sum", "--select", "9999:")
    assert "selection '9999:' selects nothing of axis 0" in command("reduce", *words, code=2).stderr
    done = command("reduce", *words, "--allow-empty")
    assert done.stdout == "sum 0.0\n"
    assert "nothing to reduce: the selection has shape (0, " in done.stderr
    plan = command("plan", *words, "--allow-empty")
    assert "nothing to reduce" in plan.stdout


def test_reduce_for_machines(store: Path, command: Callable):
    done = command("reduce", store / "a", "--axis", 0, "--op", "max", "--json", "--quiet")
    report = json.loads(done.stdout)
    assert report["results"]["max"] == list(range(1160, 1200))
    assert report["elements"] == 1200
    assert report["devices"][0]["blocks"] >= 1
    assert {p["kernel"] for p in report["devices"][0]["passes"]} >= {"fold_columns"} or report[
        "devices"
    ][0]["passes"]
    assert done.stderr == ""


def test_reduce_several_devices_selection_and_profile(store: Path):
    spec = f"{DEVICES[0].spec}/2"
    done = chunkfold(
        "reduce", store / "a", "--select", "0:10, ..., 3", "--device", spec, "--profile"
    )
    assert done.stdout == f"sum {np.arange(1200.0).reshape(30, 40)[0:10, 3].sum()}\n"
    assert "first run ms" in done.stderr
    assert "fold_" in done.stderr


def test_every_variant_can_be_forced_where_it_exists(store: Path, here: Callable):
    from chunkfold.kernels import VARIANTS
    from chunkfold.kernels.tuning.variant import why_not
    from tests.kernels.test_plain import SUM

    for device in DEVICES:
        for variant in VARIANTS:
            words = ("reduce", store / "a", "--device", device.spec, "--variant", variant)
            words += ("--mode", "fast")
            if why_not(device, SUM, variant):
                code, _, err = here(*words)
                assert (code, f"variant '{variant}' cannot be used on" in err) == (2, True)
            else:
                code, out, err = here(*words, "--json")
                assert code == 0, err
                assert json.loads(out)["devices"][0]["variant"] == variant


def test_exact_sums_do_not_round(tmp_path: Path, command: Callable):
    array = zarr.create_array(str(tmp_path / "e.zarr"), shape=(3,), chunks=(1,), dtype="f8")
    array[...] = [1e308, 1e308, -1e308]
    words = ("reduce", tmp_path / "e.zarr", "--op", "sum,norm2", "-q")
    assert command(*words).stdout == "sum 1e+308\nnorm2 1.7320508075688772e+308\n"
    refused = command(*words, "--variant", "work_group", code=2)
    assert "reduce_add rounds, which exact sums do not: use mode 'fast'" in " ".join(
        refused.stderr.split()
    )


def test_a_histogram_is_drawn_and_written(store: Path, tmp_path: Path, here: Callable):
    with cf.LocalOpenCLCluster() as cluster:

        def drawn(*words: object) -> str:
            asked = ("reduce", store / "a", "--op", "histogram", "-q")
            code, out, err = here(*asked, "--scheduler", cluster.scheduler_address, *words)
            assert code == 0, err
            return out

        lines = drawn("--edges", "0:1200:3", "--out", tmp_path / "h.zarr").splitlines()
        assert [line.split()[:3] for line in lines] == [
            ["histogram"], ["from", "to", "count"], ["0", "400", "400"], ["400", "800", "400"],
            ["800", "1200", "400"],
        ]  # fmt: skip
        assert zarr.open(str(tmp_path / "h.zarr"))["histogram/count"][...].tolist() == [400] * 3
        drawn("--edges", "0,5,9", "--axis", 1, "--out", tmp_path / "rows.zarr")
        rows = zarr.open(str(tmp_path / "rows.zarr"))["histogram"]
        assert (rows["count"].shape, rows["left"][...].tolist()) == ((30, 2), [0, 5])
        assert "elsewhere" in drawn("--edges", "0:3:3")
        (bins,) = json.loads(drawn("--json"))["results"].values()
        assert sum(entry["count"] for entry in bins) == 1200
        assert len(drawn().splitlines()) <= 42  # of 200 bins


@pytest.mark.parametrize("name", ["out.json", "out.zarr"])
def test_out_is_written_whole(store: Path, tmp_path: Path, name: str, command: Callable):
    out = tmp_path / name
    words = ("reduce", store / "a", "--axis", 1, "--op", "mean", "--op", "max", "--out", out, "-q")
    command(*words)
    want = np.arange(1200.0).reshape(30, 40)
    if name.endswith("json"):
        assert json.loads(out.read_text())["max"] == want.max(axis=1).tolist()
    else:
        np.testing.assert_array_equal(zarr.open(str(out))["mean"][...], want.mean(axis=1))
    assert list(tmp_path.iterdir()) == [out]
    assert "exists; remove it" in command(*words, code=2).stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("reduce", "nowhere.zarr"), "SourceError: nowhere.zarr: no such path"),
        (("reduce", "STORE"), "is a Zarr group, not an array; its arrays: "),
        (("reduce", "STORE/not-zarr"), "not a Zarr array or group"),
        (("reduce", "STORE/text"), "cannot be reduced; supported are"),
        (("reduce", "STORE/a", "--op", "summ"), "did you mean 'sum'?"),
        (("reduce", "STORE/a", "--dtype", "flaot32"), "supported are bool, int8"),
        (("reduce", "foo://a"), "use a path, or a URL of file, s3"),
        (("reduce", "STORE/a", "--axis", "2"), "axis 2 is out of range for an array of 2"),
        (("reduce", "STORE/a", "--select", "0:x"), "'0:x' is not an integer"),
        (("reduce", "STORE/a", "--select", "1,2,3"), "3 entries for 2 axes"),
        (("reduce", "STORE/a", "--dtype", "nonsense"), "nonsense"),
        (("reduce", "STORE/a", "--axis", "0,x"), "has no axis 'x'; its axes have no names"),
        (
            ("reduce", "STORE/a", "--out", "m.txt"),
            "output m.txt ends in '.txt'; use .json for JSON",
        ),
        (("reduce", "STORE/n", "--dtype", "object", "--out", "m.zarr"), "integers (dtype object)"),
        (("reduce", "STORE/a", "STORE/a"), "one of dot, sum_sq_diff, max_abs_diff, first_mismatch"),
        (("reduce", "STORE/a", "--op", "histogram", "--edges", "0:3:0"), "makes 0 bins; give 1"),
        (("reduce", "STORE/a", "--op", "histogram", "--edges", "0:inf:4"), "has no finite width"),
        (("reduce", "STORE/a", "--op", "histogram", "--edges", "0:1:10000000000"), "give 1 to"),
        (
            ("reduce", "STORE/a", "--edges", "1,2"),
            "are for a histogram, but no histogram is computed",
        ),
        (("reduce", "STORE/a", "--op", "histogram", "--edges", "1:2"), "not numbers, as in"),
        (("reduce", "STORE/a", "--op", "histogram", "--edges", "2,1"), "two increasing numbers"),
        (("reduce", "STORE/a", "--op", "histogram", "--edges", "3"), "or LOW:HIGH:BINS"),
        (("reduce", "STORE/a", "--op", "p95", "--sketch", "0"), "give a number between 0 and 1"),
        (("reduce", "STORE/a", "--op", "p95", "--sketch", "x"), "'x' is not a valid number"),
        (("reduce", "STORE/a", "--op", "top5", "--sketch", "0.1"), "but none is computed"),
        (("reduce", "STORE/a", "--op", "top0"), "k of topk is 0; give an integer from 1 to 16"),
        (("reduce", "STORE/a", "--op", "mean max"), "several are a list: ['mean', 'max']"),
        (("reduce", "STORE/a", "--select", "x=0:3"), "by positions, as in '0:31, ..., [0,"),
        (("reduce", "STORE/a", "--device", "quantum"), "no OpenCL device matches 'quantum'; use"),
        (
            ("reduce", "STORE/a", "--out", "no/such/folder/x.json"),
            "does not exist: make that",
        ),
        (("reduce", "STORE/a", "--out", "/proc/x.json"), "output /proc/x.json cannot be written"),
        (("reduce", "STORE/a", "--mode", "best"), "'best' is not one of 'exact', 'fast'"),
        (("reduce", "STORE/a", "--axis", "٢"), "has no axis '٢'; its axes have no names"),
        (("reduce", "STORE/a", "--ddof", "1_0"), "'1_0' is not a valid number"),
        (("reduce", "STORE/a", "--memory", "10"), "memory is '10', a number without a unit: write"),
        (("reduce", "STORE/a", "--op", "p0.95"), "did you mean 'p95'?"),
        (("reduce", "STORE/a", "--memory", "1_0GiB"), "give a size with its unit, such as '2 GiB'"),
        (("reduce", "STORE/a", "--op", "histogram", "--edges", "0:1:٢"), "not numbers, as in"),
        (("reduce", "STORE/a", "--op", "histogram", "--edges", "0,1_0"), "not numbers, as in"),
        (("reduce", "STORE/a", "--device", "cpu/٢"), "should end in /n or /n#k"),
        (("normalize", "STORE/a", "--ddof", "٢"), "'٢' is not a valid number"),
        (("demo", "--size", "1_0"), "'1_0' is not a valid number"),
        (("worker", "tcp://127.0.0.1:9", "--threads", "٢"), "'٢' is not a valid integer"),
        (("worker", "tcp://127.0.0.1:9", "--memory", "1_0"), "'1_0' is not a valid number"),
        (("bench", "kernels", "--mib", "1_0"), "'1_0' is not a valid integer"),
        (("demo", "--size", "0"), "0.0 is not in the range x>0"),
        (("demo", "--folder", "/proc/x"), "--folder /proc/x cannot be made"),
        (("worker", "tcp://127.0.0.1:9", "--threads", "0"), "0 is not in the range x>=1"),
        (("reduce", "STORE/a", "--scheduler", "x", "--device", "cpu"), "exclude each other"),
        (("reduce", "STORE/a", "--scheduler", "x"), "'x' is not an address of a scheduler"),
        (("reduce",), "Missing argument 'SOURCE"),
        (("reduce", "STORE/a", "--no-such-option"), "No such option"),
        (("reduce", "STORE/a", "--dim", "0"), "No such option '--dim'. Did you mean '--axis'?"),
        (("reduce", "STORE/a", "--skip_na"), "Did you mean '--skipna'?"),
        (("reduce", "STORE/a", "--explain"), "No such option '--explain'. Use `chunkfold plan ..."),
        (("reduce", "STORE/a", "--op", "quantile"), "a quantile is 'p95', or cf.quantile(0.95)"),
        (("reduce", "STORE/a", "--op", "histogram", "--out", "h.csv"), "as .json, .nc or .zarr"),
        (("reduce", "STORE/a", "--mask", "STORE/a"), "as --mask STORE/a --where 'y > 0'"),
        (("reduce", "STORE/a", "--boundary", "pad"), "--boundary is 'pad', but no windows are"),
        (("reduce", "STORE/a", "--coarsen", "0=7"), "--boundary trim omits the last 2, --bo"),
        (("plan", "STORE/a", "--groups", "1"), "no labels are given: give them with --by"),
        (("reduce", "STORE/a", "--op", "skewness"), "topN, bottomN, argtopN, argbottomN; any of"),
        (("plan", "STORE/a", "--op", "maxx"), "did you mean 'max'?"),
        (("devices", "quantum"), "no OpenCL device matches 'quantum'; use one of: "),
        (("worker", "nonsense", "--device", "quantum"), "no OpenCL device matches"),
        (("describe", "STORE/nothing"), "no such path"),
        (("describe", "STORE/not-zarr"), "not a Zarr array or group"),
        (("diff", "STORE/a", "STORE/n"), "has shape (30, 40), but STORE/n has (3,)"),
        (
            ("diff", "STORE/a", "STORE"),
            "is an array, but STORE is a group: name one of its arrays (a, ",
        ),
        (("diff", "STORE/a"), "Missing argument 'SECOND'"),
        (("project", "STORE/a", "STORE/p.zarr", "--op", "max"), "name the axes to reduce"),
        (
            ("project", "STORE/a", "http://b/p.zarr", "--op", "max", "--axis", "0"),
            "outputs must be local, or",
        ),
        (
            ("project", "STORE/a", "STORE/a", "--op", "max", "--axis", "0"),
            "are the same, or one is inside",
        ),
        (("normalize", "STORE/a", "--channels", "2"), "axis 2 is out of range"),
        (("normalize", "STORE/a", "--apply", "STORE/o", "--dtype", "i4"), "take a float's"),
        (("dance",), "No such command 'dance'."),
        (("reduc", "STORE/a"), "No such command 'reduc'. Did you mean 'reduce'?"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_sentence_and_exit_code_2(store: Path, here, words: tuple, sentence: str):
    began = time.monotonic()
    code, out, err = here(*(word.replace("STORE", str(store)) for word in words))
    assert (code, out) == (2, "")
    assert sentence.replace("STORE", str(store)) in " ".join(err.split())
    assert time.monotonic() - began < 60


def test_what_another_try_may_mend_is_exit_code_4(store: Path, here):
    code, _, said = here("reduce", store / "a", "--scheduler", "tcp://127.0.0.1:9")
    assert code == 4
    assert "ClusterError: cannot reach a scheduler" in " ".join(said.split())


@pytest.mark.parametrize("command", ["reduce", "describe"])
def test_where_a_chunk_cannot_be_read_the_way_on_is_named(tmp_path: Path, here, command: str):
    made = zarr.create_array(str(tmp_path / "a"), shape=(4, 4), chunks=(2, 4), dtype="i4")
    made[...] = 7
    (tmp_path / "a" / "c" / "1" / "0").write_bytes(b"cut")
    code, _, said = here(command, tmp_path / "a")
    assert code == 4
    assert "--on-bad-chunk skip goes on without it" in " ".join(said.split())
    code, _, said = here(command, tmp_path / "a", "--on-bad-chunk", "skip")
    assert code == 3
    assert "goes on without it" not in said


def test_a_server_that_does_not_answer_ends_with_4(here):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.zarr"
    with dask.config.set({"chunkfold.remote.retry": "1 s"}):
        code, out, err = here("reduce", url, "--op", "sum")
    assert (code, out) == (4, "")
    assert f"{url}: its server did not answer within 1 s" in err


def test_what_a_server_refuses_for_all_chunks_is_no_reason_to_skip_any(
    tmp_path: Path, here, monkeypatch
):
    made = zarr.create_array(tmp_path / "bucket/v", shape=(8,), chunks=(4,), dtype="f8")
    made[...] = 1
    with served(tmp_path) as web:
        web.failing = lambda path, _: "400 ExpiredToken" if "/c/" in path else ""
        monkeypatch.setenv("AWS_ENDPOINT_URL", web.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAHUSH")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
        for words in ((), ("--on-bad-chunk", "skip")):
            code, out, said = here("reduce", "s3://bucket/v", "-q", *words)
            assert (code, out) == (2, "")
            assert said.startswith("SourceError: s3://bucket/v: the credentials have expired")
            assert ("skip" in said, "hush" in said.lower()) == (False, False)


def test_other_packages_add_commands(tmp_path: Path, capfd: pytest.CaptureFixture, monkeypatch):
    """By the entry point; what is no command is said to be none."""
    code = (
        "import click\n"
        "@click.command(help='Say hello.')\n"
        "def hello(): click.echo('hello')\n"
        "broken = 1\n"
    )
    points = "hello = theirs:hello\nbroken = theirs:broken\ngone = not.there:x"
    installed(tmp_path, monkeypatch, code, f"[chunkfold.workflows]\n{points}\n")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for word, code, said in (
        ("hello", 0, "hello\n"),
        ("broken", 2, "cannot be loaded (it is a int, not a click.Command)"),
        ("gone", 2, "cannot be loaded (ModuleNotFoundError"),
        ("--help", 0, "hello      Say hello."),
    ):
        monkeypatch.setattr(sys, "argv", ["chunkfold", word])
        with pytest.raises(SystemExit) as ended:
            main()
        done = capfd.readouterr()
        assert (ended.value.code, said in done.out + done.err) == (code, True), done


def test_no_device_says_how_to_get_one(store: Path, tmp_path: Path):
    done = chunkfold("reduce", store / "a", code=2, OCL_ICD_VENDORS=str(tmp_path))
    assert "DeviceError: no OpenCL device was found; install your GPU's driver" in done.stderr


def test_plan_for_machines(store: Path, command: Callable):
    words = ("plan", store / "a", "--op", "mean", "--axis", 1, "--device", "cpu", "--json")
    told = json.loads(command(*words).stdout)
    assert (told["shape"], told["axes"], told["elements"]) == ([30, 40], [1], 1200)
    assert told["sources"][0]["cell"] == [7, 9]
    assert told["memory"]["total"] == sum(
        told["memory"][part] for part in ("staging", "decoding", "accumulators")
    )
    less = json.loads(command(*words, "--memory", f"{told['memory']['total'] - 1}B").stdout)
    assert (less["readers"], less["blocks_at_once"]) == (told["readers"], 1)
    assert less["memory"]["total"] < told["memory"]["total"]


def test_plan_says_what_would_run(store: Path, command: Callable):
    done = command("plan", store / "a", "--op", "mean", "--axis", 1)
    assert "reduce    mean over axes (1,) of (30, 40)" in done.stdout
    assert "answer    exact: the same bits" in done.stdout
    assert "memory    at most" in done.stdout


def test_plan_says_by_which_kernels_and_why(store: Path, here):
    code, out, err = here("plan", store / "a", "--op", "max", "--axis", 1, "--explain")
    assert (code, err) == (0, "")
    rows = [line.split("  ") for line in out.splitlines()]
    assert rows[0][0] == "what"
    assert {"device", "variant", "tuning", "trusted", "kernel"} <= {row[0] for row in rows}
    assert all(row[-1].strip() for row in rows)  # a reason for each
    assert "neighbours in memory go into the same output" in out or "runs of" in out
    code, out, _ = here("plan", store / "a", "--op", "max", "--explain", "--variant", "tree")
    assert code == 0
    assert "it was requested" in out


def test_plan_lists_the_programs_of_its_kernels(store: Path, here):
    for device in DEVICES:
        words = ("plan", store / "a", "--op", "sum", "--source", "--device", device.spec)
        code, out, err = here(*words)
        assert (code, err) == (0, "")
        assert "// flat.cl of sum" in out
        assert "\n// -- generated: component 0: s of sum, an exact sum\n" in out
        assert max(map(len, out.splitlines())) <= 100
        assert "#if" not in out


def test_plan_shows_both_to_machines(store: Path, here):
    code, out, _ = here("plan", store / "a", "--op", "max", "--explain", "--source", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["explained"][0]["what"] == "device"
    assert "__kernel" in told["source"]
    assert told["elements"] == 1200


def test_what_is_taken_away_is_said(store: Path):
    """Workers are other processes, which inherit it."""
    told = chunkfold("reduce", store / "a", "--quiet", code=2, CHUNKFOLD_WITHOUT="fp64").stderr
    assert told.count("\n") == 1
    assert "sum of float64 needs float64" in told
    assert "CHUNKFOLD_WITHOUT disables fp64" in told
    told = chunkfold("devices", code=2, CHUNKFOLD_WITHOUT="fp64,doubles").stderr
    assert "'doubles'; use one of: fp64, int64_atomics, rounded_division" in " ".join(told.split())
    lacking = replace(DEVICES[0], without=frozenset({"sub_groups"}))
    assert "CHUNKFOLD_WITHOUT" in device_json(lacking)["lacks"]["sub_groups"]


def test_threads_that_are_still_at_work_do_not_change_the_exit_code(tmp_path: Path):
    code = f"""if True:
        import atexit, sys, threading
        from chunkfold.workflows.cli import script
        atexit.register(print, "left in order")
        threading.Thread(target=threading.Event().wait).start()
        sys.argv = ["chunkfold", "reduce", {str(tmp_path / "nothing")!r}]
        script()
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "left in order\n"), done.stderr


CLOSED = "OSError: [Errno 9] standard output is closed: results cannot be printed\n"


@pytest.mark.parametrize(
    ("words", "streams", "code", "said"),
    [
        ("--version", ">&-", 4, CLOSED),
        ("describe STORE/a -q ON", ">&-", 4, CLOSED),
        ("reduce STORE/a -q", "<&- >&- 2>&-", 4, ""),
        ("reduce STORE/nothing", ">&- 2>&-", 2, ""),
        ("reduce STORE/a", "2>&-", 0, "sum 719400.0\n"),
        ("reduce STORE/a", "2>/dev/full", 0, "sum 719400.0\n"),
        ("reduce STORE/nothing", "2>/dev/full", 2, ""),
        ("reduce STORE/a -q ON", ">/dev/full", 4, "OSError: [Errno 28] No space left on device\n"),
        (
            "describe STORE/a -q ON",
            ">/dev/full",
            4,
            "OSError: [Errno 28] No space left on device\n",
        ),
        ("reduce STORE/a -q ON", "| true", 141, ""),
        ("plan STORE/a", "| true", 141, ""),
        ("--help", "| true", 141, ""),
    ],
)
def test_a_stream_that_fails_is_told_by_the_exit_code(store, clusters, words, streams, code, said):
    if words.endswith("ON"):
        words = words.replace("ON", f"--scheduler {clusters.cluster().scheduler_address}")
    line = f"{CHUNKFOLD} {words.replace('STORE', str(store))} {streams}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (code, said)


def test_warnings_of_zarr_do_not_reach_the_screen(tmp_path: Path):
    codecs = [zarr.codecs.numcodecs.BZ2()]
    made = zarr.create_array(tmp_path / "a", shape=(8,), dtype="f4", compressors=codecs)
    made[...] = 2
    done = chunkfold("reduce", tmp_path / "a", "-q")
    assert (done.stdout, done.stderr) == ("sum 16.0\n", "")


def test_other_warnings_are_sentences(tmp_path: Path, here):
    group = zarr.open_group(tmp_path / "g", mode="w")
    group.create_array("a", data=np.ones((2, 3)), dimension_names=("x", "y"))
    group.create_array("x", data=np.ones(2), dimension_names=("x",))
    (tmp_path / "g/x/c/0").write_bytes(b"cut")
    words = ("reduce", tmp_path / "g/a", "-q", "--axis", 1, "--out", tmp_path / "o.zarr")
    code, _, said = here(*words)
    assert (code, said.count("\n")) == (0, 1)
    sentence = f"{tmp_path}/g/a: its coordinate 'x' is omitted, because it cannot be"
    assert said.startswith(f"warning: {sentence}")
    *_, told = here(*words, "--overwrite", "--json-lines")
    events = [json.loads(line) for line in told.splitlines()]
    assert [one["message"][: len(sentence)] for one in events if one["event"] == "Warned"] == [
        sentence
    ]


def interrupted_once(words: Sequence[str], begun: Callable[[int], object]) -> str:
    """Interrupt a command as a terminal does, with all of its processes; return what it said."""
    process = subprocess.Popen(
        [CHUNKFOLD, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not begun(process.pid):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, alive(process.pid)
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert all_ended(process.pid), alive(process.pid)
    return stderr


def test_an_interrupt_that_a_destructor_swallows_comes_again():
    script = (
        "import signal, time\n"
        "import chunkfold.workflows.cli as commands\n"
        "class Dying:\n"
        "    def __del__(self):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "def waits(**_):\n"
        "    Dying()\n"
        "    time.sleep(30)\n"
        "commands.cli.main = waits\n"
        "commands.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=25, check=False
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_terminal_interrupts_workers_too_and_they_say_nothing_of_it(store: Path):
    def starts(group: int) -> bool:
        return any("spawn_main" in process for process in alive(group))

    stderr = interrupted_once(["reduce", f"{store}/a", "-q"], starts)
    assert stderr.splitlines()[-1] == "interrupted"
    assert "Traceback" not in stderr


@pytest.mark.parametrize("interrupts", [1, 3])
def test_an_interrupt_ends_it_cleanly(tmp_path: Path, interrupts: int):
    """SIGINT while chunks come slowly: no partial output, no workers left; also by an impatient."""
    layout = {"shape": (1000, 10), "chunks": (1, 10), "dtype": "f4"}
    zarr.create_array(str(tmp_path / "slow.zarr"), **layout)[...] = 1
    out = tmp_path / "out.json"
    with served(tmp_path, delay_s=0.5) as web:
        words = [CHUNKFOLD, "reduce", f"{web.url}/slow.zarr", "--out", str(out)]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not web.asked["/slow.zarr/c/0/0"]:
            time.sleep(0.1)
        for _ in range(interrupts):
            os.kill(process.pid, signal.SIGINT)
            time.sleep(0.1)
        _, stderr = process.communicate(timeout=8)  # Dask would wait 10 s for what is not closed
    assert process.returncode == 130, stderr
    assert "interrupted" in stderr
    assert not out.exists()
    assert all_ended(process.pid), alive(process.pid)


def test_help_has_examples_and_is_quick_to_import(here):
    for command in (
        "describe", "reduce", "project", "normalize", "regions", "diff", "plan", "devices",
        "worker", "demo",
    ):  # fmt: skip
        code, shown, _ = here(command, "--help")
        assert code == 0
        assert f"Examples:\n    chunkfold {command}" in shown
        assert "\\b" not in shown
    code = (
        "import atexit, sys; from chunkfold.workflows.cli import script; "
        "heavy = {'zarr', 'dask', 'pyopencl', 'numpy'};"
        "atexit.register(lambda: print(heavy & sys.modules.keys()));"
        "sys.argv[1:] = ['--help']; script()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
    assert all(f"\n  {command} " in done.stdout for command in COMMANDS)


def test_nan_is_told_beside_the_results(tmp_path: Path, here):
    zarr.create_array(str(tmp_path / "a"), data=np.array([1.0, np.nan]))
    code, out, err = here("reduce", tmp_path / "a", "--op", "mean", "--json")
    assert code == 0
    assert json.loads(out)["results"] == {"mean": "NaN"}
    told = "mean is NaN because the data contain NaN; --skipna ignores them"
    assert told in " ".join(err.split())


@pytest.mark.parametrize("words", [("project",), ("transform", "--apply", "anomaly"), ("run",)])
def test_nan_that_is_written_is_told(tmp_path: Path, command: Callable, words: tuple[str, ...]):
    values = np.array([[1.0, np.nan], [2.0, 3.0]])
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("t", data=values, dimension_names=("time", "x"))
    group.create_array("x", data=np.arange(2.0), dimension_names=("x",))
    if words == ("run",):
        (tmp_path / "job.toml").write_text(
            'schema = 1\nsources = ["a.zarr"]\n[reduce]\nstatistics = ["mean"]\naxes = ["time"]\n'
            '[output]\npath = "o.zarr"\n[cluster]\nkind = "local"\n'
        )
        given: tuple[object, ...] = ("run", tmp_path / "job.toml")
    else:
        op = ("--op", "mean") if words == ("project",) else ()
        given = (*words, tmp_path / "a.zarr/t", tmp_path / "o.zarr", "--axis", "time", *op)
    told = " ".join(command(*given).stderr.split())
    assert "NaN" in told
    assert "skipna" in told
    if words == ("run",):
        assert f"wrote {tmp_path / 'o.zarr'} (group t) and" in told
        manifest = json.loads((tmp_path / "o.zarr.manifest.json").read_text())
        (run,) = manifest["runs"].values()
        assert "NaN" in run["remarks"][0]
    shutil.rmtree(tmp_path / "o.zarr")
    assert command(*given, "--quiet").stderr == ""
