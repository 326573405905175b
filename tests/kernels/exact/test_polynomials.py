"""Exact sums of polynomials: rationals to the last bit, on every device, in any order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chunkfold.kernels import (
    Accumulator,
    Bound,
    Combiner,
    DeviceContext,
    Fold,
    Monoid,
    MonoidError,
    Partial,
    as_monoid,
    bind,
    box,
    real,
)
from chunkfold.kernels.accumulator.sums import IntegerSums, any_lost, exact_sums, restored
from chunkfold.kernels.exact.limbs import integers, specials
from chunkfold.kernels.expressions.evaluate import tree_values
from chunkfold.kernels.expressions.nodes import input_node
from chunkfold.kernels.fold import fold as fold_module
from tests.conftest import ALL_SHAPES
from tests.exactly import nearest
from tests.kernels.catalogue.test_exact_sums import bits, chosen
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised
COUNT = 41


def summing(inputs: int = 1, kinds: str = "biuf", **lifts: Callable[..., Any]) -> Monoid:
    """Declare exact sums of some polynomials."""
    return Monoid(
        "sums",
        inputs=inputs,
        kinds=kinds,
        fields=dict.fromkeys(lifts, "exact"),
        zero=dict.fromkeys(lifts, 0),
        lift=lambda *x: {name: lift(*x) for name, lift in lifts.items()},
        op="add",
    )


def folded(
    opened: DeviceContext,
    bound: Bound,
    arrays: Sequence[np.ndarray],
    axes: tuple[int, ...],
    form: Callable[[Accumulator], Accumulator] = lambda accumulator: accumulator,
) -> Partial:
    """Fold several inputs; what expansions have lost once more in limbs."""
    shape = arrays[0].shape
    outputs = math.prod(n for axis, n in enumerate(shape) if axis not in axes)

    def once(accumulator: Accumulator) -> Partial:
        whole = box(shape, axes)
        fold = Fold(opened, accumulator, chosen(opened, accumulator, whole.kernel), outputs)
        fold.add([upload(opened, np.ascontiguousarray(array)) for array in arrays], whole)
        return fold.read_back()

    accumulator = form(bound.accumulator.for_outputs(outputs))
    partial = once(accumulator)
    if any_lost(accumulator, partial).any():
        again = once(accumulator.with_limbs())
        partial = restored(accumulator, partial, np.arange(outputs), again)
    return partial


def sums_of(bound: Bound, partial: Partial) -> dict[str, list[Fraction | float]]:
    """Return what exact fields hold, without rounding."""
    (statistic,) = bound.statistics
    found: dict[str, list[Fraction | float]] = {
        name: [*map(Fraction, IntegerSums(*(partial.arrays[slot] for slot in slots)).numbers())]
        for name, slots in statistic.digits.items()
    }
    for name, slot in statistic.slots.items():
        limbs = statistic.limbs[name]
        tables = exact_sums(partial, slot, limbs).tables(np.arange(partial.outputs))
        unit = Fraction(2) ** limbs.low
        pairs = zip(integers(tables), specials(tables), strict=True)
        found[name] = [float(odd) if odd else value * unit for value, odd in pairs]
    return found


def wanted(lift: Callable[..., Any], *columns: np.ndarray) -> Fraction | float:
    """Add up a polynomial of elements by rationals; of what is no number as floats do."""
    total: Fraction | float = Fraction(0)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        finite = all(map(math.isfinite, row))
        with np.errstate(all="ignore"):
            total = total + lift(*(map(Fraction, row) if finite else map(np.float64, row)))
    return total if isinstance(total, Fraction) else float(total)


def alike(one: Fraction | float, other: Fraction | float) -> bool:
    return one == other or (one != one and other != other)


def check(
    opened: DeviceContext,
    lifts: dict[str, Callable[..., Any]],
    rows: Sequence[np.ndarray],
    *,
    fp64: bool = True,
) -> None:
    """Compare rows, columns and the whole of each row, on a device, with rationals."""
    monoid = summing(len(rows), **lifts)
    bound = bind([monoid], [array.dtype for array in rows], fp64=fp64, exact=True)
    want = {
        name: [wanted(lift, *row) for row in zip(*rows, strict=True)]
        for name, lift in lifts.items()
    }
    each = range(len(rows[0]))
    layouts: list[tuple[list[np.ndarray], int, int, Sequence[int]]] = [
        (list(rows), 1, 1, each),
        ([np.tile(array, 9) for array in rows], 1, 9, each),  # no short rows any more
        ([array.T for array in rows], 0, 1, each),
        *(([array[n : n + 1] for array in rows], 1, 1, [n]) for n in (0, len(each) - 1)),
    ]
    for arrays, axis, times, numbers in layouts:
        got = sums_of(bound, folded(opened, bound, arrays, (axis,)))
        for name in lifts:
            pairs = zip(got[name], (want[name][n] for n in numbers), numbers, strict=True)
            for found, value, number in pairs:
                assert alike(found, times * value), (name, axis, number, found, value)


def hard(dtype: str, seed: int, count: int = COUNT) -> np.ndarray:
    """Return rows that are hard to add powers of."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        ends = rng.choice(np.array([info.min, info.max, info.min + 1, 0, 1], kind), (3, count))
        return np.concatenate([rng.integers(info.min, info.max, (5, count), kind), ends])
    info = np.finfo(kind)
    plain = rng.standard_normal((8, count))
    exponents = np.array([0, 3, 0, info.minexp, info.maxexp - 3, info.minexp / 3, 0, 0])
    scales = 2.0 ** np.broadcast_to(exponents[:, None], plain.shape)
    scales[2] = 2.0 ** rng.uniform(info.minexp / 2, info.maxexp / 2, count)
    scales[6] = 2.0 ** rng.uniform(info.minexp, info.maxexp - 2, count)
    data = (plain * scales).astype(dtype)
    data[1, 1::2] = -data[1, : count - 1 : 2]
    data[7] = rng.permuted(np.where(rng.random(count) < 0.1, np.inf, data[7])).astype(dtype)
    data[7, ::9] = rng.choice(np.array([0, -0.0, np.nan, info.smallest_subnormal], dtype))
    return data


