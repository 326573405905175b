"""A run is planned once, for those who do it, and its stores are listed once."""

from __future__ import annotations

import pickle
from dataclasses import replace

import dask
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.cluster.joining import connect
from chunkfold.planning import planner
from chunkfold.running import backend
from tests.conftest import DEVICES
from tests.plans import counted

pytestmark = pytest.mark.unoptimised
VALUES = np.arange(60.0).reshape(6, 10)


@pytest.fixture
def array(tmp_path) -> zarr.Array:
    return zarr.create_array(str(tmp_path / "a.zarr"), data=VALUES, chunks=(2, 10))


def test_what_is_submitted_is_planned_and_listed_once(array: zarr.Array, monkeypatch):
    calls = counted(monkeypatch)
    assert cf.submit(array, ["max", "sum"]).result()["sum"] == VALUES.sum()
    assert calls == {"plans": 1, "listings": 1}


def test_a_plan_for_those_who_are_there_is_carried_out_as_it_is(array: zarr.Array, monkeypatch):
    calls = counted(monkeypatch)
    plan = cf.plan(array, "sum", axis=0, keepdims=True)
    run = cf.submit(plan)
    np.testing.assert_array_equal(run.result(), VALUES.sum(axis=0, keepdims=True))
    assert run.plan.blocks is plan.blocks
    assert calls == {"plans": 1, "listings": 1}
    cf.reduce(plan)
    assert calls == {"plans": 1, "listings": 1}


def test_a_plan_for_a_cluster_is_carried_out_there_and_anew_elsewhere(array, monkeypatch):
    calls = counted(monkeypatch)
    with (
        cf.LocalOpenCLCluster(DEVICES[0].spec, dashboard_address=None) as cluster,
        connect(cluster.scheduler_address) as client,
    ):
        plan = pickle.loads(pickle.dumps(cf.plan(array, "sum", client=client)))
        run = cf.submit(plan, client=client)
        assert run.result() == VALUES.sum()
        assert run.plan.blocks is plan.blocks
    assert cf.reduce(replace(plan, terms=replace(plan.terms, readers=99))) == VALUES.sum()
    assert calls == {"plans": 2, "listings": 1}


@pytest.mark.parametrize(
    "others",
    [
        {"workers": 7},
        {"threads": 9},
        {"memory_limit": 1 << 30},
        {"device": replace(DEVICES[0], without=frozenset({"fp64"}))},
    ],
)
def test_a_plan_for_others_is_made_anew_and_lists_nothing(array: zarr.Array, monkeypatch, others):
    calls = counted(monkeypatch)
    plan = cf.plan(array, "std", **others)
    run = cf.submit(plan)
    assert run.result() == cf.reduce(array, "std")
    assert run.plan.terms == cf.plan(array, "std").terms != plan.terms
    assert calls["listings"] == 3  # of the plan, and of the two for comparison
    anew = cf.plan(plan, **others)
    assert anew == plan or anew.blocks is plan.blocks
    assert calls["listings"] == 3


def test_what_would_not_fit_those_who_come_is_refused_then(array: zarr.Array, monkeypatch):
    plan = cf.plan(array, "sum")
    monkeypatch.setattr(backend, "memory_each", lambda _: 100)
    with pytest.raises(cf.PlanError, match=r"a worker needs .* of its limit of 100"):
        cf.submit(plan)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"op": "sum"}, "op given with a plan, which has its options already: give it to chunkf"),
        ({"axis": None, "skipna": False}, "axis, skipna given with a plan, .*: give them to"),
    ],
)
@pytest.mark.parametrize("function", [cf.reduce, cf.submit, cf.plan])
def test_options_beside_a_plan_are_refused(array: zarr.Array, function, given: dict, told: str):
    with pytest.raises(cf.PlanError, match=told):
        function(cf.plan(array, "sum"), **given)


@pytest.mark.parametrize(
    ("op", "given", "told"),
    [
        ("sum", {"axis": 5}, "axis 5 is out of range"),
        ("sum", {"selection": 99}, "index 99 is out of range"),
        ("max", {"selection": slice(9, 9)}, "max of no elements has no value"),
        ("dot", {}, "reduces 2 arrays"),
        ("sum", {"by": np.arange(3), "axis": 0}, "labels have shape"),
        ("sum", {"mode": "best"}, "mode is 'best'"),
    ],
)
def test_bad_input_fails_before_anybody_is_asked(
    array: zarr.Array, monkeypatch, op: str, given: dict, told: str
):
    _nobody(monkeypatch)
    calls = counted(monkeypatch)
    with pytest.raises(cf.ChunkfoldError, match=told):
        cf.submit(array, op, **given)
    assert not calls


def test_more_leaves_than_a_plan_has_room_for_are_refused_at_once(array, monkeypatch):
    _nobody(monkeypatch)
    monkeypatch.setattr(planner, "LEAF_BYTES", 1)
    monkeypatch.setattr(planner, "MOST_LEAVES", 2)
    with pytest.raises(cf.PlanError, match=r"has 3 leaves .* a plan can have at most 2"):
        cf.submit(array, "sum")


def test_a_setting_that_is_none_is_refused_before_anybody_is_asked(array, monkeypatch):
    _nobody(monkeypatch)
    with (
        dask.config.set({"chunkfold.run.stall": "never"}),
        pytest.raises(cf.PlanError, match=r"chunkfold\.run\.stall is 'never'"),
    ):
        cf.submit(array, "sum")


def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("somebody was asked")

    monkeypatch.setattr(backend.InProcess, "workers", asked)
