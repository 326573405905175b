"""Equals of the table are measured on the device, once; what fails there is passed over."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from chunkfold.kernels import Device, DeviceContext, Tuning, as_monoid, bind, histogram
from chunkfold.kernels.errors import BuildError
from chunkfold.kernels.tuning import trial
from chunkfold.kernels.tuning.autotuning import measure_rates
from chunkfold.kernels.tuning.trial import TrialRequest, Verdict, verdict_of
from chunkfold.kernels.tuning.tuning_choice import chosen, try_tunings
from chunkfold.kernels.tuning.variant import tiers
from tests.conftest import reading
from tests.processes import first_trial_dies

SUM = bind([as_monoid("sum")], [np.dtype("float32")]).accumulator


@pytest.fixture(autouse=True)
def _measuring(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path))
    monkeypatch.delenv("CHUNKFOLD_TIES")


def table(device: Device) -> list[Tuning]:
    """Return the table's best, as large as their kernels allow."""
    return list(try_tunings(device, SUM, *next(iter(tiers(device, SUM))))[0])


def test_equals_are_measured_once_and_shown(device: Device, monkeypatch):
    equals = table(device)
    assert len(equals) > 1
    choice = chosen(device, SUM)
    assert [tuning for tuning, _ in choice.rivals] == equals
    rates = [rate for _, rate in choice.rivals]
    assert min(rates) > 1e8
    assert choice.tuning == equals[0] or rates[equals.index(choice.tuning)] > 1.05 * rates[0]
    assert all(f"{rate / 1e9:.1f} GB/s" in str(choice) for rate in rates)
    monkeypatch.setattr(trial, "_tried", lambda _: pytest.fail("measured again"))
    assert chosen(device, SUM) == choice


def test_a_measurement_can_be_done_without(device: Device, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_TIES", "table")
    choice = chosen(device, SUM)
    assert choice.tuning == table(device)[0]
    assert choice.rivals == ()
    assert str(choice) == str(choice.tuning)


def test_no_compiler_makes_vectors_of_items_that_are_alone(device: Device):
    """Intel's runtime names such code so. It would never run, and takes long to compile."""
    ops = [as_monoid(name) for name in ("var", "min", "max")]
    accumulator = bind(ops, [np.dtype("f4")], exact=True).accumulator.for_outputs(1000)
    opened, tuning = DeviceContext(device), next(tiers(device, accumulator))[0]
    if tuning.columns.local_size == 1:
        for file in ("columns.cl", "passes.cl"):
            (binary,) = opened.program(file, accumulator, tuning).binaries
            assert b"_ZGV" not in binary


def test_compilers_write_nothing_past_their_caller(device: Device, capfd):
    """PoCL tells how many warnings there were. No cache has this: its edges are new each time."""
    ops = [as_monoid("var"), histogram([0.0, 1.0 + np.random.default_rng().random()])]
    accumulator = bind(ops, [np.dtype("f4")], exact=True).accumulator
    DeviceContext(device).program("flat.cl", accumulator, next(iter(tiers(device, accumulator)))[0])
    assert capfd.readouterr() == ("", "")


def test_one_that_fails_has_no_rate_and_the_other_is_taken(device: Device):
    good = table(device)[0]
    broken = reading(good, lanes=5, width=5)  # OpenCL has no such load
    request = TrialRequest(device, SUM, (broken, good))
    assert measure_rates(DeviceContext(device), request)[0] == 0
    verdict = verdict_of(request)
    assert verdict.usable
    assert verdict.chosen == 1
    assert verdict.rates[1] > 0
    assert measure_rates(DeviceContext(device), TrialRequest(device, SUM, (broken, broken))) == [
        0,
        0,
    ]


def test_equals_that_crash_together_are_tried_one_by_one(device: Device, monkeypatch):
    best = table(device)[0]
    for path in Path(os.environ["CHUNKFOLD_CACHE"]).glob("verdicts/*"):
        path.unlink()
    first_trial_dies(monkeypatch)
    choice = chosen(device, SUM)
    assert (choice.tuning, choice.rivals) == (best, ())


@pytest.mark.parametrize(
    ("monoids", "dtypes"),
    [
        ([as_monoid("dot")], ["f4", "f8"]),
        ([histogram()], ["f4"]),
        ([as_monoid("sum")], ["c8"]),
        ([as_monoid("mean")], ["M8[s]"]),
        ([as_monoid("max")], [">i2"]),
    ],
    ids=lambda value: "",
)
def test_every_kind_of_reduction_can_be_measured(device: Device, monoids: list, dtypes: list):
    accumulator = bind(monoids, [np.dtype(dtype) for dtype in dtypes]).accumulator
    equals = next(iter(tiers(device, accumulator)))
    rates = measure_rates(
        DeviceContext(device), TrialRequest(device, accumulator, (equals[0], equals[0].plain()))
    )
    assert min(rates) > 1e6


def test_why_nothing_works_is_said_once_for_all_shapes(device: Device, monkeypatch):
    wrong = Verdict(usable=False, reason="it is wrong: s is 1.0 or 2.0")
    monkeypatch.setattr("chunkfold.kernels.tuning.tuning_choice.verdict_of", lambda _: wrong)
    with pytest.raises(BuildError, match=r"^no kernel for sum works on ") as found:
        chosen(device, SUM)
    said = str(found.value)
    assert said.count(wrong.reason) == 1
    shapes = said.partition(f"{wrong.reason} (")[2].removesuffix(")").split("; ")
    assert len(shapes) == len(set(shapes)) > 1
