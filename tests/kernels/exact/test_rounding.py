"""Exact values are rounded once, to nearest, ties to even, in every range of every format."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkfold.kernels.exact import rounding
from chunkfold.kernels.exact.limbs import SPECIALS, integers, settled, specials
from chunkfold.kernels.exact.rounding import quotients, rounded_ratio, rounded_root
from tests.exactly import nearest, nearest_root
from tests.kernels.exact.limbs import limbs_of

DTYPES = ["float16", "float32", "float64"]
LOWS = {"float16": -24, "float32": -149, "float64": -1074}


def table(value: int, entries: int) -> np.ndarray:
    """Lay an integer out as a settled table of one output."""
    limbs = entries - SPECIALS
    digits = [(value >> 32 * n) & 0xFFFFFFFF for n in range(limbs - 1)]
    return np.array([[*digits, value >> 32 * (limbs - 1), 0, 0, 0]])


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=400)
@given(data=st.data())
def test_quotients_are_the_nearest_floats(dtype: str, data: st.DataObject):
    limbs = limbs_of(np.dtype(dtype), 1)
    bits = 32 * limbs.count - 2
    width = data.draw(st.integers(0, bits))
    value = data.draw(st.integers(-(1 << width), 1 << width))
    # Ties, and what is next to them.
    kept = data.draw(st.integers(1, 60))
    if data.draw(st.booleans()) and abs(value).bit_length() > kept:
        cut = abs(value).bit_length() - kept
        value = (value >> cut << cut) + data.draw(st.integers(-1, 1))
    by = data.draw(st.one_of(st.just(1), st.integers(1, 1000), st.integers(1, 1 << 40)))
    got = quotients(table(value, limbs.entries), limbs.low, np.array([by]), np.dtype(dtype))[0]
    want = nearest(Fraction(value, by) * Fraction(2) ** limbs.low, dtype)
    assert got.dtype == dtype
    assert got.tobytes() == want.tobytes(), (value, by)
    alone = rounded_ratio(value, by, limbs.low, np.dtype(dtype))
    assert np.dtype(dtype).type(alone).tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_do_not_depend_on_their_neighbours(dtype: str, monkeypatch):
    monkeypatch.setattr(rounding, "SLAB", 64)
    limbs = limbs_of(np.dtype(dtype), 1)
    rng = np.random.default_rng(0)
    values = [int(x) * (-1) ** n << n % 60 for n, x in enumerate(rng.integers(0, 2**50, 500))]
    values[::7] = [0] * len(values[::7])
    rows = np.concatenate([table(value, limbs.entries) for value in values])
    by = rng.integers(1, 99, len(values))
    got = quotients(rows, limbs.low, by, np.dtype(dtype))
    alone = [
        quotients(rows[n : n + 1], limbs.low, by[n : n + 1], np.dtype(dtype))[0]
        for n in range(len(values))
    ]
    assert got.tobytes() == np.array(alone).tobytes()
    assert not np.signbit(got[::7]).any()


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    st.fractions(min_value=0),
    st.integers(-2200, 2100),
    st.booleans(),
)
@example(Fraction(0), 0, False)
def test_roots_are_the_nearest_floats(dtype: str, value: Fraction, low: int, square: bool):
    if square:  # roots that are exact, and ties
        value = Fraction(int(value) | 1) ** 2
    got = rounded_root(value.numerator, value.denominator, low, np.dtype(dtype))
    want = nearest_root(value * Fraction(2) ** low, dtype)
    assert np.dtype(dtype).type(got).tobytes() == want.tobytes()


@given(st.lists(st.integers(-(1 << 62), (1 << 62) - 1), min_size=4, max_size=4))
def test_settling_keeps_the_value_and_gives_it_one_form(limbs: list[int]):
    value = sum(limb << 32 * n for n, limb in enumerate(limbs))
    raw = np.array([[*limbs, 0, 5, 0]])
    done = settled(raw)
    assert ((done[:, :3] >= 0) & (done[:, :3] < 1 << 32)).all()
    assert done[:, -3:].tolist() == [[0, 1, 0]]
    assert sum(int(limb) << 32 * n for n, limb in enumerate(done[0, :4])) == value
    assert settled(done).tobytes() == done.tobytes()
    assert (settled(np.repeat(raw, 40, axis=0)) == done).all()  # many go another way


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("degree", [1, 2])
def test_limbs_reach_from_the_least_value_to_many_of_the_greatest(dtype: str, degree: int):
    limbs = limbs_of(np.dtype(dtype), degree)
    info = np.finfo(dtype)
    least, most = (Fraction(float(x)) ** degree for x in (info.smallest_subnormal, info.max))
    assert least % (Fraction(2) ** limbs.low) == 0
    many = int((1 << 63) * most / Fraction(2) ** limbs.low)
    for value in (many, -many):
        assert integers(table(value, limbs.entries)) == [value]
        assert -(1 << 31) <= table(value, limbs.entries)[0, limbs.count - 1] < 1 << 31


@pytest.mark.parametrize(
    ("counts", "value"),
    [
        ((0, 0, 0), 0.0),
        ((1, 0, 0), math.nan),
        ((0, 2, 0), math.inf),
        ((0, 0, 3), -math.inf),
        ((0, 1, 1), math.nan),
        ((4, 1, 0), math.nan),
    ],
)
def test_what_is_no_number_decides_the_sum(counts: tuple[int, int, int], value: float):
    assert np.array_equal(specials(np.array([[0, 0, *counts]])), [value], equal_nan=True)
