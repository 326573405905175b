"""Outputs of runs that were killed: the next run goes on with what was written, to the same bytes.

CHUNKFOLD_OUTPUT_KILLS is how many pyramids are killed at random moments.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import ChunkError, OutputError, PlanError
from chunkfold.events import Event, RunStarted
from chunkfold.outputs import staging_folder
from chunkfold.planning import blocks, ledger_spans, planner
from chunkfold.workflows.cli.common_options import or_skipped
from chunkfold.workflows.images.pyramid import pyramid
from chunkfold.workflows.regionwise import chunk_writers, zarr_tiles
from chunkfold.workflows.regionwise.changed_parts import PartWriter
from chunkfold.workflows.transforms.normalize import apply, normalization
from tests.ledgers import aged, files

pytestmark = pytest.mark.filterwarnings("ignore::chunkfold.errors.UnstoredWarning")
KILLS = int(os.environ.get("CHUNKFOLD_OUTPUT_KILLS", "4"))
IN_FLIGHT = 6
"""Blocks that may be under way, or on their way to the output and the ledger."""
SMALL = """
from chunkfold.planning import blocks, planner, ledger_spans
planner.LEAF_BYTES = 2048
blocks.BLOCK_BYTES = ledger_spans.BLOCK_BYTES = (2048, 4096)
"""
_KILLED = f"""
import json, os, signal, sys, time
{SMALL}
from chunkfold.events import BlockProgress
from chunkfold.workflows.regionwise import zarr_tiles
from chunkfold.workflows.images.pyramid import pyramid
zarr_tiles.MOST_OPEN = 4000
after, pause, count = int(sys.argv[5]), float(sys.argv[6]), 0
def hear(event):
    global count
    count += isinstance(event, BlockProgress) and event.done
    if count >= after:
        time.sleep(pause)
        os.kill(os.getpid(), signal.SIGKILL)
pyramid(sys.argv[1], sys.argv[2], ledger=sys.argv[3], on_event=hear, **json.loads(sys.argv[4]))
"""


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    for module in (blocks, ledger_spans):
        monkeypatch.setattr(module, "BLOCK_BYTES", (2048, 4096))
    monkeypatch.setattr(zarr_tiles, "MOST_OPEN", 4000)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Store an image of 13 times 16 chunks, some of which are 0, in a group."""
    values = np.random.default_rng(0).integers(0, 9, size=(200, 250)).astype("u2")
    values[:80, 100:] = 0
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("0", data=values, chunks=(16, 16), dimension_names=("y", "x"))
    aged(tmp_path / "a.zarr")
    return tmp_path / "a.zarr" / "0"


def killed(
    source: Path | str,
    out: Path | str,
    ledger: Path | str,
    after: int,
    pause: float = 0.3,
    *,
    first: str = "",
    **given: Any,
) -> None:
    """Kill a run when so many blocks are done; it runs some other lines `first`."""
    told = [source, out, ledger, json.dumps(given), after, pause]
    command = [sys.executable, "-c", first + _KILLED, *map(str, told)]
    ended = subprocess.run(command, check=False, timeout=120, capture_output=True, text=True)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr


def resumed(source: Path | str, out: Path | str, ledger: Path | str, **given: Any) -> int:
    """Make a pyramid with a ledger; return the blocks that it read."""
    read = []

    def hear(event: Event) -> None:
        if isinstance(event, RunStarted):
            read.append(event.blocks)

    pyramid(source, out, ledger=ledger, on_event=hear, **given)
    (blocks_read,) = read
    return blocks_read


def assert_same(found: Path, expected: Path) -> None:
    """See that two folders have the same files, and nothing else stands beside the first."""
    one, other = files(found), files(expected)
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []
    assert list(found.parent.glob(f".{found.name}.*-*")) == []


def undisturbed(source: Path, tmp_path: Path, **given: Any) -> tuple[Path, int]:
    """Make a pyramid with a ledger of its own; return it, and its blocks."""
    tmp_path.mkdir(exist_ok=True)
    out = tmp_path / "undisturbed.zarr"
    return out, resumed(source, out, tmp_path / "own.ledger", **given)


