"""What is written behind a web server after a run was planned does not get into its result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from numcodecs import Delta

import chunkfold as cf
from chunkfold.errors import ChangedError
from chunkfold.events import RunStarted
from chunkfold.planning import in_memory
from chunkfold.stores import servers
from tests.web import Sent, Web, served

pytestmark = pytest.mark.unoptimised
LAYOUTS = {
    "zstd": {"chunks": (4, 50)},
    "uncompressed": {"chunks": (4, 50), "compressors": None},
    "shards": {"chunks": (2, 25), "shards": (4, 50)},
    "format 2": {"chunks": (4, 50), "zarr_format": 2},
    "by zarr": {"chunks": (4, 50), "zarr_format": 2, "filters": [Delta("<f8")]},
}
VALUES = np.random.default_rng(0).integers(0, 2**40, (30, 100)).astype("f8")
HOUR = 3600


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(servers, "BACKOFF_S", (0.005, 0.02))
    with dask.config.set({"chunkfold.remote.retry": "3 s", "chunkfold.remote.stall": "2 s"}):
        yield


def made(folder: Path, layout: str = "zstd", name: str = "a") -> Path:
    """Store an array; return the file of one of its chunks."""
    array = zarr.create_array(str(folder / name), shape=VALUES.shape, dtype="f8", **LAYOUTS[layout])
    array[...] = VALUES
    return folder / name / array.metadata.encode_chunk_key((3, 1))


def rewritten(file: Path) -> None:
    """Write to a file, as of ten seconds later."""
    file.write_bytes(file.read_bytes())
    later = time.time() + 10
    os.utime(file, (later, later))


@dataclass
class Clock:
    """Answers as file servers do: with the times of files, and the time that it is."""

    web: Web
    ahead_s: float = 0.0
    """By how much the server's clock, of which files have their times too, is ahead."""
    hidden: tuple[str, ...] = ()
    """Headers that are not sent."""
    tagged: bool = False
    now: Callable[[], float] = field(default=time.time)

    def __call__(self, sent: Sent) -> None:
        status = (self.web.folder / sent.path.lstrip("/")).stat()
        told = {
            "Date": formatdate(self.now() + self.ahead_s, usegmt=True),
            "Last-Modified": formatdate(status.st_mtime + self.ahead_s, usegmt=True),
        }
        sent.headers |= {name: "" if name in self.hidden else told[name] for name in told}
        if self.tagged:
            sent.headers["ETag"] = f'"{status.st_mtime_ns}"'


def opened(web: Web, **given) -> Clock:
    web.changing = clock = Clock(web, **given)
    return clock


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("ahead_s", [0, HOUR, -HOUR])
def test_a_chunk_that_is_written_after_planning_ends_the_run(
    tmp_path: Path, layout: str, tagged: bool, ahead_s: int
):
    file = made(tmp_path, layout)
    key = file.relative_to(tmp_path / "a")
    with served(tmp_path) as web:
        opened(web, ahead_s=ahead_s, tagged=tagged)
        plan = cf.plan(f"{web.url}/a", ["sum", "max"])
        assert cf.reduce(plan)["max"] == VALUES.max()
        rewritten(file)
        with pytest.raises(
            ChangedError, match=rf"'{key}' changed while it was read: .*after the run was planned"
        ):
            cf.reduce(plan)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ahead_s", [0, HOUR, -HOUR])
def test_an_array_that_was_written_in_the_second_of_planning_is_read(
    tmp_path: Path, layout: str, ahead_s: int
):
    with served(tmp_path) as web:
        clock = opened(web, ahead_s=ahead_s)
        file = made(tmp_path, layout)
        second = int(file.stat().st_mtime)
        for one in tmp_path.rglob("*"):  # writing may take longer than what is left of a second
            os.utime(one, (second + 0.5, second + 0.5))
        clock.now = lambda: second
        assert cf.reduce(f"{web.url}/a", "max") == VALUES.max()


@pytest.mark.parametrize("hidden", [("Date",), ("Last-Modified",), ("Date", "Last-Modified")])
@pytest.mark.parametrize("layout", ["zstd", "by zarr"])
def test_servers_that_tell_no_times_are_read(tmp_path: Path, layout: str, hidden: tuple[str, ...]):
    rewritten(made(tmp_path, layout))
    with served(tmp_path) as web:
        opened(web, hidden=hidden)
        assert cf.reduce(f"{web.url}/a", "max") == VALUES.max()