POWERS: dict[str, Callable[..., Any]] = {
    "four": lambda x: x**4,
    "mixed": lambda x: 2 * x * x * x - 3 * x,
}
PRODUCTS: dict[str, Callable[..., Any]] = {
    "product": lambda x, y: x * y,
    "apart": lambda x, y: (x - y) ** 2,
    "five_terms": lambda x, y: x * y * (x + y) * (x - 5 * y) - 7,
}
APART = {"apart": PRODUCTS["apart"]}
CASES = [
    ("float64", POWERS),
    ("float32", PRODUCTS),
    ("float16", POWERS),
    ("int16", {**APART, "linear": lambda x, y: 3 * x - 2 * y - 7}),
    ("int64", APART),
    ("int8", {**APART, "halved": lambda x, y: (x + y) * 0.5}),
    ("uint64", APART),
]


@pytest.mark.parametrize(
    ("dtype", "lifts"),
    CASES if ALL_SHAPES else CASES[:2] + CASES[3:],
    ids=lambda one: one if isinstance(one, str) else len(one),
)
def test_polynomials_are_exact(
    opened: DeviceContext, dtype: str, lifts: dict[str, Callable[..., Any]]
):
    check(opened, lifts, [hard(dtype, 1), hard(dtype, 2)][: 1 if lifts is POWERS else 2])


@pytest.mark.parametrize(("dtype", "lifts"), [("float32", APART), ("int16", POWERS)])
def test_devices_without_float64_do_it_by_integers(
    opened: DeviceContext, dtype: str, lifts: dict[str, Callable[..., Any]]
):
    check(
        opened, lifts, [hard(dtype, 3), hard(dtype, 4)][: 1 if lifts is POWERS else 2], fp64=False
    )


def test_parts_of_complex_numbers_are_factors(opened: DeviceContext):
    data = np.empty((8, COUNT), "complex64")
    data.real, data.imag = hard("float32", 5), hard("float32", 6)
    size = summing(kinds="c", size=lambda z: z.real * z.real + z.imag * z.imag)
    bound = bind([size], [data.dtype], exact=True)
    got = sums_of(bound, folded(opened, bound, [data], (1,)))["size"]
    for row, found in zip(data, got, strict=True):
        assert alike(found, wanted(lambda x, y: x * x + y * y, row.real, row.imag))


def test_other_nodes_are_the_numbers_that_they_round_to(opened: DeviceContext):
    data = hard("float32", 7)[:3]
    lifts = {"root": lambda x: np.sqrt(abs(x)) ** 2, "third": lambda x: x / 3 * real(x)}
    bound = bind([summing(**lifts)], [data.dtype], exact=True)
    got = sums_of(bound, folded(opened, bound, [data], (1,)))
    for number, row in enumerate(data):
        third = row / np.float32(3)
        assert got["third"][number] == wanted(lambda x, y: x * y, third, row)
        root = sum(Fraction(float(x)) ** 2 for x in np.sqrt(np.abs(row)))
        assert got["root"][number] == root


