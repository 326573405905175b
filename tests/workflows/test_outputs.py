"""Outputs are written whole or not at all, and what was there stays until then."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold import PlanError
from chunkfold.errors import OutputError
from chunkfold.outputs import placing
from chunkfold.outputs.outputs import check_output, moved, naming, staged
from chunkfold.results.results import Results
from chunkfold.workflows.files.writing import write_results
from chunkfold.workflows.job.lock import lock_path, locked
from chunkfold.workflows.transforms.normalize import apply, normalization
from tests.processes import BIN, finished

pytestmark = pytest.mark.unoptimised


def made_of(path: Path) -> str | None:
    """What a test's output holds, whether it is a file or a folder."""
    if not path.exists():
        return None
    return (path / "data" if path.is_dir() else path).read_text()


def write(made: Path, text: str, *, folder: bool) -> None:
    if folder:
        made.mkdir()
    (made / "data" if folder else made).write_text(text)
    if folder:
        (made / "zarr.json").write_text('{"node_type": "group"}')


@pytest.mark.parametrize("before", [None, False, True], ids=["nothing", "file", "folder"])
@pytest.mark.parametrize("after", [False, True], ids=["file", "folder"])
def test_an_output_takes_the_place_of_whatever_was_there(
    tmp_path: Path, before: bool | None, after: bool
):
    out = tmp_path / "out"
    if before is not None:
        write(out, "old", folder=before)
    with staged(out, overwrite=True) as made:
        assert made_of(out) == (None if before is None else "old")
        write(made, "new", folder=after)
        assert made_of(out) == (None if before is None else "old")
    assert made_of(out) == "new"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("before", [False, True], ids=["file", "folder"])
def test_what_was_there_stays_where_the_new_one_fails(tmp_path: Path, before: bool):
    out = tmp_path / "out"
    write(out, "old", folder=before)

    def fails() -> None:
        with staged(out, overwrite=True) as made:
            write(made, "half", folder=True)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    with pytest.raises(FileNotFoundError), staged(out, overwrite=True):
        pass  # nothing was made
    assert made_of(out) == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("there.json", "exists; remove it, choose another, or overwrite it"),
        ("no/folder/x.json", "no/folder does not exist: make that folder"),
        ("x.txt", "ends in '.txt'; use .json for JSON, .zarr for Zarr"),
        ("http://host/x.json", "outputs must be local, or of s3://"),
        ("file:///tmp/x.json", "outputs must be local, or of s3://"),
        ("..", "names no file"),
        ("sub/..", "names no file"),
        ("x.html", "ends in '.html'"),
        ("s3://bucket", "names no object: add a path after s3://bucket"),
        ("s3://me:hush@bucket/x.txt", "output s3://bucket/x.txt ends in"),
    ],
)
def test_what_cannot_be_written_is_told_before(tmp_path: Path, monkeypatch, out: str, sentence):
    monkeypatch.chdir(tmp_path)
    Path("there.json").write_text("old")
    with pytest.raises(PlanError) as error:
        check_output(out)
    assert sentence in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["there.json"]


def test_nothing_stays_of_an_output_that_is_still_written_to(tmp_path: Path):
    """Workers that were cancelled end their chunk first, and make the folder anew for it."""
    writing = threading.Event()

    def write_on(made: Path) -> None:
        for number in range(10):
            made.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                (made / str(number)).write_text("late")
            writing.set()
            time.sleep(0.05)

    def interrupted() -> None:
        with staged(tmp_path / "out.zarr") as made:
            threading.Thread(target=write_on, args=(made,), name="late").start()
            writing.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for thread in threading.enumerate():
        if thread.name == "late":
            thread.join()
    assert list(tmp_path.iterdir()) == []


def test_only_files_and_zarrs_are_overwritten(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "folder.json" / "zarr.json").write_text("{}")
    for name, sentence in (("pipe.json", "not a file or"), ("folder.json", "but not a Zarr")):
        with pytest.raises(PlanError, match=sentence):
            check_output(tmp_path / name, overwrite=True)


