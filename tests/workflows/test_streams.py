"""Standard streams that are closed, or cannot write a name: told, spelled, never a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from chunkfold.workflows.cli.streams import see_to_streams

pytestmark = pytest.mark.unoptimised

NO_UTF8 = os.fsdecode(b"n\xffm.zarr")
ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
CLOSED = "OSError: [Errno 9] standard output is closed: results cannot be printed\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group whose name is no UTF-8, of an array with names that not all terminals have."""
    path = tmp_path_factory.mktemp("store") / NO_UTF8
    group = zarr.open_group(str(path), mode="w")
    made = group.create_array("h\u00f6he", shape=(4,), chunks=(2,), dtype="f8")
    made[...] = [1, 2, 3, 4]
    named = {"units": "\u00b0", "_ARRAY_DIMENSIONS": ["\udcff"], "coordinates": "\udcff"}
    made.attrs.update(named)
    group.create_array("bins", data=np.arange(9.0), chunks=(9,))
    return path


def named(words: str, store: Path) -> list[str]:
    return [word.replace("STORE", str(store)) for word in words.split()]


@pytest.mark.parametrize(
    "words",
    [
        "--help", "reduce --help", "reduce STORE/bins -q", "describe STORE/bins -q",
        "plan STORE/bins", "plan STORE/bins --json", "diff STORE/bins STORE/bins -q", "devices",
        "devices --json",
        "normalize STORE/h\u00f6he --channels 0 -q", "run --schema",
    ],
)  # fmt: skip
def test_results_that_nobody_got_are_no_success(store: Path, here, monkeypatch, words: str):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))  # put back in the end
    see_to_streams(closed=True)
    assert here(*named(words, store)) == (4, "", CLOSED)


def test_an_output_is_written_before_standard_output_can_fail(
    store: Path, tmp_path: Path, here, monkeypatch
):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    see_to_streams(closed=True)
    words = named("reduce STORE/bins -q --out", store)
    assert here(*words, tmp_path / "o.json") == (4, "", CLOSED)
    assert json.loads((tmp_path / "o.json").read_text()) == {"sum": 36.0}


@pytest.fixture(params=["ascii", "utf-8"])
def shown(request: pytest.FixtureRequest, here, monkeypatch) -> Callable[..., tuple[int, str]]:
    """Run a command whose streams have an encoding; return its code, and what came of both."""

    def run(*words: object) -> tuple[int, str]:
        raw = io.BytesIO()
        for name in ("stdout", "stderr"):
            stream = io.TextIOWrapper(raw, request.param, "strict", write_through=True)
            monkeypatch.setattr(sys, name, stream)
        see_to_streams()
        code, *_ = here(*words)
        return code, raw.getvalue().decode(request.param)

    return run


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("describe STORE -q", 0, r"n\xffm.zarr/bins"),
        ("plan STORE/h\u00f6he", 0, r"source    .*n\xffm.zarr/h"),
        ("reduce STORE", 2, r"its arrays: .*n\xffm.zarr/bins, .*n\xffm.zarr/h"),
        ("reduce STORE/bins -q --out OUT.csv", 0, "sum 36.0"),
        ("reduce STORE/h\u00f6he -q --keepdims --out OUT.parquet", 0, "sum "),
        ("diff STORE/bins STORE/nothing", 2, r"n\xffm.zarr/nothing: no such path"),
        ("n\udcffm", 2, "No such command"),
    ],
)
def test_what_a_stream_cannot_write_is_spelled(
    store: Path, tmp_path: Path, shown, words: str, code: int, said: str
):
    found, text = shown(*named(words.replace("OUT", f"{tmp_path}/o"), store))
    assert found == code, text
    for part in said.split(".*"):
        assert part in text


def test_a_terminal_of_ascii_has_drawings_too(store: Path):
    done = subprocess.run(
        [Path(sys.executable).parent / "chunkfold", "describe", NO_UTF8, "-q"],
        capture_output=True, timeout=120, check=False, cwd=store.parent, env=os.environ | ASCII,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"#" in done.stdout
    assert rb"\u25" not in done.stdout


def test_what_nobody_expected_is_one_sentence(tmp_path, monkeypatch, capfd):
    """A fault of our own names the command; the variable shows where it is."""
    from chunkfold.workflows import cli

    def broken(**_: object) -> None:
        raise KeyError("nobody\nexpected")

    monkeypatch.setattr(cli.cli, "main", broken)
    monkeypatch.setattr(sys, "argv", ["chunkfold", "reduce", "https://me:hush@host/a.zarr"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    told = capfd.readouterr().err
    assert left.value.code == 1
    assert "reduce https://host/a.zarr: an unexpected error (KeyError:" in " ".join(told.split())
    assert "Traceback" not in told
    assert "hush" not in told
    monkeypatch.setenv("CHUNKFOLD_TRACEBACK", "1")
    with pytest.raises(KeyError):
        cli.main()
