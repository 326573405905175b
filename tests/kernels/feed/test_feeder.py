"""Bytes of files in a device's memory: natively and by Python, on every device."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chunkfold.kernels import Device, DeviceContext
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.feed.commands import UNKNOWN, NotFed, Runs, commands_of
from chunkfold.kernels.feed.feeder import Feeder
from chunkfold.kernels.feed.native import CommandList, FeedOutcome

WAYS = ["native", "python"]
PIECE = 1 << 12


@pytest.fixture(params=WAYS)
def opened(request: pytest.FixtureRequest, device: Device) -> DeviceContext:
    if request.param == "native":
        assert device.lacks("native_feed") is None, "build it: pip install -e ."
        return DeviceContext(device)
    return DeviceContext(replace(device, without=frozenset({"native_feed"})))


class Files:
    """Files of random bytes, and runs of them that fill a buffer."""

    def __init__(self, folder: Path, sizes: list[int], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.contents = [rng.integers(0, 256, size, np.uint8) for size in sizes]
        self.names = [str(folder / f"{n}.bin") for n in range(len(sizes))]
        for name, content in zip(self.names, self.contents, strict=True):
            Path(name).write_bytes(content.tobytes())
        self.files = np.array([[size, UNKNOWN, 1] for size in sizes])

    def runs(self, *runs: tuple[int, int, int, int]) -> Runs:
        return Runs(self.names, self.files, np.array(runs))

    def wanted(self, runs: Runs) -> np.ndarray:
        file, offset, place, size = runs.runs.T
        out = np.zeros((place + size).max(), np.uint8)
        for n in range(len(runs.runs)):
            held = self.contents[file[n]][offset[n] : offset[n] + size[n]]
            out[place[n] : place[n] + size[n]] = held
        return out


def buffer_of(opened: DeviceContext, nbytes: int) -> cl.Buffer:
    return cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, nbytes)


def fed(opened: DeviceContext, feeder: Feeder, runs: Runs, nbytes: int) -> np.ndarray:
    buffer, out = buffer_of(opened, nbytes), np.empty(nbytes, "u1")
    feeder.feed(runs, buffer)
    cl.enqueue_copy(opened.queue(), out, buffer)
    return out


@given(data=st.data())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_buffer_has_the_bytes_of_its_runs(
    opened: DeviceContext, tmp_path: Path, data: st.DataObject
):
    """Of any sizes, in any order, across pieces and slots."""
    sizes = data.draw(st.lists(st.integers(1, 3 * PIECE), min_size=1, max_size=5))
    files = Files(tmp_path, sizes)
    place, runs = 0, []
    for _ in range(data.draw(st.integers(1, 12))):
        n = data.draw(st.integers(0, len(sizes) - 1))
        offset = data.draw(st.integers(0, sizes[n] - 1))
        size = data.draw(st.integers(1, sizes[n] - offset))
        runs.append((n, offset, place, size))
        place += size
    given_runs = files.runs(*data.draw(st.permutations(runs)))
    feeder = Feeder(opened, data.draw(st.integers(1, 4)), PIECE)
    for _ in range(2):
        assert np.array_equal(fed(opened, feeder, given_runs, place), files.wanted(given_runs))
    feeder.close()


def test_rows_of_chunks_side_by_side_are_interleaved(opened: DeviceContext, tmp_path: Path):
    files = Files(tmp_path, [3000, 3000])
    runs = files.runs(*[(n % 2, n // 2 * 30, n * 30, 30) for n in range(200)])
    feeder = Feeder(opened, 2, PIECE)
    assert np.array_equal(fed(opened, feeder, runs, 6000), files.wanted(runs))


def test_callers_share_the_threads(opened: DeviceContext, tmp_path: Path):
    files, feeder = Files(tmp_path, [9 * PIECE, 7 * PIECE, 100]), Feeder(opened, 3, PIECE)
    each = [files.runs((n, 0, 0, len(files.contents[n]))) for n in (0, 1, 2)]
    with ThreadPoolExecutor(6) as pool:
        found = list(
            pool.map(lambda runs: fed(opened, feeder, runs, int(runs.runs[0, 3])), [*each * 6])
        )
    for runs, out in zip(each * 6, found, strict=True):
        assert np.array_equal(out, files.wanted(runs))


def test_uploads_wait_for_events_and_are_timed(opened: DeviceContext, tmp_path: Path):
    files, feeder = Files(tmp_path, [5 * PIECE]), Feeder(opened, 2, PIECE)
    gate, runs = cl.UserEvent(opened.context), files.runs((0, 0, 0, 5 * PIECE))
    buffer = buffer_of(opened, 5 * PIECE)
    with ThreadPoolExecutor(1) as pool:
        feeding = pool.submit(feeder.feed, runs, buffer, [gate])
        with pytest.raises(TimeoutError):
            feeding.result(0.1)
        gate.set_status(cl.command_execution_status.COMPLETE)
        feeding.result(10)
    feeder.feed(runs, buffer)
    assert feeder.uploaded_s() > 0


def test_a_command_before_it_that_failed_is_an_error(device: Device, tmp_path: Path):
    """Natively: the status of such an upload is 0 with Intel's runtime; only its wait tells."""
    if device.spec.startswith("pocl"):  # whose commands never end then; it shares host memory
        return
    opened = DeviceContext(device)
    files, feeder = Files(tmp_path, [PIECE]), Feeder(opened, 1, PIECE)
    gate = cl.UserEvent(opened.context)
    with ThreadPoolExecutor(1) as pool:
        feeding = pool.submit(
            feeder.feed, files.runs((0, 0, 0, PIECE)), buffer_of(opened, PIECE), [gate]
        )
        gate.set_status(-1)
        with pytest.raises(DeviceError, match="failed while uploading"):
            feeding.result(10)