def test_what_comes_meanwhile_is_not_overwritten(tmp_path: Path):
    def late() -> None:
        with staged(tmp_path / "o.json") as made:
            made.write_text("new")
            (tmp_path / "o.json").write_text("somebody's")

    with pytest.raises(PlanError, match="was created meanwhile"):
        late()
    assert (tmp_path / "o.json").read_text() == "somebody's"


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_what_comes_behind_the_last_look_is_not_overwritten(
    tmp_path: Path, monkeypatch, *, folder: bool
):
    out = tmp_path / "out"
    monkeypatch.setattr(os.path, "lexists", lambda _: False)

    def late() -> None:
        with staged(out) as made:
            write(made, "new", folder=folder)
            write(out, "somebody's", folder=folder)

    with pytest.raises(PlanError, match="was created meanwhile"):
        late()
    assert made_of(out) == "somebody's"
    assert list(tmp_path.iterdir()) == [out]


def test_files_take_their_place_where_there_are_no_links(tmp_path: Path, monkeypatch):
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with staged(tmp_path / "o.json") as made:
        made.write_text("new")
    assert (tmp_path / "o.json").read_text() == "new"


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be on a system that cannot exchange two names at once."""
    monkeypatch.setattr(placing, "exchanged", lambda *_: False)


@pytest.mark.usefixtures("apart")
def test_an_array_that_cannot_be_moved_leaves_what_was_there(tmp_path: Path, monkeypatch):
    made, out = tmp_path / "staging" / "0", tmp_path / "0"
    made.parent.mkdir()
    write(made, "new", folder=True)
    write(out, "old", folder=True)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("no")))
        with pytest.raises(OutputError, match="cannot be written"):
            moved(made, out)
    assert made_of(out) == "old"
    moved(made, out)
    assert made_of(out) == "new"


@pytest.mark.usefixtures("apart")
def test_an_interrupt_between_two_renames_loses_nothing(tmp_path: Path, monkeypatch):
    out = tmp_path / "o.zarr"
    write(out, "old", folder=True)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))

    def interrupted() -> None:
        with staged(out, overwrite=True) as made:
            write(made, "new", folder=True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert made_of(out) == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("call", ["rename", "replace"])
@pytest.mark.parametrize("late", [False, True], ids=["before the call", "behind it"])
def test_an_interrupt_while_it_takes_its_place_leaves_one_of_both(
    tmp_path: Path, monkeypatch, call: str, *, late: bool
):
    out = tmp_path / "out.zarr"
    write(out, "old", folder=True)
    real, calls = getattr(Path, call), []

    def interrupted(self, target):
        calls.append(target)
        if late or len(calls) > 1:
            moved = real(self, target)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(Path, call, interrupted)
    with pytest.raises(KeyboardInterrupt), staged(out, overwrite=True) as made:
        write(made, "new", folder=True)
    assert made_of(out) == ("new" if call == "replace" and late else "old")
    assert list(tmp_path.iterdir()) == [out]


@pytest.fixture
def full() -> Iterator[None]:
    """No file may grow beyond a KiB: what the system then says is as on full disks.

    Those need root: tests/real.
    """
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture(scope="module")
def rows() -> Results:
    """Results of some length."""
    source = zarr.create_array({}, data=np.random.default_rng(0).random((3000, 2)), chunks=(999, 2))
    run = cf.submit(source, "sum", axis=1)
    return run.results


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("name", ["o.json", "o.zarr", "o.csv", "o.parquet", "o.nc"])
def test_an_output_that_there_is_no_room_for_is_named(tmp_path: Path, rows: Results, name: str):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    out = tmp_path / name
    with pytest.raises(OutputError, match="File too large; free some space") as raised:
        write_results(out, {"": rows})
    assert str(out) in str(raised.value)
    assert list(tmp_path.iterdir()) == []


FULL = """
import resource, sys
from pathlib import Path
import numpy as np
import chunkfold as cf
from chunkfold.errors import OutputError
from chunkfold.workflows.files.writing import write_results

