"""A plan shows the programs that its run builds, and why these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import DeviceError
from chunkfold.kernels import Device
from chunkfold.kernels.program import device_context as opened
from chunkfold.kernels.program.device_context import program_options, program_source
from chunkfold.worker import plan_kernels
from chunkfold.worker.worker_device import _of_process
from tests.conftest import DEVICES

pytestmark = pytest.mark.unoptimised


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("looked") / "a.zarr"
    made = zarr.create_array(str(path), shape=(60, 100, 30), chunks=(20, 50, 30), dtype="f4")
    made[...] = np.random.default_rng(1).standard_normal(made.shape)
    return str(path)


MONTHS, RANDOM = np.arange(60) % 12, np.random.default_rng(0).integers(0, 5, (60, 100, 30))
QUESTIONS = {
    "all": cf.ask("mean"),
    "zones": cf.ask("max", axis=(0, 1), by=np.arange(100) // 7, by_axis=1),
    "steps": cf.ask("std", axis=0),
}


@pytest.mark.parametrize(
    ("op", "options"),
    [
        ("std", {}),
        ("std", {"axis": 0}),
        ("std", {"axis": 2}),
        ("histogram", {"axis": (0, 2)}),
        ("std", {"axis": 0, "by": MONTHS, "by_axis": 0}),
        (["mean", "argmax"], {"by": RANDOM}),
        ("histogram", {"by": RANDOM}),
        (QUESTIONS, {}),
    ],
    ids=["flat", "columns", "rows", "counters", "months", "random", "counters-by", "questions"],
)
def test_programs_are_those_that_a_run_builds(
    array: str, op: Any, options: dict[str, Any], monkeypatch
):
    listed: set[tuple[str, tuple[str, ...]]] = set()
    built: set[tuple[str, tuple[str, ...]]] = set()

    def telling(*given):
        found = programs(*given)
        listed.update((program.source, program.options) for program in found)
        return found

    programs = plan_kernels.programs
    monkeypatch.setattr(plan_kernels, "programs", telling)
    cf.plan(array, op, **options).source()

    def building(device, file, accumulator, tuning):
        source = program_source(device, file, accumulator, tuning)
        built.add((source, program_options(device, file, tuning)))
        return source

    monkeypatch.setattr(opened, "program_source", building)
    _of_process.clear()
    cf.reduce(array, op, **options)
    assert built
    assert built <= listed, sorted(source[:60] for source, _ in built - listed)
    kernels = {source for source, _ in listed if not source.startswith('#line 1 "passes.cl"')}
    assert kernels <= {source for source, _ in built}


def test_each_question_is_explained(array: str):
    told = cf.plan(array, QUESTIONS).explain()
    at = [n for n, one in enumerate(told) if one.what == "question"]
    parts = {
        told[begin].choice: told[begin + 1 : end]
        for begin, end in zip(at, [*at[1:], len(told)], strict=True)
    }
    assert sorted(parts) == ["all", "steps", "zones"]
    for name, found in parts.items():
        whats = {one.what.partition(":")[0] for one in found}
        made_of = any("made of" in one.why for one in told if one.choice == name)
        assert made_of or whats & {"kernel", "by label"}, (name, found)


def test_how_labels_are_folded_is_explained(array: str):
    told = {one.what: one for one in cf.plan(array, ["mean", "logsumexp"], by=RANDOM).explain()}
    shared = [one for what, one in told.items() if what.startswith("by label: s")]
    assert any("a table in local memory" in one.choice for one in shared), told
    own = [one for one in told.values() if "its own accumulators" in one.choice]
    assert own, told
    assert "for each of 5 labels" in shared[0].why


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.spec)
def test_a_device_may_be_named(array: str, device: Device):
    planned = cf.plan(array, "max", axis=0)
    for named in (device, device.spec):
        what, told, _ = planned.explain(named)[0]
        assert (what, told) == ("device", str(device))
        assert "__kernel" in planned.source(named)
    assert cf.plan(array, "max", device=device.spec).explain()[0].choice == str(device)


def test_a_device_of_another_host_is_refused_in_a_sentence(array: str):
    planned = cf.plan(array, "max")
    with pytest.raises(
        DeviceError, match="is a device of host far, whose compiler is missing on this host"
    ):
        planned.source(replace(DEVICES[0], host="far"))


def test_a_variant_that_cannot_be_is_refused(array: str):
    with pytest.raises(cf.PlanError, match="variant is 'trees'; use one of: 'tree', 'work_group'"):
        cf.plan(array, "max", variant="trees")


def test_without_float64_programs_have_none(array: str):
    lacking = replace(DEVICES[0], without=frozenset({"fp64"}))
    assert "double" in cf.plan(array, "std").source()
    assert "double" not in cf.plan(array, "std", device=lacking).source()


def test_nothing_to_reduce_is_no_fault(array: str):
    planned = cf.plan(array, "sum", selection=(slice(999, None),), allow_empty=True)
    assert planned.explain()[0].what == "device"
    assert planned.source() == ""
