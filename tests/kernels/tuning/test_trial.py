"""Verdicts: crashing, hanging and lying compilers are survived, and remembered."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from chunkfold.kernels import (
    Accumulate,
    Accumulator,
    BuildError,
    Device,
    DeviceContext,
    Monoid,
    as_monoid,
    bind,
    choose,
)
from chunkfold.kernels.cache.entries import read_entry, write_entry
from chunkfold.kernels.catalogue.quantiles import quantile
from chunkfold.kernels.errors import DeviceMemoryError
from chunkfold.kernels.geometry import BY_KEY, CHOOSE, FOLDS
from chunkfold.kernels.program import device_context
from chunkfold.kernels.program.shared_layout import with_components
from chunkfold.kernels.tuning import trial, trial_child, trial_process
from chunkfold.kernels.tuning.trial import TrialRequest, Verdict, verdict_of
from chunkfold.kernels.tuning.trial_process import ChildEndedError, TrialProcesses
from chunkfold.kernels.tuning.variant import tiers
from tests.conftest import shaped
from tests.processes import first_trial_dies

SUM = bind([as_monoid("sum")], [np.dtype("float32")]).accumulator


@pytest.fixture
def _private_cache(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path))


def recorded(path: Path) -> Verdict:
    content = read_entry(path)
    assert content is not None
    return Verdict(**json.loads(content))


def request_for(device: Device) -> TrialRequest:
    return TrialRequest(device, SUM, (choose(device, SUM),))


@pytest.mark.usefixtures("_private_cache")
def test_a_verdict_is_paid_for_once(device: Device, monkeypatch):
    request = request_for(device)
    assert verdict_of(request).usable
    monkeypatch.setattr(trial, "_tried", lambda _: pytest.fail("tried again"))
    assert verdict_of(request) == verdict_of(request)


def requests_of_the_same_kernels(device: Device) -> list[TrialRequest]:
    """A sum's and a mean's, which its finish alone tells apart."""
    tuning = next(iter(tiers(device, SUM)))[:1]
    bounds = [bind([as_monoid(op)], [np.dtype("f4")], exact=True) for op in ("sum", "mean")]
    return [TrialRequest(device, bound.accumulator, tuning, ("flat",)) for bound in bounds]


@pytest.mark.unoptimised
@pytest.mark.usefixtures("_private_cache")
def test_ops_of_the_same_kernels_are_tried_and_compiled_once(
    device: Device, monkeypatch, tmp_path: Path
):
    one, other = requests_of_the_same_kernels(device)
    assert verdict_of(one).usable
    compiled = sorted((tmp_path / "programs").glob("*"))
    monkeypatch.setattr(trial, "_tried", lambda _: pytest.fail("tried again"))
    assert verdict_of(other).usable
    DeviceContext(device).program("flat.cl", other.accumulator, other.tunings[0])
    assert sorted((tmp_path / "programs").glob("*")) == compiled


@pytest.mark.unoptimised
@pytest.mark.usefixtures("_private_cache")
def test_what_went_wrong_with_one_op_is_not_told_of_another(device: Device, monkeypatch):
    one, other = requests_of_the_same_kernels(device)
    first_trial_dies(monkeypatch)
    assert not verdict_of(one).usable
    assert verdict_of(other).usable


@pytest.mark.usefixtures("_private_cache")
def test_a_damaged_verdict_is_tried_again(device: Device, tmp_path: Path):
    request = request_for(device)
    verdict_of(request)
    path = tmp_path / "verdicts" / request.key
    for damaged in ('{"usable": tr', '{"usable": true, "chosen": 7}', "[1]"):
        write_entry(path, damaged.encode())
        assert verdict_of(request).usable
        assert recorded(path).usable


@pytest.mark.usefixtures("_private_cache")
def test_a_crash_costs_one_request_and_the_next_candidate_is_taken(device: Device, monkeypatch):
    deaths = first_trial_dies(monkeypatch)
    tuning = choose(device, SUM)
    assert len(deaths) == 1
    known = [recorded(path) for path in Path(os.environ["CHUNKFOLD_CACHE"]).glob("verdicts/*")]
    assert "the compiler or the kernel crashed (signal 11)" in [v.reason for v in known]
    second = list(itertools.chain.from_iterable(tiers(device, SUM)))[1]
    assert (tuning.variant, tuning.flat.width) == (second.variant, second.flat.width)


@pytest.mark.usefixtures("_private_cache")
def test_a_hang_ends_at_the_deadline(device: Device, monkeypatch):
    monkeypatch.setattr(trial, "TRIAL_DEADLINE_S", 0.05)
    with pytest.raises(BuildError, match="hung"):
        choose(device, SUM)


@pytest.mark.usefixtures("_private_cache")
@pytest.mark.unoptimised
@pytest.mark.parametrize(
    ("kernels", "variant"), [(FOLDS, None), *(((kernel,), "tree") for kernel in FOLDS)]
)
def test_kernels_that_answer_wrongly_are_not_used(
    device: Device, kernels: tuple[str, ...], variant: str | None
):
    """A state that ends as one more gives another answer for every number of launches.

    It does so for an element (37) that laws are not tried on, else it would be no monoid.
    """
    more = Accumulate(
        {"t": "int64", "far": "int32"},
        {"t": 0, "far": 0},
        step=lambda s, x: {"t": s.t + x, "far": s.far | (x * x == 1369)},
        end=lambda s: {"s": s.t + s.far},
    )
    wrong = Monoid(
        "wrong", fields={"s": "int64"}, zero=0, lift=lambda x: x, op="add", accumulate=more
    )
    accumulator = bind([wrong], [np.dtype("int32")]).accumulator
    with pytest.raises(BuildError, match=r"no kernel for wrong works on .*it is wrong"):
        choose(device, accumulator, variant, kernels)


def keyed(*ops: str | Monoid, dtype: str = "float32", exact: bool = True) -> Accumulator:
    monoids = [as_monoid(op) for op in ops]
    bound = bind(monoids, [np.dtype(dtype)], exact=exact, keyed=True)
    return bound.accumulator.for_outputs(2)


@pytest.mark.usefixtures("_private_cache")
@pytest.mark.unoptimised
def test_kernels_that_fold_by_key_are_tried_in_the_child(device: Device, monkeypatch):
    """A compiler that crashes on them does not end the worker."""
    deaths = first_trial_dies(monkeypatch)
    accumulator = keyed("sum", "logsumexp")
    tuning = choose(device, accumulator, kernels={"by_key"})
    assert len(deaths) == 1
    (first, *_) = next(iter(tiers(device, accumulator)))
    assert tuning != first
    built = {file for file, _ in TrialRequest(device, accumulator, (tuning,), ("by_key",)).programs}
    assert {"keyed/local.cl", "keyed/global.cl", "keyed/private.cl", "keyed/columns.cl"} <= built


def verdict_where(
    device: Device, monkeypatch, request: TrialRequest, *changes: tuple[str, str]
) -> Verdict:
    """Try kernels of which a compiler made something else, in this process."""
    seen = set()

    def changed(source, *given) -> str:
        text = source(*given)
        for old, new in changes:
            seen.update([old] if old in text else [])
            text = text.replace(old, new)
        return text

    for name in ("program_source", "library"):
        monkeypatch.setattr(device_context, name, partial(changed, getattr(device_context, name)))
    monkeypatch.setattr(trial_child, "_opened", DeviceContext)
    verdict = trial_child._verdict(request)
    assert seen == {old for old, _ in changes}
    return verdict


LOADS = ("CHF_LOAD({0}, p0, k)", "= ({0})(p0[k]);")
"""How elements are read, many and one."""
LOST: dict[str, tuple[str, str, str, str]] = {
    "squares": ("sumsq", "float32", "float", "as_float(as_uint({}) & ~15u)"),
    "sums": ("sum", "float32", "float", "as_float(as_uint({}) & ~15u)"),
    "floats": ("min", "float64", "double", "as_double(as_ulong({}) & ~255ul)"),
    "integers": ("sum", "int64", "long", "((long)(int){})"),
    "unsigned": ("max", "uint32", "uint", "({} & 0xffff)"),
}
"""What may be lost of elements that nothing is lost of where they are small whole numbers."""


@pytest.mark.unoptimised
@pytest.mark.parametrize("lost", LOST)
def test_what_is_exact_is_so_to_the_last_bit(device: Device, monkeypatch, lost: str):
    """Also where all kernels lose the same: they are compared with NumPy, not only one another."""
    op, dtype, ctype, losing = LOST[lost]
    accumulator = bind([as_monoid(op)], [np.dtype(dtype)], exact=True).accumulator
    plain = list(itertools.chain.from_iterable(tiers(device, accumulator)))[-1]
    request = TrialRequest(device, accumulator, (plain,), ("flat",))
    load, one = (text.format(ctype) for text in LOADS)
    changes = (load, losing.format(load)), (one, f"= {losing.format('p0[k]')};")
    verdict = verdict_where(device, monkeypatch, request, *changes)
    assert not verdict.usable
    assert verdict.reason.startswith("it is wrong: c0_")


@pytest.mark.unoptimised
@pytest.mark.parametrize("way", BY_KEY)
def test_sums_by_key_are_tried_to_the_last_bit(device: Device, monkeypatch, way: str):
    accumulator = keyed("sum", "min")
    tuning = shaped(device, accumulator, "tree-64")
    assert tuning is not None
    request = TrialRequest(device, accumulator, (tuning,), (way,))
    lossy = {
        "by_key": ("+ (old + l < old);", ";"),  # a carry between halves of sums
        "by_key_alone": ("if (one != now) {", "if (one > now) {"),
    }[way]
    verdict = verdict_where(device, monkeypatch, request, lossy)
    assert not verdict.usable
    assert "it is wrong: c" in verdict.reason


@pytest.mark.unoptimised
@pytest.mark.parametrize(
    "lossy", [("reached > rank;", "reached >= rank;"), ("key <= low", "key < low")]
)
def test_what_chooses_among_elements_is_tried(device: Device, monkeypatch, lossy: tuple[str, str]):
    bound = bind([quantile(0.5)], [np.dtype("float32")], keeping=True)
    (chooser,) = (one.chooser for one in bound.statistics)
    assert chooser is not None
    keys = with_components(bound.accumulator, (chooser.component,))
    tuning = shaped(device, keys, "tree")
    assert tuning is not None
    request = TrialRequest(device, keys, (tuning,), ("columns", CHOOSE))
    assert trial_child._verdict(request).usable
    verdict = verdict_where(device, monkeypatch, request, lossy)
    assert "elements of some ranks differ from NumPy's" in verdict.reason


@pytest.mark.usefixtures("_private_cache")
def test_kernels_that_allow_fewer_work_items_get_fewer(device: Device, monkeypatch):
    asked = []

    def limited(request):
        (tuning, *_) = request.tunings
        largest = max(tuning.flat.local_size, tuning.rows.local_size, tuning.columns.local_size)
        asked.append(largest)
        fits = largest <= 16
        return Verdict(fits, "", local_limit=0 if fits else 16)

    monkeypatch.setattr(trial, "_tried", limited)
    gpu = replace(device, kind="gpu", max_work_group_size=256, max_work_item_size=256)
    tuning = choose(gpu, SUM, "tree")
    assert asked == [256, 16]
    assert tuning.flat.local_size == tuning.rows.local_size == tuning.columns.local_size == 16


def test_what_runs_is_not_asked_for_its_limit(device: Device, monkeypatch):
    """NVIDIA's driver says 256 of kernels that it runs with 1,024 work-items."""
    (tuning, *_) = next(tiers(device, SUM))
    monkeypatch.setattr(trial_child, "_local_limit", lambda *_: pytest.fail("it was asked"))
    assert trial_child._verdict(TrialRequest(device, SUM, (tuning,), ("flat",))).usable