def test_order_and_chunks_do_not_change_a_bit(opened: DeviceContext):
    bound = bind([summing(2, **PRODUCTS)], [np.dtype("float64")] * 2, exact=True)
    rng = np.random.default_rng(8)
    pair = np.stack([hard("float64", seed)[:7].ravel() for seed in (8, 9)])
    pair = pair[:, np.isfinite(pair).all(axis=0)]
    tuning = chosen(opened, bound.accumulator)

    def fold(piece: np.ndarray) -> Partial:
        one = Fold(opened, bound.accumulator, tuning)
        one.add([upload(opened, np.ascontiguousarray(x)) for x in piece], box(piece[0].shape, (0,)))
        return one.read_back()

    whole = bits(fold(pair))
    for _ in range(4):
        shuffled = rng.permutation(pair, axis=1)
        partials = [fold(piece) for piece in np.array_split(shuffled, 5, axis=1)]
        rng.shuffle(partials)
        assert bits(Combiner(opened, bound.accumulator, tuning).combine(partials)) == whole


def test_any_floats_by_limbs_and_by_expansions(opened: DeviceContext):
    """What one output has limbs for, several have expansions for."""
    lifts = {"cubes": lambda x, y: (x - 3 * y) ** 3, "four": lambda x, y: x * x * y * y + x}
    bound = bind([summing(2, **lifts)], [np.dtype("float64")] * 2, exact=True)
    floats = st.floats(allow_nan=False, allow_infinity=False)

    @given(st.lists(st.tuples(floats, floats), min_size=1, max_size=40))
    def check_any(pairs: list[tuple[float, float]]) -> None:
        x, y = np.array(pairs).T
        for arrays in ([x, y], [np.stack([one, one], axis=1) for one in (x, y)]):
            got = sums_of(bound, folded(opened, bound, arrays, (0,)))
            for name, lift in lifts.items():
                assert got[name] == [wanted(lift, x, y)] * len(got[name])

    check_any()


_NAMES = st.sampled_from(["x", "y", "2", "-3", "0.5"])
_TEXTS = st.recursive(
    _NAMES,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner)
        | st.builds("(-{})".format, inner)
        | st.builds("{} ** {}".format, _NAMES.filter(str.isalpha), st.integers(0, 4))
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@given(text=_TEXTS, seed=st.integers(0, 99))
def test_any_polynomial_is_multiplied_out(dtype: str, text: str, seed: int):
    """On the host: what kernels add is what `polynomial` gives."""
    if dtype == "int32":
        text = text.replace("0.5", "5")
    lift = eval(f"lambda x, y: {text}")
    exactly = eval(f"lambda x, y: {text.replace('0.5', 'half')}", {"half": Fraction(1, 2)})
    x, y = (hard(dtype, seed + n, count=9)[:3] for n in (0, 1))
    try:
        bound = bind([summing(2, s=lift)], [np.dtype(dtype)] * 2, exact=True)
    except MonoidError:
        assume(False)
    parts = bound.accumulator.components
    for row in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True):
        if parts[0].digits_of:
            elements = {
                input_node(n, np.dtype(dtype)): np.array([v], dtype) for n, v in enumerate(row)
            }
            digits = tree_values([field.lift for field in parts[0].fields], elements)
            sums = IntegerSums(*(np.broadcast_to(digit, 1).astype("i8") for digit in digits))
            assert sums.numbers() == [exactly(*row)], text
            continue
        (field,) = parts[0].fields
        given_ = {input_node(n, np.dtype(dtype)): Fraction(value) for n, value in enumerate(row)}
        total = Fraction(0)
        for one in field.polynomial:
            factors = (given_[factor] for factor in one.factors)
            total += one.number * math.prod(factors, start=Fraction(1))
        assert total == exactly(*map(Fraction, row)), text


@pytest.mark.parametrize(
    ("lift", "message"),
    [
        (lambda x: x**5, r"is .*, but its degree is 5, above 4; for a higher degree, sum rounded"),
        (lambda x: x * x * (x * x + 1) * x, "its degree is 5, above 4"),
        (lambda x: x * np.inf, "inf is not a number that can be summed"),
        (lambda x: (x + 0.1) ** 2, "is not a float64; divide by it, or a"),
    ],
)
def test_what_cannot_be_kept_is_refused_where_it_is_declared(
    lift: Callable[..., Any], message: str
):
    with pytest.raises(MonoidError, match=f"lift\\['s'\\] of monoid 'sums' .*{message}"):
        summing(s=lift)


def test_coefficients_too_far_from_one_are_refused():
    far = summing(s=lambda x: x * 2.0**1000 * 2.0**1000 * 2.0**1000)
    with pytest.raises(MonoidError, match=r"about 2\*\*3000, too far from 1; multiply in finish"):
        bind([far], [np.dtype("f8")], exact=True)
    near = bind([summing(s=lambda x: x * 2.0**1000 / 1)], [np.dtype("f8")], exact=True)
    assert near.accumulator.exact


