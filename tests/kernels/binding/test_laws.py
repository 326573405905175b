"""Laws are tried where a monoid draws its lines, on data, and in many orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chunkfold.kernels import CATALOGUE, Monoid, Packing, bind
from chunkfold.kernels.binding.law_samples import ENDS, SEQUENCE, SHORT, orders, sequences, telling
from chunkfold.kernels.binding.laws import Tried, depends_on_order_of, try_laws
from chunkfold.kernels.expressions.library import where
from chunkfold.kernels.monoid.accumulate import Accumulate
from tests.conftest import some


def tried(monoid: Monoid, dtype: str, data=None, packing: Packing | None = None) -> Tried:
    return try_laws(bind([monoid], [np.dtype(dtype)], packings=[packing]).accumulator, data)


def above(line: float) -> Callable:
    return lambda x: x > line


def hidden(x: Any) -> Any:
    """Whether x is between exp(16), 8886110.5, and exp(17): no number in it is near either."""
    return (np.log(x) > 16) & (np.log(x) < 17)


def longest_run(beyond: Callable) -> Monoid:
    """The longest run of elements beyond a line: of its place in the order it knows nothing."""
    return Monoid(
        "longest_run",
        fields={"now": "int32", "best": "int32"},
        zero=dict.fromkeys(("now", "best"), 0),
        lift=dict.fromkeys(("now", "best"), beyond),
        op={
            "now": lambda a, b: where(b.now == 0, 0, a.now + b.now),
            "best": lambda a, b: np.maximum(np.maximum(a.best, b.best), a.now + b.now),
        },
    )


def latest(beyond: Callable) -> Monoid:
    return Monoid(
        "latest",
        fields={"value": "float64", "any": "int32"},
        zero={"value": 0, "any": 0},
        lift=lambda x: {"value": where(beyond(x), x, 0), "any": beyond(x)},
        op={"value": lambda a, b: where(b.any, b.value, a.value), "any": "max"},
    )


@pytest.mark.parametrize(
    ("line", "dtype"),
    [
        (303.15, "float32"),
        (np.float32(303.15), "float64"),
        (300, "int16"),
        (1e5, "int32"),
        (-768.0, "float64"),
        (np.float64(273.15) + 30, "float64"),
        (5e-4, "float16"),
        (250, "uint8"),
    ],
)
@pytest.mark.parametrize("of", [longest_run, latest])
def test_what_depends_on_the_order_beyond_a_number_is_refused(of, line: float, dtype: str):
    monoid = of(above(line))
    found = tried(monoid, dtype)
    assert found.broken.startswith(f"monoid {monoid.name!r}: op is not commutative: where a is (")


def test_what_depends_on_the_order_in_the_data_alone_is_refused():
    far = latest(hidden)
    assert not tried(replace(far, rtol=1e-9), "float32").broken
    data = np.random.default_rng(0).uniform(9e6, 1e7, 500).astype("f4")
    assert "not commutative" in tried(far, "float32", [data]).broken


def test_a_stream_that_goes_wrong_after_many_elements_is_refused():
    forgets = Accumulate(
        {"t": "int64", "n": "int32"},
        {"t": 0, "n": 0},
        step=lambda s, x: {"t": where(s.n < 2000, s.t + x, 0), "n": s.n + 1},
        end=lambda s: {"s": s.t},
    )
    bad = Monoid(
        "bad", fields={"s": "int64"}, zero=0, lift=lambda x: x, op="add", accumulate=forgets
    )
    found = tried(bad, "int32").broken
    assert "its result depends on the order of elements: 4,096 of them (x is " in found
    assert "by accumulate, in another order" in found


def test_elements_that_change_nothing_prove_nothing():
    never = Monoid(
        "never",
        fields={"n": "int32"},
        zero=0,
        lift=lambda x: x * x < -1,
        op=lambda a, b: b.n + a.n,
    )
    assert tried(never, "float32") == Tried(unmoved=("never",))
    assert tried(replace(never, lift=above(5)), "float32") == Tried()
    assert tried(replace(never, op="add"), "float32") == Tried()  # which always is one


FLOAT_OPS = [
    name for name, monoid in CATALOGUE.items() if "f" in monoid.kinds and name != "nunique"
]
"""That one counts floats of 16 bits alone."""


@pytest.mark.parametrize(
    ("name", "dtype"), some(FLOAT_OPS, ["float64", "float32", "float16"], of=3)
)
def test_every_reduction_of_floats_is_a_monoid_as_users_would_declare_it(name: str, dtype: str):
    monoid = CATALOGUE[name]
    accumulator = bind([monoid], [np.dtype(dtype)] * monoid.inputs).accumulator
    doubted = replace(
        accumulator,
        components=tuple(
            replace(part, rtol=monoid.for_dtype(np.dtype(dtype)).rtol)
            for part in accumulator.components
        ),
    )
    rng = np.random.default_rng(0)
    data = [rng.normal(280, 15, 400).astype(dtype) for _ in range(monoid.inputs)]
    for given in (None, data):
        assert try_laws(doubted, given).broken == ""


def test_rounding_is_let_pass_but_where_nothing_rounds():
    product = Monoid("product", zero=1, lift=lambda x: x, op=lambda a, b: b.s * a.s)
    data = [np.random.default_rng(0).uniform(0.5, 1.5, 300)]
    assert tried(product, "float64", data) == Tried()
    middle = replace(product, op=lambda a, b: (a.s + b.s) * 0.5, zero=0, rtol=1e-9)
    assert "not associative" in tried(middle, "float64").broken


def test_packed_data_are_tried_as_what_they_stand_for():
    packing = Packing(0.5, 1000.0)
    data = [np.arange(-50, 50, dtype="int16")]
    broken = tried(latest(above(1000.25)), "int16", data, packing).broken
    assert "not commutative" in broken


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "M8[s]"]
)
def test_telling_elements_are_of_the_dtype(dtype: str):
    monoid = Monoid("m", fields={"n": "int64"}, zero=0, lift=above(1000), op="add", kinds="biufmM")
    accumulator = bind([monoid], [np.dtype(dtype)]).accumulator
    (rows,) = telling(accumulator)
    assert 2 <= len(rows) <= 1024
    if dtype not in ("bool", "int8"):
        assert {999, 1000, 1001} <= set(rows.astype("f8").tolist())
    (elements,) = sequences([rows])
    assert elements.shape == (3 * SEQUENCE,)


def test_telling_elements_are_integers_that_no_float_holds():
    line = np.uint64(2**64 - 2)
    monoid = Monoid("m", fields={"n": "int64"}, zero=0, lift=above(line), op="add")
    with np.errstate(invalid="raise"):
        (rows,) = telling(bind([monoid], [np.dtype("uint64")]).accumulator)
    assert 2**64 - 1 in rows.tolist()


@pytest.mark.parametrize("length", [SHORT, SEQUENCE])
def test_orders_take_each_element_once(length: int):
    made = orders(length)
    assert len(made) >= 64
    for order in made:
        numbers = np.sort(order & ~ENDS)
        np.testing.assert_array_equal(numbers, np.arange(numbers[0], numbers[0] + length))
        assert order[-1] & ENDS
    assert len({order.tobytes() for order in made}) >= 0.9 * len(made)


def farthest(larger: Callable, **others: Any) -> Monoid:
    """The greatest distance, by an op that says what wins."""
    return Monoid(
        "farthest", fields={"d": "float64"}, zero="lowest", lift=lambda x: x, op=larger, **others
    )


BY_COMPARISON = farthest(lambda a, b: where(a.d > b.d, a.d, b.d))
"""Of NaN and a number it gives whichever comes last."""


@pytest.mark.parametrize(
    ("monoid", "value", "depends"),
    [
        (BY_COMPARISON, np.nan, True),
        (BY_COMPARISON.skipping(), np.nan, False),
        (farthest(lambda a, b: np.maximum(a.d, b.d)), np.nan, False),
        (farthest(lambda a, b: np.fmax(a.d, b.d)), np.nan, False),
        (BY_COMPARISON, -0.0, True),
        (farthest(lambda a, b: a.d + b.d), -0.0, False),
        (CATALOGUE["max"], np.nan, False),
        (CATALOGUE["logsumexp"], np.nan, False),
    ],
)
def test_what_depends_on_the_order_of_nan_and_of_zeros_is_told(
    monoid: Monoid, value: float, depends: bool
) -> None:
    found = depends_on_order_of(bind([monoid], [np.dtype("f8")]).accumulator, value)
    assert bool(found) is depends
    assert not depends or ("NaN" if np.isnan(value) else "-0.0") in found


def test_integers_have_no_such_elements() -> None:
    accumulator = bind([BY_COMPARISON], [np.dtype("i4")]).accumulator
    assert not depends_on_order_of(accumulator, np.nan)


@pytest.mark.parametrize(
    ("dtype", "op"),
    [
        ("int32", lambda a, b: where(a.s > 2**31 - 9, a.s, a.s + b.s)),
        ("int64", lambda a, b: where(b.s < -(2**63) + 5, 0, a.s + b.s)),
    ],
)
def test_what_breaks_near_the_ends_of_a_dtype_is_found(dtype: str, op: Callable) -> None:
    bad = Monoid("bad", fields={"s": dtype}, zero=0, lift=lambda x: x, op=op)
    assert "bad" in tried(bad, dtype).broken


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64"])
@pytest.mark.parametrize(
    "op", [lambda a, b: a.s + b.s, lambda a, b: a.s * b.s, lambda a, b: a.s ^ b.s]
)
def test_integers_that_wrap_are_lawful_near_the_ends(dtype: str, op: Callable) -> None:
    zero = int(op.__code__.co_code == (lambda a, b: a.s * b.s).__code__.co_code)
    made = Monoid("wraps", fields={"s": "int64"}, zero=zero, lift=lambda x: x, op=op)
    assert not tried(made, dtype).broken


def test_what_named_ops_drop_breaks_no_law() -> None:
    root = Monoid("root", fields={"s": "float64"}, zero="lowest", lift=np.sqrt, op="max", kinds="i")
    assert not tried(root, "int8").broken
