"""What several statistics share, and what they must not."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chunkfold as cf
from chunkfold.kernels import DeviceContext, as_monoid, bind, box
from chunkfold.kernels.binding.binding import Bound
from tests.kernels.fold.test_fold import fold_for, upload


def bound(*ops: object, dtype: str = "f4") -> Bound:
    return bind([as_monoid(op) for op in ops], [np.dtype(dtype)])


@pytest.mark.parametrize(
    ("ops", "holders"),
    [
        (("min",), (0,)),
        (("min", "max"), (0, 0)),
        (("minmax", "sum", "max"), (0, 0, 2)),
        (("min", "nanmax"), (0, 1)),
        (("nanmin", "max", "nanmax"), (0, 1, 0)),
    ],
)
def test_both_ends_of_floats_have_one_state(ops: tuple[str, ...], holders: tuple[int, ...]):
    accumulator = bound(*ops).accumulator
    assert accumulator.holders == holders
    assert len(accumulator.components) == len(holders)


def test_integers_have_no_state_to_share_and_halves_that_may_be_absent_share_none():
    assert bound("min", "max", dtype="i4").accumulator.holders == (0, 1)
    assert bound("nanmin", "nanmax", dtype="f2").accumulator.holders == (0, 1)


def test_slots_do_not_depend_on_who_holds_a_state():
    """So what was kept of a run before goes on."""
    slots = [dict(s.slots) for s in bound("sum", "min", "max").statistics]
    assert slots == [{"s": "c0_s"}, {"lo": "c1_lo"}, {"hi": "c2_hi"}]


def test_a_monoid_with_a_way_of_its_own_keeps_it():
    """Fields may be the same where what is lost on the way is not: a compensated sum's."""

    def step(s: Any, x: Any) -> dict:
        y = x - s.c
        t = s.s + y
        return {"s": t, "c": (t - s.s) - y}

    compensated = cf.Monoid(
        "compensated",
        fields={"s": "float64"},
        zero=0,
        lift=lambda x: x,
        op="add",
        accumulate=cf.Accumulate(
            state={"s": "float64", "c": "float64"},
            start={"s": 0, "c": 0},
            step=step,
            end=lambda s: {"s": s.s},
        ),
    )
    for ops in (("sum", compensated), (compensated, "sum")):
        both = bound(*ops, dtype="f8")
        assert both.accumulator.holders == (0, 1)
        assert [s.slots["s"] for s in both.statistics] == ["c0_s", "c1_s"]


def test_a_statistic_is_never_read_off_a_field_that_another_way_folds():
    """Which may leave NaN out: laws are tried without it."""
    low = cf.Monoid(
        "low",
        fields={"lo": "order"},
        zero="highest",
        lift=cf.order_low,
        op="min",
        accumulate=cf.Accumulate(
            state={"m": "order"},
            start={"m": "highest"},
            step=lambda s, x: {"m": cf.where(np.isnan(x), s.m, np.minimum(s.m, cf.order_low(x)))},
            end=lambda s: {"lo": s.m},
        ),
    )
    for ops in itertools.permutations([low, "min", "max", "minmax"]):
        statistics = {s.name: dict(s.slots) for s in bound(*ops).statistics}
        assert statistics["low"] != statistics["min"]
        assert statistics["minmax"] == statistics["min"] | statistics["max"]


@pytest.mark.parametrize("shape", [(10, 400), (40, 64)], ids=str)
def test_ops_that_mix_dtypes_leave_vectors_to_what_takes_elements_in(
    opened: DeviceContext, shape: tuple[int, int]
):
    mixed = cf.Monoid(
        "mixed",
        fields={"d": "float64", "n": "int64"},
        zero={"d": 0, "n": 0},
        lift=lambda x: {"d": x, "n": 1},
        op=lambda a, b: {
            "d": a.d + b.d + 0 * cf.first(a.d, b.d, a.n, b.n),
            "n": a.n + b.n,
        },
        accumulate=cf.Accumulate(
            state={"d": "float64", "n": "int64"},
            start={"d": 0, "n": 0},
            step=lambda s, x: {"d": s.d + x, "n": s.n + 1},
            end=lambda s: {"d": s.d, "n": s.n},
        ),
        finish=lambda fields, _: fields["d"],
    )
    whole = box(shape, (0,))
    one = bound(mixed)
    fold = fold_for(opened, one, whole)
    if opened.device.kind == "cpu":
        assert fold.tuning.columns.lanes > 1
    array = np.random.default_rng(7).integers(0, 9, shape).astype("f4")
    for _ in range(2):
        fold.add([upload(opened, array)], whole)
    got = one.statistics[0].finish(fold.read_back(), shape, (0,))
    assert got.tolist() == (2 * array.sum(0)).tolist()


