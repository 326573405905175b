"""Verdicts: crashing, hanging and lying compilers are survived, and remembered."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chunkfold.kernels import Accumulate, BuildError, Device, Monoid, as_monoid, bind, choose, trial
from chunkfold.kernels.trial import Request, Verdict, verdicts
from chunkfold.kernels.variant import tiers
from tests.processes import dying_once

SUM = bind([as_monoid("sum")], [np.dtype("float32")]).accumulator


@pytest.fixture
def _private_cache(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path))


def request_for(device: Device) -> Request:
    return Request(device, SUM, (choose(device, SUM),))


@pytest.mark.usefixtures("_private_cache")
def test_a_verdict_is_paid_for_once(device: Device, monkeypatch):
    request = request_for(device)
    assert verdicts([request])[0].usable
    monkeypatch.setattr(trial, "_run_child", lambda _: pytest.fail("tried again"))
    assert verdicts([request, request]) == [verdicts([request])[0]] * 2


@pytest.mark.usefixtures("_private_cache")
@pytest.mark.parametrize("damaged", ['{"usable": tr', '{"usable": true, "chosen": 7}', "[1]"])
def test_a_damaged_verdict_is_tried_again(device: Device, tmp_path: Path, damaged: str):
    request = request_for(device)
    verdicts([request])
    path = tmp_path / "verdicts" / request.key
    path.write_text(damaged)
    assert verdicts([request])[0].usable
    assert json.loads(path.read_text())["usable"]


@pytest.mark.usefixtures("_private_cache")
def test_a_crash_costs_one_request_and_the_next_candidate_is_taken(device: Device, monkeypatch):
    deaths: list[int] = []
    monkeypatch.setattr(trial.subprocess, "run", dying_once(deaths))
    tuning = choose(device, SUM)
    assert len(deaths) == 1
    known = [
        Verdict(**json.loads(path.read_text()))
        for path in Path(os.environ["CHUNKFOLD_CACHE"]).glob("verdicts/*")
    ]
    assert "the compiler or the kernel crashed (signal 11)" in [v.reason for v in known]
    second = list(itertools.chain.from_iterable(tiers(device, SUM)))[1]
    assert (tuning.variant, tuning.width) == (second.variant, second.width)


@pytest.mark.usefixtures("_private_cache")
def test_a_hang_ends_at_the_deadline(device: Device, monkeypatch):
    monkeypatch.setattr(trial, "TRIAL_DEADLINE_S", 0.05)
    with pytest.raises(BuildError, match="hung"):
        choose(device, SUM)


@pytest.mark.usefixtures("_private_cache")
def test_kernels_that_answer_wrongly_are_not_used(device: Device):
    """A state that ends as one more gives another answer for every number of launches."""
    more = Accumulate({"t": "int64"}, {"t": 0}, "s.t += x;", {"s": "s.t + 1"})
    wrong = Monoid("wrong", fields={"s": "int64"}, zero=0, lift="x", op="add", accumulate=more)
    accumulator = bind([wrong], [np.dtype("int32")]).accumulator
    with pytest.raises(BuildError, match=r"no kernel for wrong works on .*it is wrong"):
        choose(device, accumulator)


@pytest.mark.usefixtures("_private_cache")
def test_kernels_that_allow_fewer_work_items_get_fewer(device: Device, monkeypatch):
    asked = []

    def limited(requests):
        asked.append(requests[0].tunings[0].local_size)
        fits = requests[0].tunings[0].local_size <= 16
        verdict = Verdict(fits, "", local_limit=0 if fits else 16)
        return [verdict], None

    monkeypatch.setattr(trial, "_run_child", limited)
    gpu = replace(device, kind="gpu", max_work_group_size=256, max_work_item_size=256)
    tuning = choose(gpu, SUM, "tree")
    assert asked == [256, 16]
    assert tuning.local_size == 16
    assert tuning.column_size <= 16


def test_a_build_leaves_nothing_in_the_temporary_folder(
    device: Device, tmp_path: Path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    bad = Monoid("bad", zero=0, lift="nothing_of_that_name", op="add")
    with pytest.raises(BuildError, match="nothing_of_that_name"):
        choose(device, bind([bad], [np.dtype("f4")]).accumulator)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_private_cache")
@pytest.mark.parametrize(
    ("ending", "lasts"), [("os.kill(os.getpid(), 9)", False), ("sys.exit(3)", False),
                          ("os.kill(os.getpid(), 11)", True)]
)  # fmt: skip
def test_only_what_the_compiler_did_itself_is_remembered(
    device: Device, monkeypatch, ending: str, lasts: bool
):
    real = subprocess.run
    monkeypatch.setattr(
        trial.subprocess, "run", lambda _, **kwargs: real(
            [sys.executable, "-c", f"import os, sys; {ending}"], **kwargs
        )
    )  # fmt: skip
    request = Request(device, SUM, next(iter(tiers(device, SUM)))[:1])
    assert not verdicts([request])[0].usable
    path = Path(os.environ["CHUNKFOLD_CACHE"]) / "verdicts" / request.key
    assert path.exists() == lasts