found = cf.submit(np.random.default_rng(0).random((60_000, 2)), "sum", axis=1).results
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), most))
try:
    write_results(sys.argv[1], {key: found for key in sys.argv[3:]}, overwrite=True)
except OutputError as error:
    sys.exit(f"said: {error}")
"""
"""Writes a NetCDF where no file may have more than so many bytes."""


@pytest.mark.parametrize("most", [0, 1 << 10, 5000, 200_000, 700_000])
@pytest.mark.parametrize("groups", [[""], ["a", "b/c"]], ids=["one", "several"])
def test_a_process_outlives_a_netcdf_that_there_is_no_room_for(
    tmp_path: Path, most: int, groups: list[str]
):
    """HDF5's library ends a process that holds a file of its own which it could not close."""
    out = tmp_path / "o.nc"
    out.write_text("old")
    done = finished([sys.executable, "-c", FULL, out, most, *groups], 60)
    room = most > 500_000 * len(groups)
    assert (done.returncode, out.read_bytes()[:4] == b"\x89HDF") == (1 - room, room), done.stderr
    assert (f"said: output {out} cannot be written: File too large; free" in done.stderr) != room
    assert list(tmp_path.iterdir()) == [out]


def test_a_normalized_array_that_there_is_no_room_for_is_named(
    tmp_path: Path, request: pytest.FixtureRequest
):
    source = zarr.create_array({}, data=np.random.default_rng(0).random(3000), chunks=(999,))
    found = normalization(source)
    request.getfixturevalue("full")
    with pytest.raises(OutputError, match=f"output {tmp_path / 'o.zarr'} cannot be written"):
        apply(source, found, tmp_path / "o.zarr")
    assert list(tmp_path.iterdir()) == []


def test_other_faults_keep_their_names(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="missing"), naming("o.json"):
        (tmp_path / "missing").read_bytes()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    zarr.create_array(tmp_path / "a.zarr", data=np.arange(24.0).reshape(4, 6), chunks=(2, 6))
    return tmp_path / "a.zarr"


WRITES = {
    "reduce": lambda source, out: ["reduce", source, "--op", "mean", "--out", out, "--overwrite"],
    "project": lambda source, out: ["project", source, out, "--op", "max", "--axis", "0"],
    "normalize": lambda source, out: ["normalize", source, "--apply", out],
}


@pytest.mark.parametrize("command", WRITES)
def test_an_output_that_another_command_writes_is_refused(
    tmp_path: Path, source: Path, here: Callable, command: str
):
    out = tmp_path / "o.zarr"
    with locked(str(out)):
        code, printed, said = here(*WRITES[command](source, out))
    assert (code, printed) == (5, "")
    assert f"BusyError: another command that writes {out} is under way: process {os.getpid()}" in (
        " ".join(said.split())
    )
    assert sorted(tmp_path.iterdir()) == [source]


def test_of_two_commands_with_one_output_the_second_is_refused(tmp_path: Path, source: Path):
    """The first is stopped in between; it goes on as if there had been no other."""
    out = tmp_path / "o.json"
    words = [str(word) for word in (BIN / "chunkfold", *WRITES["reduce"](source, out))]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not lock_path(str(out)).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    try:
        second = finished(words, 60)
    finally:
        first.send_signal(signal.SIGCONT)
    assert second.returncode == 5, second.stderr
    assert f"process {first.pid} on " in second.stderr
    assert not out.exists()
    _, said = first.communicate(timeout=60)
    assert first.returncode == 0, said
    assert out.read_text() == '{\n  "mean": 11.5\n}\n'
    assert sorted(tmp_path.iterdir()) == [source, out]