@pytest.mark.parametrize("skipna", [False, True])
def test_nothing_adds_nothing_to_a_variance_however_large_elements_are(
    opened: DeviceContext, skipna: bool
):
    shape = (3, 33)
    whole = box(shape, (0,))
    several = bound("nanvar" if skipna else "var", dtype="f8")
    fold = fold_for(opened, several, whole)
    for number in (np.nan, 1e200) if skipna else (1e200,):
        fold.add([upload(opened, np.full(shape, number))], whole)
    got = several.statistics[0].finish(fold.read_back(), shape, (0,))
    assert got.tolist() == [0.0] * 33


@pytest.mark.parametrize("shape", [(300,), (40, 9), (9, 40)], ids=str)
def test_monoids_that_differ_in_their_end_fold_one_state(
    opened: DeviceContext, shape: tuple[int, ...]
):

    def counting(name: str, end: Callable) -> cf.Monoid:
        return cf.Monoid(
            name,
            fields={"n": "int64"},
            zero=0,
            lift=(lambda x: x > 3) if name == "above" else (lambda x: x <= 3),
            op="add",
            accumulate=cf.Accumulate(
                state={"all": "int64", "above": "int64"},
                start={"all": 0, "above": 0},
                step=lambda s, x: {"all": s.all + 1, "above": s.above + (x > 3)},
                end={"n": end},
            ),
        )

    array = np.random.default_rng(3).integers(0, 9, shape).astype("i4")
    both = bound(
        counting("above", lambda s: s.above),
        counting("below", lambda s: s.all - s.above),
        dtype="i4",
    )
    assert both.accumulator.holders == (0, 0)
    whole = box(shape, (array.ndim - 1,))
    fold = fold_for(opened, both, whole)
    fold.add([upload(opened, array)], whole)
    partial = fold.read_back()
    above, below = (s.finish(partial, shape, (array.ndim - 1,)) for s in both.statistics)
    assert above.tolist() == np.atleast_1d((array > 3).sum(-1)).tolist()
    assert below.tolist() == np.atleast_1d((array <= 3).sum(-1)).tolist()


OPS = ("sum", "var", "min", "max", "sumsq", "count_nonzero")


@pytest.mark.parametrize("shape", [(10, 37), (50, 8)], ids=["columns", "short rows"])
def test_lanes_add_up_with_what_is_there(opened: DeviceContext, shape: tuple[int, int]):
    """Boxes one after the other, in vectors: what one box of all of them gives."""
    axis = 0 if shape[0] < shape[1] else 1
    rng = np.random.default_rng(5)
    arrays = [rng.integers(-9, 9, shape).astype("f4") for _ in range(3)]
    whole = box(shape, (axis,))
    several = bound(*OPS)
    fold = fold_for(opened, several, whole)
    for array in arrays:
        fold.add([upload(opened, array)], whole)
    partial = fold.read_back()
    together = np.concatenate(arrays, axis=axis).astype("f8")
    want = {
        "sum": together.sum(axis),
        "var": together.var(axis),
        "min": together.min(axis),
        "max": together.max(axis),
        "sumsq": (together**2).sum(axis),
        "count_nonzero": np.count_nonzero(together, axis=axis),
    }
    for statistic in several.statistics:
        got = statistic.finish(partial, together.shape, (axis,))
        np.testing.assert_allclose(got, want[statistic.name], rtol=1e-6)
