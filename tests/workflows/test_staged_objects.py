"""Outputs at URLs of runs that were killed. The store is obstore's of a folder, where it can be.

`tests/real/test_ledgers.py` has a server of S3.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zarr
from obstore.store import LocalStore

from chunkfold.errors import BusyError, PlanError
from chunkfold.outputs import staged_objects, uploads
from chunkfold.outputs.outputs import check_output
from chunkfold.workflows.images import pyramid as pyramids
from chunkfold.workflows.transforms import normalize
from chunkfold.workflows.transforms.transform import transform
from tests.ledgers import aged, files
from tests.workflows import test_resumed_outputs as local

pytestmark = pytest.mark.filterwarnings("ignore::chunkfold.errors.UnstoredWarning")
source, _small_leaves = local.source, local._small_leaves
OUT, GIVEN = "s3://bucket/b.zarr", {"levels": 3}
_FOLDER = """
import obstore
from obstore.store import LocalStore
from chunkfold.workflows.transforms import normalize
from chunkfold.workflows.images import pyramid as pyramids
from chunkfold.outputs import staged_objects
from chunkfold.outputs import uploads
uploads.open_store = staged_objects.open_store = lambda url: LocalStore(
    {folder!r} + url.removeprefix("s3:/"), mkdir=True
)
normalize.open_node = pyramids.open_node = lambda out: out
"""
_KILLED_COPYING = """
import os, signal
copy, copied = obstore.copy, []
def counted(*given):
    copy(*given)
    copied.append(given)
    if len(copied) == {count}:
        os.kill(os.getpid(), signal.SIGKILL)
obstore.copy = counted
"""


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let s3:// be a folder; return the lines by which another process does so."""
    folder = tmp_path / "s3"
    for module in (uploads, staged_objects):
        monkeypatch.setattr(
            module, "open_store", lambda url: LocalStore(folder / url[len("s3://") :], mkdir=True)
        )
    for opens in (normalize, pyramids):
        monkeypatch.setattr(opens, "open_node", lambda out: out)
    return _FOLDER.format(folder=str(folder))


def there(tmp_path: Path) -> dict[str, bytes]:
    """Return what is in the bucket, but for files that a kill left of the store's own."""
    found = files(tmp_path / "s3" / "bucket")
    return {name: content for name, content in found.items() if "#" not in name}


def assert_placed(tmp_path: Path, expected: Path) -> None:
    """See that the output has the same files as another, and that nothing else is there."""
    want = {f"b.zarr/{name}": content for name, content in files(expected).items()}
    assert there(tmp_path).keys() == want.keys()
    assert [name for name, content in there(tmp_path).items() if content != want[name]] == []