def test_another_host_goes_on_with_it(source: Path, tmp_path: Path, monkeypatch):
    """As a pod that took the place of another; but not while that one is at work."""
    out, ledger, own = tmp_path / "b.zarr", tmp_path / "l", staging_folder._prefix
    expected, every = undisturbed(source, tmp_path, levels=3)
    killed(source, out, ledger, every // 2, levels=3)
    (staging,) = tmp_path.glob(".b.zarr.*")
    monkeypatch.setattr(platform, "node", lambda: "pod-2")
    assert not staging.name.startswith(own(out))
    held = os.open(staging, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with staging_folder.resumed_folder(out, (staging / "b.zarr.staged").read_text()[:32]) as other:
        assert other != staging
        other.rmdir()
    os.close(held)
    assert resumed(source, out, ledger, levels=3) <= every - every // 2 + IN_FLIGHT
    assert_same(out, expected)


def test_another_host_removes_what_nobody_goes_on_with(source: Path, tmp_path: Path, monkeypatch):
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    expected, _ = undisturbed(source, tmp_path, levels=2)
    killed(source, out, ledger, 20, levels=3)
    monkeypatch.setattr(platform, "node", lambda: "pod-2")
    resumed(source, out, ledger, levels=2)
    assert_same(out, expected)


@pytest.mark.parametrize(
    "given",
    [
        {"levels": 4},
        {"levels": 2, "op": "max", "statistics": False},
        {"levels": 3, "op": "mode", "histogram": [0, 3, 9]},
        {"levels": 2, "factor": {"y": 3, "x": 1}, "op": "sum"},
    ],
    ids=["mean", "max", "mode", "sum"],
)
def test_what_was_written_is_neither_read_nor_written_again(
    source: Path, tmp_path: Path, given: Mapping[str, Any]
):
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    expected, every = undisturbed(source, tmp_path, **given)
    assert every > 25
    killed(source, out, ledger, every // 2, **given)
    (staging,) = tmp_path.glob(".b.zarr.*")
    before = {one: one.stat().st_mtime_ns for one in staging.rglob("*/c/*/*") if one.is_file()}
    names = {one: one.relative_to(staging / out.name) for one in before}
    assert resumed(source, out, ledger, **given) <= every - every // 2 + IN_FLIGHT
    assert_same(out, expected)
    kept = [one for one, when in before.items() if (out / names[one]).stat().st_mtime_ns == when]
    assert len(kept) > len(before) // 2


@pytest.mark.short
def test_kills_at_random_moments_change_no_byte(source: Path, tmp_path: Path):
    given = {"levels": 4}
    expected, every = undisturbed(source, tmp_path, **given)
    rng = random.Random(int(os.environ.get("CHUNKFOLD_CHAOS_SEED", "0")))
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    for _ in range(KILLS):
        killed(source, out, ledger, rng.randrange(1, 20), rng.choice([0, 0.01, 0.1]), **given)
        if out.exists():
            break
    else:
        assert resumed(source, out, ledger, **given) < every
    assert_same(out, expected)


def test_levels_beside_their_image_are_gone_on_with(source: Path, tmp_path: Path):
    expected, _ = undisturbed(source, tmp_path, levels=3)
    group, ledger = source.parent, tmp_path / "l"
    before = files(group)
    killed(source, group, ledger, 30, levels=3)
    hidden = {name: one for name, one in files(group).items() if not name.startswith(".")}
    assert hidden == before
    every = resumed(source, tmp_path / "c.zarr", tmp_path / "m", levels=3)
    assert resumed(source, group, ledger, levels=3) <= every - 30 + IN_FLIGHT
    for level in "123":
        assert files(group / level) == files(expected / level)
    assert not list(group.glob(".*"))


def _changed(source: Path, tmp_path: Path) -> None:
    array: Any = zarr.open_array(str(source))
    array[0:16, 0:16] = 7
    aged(source / "c" / "0", 1.65e9)


def _another_ledger(source: Path, tmp_path: Path) -> None:
    shutil.move(tmp_path / "l", tmp_path / "moved")


def _damaged(source: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    for file in (tmp_path / "l").iterdir():
        content = bytearray(file.read_bytes())
        content[-rng.randrange(1, 60)] ^= 1 << rng.randrange(8)
        file.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "given", "most"),
    [
        (_changed, {}, 8),  # of the row of chunks that is older now, and what was in flight
        (_damaged, {}, None),
        (_another_ledger, {}, None),
        (None, {"op": "max"}, None),
        (None, {"levels": 2}, None),
        (None, {"where": "x > 1"}, None),
        (None, {"initial": 3, "statistics": False}, None),
    ],
    ids=["chunk", "damaged", "ledger", "op", "levels", "where", "initial"],
)
def test_what_is_not_of_the_same_elements_and_question_is_made_anew(
    source: Path, tmp_path: Path, change: Any, given: Mapping[str, Any], most: int | None
):
    """None: as many blocks as without anything that was written."""
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    first = {"levels": 3, "op": "sum"}
    _, every = undisturbed(source, tmp_path / "first", **first)
    killed(source, out, ledger, every - 1, **first)
    if change is not None:
        change(source, tmp_path)
    expected, anew = undisturbed(source, tmp_path / "after", **{**first, **given})
    read = resumed(source, out, ledger, **{**first, **given})
    assert_same(out, expected)
    if most is None:
        assert read == anew or change is _damaged
    else:
        assert 0 < read <= most + IN_FLIGHT


@pytest.mark.short
def test_a_chunk_that_was_replaced_and_came_back_is_made_anew(source: Path, tmp_path: Path):
    """Between two kills its tile was overwritten: what the first run noted of it is gone."""
    out, ledger, given = tmp_path / "b.zarr", tmp_path / "l", {"levels": 3}
    expected, every = undisturbed(source, tmp_path, **given)
    chunk = source / "c" / "0" / "0"
    before = chunk.read_bytes()
    killed(source, out, ledger, every // 2, **given)
    zarr.open_array(str(source))[0:16, 0:16] = 7
    os.utime(chunk, (1.65e9, 1.65e9))
    killed(source, out, ledger, every // 4, **given)
    chunk.write_bytes(before)
    aged(source)
    assert resumed(source, out, ledger, **given)
    assert_same(out, expected)


def test_an_output_that_took_its_place_is_not_gone_on_with(source: Path, tmp_path: Path):
    """Its tiles are noted in the ledger, but the folder that they were written to is gone."""
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    every = resumed(source, out, ledger, levels=2)
    assert resumed(source, out, ledger, levels=2, overwrite=True) == every
    assert not list(tmp_path.glob(".b.zarr*"))


def test_a_run_without_the_ledger_removes_what_was_kept(source: Path, tmp_path: Path):
    out = tmp_path / "b.zarr"
    expected, _ = undisturbed(source, tmp_path, levels=2)
    killed(source, out, tmp_path / "l", 30, levels=2)
    assert list(tmp_path.glob(".b.zarr*"))
    pyramid(source, out, levels=2)
    assert_same(out, expected)


def test_the_command_takes_a_ledger(source: Path, tmp_path: Path, command: Callable):
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    command("pyramid", source, out, "--levels", 2, "-q", "--ledger", ledger)
    pyramid(source, tmp_path / "c.zarr", 2)
    assert_same(out, tmp_path / "c.zarr")
    command("ledger", "verify", ledger)


def test_a_bad_chunk_says_how_to_go_on(source: Path, tmp_path: Path):
    broken = source / "c" / "12" / "15"
    broken.write_bytes(broken.read_bytes()[:-3])
    with pytest.raises(ChunkError) as told, or_skipped("stop"):
        resumed(source, tmp_path / "b.zarr", tmp_path / "l")
    assert "goes on without it" in str(told.value)
    assert "goes on from there" in "".join(told.value.__notes__)


@pytest.mark.parametrize("good", [3, 20, 40])
def test_a_chunk_that_cannot_be_written_ends_the_run_and_is_written_by_the_next(
    source: Path, tmp_path: Path, monkeypatch, good: int
):
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    expected, every = undisturbed(source, tmp_path, levels=4)
    calls = itertools.count()

    def full(*given: Any) -> None:
        if next(calls) == good:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*given)

    write = chunk_writers._write
    with monkeypatch.context() as patch:
        patch.setattr(chunk_writers, "_write", full)
        with pytest.raises(OutputError, match="No space left"):
            resumed(source, out, ledger, levels=4)
    assert not out.exists()
    assert 0 < resumed(source, out, ledger, levels=4) <= every
    assert_same(out, expected)


def test_what_no_run_can_go_on_with_is_refused(source: Path, tmp_path: Path):
    own = cf.Monoid(
        "own", fields={"s": "float64"}, zero={"s": 0}, lift=lambda x: {"s": x}, op="max"
    )
    with pytest.raises(PlanError, match=r"ledger is given, but .*your own.*: omit the ledger"):
        pyramid(source, "b.zarr", 2, own, ledger=tmp_path / "l")


_APPLIED = """
import os, signal, sys, time
from chunkfold.workflows.regionwise import changed_parts
from chunkfold.workflows.transforms.normalize import apply, normalization
changed_parts.NOTED_EVERY_S = float(sys.argv[5])
source, out, ledger, after = *sys.argv[1:4], int(sys.argv[4])
found, count, ended = normalization(source), 0, changed_parts.NotedParts.ended
def told(self, box):
    global count
    ended(self, box)
    count += 1
    if count == after:
        os.kill(os.getpid(), signal.SIGKILL)
changed_parts.NotedParts.ended = told
apply(source, found, out, ledger=ledger)
"""
PARTS = 13 * 16


def applied(
    source: Path | str,
    out: Path | str,
    ledger: Path | str,
    monkeypatch: pytest.MonkeyPatch,
    by: str = "mean-std",
) -> int:
    """Apply a normalization with a ledger; return how many parts were written."""
    calls, write = itertools.count(), PartWriter.__call__
    with monkeypatch.context() as patch:
        patch.setattr(PartWriter, "__call__", lambda own, box: (next(calls), write(own, box))[1])
        apply(source, normalization(source, by=by), out, ledger=ledger)
    return next(calls)


def killed_applying(
    source: Path | str,
    out: Path | str,
    ledger: Path | str,
    after: int,
    every: float = 0.0,
    first: str = "",
) -> None:
    told = [sys.executable, "-c", first + _APPLIED, source, out, ledger, after, every]
    ended = subprocess.run([*map(str, told)], check=False, timeout=120, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert isinstance(out, str) or not out.exists()


@pytest.mark.short
def test_a_normalized_array_is_gone_on_with(source: Path, tmp_path: Path, monkeypatch):
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    assert applied(source, tmp_path / "c.zarr", tmp_path / "m", monkeypatch, "mean-std") == PARTS
    killed_applying(source, out, ledger, 60)
    killed_applying(source, out, ledger, 60, every=1e9)  # which notes nothing
    assert applied(source, out, ledger, monkeypatch, "mean-std") == PARTS - 60
    assert_same(out, tmp_path / "c.zarr")


def _restored(source: Path, tmp_path: Path) -> None:
    """Kill a run when it has overwritten a part; then put its chunk back."""
    chunk, before = source / "c" / "0" / "0", (source / "c" / "0" / "0").read_bytes()
    zarr.open_array(str(source))[0:16, 0:16] = zarr.open_array(str(source))[0:16, 0:16][::-1]
    os.utime(chunk, (1.65e9, 1.65e9))  # mean and deviation stay the same
    killed_applying(source, tmp_path / "b.zarr", tmp_path / "l", 10)
    chunk.write_bytes(before)
    os.utime(chunk, (1.7e9, 1.7e9))


@pytest.mark.parametrize(
    ("change", "by", "written"),
    [
        (_restored, "mean-std", PARTS - 150 - 10 + 2),
        (_damaged, "mean-std", None),
        (_another_ledger, "mean-std", PARTS),
        (_changed, "mean-std", PARTS),
        (None, "min-max", PARTS),
    ],
    ids=["restored", "damaged", "ledger", "changed", "question"],
)
def test_parts_of_other_chunks_or_normalizations_are_written_anew(
    source: Path, tmp_path: Path, monkeypatch, change: Any, by: str, written: int | None
):
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    killed_applying(source, out, ledger, 150)
    if change is not None:
        change(source, tmp_path)
    applied(source, tmp_path / "c.zarr", tmp_path / "m", monkeypatch, by)
    found = applied(source, out, ledger, monkeypatch, by)
    assert found == written if written is not None else found > PARTS - 150
    assert_same(out, tmp_path / "c.zarr")


def test_the_command_goes_on_with_a_normalized_array(
    source: Path, tmp_path: Path, command: Callable
):
    out, ledger = tmp_path / "b.zarr", tmp_path / "l"
    words = ("normalize", source, "--apply", out, "-q", "--ledger", ledger)
    killed_applying(source, out, ledger, 100)
    (staging,) = tmp_path.glob(".b.zarr.*-*")
    before = {one.name: one.stat().st_mtime_ns for one in (staging / "b.zarr/c/0").iterdir()}
    command(*words)
    assert before == {one.name: one.stat().st_mtime_ns for one in (out / "c/0").iterdir()}
    command("normalize", source, "--apply", tmp_path / "c.zarr", "-q")
    assert_same(out, tmp_path / "c.zarr")
