"""Sums on a grid: exact where elements are as far apart, and as many, as a grid has room for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from chunkfold.kernels import Bound, DeviceContext, as_monoid, bind
from chunkfold.kernels.accumulator.sums import exact_sums
from chunkfold.kernels.exact.limbs import integers
from chunkfold.kernels.kinds.exact_grid import LOG_COUNT, cuts_of, span_of
from tests.conftest import some
from tests.exactly import expected, moments
from tests.kernels.catalogue.test_exact_sums import folded, same
from tests.kernels.exact.limbs import limbs_of

_FORMS = [
    pytest.param("float32", marks=pytest.mark.unoptimised),
    "float64",  # as users run it: compilers that add up in another order lose what is exact
]
_BESIDE = {"min": np.min, "count_nonzero": np.count_nonzero}
"""What is folded beside sums, and has no grid."""
COUNT = 33 * 2**LOG_COUNT + 29
"""Elements of a row: more than a grid has room for in every shape of vectors, and no multiple."""


def far_apart(dtype: str, most: int) -> np.ndarray:
    """Return rows of two sizes, up to `most` powers of two apart, with all their bits.

    Most elements of a row are one number: what is cut off of each then adds up to the most there
    may be. A few are a power of two of the smallest, and its last bit.
    """
    rng, digits = np.random.default_rng(most), np.finfo(dtype).nmant
    rows = []
    for apart in range(most):
        row = np.full(COUNT, 2.0**digits + rng.integers(0, 2**digits) // 2 * 2 + 1)
        few = rng.random(COUNT) < 0.01
        row[few] = (2.0**digits + 1) * 2.0**-apart
        rows.append(row * 2.0**7)
    return np.stack(rows).astype(dtype)


def changing(dtype: str, seed: int) -> np.ndarray:
    """Return rows whose scale changes now and then, with zeros and what is no number between."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    runs = rng.integers(1, 700, (30, COUNT)).cumsum(axis=1)
    scales = rng.uniform(info.minexp / 3, info.maxexp / 3, (30, COUNT))
    rows = []
    for row, (ends, exponents) in enumerate(zip(runs, scales, strict=True)):
        run = np.searchsorted(ends, np.arange(COUNT), "right")
        data = (rng.standard_normal(COUNT) * 2.0 ** exponents[run]).astype(dtype)
        data[rng.random(COUNT) < 0.02] = 0
        if row % 3 == 0:
            data[rng.integers(0, COUNT, 2)] = rng.choice([np.inf, -np.inf, np.nan, info.max], 2)
        if row % 5 == 0:
            data[run == run[COUNT // 2]] = 0
        if row % 5 == 1:
            data[run == run[COUNT // 2]] *= info.smallest_subnormal / info.eps
        rows.append(data)
    return np.stack(rows)


def check(opened: DeviceContext, bound: Bound, data: np.ndarray, *, skipping: bool = False) -> None:
    """Compare sums before they are rounded, and results, with rationals, in every layout."""
    rows = data.astype(float).tolist()
    if skipping:
        rows = [[value for value in row if not math.isnan(value)] for row in rows]
    finite = [n for n, row in enumerate(rows) if all(map(math.isfinite, row))]
    powers = {n: moments(rows[n]) for n in finite}
    few = range(0, len(rows), 9)
    layouts = [(data, 1, range(len(rows))), (np.ascontiguousarray(data.T), 0, range(len(rows)))]
    layouts += [(data[n : n + 1], 1, range(n, n + 1)) for n in few]
    for array, axis, numbers in layouts:
        partial = folded(opened, bound, array, (axis,))
        for name, field in bound.accumulator.sums.items():
            assert field.limbs is not None
            at = np.array([n - numbers[0] for n in finite if n in numbers], int)
            held = exact_sums(partial, name, field.limbs).tables(at)
            want = [powers[n][field.limbs.power - 1] for n in finite if n in numbers]
            unit = Fraction(2) ** field.limbs.low
            for n, got, wanted in zip(at, integers(held), want, strict=True):
                assert got * unit == wanted, (name, array.shape, axis, n, float(wanted))
        for statistic in bound.statistics:
            name = statistic.name.removeprefix("nan")
            if name in _BESIDE:
                wanted = [_BESIDE[name](np.array(rows[n], data.dtype)) for n in numbers]
            else:
                wanted = [expected(name, rows[n], data.dtype.name) for n in numbers]
            wrong = np.flatnonzero(~same(statistic.finish(partial), wanted))
            assert not wrong.size, (statistic.name, array.shape, axis, wrong)


def bound_to(ops: list[str], dtype: str) -> Bound:
    return bind([as_monoid(op) for op in ops], [np.dtype(dtype)], exact=True)


@pytest.mark.parametrize(("dtype", "op"), some(["float32", "float64"], ["sum", "sumsq"]))
def test_sums_are_exact_however_far_elements_are_apart(opened: DeviceContext, dtype: str, op: str):
    most = 2 + span_of(limbs_of(np.dtype(dtype), 1 + (op == "sumsq")), short=dtype == "float32")
    check(opened, bound_to([op], dtype), far_apart(dtype, most))


@pytest.mark.parametrize("dtype", _FORMS)
def test_grids_change_with_the_data(opened: DeviceContext, dtype: str):
    check(opened, bound_to(["sum", "var", "min"], dtype), changing(dtype, 2))


@pytest.mark.parametrize(
    ("length", "dtype"),
    [
        pytest.param(9, "float16", marks=pytest.mark.unoptimised),
        pytest.param(64, "float32", marks=pytest.mark.unoptimised),
        (9, "float64"),
        (77, "float64"),
    ],
)
def test_short_rows_begin_on_a_grid_of_rows_before(opened: DeviceContext, dtype: str, length: int):
    rows = changing(dtype, length)[:6, : 48 * length].reshape(-1, length)
    check(opened, bound_to(["sum", "var", "min", "count_nonzero"], dtype), rows[:250])


@pytest.mark.unoptimised
def test_absent_elements_are_on_every_grid(opened: DeviceContext):
    data = changing("float32", 3)
    data[np.random.default_rng(4).random(data.shape) < 0.1] = np.nan
    check(opened, bound_to(["nansum", "nanvar", "nanmin"], "float32"), data, skipping=True)


@pytest.mark.unoptimised
def test_elements_absent_from_one_sum_are_in_another(opened: DeviceContext):
    data = np.abs(changing("float32", 5)[1:6])
    data[::2, 1000] = np.nan
    both = bound_to(["sum", "nansum"], "float32")
    partial = folded(opened, both, data, (1,))
    for statistic, skipping in zip(both.statistics, (False, True), strict=True):
        rows = [row[~(skipping & np.isnan(row))].astype(float).tolist() for row in data]
        wanted = [expected("sum", row, "float32") for row in rows]
        assert same(statistic.finish(partial), wanted).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("degree", [1, 2])
def test_a_full_grid_has_room_for_its_bits(dtype: str, degree: int):
    """The bounds of the module's text, counted out."""
    limbs, short = limbs_of(np.dtype(dtype), degree), dtype == "float32"
    top, span = 0, span_of(limbs_of(np.dtype(dtype), degree), short=short)
    bits = 24 if short else 53
    smallest = degree * (top - span - bits + 1)
    """Exponent of the last place of the smallest element's power."""
    largest = degree * (top + 1)
    """Every element's power is below 2**largest."""
    for number, cut in enumerate(cuts_of(limbs, short=short)):
        k = eval(cut, {"top": top})
        assert 2**LOG_COUNT * 2.0**largest < 2.0 ** (k - 1)
        pair = degree == 2 and not short
        last = 2 * (top - span) - 52 if pair and number == 0 else smallest
        assert LOG_COUNT + (k - 53) - last <= 53
        largest = 2 * top - 52  # of the errors of squares
    if not cuts_of(limbs, short=short):
        assert LOG_COUNT + largest - smallest <= 53