@pytest.mark.short
def test_levels_that_were_written_are_not_made_again(source: Path, tmp_path: Path, first: str):
    expected, every = local.undisturbed(source, tmp_path, **GIVEN)
    local.killed(source, OUT, tmp_path / "l", every // 2, first=first, **GIVEN)
    assert there(tmp_path)
    assert all(name.startswith(".b.zarr.staged/") for name in there(tmp_path))
    left = local.resumed(source, OUT, tmp_path / "l", **GIVEN)
    assert 0 < left <= every - every // 2 + local.IN_FLIGHT
    assert_placed(tmp_path, expected)


def test_parts_that_were_written_are_not_made_again(
    source: Path, tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
):
    ledger, expected = tmp_path / "l", tmp_path / "c.zarr"
    every = local.applied(source, expected, tmp_path / "m", monkeypatch)
    local.killed_applying(source, OUT, ledger, 60, first=first)
    local.killed_applying(source, OUT, ledger, 20, first=first)
    assert local.applied(source, OUT, ledger, monkeypatch) == every - 80
    assert_placed(tmp_path, expected)


def test_a_changed_chunk_is_made_again(source: Path, tmp_path: Path, first: str):
    ledger, (_, every) = tmp_path / "l", local.undisturbed(source, tmp_path / "m", **GIVEN)
    local.killed(source, OUT, ledger, every - 1, first=first, **GIVEN)
    zarr.open_array(str(source))[0:16, 0:16] = 7
    aged(source / "c" / "0", 1.65e9)
    expected, _ = local.undisturbed(source, tmp_path / "n", **GIVEN)
    assert 0 < local.resumed(source, OUT, ledger, **GIVEN) <= 8 + local.IN_FLIGHT
    assert_placed(tmp_path, expected)


@pytest.mark.parametrize("given", [{"levels": 2}, {"ledger": None}], ids=["question", "no ledger"])
def test_what_another_question_left_goes(
    source: Path, tmp_path: Path, first: str, given: dict[str, Any]
):
    local.killed(source, OUT, tmp_path / "l", 20, first=first, levels=3)
    given = {"levels": 3, "ledger": tmp_path / "l", **given}
    pyramids.pyramid(source, OUT, **given)
    pyramids.pyramid(source, tmp_path / "c.zarr", given["levels"])
    assert_placed(tmp_path, tmp_path / "c.zarr")


@pytest.mark.parametrize("count", [1, 5, 60, 120])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_kill_while_it_takes_its_place_loses_nothing(
    source: Path, tmp_path: Path, first: str, count: int, overwrite: bool
):
    """There are 115 objects of chunks and 4 of metadata, of which the root comes last."""
    expected, _ = local.undisturbed(source, tmp_path, **GIVEN)
    if overwrite:
        pyramids.pyramid(source, OUT, 1)
    lines = first + _KILLED_COPYING.format(count=count)
    given = {**GIVEN, "overwrite": overwrite}
    local.killed(source, OUT, tmp_path / "l", 1000, first=lines, **given)
    if count < len(files(expected)):
        assert "b.zarr/zarr.json" not in there(tmp_path)
        assert local.resumed(source, OUT, tmp_path / "l", **given) == 0
    assert_placed(tmp_path, expected)


def test_a_kill_while_it_goes_on_with_another_loses_nothing(
    source: Path, tmp_path: Path, first: str
):
    expected, every = local.undisturbed(source, tmp_path, **GIVEN)
    local.killed(source, OUT, tmp_path / "l", every // 2, first=first, **GIVEN)
    lines = first + _KILLED_COPYING.format(count=4)
    local.killed(source, OUT, tmp_path / "l", 1000, first=lines, **GIVEN)
    left = local.resumed(source, OUT, tmp_path / "l", **GIVEN)
    assert left <= every - every // 2 + local.IN_FLIGHT
    assert_placed(tmp_path, expected)


def test_the_run_that_was_gone_on_with_ends(tmp_path: Path, first: str):
    """As that of a pod whose node was cut off, and which was replaced."""
    with pytest.raises(BusyError, match="another run writes it now"):  # noqa: SIM117, PT012
        with staged_objects.staged_objects(OUT, "q", overwrite=False) as old:
            array = zarr.create_array(old.made, shape=(2,), chunks=(1,), dtype="u1")
            array[0] = 1
            old.keep()
            with staged_objects.staged_objects(OUT, "q", overwrite=False) as new:
                assert new.name == old.name
                assert zarr.open_array(new.made, mode="r")[0] == 1
                array[:] = 2
                with pytest.raises(BusyError):
                    old.keep()
                zarr.open_array(new.made, mode="r+")[1] = 3
    found = zarr.open_array(str(tmp_path / "s3/bucket/b.zarr"), mode="r")
    assert found[...].tolist() == [1, 3]
    assert all(name.startswith("b.zarr/") for name in there(tmp_path))


def test_a_pyramid_that_was_gone_on_with_ends_early(
    source: Path, tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
):
    kept, calls = staged_objects.StagedObjects.keep, []

    def taken(one: staged_objects.StagedObjects) -> None:
        calls.append(one)
        if len(calls) == 2:
            staged_objects._begun(OUT, one._note.question)
        kept(one)

    monkeypatch.setattr(staged_objects.StagedObjects, "keep", taken)
    with pytest.raises(BusyError, match="another run writes it now"):
        local.resumed(source, OUT, tmp_path / "l", **GIVEN)
    assert not any(name.startswith("b.zarr") for name in there(tmp_path))


@pytest.mark.parametrize("count", [1, 60])
def test_a_store_that_fails_while_it_takes_its_place_is_in_nobodys_way(
    source: Path, tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch, count: int
):
    import obstore

    copy, copied = obstore.copy, list[str]()

    def failing(*given: Any) -> None:
        copied.append(given[-1])
        if len(copied) > count:
            raise OSError("the store is away")
        copy(*given)

    with monkeypatch.context() as patched:
        patched.setattr(obstore, "copy", failing)
        with pytest.raises(PlanError, match="the store is away"):
            pyramids.pyramid(source, OUT, 3)
    assert any(name.startswith("b.zarr/") for name in there(tmp_path))
    assert "b.zarr/zarr.json" not in there(tmp_path)
    check_output(OUT)
    pyramids.pyramid(source, OUT, 3)
    pyramids.pyramid(source, tmp_path / "c.zarr", 3)
    assert_placed(tmp_path, tmp_path / "c.zarr")


def test_what_came_meanwhile_is_not_overwritten(source: Path, tmp_path: Path, first: str):
    bucket = tmp_path / "s3" / "bucket"
    with pytest.raises(PlanError, match="was created meanwhile"):  # noqa: SIM117, PT012
        with staged_objects.staged_objects(OUT, "", overwrite=False) as made:
            zarr.create_array(made.made, shape=(2,), dtype="u1")
            (bucket / "b.zarr").mkdir()
            (bucket / "b.zarr" / "mine.txt").write_text("mine")
    assert there(tmp_path) == {"b.zarr/mine.txt": b"mine"}


def test_files_of_others_are_not_taken_for_a_part_of_it(source: Path, tmp_path: Path, first: str):
    """A run was killed as its output took its place; then something else came there."""
    lines = first + _KILLED_COPYING.format(count=5)
    local.killed(source, OUT, tmp_path / "l", 1000, first=lines, **GIVEN)
    check_output(OUT)
    (tmp_path / "s3" / "bucket" / "b.zarr" / "mine.txt").write_text("mine")
    with pytest.raises(PlanError, match="exists"):
        local.resumed(source, OUT, tmp_path / "l", **GIVEN)


def test_an_interrupt_without_a_ledger_leaves_nothing(source: Path, tmp_path: Path, first: str):
    lines = (
        "from chunkfold.workflows.regionwise import zarr_tiles\n"
        "import os, signal\n"
        "zarr_tiles.ZarrTiles.end = lambda _: os.kill(os.getpid(), signal.SIGINT)\n"
    )
    told = f"pyramids.pyramid({str(source)!r}, {OUT!r}, 2)"
    command = [sys.executable, "-c", first + lines + told]
    ended = subprocess.run(command, check=False, timeout=120, capture_output=True)
    assert ended.returncode == -signal.SIGINT, ended.stderr
    assert there(tmp_path) == {}


def test_a_transformation_writes_to_folders_alone(source: Path, first: str):
    with pytest.raises(PlanError, match="is a URL, and workers read statistics"):
        transform(source, OUT, "anomaly", axis=0)