def test_a_launch_that_is_refused_names_the_limit(device: Device):
    most = device.max_work_group_size
    (tuning, *_) = next(tiers(device, SUM))
    too_large = replace(tuning, variant="tree", flat=replace(tuning.flat, local_size=2 * most))
    verdict = trial_child._verdict(TrialRequest(device, SUM, (too_large,), ("flat",)))
    assert not verdict.usable
    if device.kind == "cpu":
        assert verdict.local_limit == most
    else:  # NVIDIA's compiler refuses already
        assert verdict.log or 0 < verdict.local_limit <= most


def test_a_build_leaves_nothing_in_the_temporary_folder(
    device: Device, tmp_path: Path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("CHUNKFOLD_BUILD_OPTIONS", "-D__kernel=nothing_of_that_name")
    with pytest.raises(BuildError, match="nothing_of_that_name"):
        choose(device, SUM)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_private_cache")
@pytest.mark.parametrize(
    ("ending", "lasts"), [("os.kill(os.getpid(), 9)", False), ("sys.exit(3)", False),
                          ("os.kill(os.getpid(), 11)", True)]
)  # fmt: skip
def test_only_what_the_compiler_did_itself_is_remembered(
    device: Device, monkeypatch, ending: str, lasts: bool
):
    monkeypatch.setattr(trial_process, "_PROGRAM", ("-c", f"import os, sys; {ending}"))
    request = TrialRequest(device, SUM, next(iter(tiers(device, SUM)))[:1])
    assert not verdict_of(request).usable
    path = Path(os.environ["CHUNKFOLD_CACHE"]) / "verdicts" / request.own_key
    assert path.exists() == lasts


FULL = """
import pyopencl as cl
from chunkfold.kernels.tuning import trial_child

def context(*_):
    raise cl.Error(cl._cl._ErrorRecord("clCreateContext", cl.status_code.OUT_OF_HOST_MEMORY, ""))

cl.Context = context
trial_child.main()
"""


@pytest.mark.usefixtures("_private_cache")
def test_a_device_without_memory_says_nothing_of_kernels(device: Device, monkeypatch, tmp_path):
    """Others use it, too: another time it has some."""
    with monkeypatch.context() as patch:
        patch.setattr(trial_process, "_PROGRAM", ("-c", FULL))
        with pytest.raises(DeviceMemoryError, match=r"opening the device: OUT_OF_HOST_MEMORY"):
            choose(device, SUM)
    assert not list((tmp_path / "verdicts").glob("*"))
    trial.processes.stop()
    assert choose(device, SUM)


@pytest.fixture
def processes():
    processes = TrialProcesses()
    yield processes
    processes.stop()


def running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


ANSWERING = """
import os, pickle, sys
while True:
    if pickle.load(sys.stdin.buffer) < 0:
        os.abort()
    print(os.getpid(), flush=True)
"""


def test_a_child_ends_when_it_has_answered_many_requests(processes: TrialProcesses, monkeypatch):
    monkeypatch.setattr(trial_process, "_PROGRAM", ("-c", ANSWERING))
    monkeypatch.setattr(trial_process, "MOST_REQUESTS", 3)
    found = [int(processes.ask(1, dict(os.environ), 60)) for _ in range(7)]
    assert [found.index(pid) for pid in found] == [0, 0, 0, 3, 3, 3, 6]
    assert not running(found[0])


def test_a_child_is_kept_while_it_does_well(processes: TrialProcesses, monkeypatch):
    monkeypatch.setattr(trial_process, "_PROGRAM", ("-c", ANSWERING))
    environment = dict(os.environ)
    first = int(processes.ask(1, environment, 60))
    assert int(processes.ask(2, environment, 60)) == first
    other = int(processes.ask(3, environment | {"CHUNKFOLD_TIES": "x"}, 60))
    assert other != first
    assert not running(first)
    with pytest.raises(ChildEndedError) as ended:
        processes.ask(-1, environment, 60)
    assert ended.value.code == -6
    monkeypatch.setattr(trial_process, "IDLE_S", 0.05)
    last = int(processes.ask(4, environment, 60))
    deadline = time.monotonic() + 30
    while running(last):
        assert time.monotonic() < deadline, "an idle child was kept"
        time.sleep(0.01)
    assert int(processes.ask(5, environment, 60)) != last


def test_a_child_ends_with_its_parent(tmp_path: Path):
    parent = """
import os, numpy as np
from chunkfold.kernels.tuning import trial
from chunkfold.kernels import all_devices, as_monoid, bind, choose
choose(all_devices()[0], bind([as_monoid("sum")], [np.dtype("f4")]).accumulator)
print(trial.processes._kept._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    environment = os.environ | {"TMPDIR": str(tmp_path), "CHUNKFOLD_CACHE": str(tmp_path / "c")}
    done = subprocess.run(
        [sys.executable, "-c", parent], env=environment, capture_output=True, text=True, timeout=120, check=False  # noqa: E501
    )  # fmt: skip
    child = int(done.stdout)
    deadline = time.monotonic() + 30
    while running(child) or list(tmp_path.glob("chunkfold-trial-*")):
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.05)


def test_what_a_child_said_last_is_kept_though_it_removes_its_folder(
    device: Device, tmp_path: Path, monkeypatch
):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path))
    dies = (
        "import os, shutil, sys; shutil.rmtree(sys.argv[1]); os.write(2, b'a\\nboom\\n'); exit(9)"
    )
    monkeypatch.setattr(trial_process, "_PROGRAM", ("-c", dies))
    request = TrialRequest(device, SUM, next(iter(tiers(device, SUM)))[:1])
    assert verdict_of(request).reason == "the trial ended with exit code 9: boom"


@pytest.mark.unoptimised
@pytest.mark.parametrize("kernel", FOLDS)
def test_only_what_will_be_launched_is_built(device: Device, monkeypatch, kernel: str):
    """What the child does, in this process."""
    built: set[str] = set()
    build = DeviceContext._build

    def noted(self, kernel_file, *rest):
        built.add(kernel_file)
        return build(self, kernel_file, *rest)

    monkeypatch.setattr(DeviceContext, "_build", noted)
    trial_child._opened.cache_clear()
    tuning = choose(device, SUM, kernels={kernel})
    assert trial_child._verdict(TrialRequest(device, SUM, (tuning,), (tuning.fold(kernel),))).usable
    assert built == {f"{tuning.fold(kernel)}.cl", "passes.cl"}
