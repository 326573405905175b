"""Traits of components: which take the first, which merge field by field, what they deposit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chunkfold.kernels import Accumulate, Monoid, as_monoid, bind
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.accumulator.traits import Deposit, traits_of
from chunkfold.kernels.expressions.infix import infix
from chunkfold.kernels.expressions.library import where, wide


def _of_those_above_3(x: Any, i: Any) -> Any:
    return where(x > 3, i, np.iinfo("i8").max)


def of_index(lift: Callable, op: str | Callable = "min", dtype: str = "int64") -> bool:
    """Say whether a reduction that reads the index takes the first of equal elements."""
    mine = Monoid("mine", fields={"n": dtype}, zero=0, lift=lift, op=op)
    (part,) = bind([mine], [np.dtype("f4")]).accumulator.components
    assert traits_of(part).reads_index
    return traits_of(part).takes_first


@pytest.mark.parametrize(
    "lift",
    [
        lambda x, i: i,
        lambda x, i: i.astype("uint64"),
        _of_those_above_3,
        lambda x, i: where(x > 3, 7, i),
        lambda x, i: where(x < 1, 5, where(x > 3, 9, i)),
    ],
)
def test_the_least_of_what_rises_with_the_index_is_the_first_s(lift: Callable):
    assert of_index(lift)


@pytest.mark.parametrize(
    ("lift", "op", "dtype"),
    [
        (lambda x, i: i, "max", "int64"),
        (lambda x, i: i, "add", "int64"),
        (lambda x, i: i, "min", "int32"),
        (lambda x, i: i.astype("int32"), "min", "int64"),
        (lambda x, i: i % 7, "min", "int64"),
        (lambda x, i: -i, "min", "int64"),
        (lambda x, i: -where(x > 0, 5, i), "min", "int64"),
        (lambda x, i: where(i > 9, 3, 5), "min", "int64"),
        (lambda x, i: where(x > 0, -i, 5), "min", "int64"),
        (_of_those_above_3, lambda a, b: where(a.n < b.n, a.n, b.n), "int64"),
    ],
)
def test_others_may_need_every_index(lift: Callable, op: str | Callable, dtype: str):
    assert not of_index(lift, op, dtype)


@pytest.mark.parametrize("op", ["argmin", "argmax", "nanargmin", "nanargmax", "sum", "minmax"])
@pytest.mark.parametrize("dtype", ["int16", "float32", "M8[s]"])
def test_the_catalogue_takes_the_first(op: str, dtype: str):
    if op == "sum" and dtype == "M8[s]":
        pytest.skip("it has none")
    assert bind([as_monoid(op)], [np.dtype(dtype)]).accumulator.takes_first


@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("i8", "u8"), ("M8[s]", "M8[D]"), ("c8", "c8")])
def test_mismatches_are_the_first(dtypes: tuple[str, str]):
    pair = [np.dtype(dtype) for dtype in dtypes]
    bound = bind([as_monoid("first_mismatch")], pair)
    assert bound.accumulator.uses_index
    assert bound.accumulator.takes_first


def test_a_state_may_need_every_index():
    way = Accumulate(
        state={"n": "int64"},
        start={"n": 0},
        step=lambda s, x, i: {"n": s.n + i},
        end=lambda s: {"n": s.n},
    )
    mine = Monoid(
        "mine", fields={"n": "int64"}, zero=0, lift=lambda x, i: i, op="add", accumulate=way
    )
    assert not bind([mine], [np.dtype("f4")]).accumulator.takes_first


def component_of(monoid: Monoid | str, dtype: str, *, exact: bool = False) -> Component:
    bound = bind([as_monoid(monoid)], [np.dtype(dtype)], exact=exact, keyed=True)
    (component, *_) = bound.accumulator.components
    return component


def joined(monoid: Monoid | str, dtype: str) -> list[str]:
    return sorted(infix(tree) for _, tree in traits_of(component_of(monoid, dtype)).joins)


def kept(**parts: Any) -> Monoid:
    """A monoid whose state has fields t and few, all of which begin with 0."""
    plain: dict[str, Any] = {
        "state": {"t": "int64", "few": "int64"},
        "start": {"t": 0, "few": 0},
        "step": lambda s, x: {"t": s.t, "few": s.few + x},
        "carry": lambda s: {"t": s.t + s.few, "few": 0},
        "end": lambda s: {"s": s.t},
    }
    way = Accumulate(**plain | parts)
    return Monoid("kept", fields={"s": "int64"}, zero=0, lift=wide, op="add", accumulate=way)


@pytest.mark.parametrize(
    ("monoid", "dtype", "by"),
    [
        ("sum", "i2", ["a.few + b.few", "a.s + b.s"]),
        ("prod", "i4", ["a.f * b.f", "a.low * b.low"]),
        ("sumsq", "f4", ["a.q + b.q"]),  # which fma adds to
        ("var", "f4", ["a.n + b.n", "a.q + b.q", "a.s + b.s"]),  # about one pivot
        (
            "minmax",
            "f4",
            ["maximum(a.most, b.most)", "maximum(a.top, b.top)", "minimum(a.least, b.least)"],
        ),
    ],
)
def test_states_are_joined_by_the_ops_of_their_steps(monoid: str, dtype: str, by: list[str]):
    assert joined(monoid, dtype) == by


@pytest.mark.parametrize(
    "parts",
    [
        {"start": {"t": 0, "few": 1}},
        {"step": lambda s, x: {"t": s.t, "few": x}},
        {"step": lambda s, x: {"t": s.t, "few": s.few + s.few * x}},
        {"step": lambda s, x: {"t": s.t, "few": s.few + s.t}},
        {"step": lambda s, x: {"t": s.t + x, "few": s.few + x}},
        {"step": lambda s, x: {"t": s.t, "few": np.maximum(s.few, x)}},
        {"carry": lambda s: {"t": s.t + s.few * s.few, "few": 0}},
        {"carry": lambda s: {"t": np.maximum(s.t, s.few), "few": 0}},
        {"carry": lambda s: {"t": s.t + s.few, "few": s.few - s.few}},
    ],
)
def test_what_a_step_does_otherwise_is_not_joined(parts: dict[str, Any]):
    assert joined(kept(), "i4") == ["a.few + b.few", "a.t + b.t"]
    assert joined(kept(**parts), "i4") == []


def test_sums_that_tell_what_they_lost_are_not_joined():
    assert joined("logsumexp", "f4") == []


@pytest.mark.parametrize(
    ("monoid", "dtype", "deposits"),
    [
        ("sum", "f4", ["DIGITS"]),
        ("sum", "i4", ["STATE"]),
        ("sum", "i8", ["STATE", "STATE"]),
        ("count", "f4", ["COUNT"]),
        ("min", "f4", ["EXTREME32"]),
        ("max", "i8", ["EXTREME64"]),
        ("argmax", "f4", ["EXTREME32", "INDEX"]),
        ("mode", "u1", ["COUNTER"]),
        ("prod", "f4", []),
        ("logsumexp", "f4", []),
    ],
)
def test_deposits_are_integers_that_work_items_share(monoid: str, dtype: str, deposits: list[str]):
    found = traits_of(component_of(monoid, dtype, exact=True)).deposits
    assert [what.name for what, _ in found] == deposits


def test_a_rounding_sum_is_shared_as_an_exact_one():
    exact = traits_of(component_of("sum", "f4")).exact
    assert exact is not None
    assert [what for what, _ in traits_of(exact).deposits] == [Deposit.DIGITS]
    assert traits_of(component_of("prod", "f4")).exact is None
