"""Laws are tried where a monoid draws its lines, on data, and in many orders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chunkfold.kernels import CATALOGUE, Monoid, OpenedDevice, Packing, bind
from chunkfold.kernels.accumulate import Accumulate
from chunkfold.kernels.law_samples import ENDS, SEQUENCE, SHORT, orders, sequences, telling
from chunkfold.kernels.laws import Tried, try_laws
from chunkfold.kernels.variant import forced
from tests.conftest import some

pytestmark = pytest.mark.unoptimised


def tried(
    opened: OpenedDevice, monoid: Monoid, dtype: str, data=None, packing: Packing | None = None
) -> Tried:
    accumulator = bind([monoid], [np.dtype(dtype)], packings=[packing]).accumulator
    return try_laws(opened, accumulator, forced(opened.device, accumulator, "tree")[0], data)


def longest_run(line: str) -> Monoid:
    """The longest run of elements beyond a line: of its place in the order it knows nothing."""
    return Monoid(
        "longest_run",
        fields={"now": "int32", "best": "int32"},
        zero=dict.fromkeys(("now", "best"), 0),
        lift=dict.fromkeys(("now", "best"), f"x > {line} ? 1 : 0"),
        op={
            "now": "b.now == 0 ? 0 : a.now + b.now",
            "best": "max(max(a.best, b.best), a.now + b.now)",
        },
    )


def latest(line: str) -> Monoid:
    return Monoid(
        "latest",
        fields={"value": "float64", "any": "int32"},
        zero={"value": 0, "any": 0},
        lift={"value": f"x > {line} ? x : 0", "any": f"x > {line} ? 1 : 0"},
        op={"value": "b.any ? b.value : a.value", "any": "max"},
    )


@pytest.mark.parametrize(
    ("line", "dtype"),
    [
        ("303.15", "float32"),
        ("303.15f", "float64"),
        ("300", "int16"),
        ("1e5", "int32"),
        ("-0x1.8p9", "float64"),
        ("273.15 + 30", "float64"),
        (".5e-3", "float16"),
        ("250", "uint8"),
    ],
)
@pytest.mark.parametrize("of", [longest_run, latest])
def test_what_depends_on_the_order_beyond_a_number_is_refused(
    opened: OpenedDevice, of, line: str, dtype: str
):
    found = tried(opened, of(line), dtype)
    assert found.broken.startswith(f"monoid {of(line).name!r}: op is not commutative: where a is (")


def test_what_depends_on_the_order_in_the_data_alone_is_refused(opened: OpenedDevice):
    """As no number in its texts is near the line that it draws."""
    hidden = latest("exp(2.0) * exp(14.0)")
    assert not tried(opened, replace(hidden, rtol=1e-9), "float32").broken
    data = np.random.default_rng(0).uniform(9e6, 1e7, 500).astype("f4")
    assert "not commutative" in tried(opened, hidden, "float32", [data]).broken


def test_a_stream_that_goes_wrong_after_many_elements_is_refused(opened: OpenedDevice):
    forgets = Accumulate(
        {"t": "int64", "n": "int32"}, {"t": 0, "n": 0},
        "s.t += x; s.n += 1; if (s.n > 2000) s.t = 0;", {"s": "s.t"},
    )  # fmt: skip
    bad = Monoid("bad", fields={"s": "int64"}, zero=0, lift="x", op="add", accumulate=forgets)
    found = tried(opened, bad, "int32").broken
    assert "its result depends on the order of elements: 4,096 of them (x is " in found
    assert "by accumulate, in another order" in found


def test_elements_that_change_nothing_prove_nothing(opened: OpenedDevice):
    never = Monoid(
        "never", fields={"n": "int32"}, zero=0, lift="x * x < -1 ? 1 : 0", op="b.n + a.n"
    )
    assert tried(opened, never, "float32") == Tried(unmoved=("never",))
    assert tried(opened, replace(never, lift="x > 5 ? 1 : 0"), "float32") == Tried()
    assert tried(opened, replace(never, op="add"), "float32") == Tried()  # which always is one


FLOAT_OPS = [name for name, monoid in CATALOGUE.items() if "f" in monoid.kinds]


@pytest.mark.parametrize(
    ("name", "dtype"), some(FLOAT_OPS, ["float64", "float32", "float16"], of=3)
)
def test_every_reduction_of_floats_is_a_monoid_as_users_would_declare_it(
    opened: OpenedDevice, name: str, dtype: str
):
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
    tuning = forced(opened.device, doubted, "tree")[0]
    for given in (None, data):
        assert try_laws(opened, doubted, tuning, given).broken == ""


def test_rounding_is_let_pass_but_where_nothing_rounds(opened: OpenedDevice):
    product = Monoid("product", zero=1, lift="x", op="b.s * a.s")
    data = [np.random.default_rng(0).uniform(0.5, 1.5, 300)]
    assert tried(opened, product, "float64", data) == Tried()
    middle = replace(product, op="(a.s + b.s) * 0.5", zero=0, rtol=1e-9)
    assert "not associative" in tried(opened, middle, "float64").broken


def test_packed_data_are_tried_as_what_they_stand_for(opened: OpenedDevice):
    packing = Packing(0.5, 1000.0)
    data = [np.arange(-50, 50, dtype="int16")]
    broken = tried(opened, latest("1000.25 * 1.0"), "int16", data, packing).broken
    assert "not commutative" in broken


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "M8[s]"]
)
def test_telling_elements_are_of_the_dtype(dtype: str):
    monoid = Monoid(
        "m", fields={"n": "int64"}, zero=0, lift="x > 1000 ? 1 : 0", op="add", kinds="biufmM"
    )
    accumulator = bind([monoid], [np.dtype(dtype)]).accumulator
    (rows,) = telling(accumulator)
    assert 2 <= len(rows) <= 1024
    if dtype not in ("bool", "int8"):
        assert {999, 1000, 1001} <= set(rows.astype("f8").tolist())
    (elements,) = sequences([rows])
    assert elements.shape == (3 * SEQUENCE,)


@pytest.mark.parametrize("length", [SHORT, SEQUENCE])
def test_orders_take_each_element_once(length: int):
    made = orders(length)
    assert len(made) >= 64
    for order in made:
        numbers = np.sort(order & ~ENDS)
        np.testing.assert_array_equal(numbers, np.arange(numbers[0], numbers[0] + length))
        assert order[-1] & ENDS
    assert len({order.tobytes() for order in made}) >= 0.9 * len(made)