def test_a_date_that_a_cache_kept_is_as_much_older_as_the_cache_says(tmp_path: Path):
    file = made(tmp_path)
    with served(tmp_path) as web:
        clock = opened(web)

        def kept(sent: Sent) -> None:
            clock(sent)
            if sent.path.endswith("zarr.json"):
                sent.headers["Date"] = formatdate(time.time() - HOUR, usegmt=True)
                sent.headers["Last-Modified"] = formatdate(time.time() - 2 * HOUR, usegmt=True)
                sent.headers["Age"] = str(HOUR)

        web.changing = kept
        assert cf.reduce(f"{web.url}/a", "max") == VALUES.max()
        plan = cf.plan(f"{web.url}/a", "max")
        rewritten(file)
        with pytest.raises(ChangedError, match="after the run was planned"):
            cf.reduce(plan)


def test_a_server_that_refuses_to_be_asked_for_states_tells_the_time_all_the_same(tmp_path: Path):
    file = made(tmp_path)
    with served(tmp_path) as web:
        opened(web)
        web.heads = False
        plan = cf.plan(f"{web.url}/a", "max")
        assert cf.reduce(plan) == VALUES.max()
        rewritten(file)
        with pytest.raises(ChangedError, match="after the run was planned"):
            cf.reduce(plan)


@pytest.mark.parametrize("layout", ["zstd", "by zarr"])
@pytest.mark.parametrize("shape", [(32, 100), (30, 100)])
def test_a_part_of_a_concatenation_that_is_written_after_planning_ends_the_run(
    tmp_path: Path, layout: str, shape: tuple[int, int]
):
    """Where chunks of all are one grid, and where they are not."""
    file = made(tmp_path, layout, "b")
    zarr.create_array(str(tmp_path / "a"), shape=shape, dtype="f8", **LAYOUTS[layout])[...] = 1
    with served(tmp_path) as web:
        opened(web)
        both = cf.concatenate([f"{web.url}/a", f"{web.url}/b"])
        plan = cf.plan(both, "max")
        assert cf.reduce(plan) == VALUES.max()
        rewritten(file)
        with pytest.raises(ChangedError, match=r"b: .* changed while it was read"):
            cf.reduce(plan)
        assert cf.reduce(cf.plan(f"{web.url}/a", "max")) == 1


def test_a_source_that_is_reduced_again_is_planned_again(tmp_path: Path):
    file = made(tmp_path)
    with served(tmp_path) as web:
        clock = opened(web)
        both = cf.concatenate([f"{web.url}/a", f"{web.url}/a"])
        assert cf.reduce(both, "max") == VALUES.max()
        rewritten(file)
        clock.now = lambda: time.time() + 20
        assert cf.reduce(both, "max") == VALUES.max()


@pytest.fixture
def _read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements are not kept for a quantile."""
    monkeypatch.setattr(in_memory, "LEAST_OUTPUTS", 1 << 30)


def median_while(url: str, happens: Callable[[], object]) -> cf.Run:
    """Take a median, to whose data something happens when they have been read once."""
    reads = list[RunStarted]()

    def on_event(event: object) -> None:
        if isinstance(event, RunStarted):
            reads.append(event)
            if len(reads) == 2:
                happens()

    run = cf.submit(url, "median", on_event=on_event)
    try:
        run.result()
    finally:
        assert len(reads) >= 2
    return run


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("change", ["written", "gone"])
@pytest.mark.usefixtures("_read_twice")
def test_a_chunk_that_changes_between_reads_ends_the_run(tmp_path: Path, layout: str, change: str):
    file = made(tmp_path, layout)
    key, told = file.relative_to(tmp_path / "a"), {"written": "was written at", "gone": "is gone"}
    with served(tmp_path) as web:
        opened(web)
        happens = file.unlink if change == "gone" else lambda: rewritten(file)
        with pytest.raises(
            ChangedError, match=rf"/a: \w+ '{key}' changed while it was read: .*{told[change]}"
        ):
            median_while(f"{web.url}/a", happens)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("_read_twice")
def test_chunks_that_were_never_there_are_fill_in_each_read(tmp_path: Path, layout: str):
    file = made(tmp_path, layout)
    file.unlink()
    want = np.median(zarr.open_array(str(tmp_path / "a"), mode="r")[...])
    with served(tmp_path) as web:
        opened(web)
        run = median_while(f"{web.url}/a", lambda: None)
        assert run.result() == want
        assert [count for count, _ in run.missing.values()] == [1]