def test_equal_polynomials_are_folded_once():
    many = summing(s=lambda x: x * x, t=lambda x: x**2)
    both = bind([many, as_monoid("sumsq")], [np.dtype("f4")], exact=True).accumulator
    polynomials = {part.fields[0].polynomial for part in both.components}
    assert len(polynomials) == 1
    turned = [
        bind([summing(2, s=lift)], [np.dtype("f4")] * 2, exact=True).accumulator
        for lift in (lambda x, y: x * y, lambda x, y: y * x)
    ]
    assert turned[0].sums.values() == turned[1].sums.values() or (
        [f.polynomial for f in turned[0].sums.values()]
        == [f.polynomial for f in turned[1].sums.values()]
    )


def test_products_of_the_catalogue_are_rounded_once(opened: DeviceContext):
    rng = np.random.default_rng(10)
    x, y = rng.standard_normal((2, 6, COUNT)) * 2.0 ** rng.integers(-30, 30, COUNT)
    for op, name in (("dot", "product"), ("sum_sq_diff", "apart")):
        bound = bind([as_monoid(op)], [x.dtype] * 2, exact=True)
        got = bound.statistics[0].finish(folded(opened, bound, [x, y], (1,)))
        rows = zip(x, y, strict=True)
        assert got.tolist() == [nearest(wanted(PRODUCTS[name], *row), "float64") for row in rows]


def test_dots_of_complex_numbers_are_rounded_once(opened: DeviceContext):
    rng = np.random.default_rng(11)
    parts = (rng.standard_normal((4, 6, COUNT)) * 2.0 ** rng.integers(-9, 9, COUNT)).astype("f4")
    a, b, c, d = parts
    bound = bind([as_monoid("dot")], [np.dtype("complex64")] * 2, exact=True)
    pair = [(one + 1j * other).astype("complex64") for one, other in ((a, b), (c, d))]
    got = bound.statistics[0].finish(folded(opened, bound, pair, (1,)))
    for found, row in zip(got, zip(a, b, c, d, strict=True), strict=True):
        assert found.real == nearest(wanted(lambda a, b, c, d: a * c - b * d, *row), "float32")
        assert found.imag == nearest(wanted(lambda a, b, c, d: a * d + b * c, *row), "float32")


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_evaluation_agrees(opened: DeviceContext, dtype: str):
    x, y = hard(dtype, 11), hard(dtype, 12)
    bound = bind([summing(2, **PRODUCTS)], [x.dtype] * 2, exact=True)
    got = bound.statistics[0].finish(folded(opened, bound, [x, y], (1,)))
    assert got.tobytes() == summing(2, **PRODUCTS).evaluate(x, y, axis=1).tobytes()


@pytest.mark.parametrize(
    ("lift", "rounds", "without_fp64"),
    [
        (lambda x: np.exp(x) * x, True, True),
        (lambda x: x / 3 * x - x, False, True),
        (lambda x: np.sqrt(abs(x)) * x, False, True),
        (lambda x: abs(x) * x, False, False),
    ],
)
def test_factors_that_devices_may_round_in_another_way_are_told(
    lift: Callable[..., Any], *, rounds: bool, without_fp64: bool
):
    bound = bind([summing(s=lift)], [np.dtype("float32")], exact=True)
    assert bound.statistics[0].rounds == rounds
    bound = bind([summing(s=lift)], [np.dtype("float32")], exact=True, fp64=False)
    assert bound.statistics[0].rounds == without_fp64


def test_carries_are_due_sooner_where_elements_are_many_doubles(opened: DeviceContext, monkeypatch):
    monkeypatch.setattr(fold_module, "MOST_DEPOSITS", 1000)
    data = upload(opened, np.ones(400))
    settled = {}
    for name, lift in (("plain", lambda x: x), ("four", lambda x: x**4)):
        accumulator = bind([summing(s=lift)], [np.dtype("f8")], exact=True).accumulator
        fold = Fold(opened, accumulator, chosen(opened, accumulator))
        fold.add([data], box((400,), (0,)))
        fold.read_back()
        found = fold.profile().get(("settle", 0))
        settled[name] = found.launches if found else 0
    assert settled["four"] == settled["plain"] + 1


@pytest.mark.parametrize(
    ("inputs", "lift"),
    [
        (2, lambda x, y: x + y - y),
        (1, lambda x: x - x),
        (2, lambda x, y: (x + y) ** 2 - x * x - 2 * x * y),
    ],
)
def test_factors_that_cancel_are_refused(inputs: int, lift: Callable[..., Any]):
    with pytest.raises(MonoidError, match="cancel: omit them"):
        Monoid("p", inputs=inputs, fields={"s": "exact"}, zero=0, lift=lift, op="add")
