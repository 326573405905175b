"""Fixtures of the whole suite: a private cache, every device, every shape of kernel."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The suite starts hundreds of processes. Where containers are told to write no bytecode, each would
# compile all of chunkfold anew, which takes as long as all its other imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Before anything of chunkfold looks for it: tests neither use nor touch a user's cache. Those of
# one run that pytest-xdist starts share one.
_CACHE = tempfile.TemporaryDirectory(prefix="chunkfold-tests-")
os.environ.setdefault("CHUNKFOLD_CACHE", _CACHE.name)
# Measurements are for one test of their own; elsewhere they would cost minutes.
os.environ["CHUNKFOLD_TIES"] = "table"

from chunkfold.kernels import Accumulator, Device, DeviceContext, Tuning, all_devices  # noqa: E402
from chunkfold.kernels.device.host import default_devices, split  # noqa: E402
from chunkfold.kernels.geometry import FOLDS  # noqa: E402
from chunkfold.kernels.program.options import VARIANTS  # noqa: E402
from chunkfold.kernels.tuning.tuning_choice import try_tunings  # noqa: E402
from chunkfold.kernels.tuning.variant import forced, why_not  # noqa: E402
from chunkfold.stores import guarded_stores  # noqa: E402
from tests.collected import (  # noqa: E402
    covering,
    left_to_all,
    longest_first,
    parameters_of,
    read_times,
    write_times,
)
from tests.commands import clusters, command, here  # noqa: E402, F401 # fixtures
from tests.forked import fork_workers, spawned  # noqa: E402

fork_workers()

SHORT = "CHUNKFOLD_SHORT" in os.environ
"""Whether the short form of the suite is wanted, as `make test` does (tests/collected.py)."""

settings.register_profile(
    "suite",
    deadline=None,
    max_examples=10 if SHORT else 25,
    # CI repeats itself; on a developer's machine every run tries something new.
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

DEVICES = sorted(all_devices(), key=lambda device: device not in default_devices()[0])
"""Those that users have unless they ask for another come first: any test that needs one has it."""
SHAPES = (*VARIANTS, "tree-64", "tree-stride", "work_group-odd", "sub_group-odd", "vectors")
"""Kernel shapes that the contract suites run: each variant as chosen, and as other devices
would have it."""

ALL_SHAPES = "CHUNKFOLD_ALL_SHAPES" in os.environ
"""Whether all of them run with every dtype, and all kernels are optimised."""


def some(*values: Iterable[object], of: int = 2) -> list[tuple]:
    """Cross parameters: one combination `of` so many, which have each value between them.

    `make test-shapes` runs all.
    """
    crossed = itertools.product(*map(enumerate, values))
    return [
        tuple(value for _, value in one)
        for one in crossed
        if ALL_SHAPES or sum(number for number, _ in one) % of == 0
    ]


@pytest.fixture
def far_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read folders of obstore's as what is behind a network."""
    monkeypatch.setattr(guarded_stores, "folder_of", lambda _: None)


KERNELS = Path(__file__).parent / "kernels"
PEERS = 5
"""One of so many cases of flox, xarray and Dask is tried; `make test-peers` tries all."""
OTHERS = 3
"""One of so many combinations of the parameters of kernels' tests, at most, is for devices but the
default."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to the default device what others need not repeat; `make test-shapes` repeats all.

    The first combination of a test's parameters is for every device, so each device has each test;
    others are taken for values that it has not had. All combinations of those that are marked
    `every_device` are.
    """
    times = read_times()
    if hasattr(config, "workerinput"):
        longest_first(items, times)
    if "CHUNKFOLD_ALL_PEERS" not in os.environ:
        cases = [item for item in items if item.path.name == "test_peers.py"]
        _leave_out(config, items, {item for n, item in enumerate(cases) if n % PEERS})
    if not ALL_SHAPES:
        _leave_out(config, items, _left_to_default(items))
    if SHORT:
        _leave_out(config, items, left_to_all(items, times))


def _leave_out(config: pytest.Config, items: list[pytest.Item], gone: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=list(gone))
    items[:] = [item for item in items if item not in gone]