FAULTS = {
    "gone": (lambda path: path.unlink(), "cannot be opened"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "not a regular file"),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "not a regular file"),
    "cut": (lambda path: path.write_bytes(b"x" * 10), "has 10 bytes"),
    "longer": (lambda path: path.write_bytes(b"x" * (PIECE + 1)), "has 4,097 bytes"),
    "written later": (lambda path: os.utime(path, ns=(0, 2_000_000_000_000_000_000)), "written at"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_another_one_is_told(opened: DeviceContext, tmp_path: Path, fault: str):
    files = Files(tmp_path, [PIECE, PIECE])
    files.files[:, 1] = time.time_ns()
    do, told = FAULTS[fault]
    do(Path(files.names[1]))
    feeder, buffer = Feeder(opened, 2, PIECE), buffer_of(opened, 2 * PIECE)
    runs = files.runs((0, 0, 0, PIECE), (1, 0, PIECE, PIECE))
    with pytest.raises(NotFed, match=rf"1\.bin: .*{told}"):
        feeder.feed(runs, buffer)
    alone = files.runs((0, 0, 0, PIECE))  # it goes on with others
    assert np.array_equal(fed(opened, feeder, alone, PIECE), files.wanted(alone))


def test_a_file_that_ends_early_is_told(opened: DeviceContext, tmp_path: Path):
    files = Files(tmp_path, [100])
    files.files[:, 0] = UNKNOWN
    feeder, buffer = Feeder(opened, 2, PIECE), buffer_of(opened, 200)
    with pytest.raises(NotFed, match=r"0\.bin: it ends at 100"):
        feeder.feed(files.runs((0, 0, 0, 200)), buffer)


def test_names_may_be_no_text(opened: DeviceContext, tmp_path: Path):
    path = os.fsencode(tmp_path) + b"/\xff.bin"
    Path(os.fsdecode(path)).write_bytes(b"abc")
    runs = Runs([os.fsdecode(path)], np.array([[3, UNKNOWN, 1]]), np.array([[0, 0, 0, 3]]))
    assert fed(opened, Feeder(opened, 1, PIECE), runs, 3).tobytes() == b"abc"


@pytest.mark.parametrize("field", ["runs", "pieces", "files"])
def test_native_commands_out_of_bounds_are_refused(device: Device, tmp_path: Path, field: str):
    """Whatever stands in a command list: random numbers, each alone, in a list that is right."""
    opened, rng = DeviceContext(device), np.random.default_rng(7)
    files, feeder = Files(tmp_path, [3 * PIECE]), Feeder(opened, 2, PIECE)
    buffer = buffer_of(opened, 3 * PIECE)
    library = feeder._native
    assert library is not None
    for _ in range(300):
        commands = commands_of(files.runs((0, 0, 0, 3 * PIECE)), PIECE)
        table = getattr(commands, field)
        at = tuple(rng.integers(0, size) for size in table.shape)
        table[at] = rng.choice([-(2**63), -1, 0, 1, PIECE - 1, PIECE + 1, 2**31, 2**62, 2**63 - 1])
        given_list = CommandList(
            buffer.int_ptr, buffer.size, commands.names, len(commands.names),
            commands.files.ctypes.data, len(commands.files), commands.runs.ctypes.data,
            len(commands.runs), commands.pieces.ctypes.data, len(commands.pieces), None, 0,
        )  # fmt: skip
        outcome = FeedOutcome()
        assert 0 <= library.feed(feeder._pool, given_list, outcome) < 8


ROUNDS = 2_000
"""About two seconds."""


@pytest.mark.parametrize("checks", ["address,undefined", "thread"])
def test_native_code_is_clean_whatever_it_is_given(tmp_path: Path, checks: str):
    """With sanitizers, beside an OpenCL that fails at times."""
    folder = Path(__file__).parent
    flags = ["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    checked = [f"-fsanitize={checks}", "-fno-sanitize-recover=all"]
    made = tmp_path / "fuzz"
    source = ["-I", folder.parents[2] / "kernels" / "feed", folder / "fuzz_feed.c"]
    subprocess.run(["cc", *flags, *checked, *source, "-o", made], check=True, timeout=120)
    files = tmp_path / "files"
    files.mkdir()
    words = [made, files, "11", str(ROUNDS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    counts = dict(one.split(":") for one in done.stdout.split())
    for why in "01478":  # done, refused, other sizes, ends, devices that fail
        assert int(counts[why]), counts


def test_a_forked_process_leaves_the_threads_alone(device: Device, tmp_path: Path):
    """It has none: to wait for them would be for ever."""
    opened = DeviceContext(device)
    files, feeder = Files(tmp_path, [PIECE]), Feeder(opened, 2, PIECE)
    child = os.fork()
    if not child:
        feeder.close()
        os._exit(0)
    deadline = time.monotonic() + 20
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ended[1] == 0
    runs = files.runs((0, 0, 0, PIECE))
    assert np.array_equal(fed(opened, feeder, runs, PIECE), files.wanted(runs))