def _left_to_default(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return what devices but the default need not repeat."""
    repeated: dict[object, dict[str, list[pytest.Item]]] = {}
    for item in items:
        parameters = getattr(item, "callspec", None)
        device = parameters and parameters.params.get("device")
        if device is None or device in default_devices()[0] or KERNELS not in item.path.parents:
            continue
        if not item.get_closest_marker("every_device"):
            known = repeated.setdefault((item.parent, item.originalname, device.uuid), {})
            known.setdefault(repr(_others(item)), []).append(item)
    gone: set[pytest.Item] = set()
    for known in repeated.values():
        same = list(known.values())
        taken = covering([_others(one[0]) for one in same], -(-len(same) // OTHERS))
        gone.update(item for n, one in enumerate(same) if n not in taken for item in one)
    return gone


_seconds: Counter[str] = Counter()
"""What each test took, where `make test-all` runs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", action="store_true", help="write tests/times.csv at the end")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    told = session.config.getoption("--times") and not hasattr(session.config, "workerinput")
    if told and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        write_times(_seconds)


def _others(item: pytest.Item) -> dict[str, str]:
    """Return the parameters of a test but its device."""
    return {name: value for name, value in parameters_of(item).items() if name != "device"}


ran: dict[str, set[str]] = {}
"""Devices that each shape was folded on, by shape."""


def shaped(device: Device, accumulator: Accumulator, shape: str) -> Tuning | None:
    """Return a shape's tuning for a device; None where the device cannot do it by rule."""
    variant, _, form = shape.partition("-")
    variant = "tree" if variant == "vectors" else variant
    if why_not(device, accumulator, variant):
        return None
    tuning = forced(device, accumulator, variant)[0]
    if form == "64":
        return reading(tuning, local_size=64)
    if form == "stride":
        columns = replace(tuning.narrow().columns, local_size=16)
        tuning = replace(tuning.narrow(), strip=False, columns=columns)
        return reading(tuning, local_size=32, lanes=2, width=4, unroll=2)
    if form == "odd":
        return replace(reading(tuning, local_size=24), groups=3)
    if shape == "vectors":
        columns = replace(tuning.columns, local_size=16, lanes=2, width=2, unroll=2)
        tuning = replace(tuning, strip=False, tile=1, columns=columns)
        return reading(tuning, local_size=16, lanes=4, width=4, unroll=4)
    return tuning


def as_gpu(device: Device, *without: str) -> Device:
    """Return a device that the table takes for a GPU, without some capabilities."""
    return replace(
        device,
        kind="gpu",
        max_work_group_size=1024,
        local_bytes=48 << 10,
        without=frozenset(without),
    )


def workers_of(device: Device, number: int) -> list[Device]:
    """Return a device for each of some workers: its parts, or the whole of what has none.

    A GPU cannot be split: to a cluster it is as many devices as it has identities.
    """
    if device.most_parts >= number:
        return list(split(device, number))
    return [replace(device, boot=f"{device.boot}/{n}") for n in range(number)]


def reading(tuning: Tuning, **loads: int) -> Tuning:
    """Return a tuning whose work-items read so, where elements are neighbours."""
    return replace(tuning, flat=replace(tuning.flat, **loads), rows=replace(tuning.rows, **loads))


def tried(
    device: Device, accumulator: Accumulator, shape: str, kernels: Collection[str] = FOLDS
) -> Tuning | None:
    """Return a shape's tuning if the device can do these kernels and its compiler survives it."""
    tuning = shaped(device, accumulator, shape)
    if tuning is None:
        return None
    (tuning,), verdict = try_tunings(device, accumulator, tuning, kernels=kernels)
    assert verdict.usable or "crashed" in verdict.reason, verdict
    return tuning if verdict.usable else None


@pytest.fixture(scope="session", params=DEVICES, ids=lambda device: device.spec)
def device(request: pytest.FixtureRequest) -> Device:
    return request.param


@pytest.fixture(autouse=True)
def _cpu_runtime(request: pytest.FixtureRequest) -> None:
    """Pass over what is about CPUs' runtimes where a machine has only GPUs; never where CI runs."""
    marked = request.node.get_closest_marker("cpu_runtime")
    if marked and not any(device.kind == "cpu" for device in DEVICES):
        told = f"no CPU runtime beside {DEVICES[0]}: apt-get install pocl-opencl-icd"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(told)


@pytest.fixture(autouse=True, scope="module")
def _build_of_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Do as `_build` before workers start that all tests of a marked module share."""
    with _built(request.node):
        yield


@pytest.fixture(autouse=True)
def _build(request: pytest.FixtureRequest) -> Iterator[None]:
    """What many kernels of all shapes answer is tested without optimising them, where it is marked.

    Compiling is most of the suite's time. What users run is optimised: the same kernels are in all
    other tests, and in all of them with `make test-shapes`.
    """
    with _built(request.node):
        yield


@contextlib.contextmanager
def _built(node: pytest.Item | pytest.Collector) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if node.get_closest_marker("unoptimised") and not ALL_SHAPES:
            patch.setenv("CHUNKFOLD_BUILD_OPTIONS", "-cl-opt-disable")
        yield


@pytest.fixture(autouse=True)
def _workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start workers as users' are where it is marked; elsewhere they are forked, in a fourth of the
    time."""
    with spawned() if request.node.get_closest_marker("spawned") else contextlib.nullcontext():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Hide the test's name, which pytest puts into the environment.

    The child that tries kernels is kept while its environment stays: with a name in it, each test
    started one of its own, which was half of the suite's time.
    """
    name = os.environ.pop("PYTEST_CURRENT_TEST")
    try:
        return (yield)
    finally:
        os.environ["PYTEST_CURRENT_TEST"] = name


_opened: dict[str, DeviceContext] = {}


@pytest.fixture
def opened(device: Device) -> DeviceContext:
    if device.uuid not in _opened:
        _opened[device.uuid] = DeviceContext(device)
    return _opened[device.uuid]


assert DEVICES, "no OpenCL device: run make test, which installs one"
