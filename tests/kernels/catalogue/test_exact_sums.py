"""Exact sums, moments and norms: the rational's nearest float, the same bits in any order."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyopencl as cl
import pytest
from hypothesis import example, given, settings
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
    Tuning,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.accumulator.sums import any_lost, restored
from chunkfold.kernels.catalogue import exact_sums
from chunkfold.kernels.exact import ziv_rounding
from chunkfold.kernels.exact.limbs import SPECIALS, integers, settled
from chunkfold.kernels.fold import fold as fold_module
from chunkfold.kernels.geometry import FOLDS
from tests.exactly import expected, nearest, scaled
from tests.kernels.fold.test_fold import upload

FLOATS = [
    pytest.param("float16", marks=pytest.mark.unoptimised),
    pytest.param("float32", marks=pytest.mark.unoptimised),
    "float64",  # as users run it
]
OPS = ["sum", "mean", "norm1", "sumsq", "norm2", "var", "std"]
KINDS = ["plain", "wild", "cancelling", "subnormal", "huge", "odd"]
COUNT = 37
ROWS = 150
"""Rows of each kind, for each dtype and device: 150 * 6 * 3 * 7 ops are 18,900 cases a device."""


def every(dtype: str) -> Bound:
    """Bind all of them: one accumulator in most tests, for compilers take most of the time."""
    return bind([as_monoid(op) for op in OPS], [np.dtype(dtype)], exact=True, ddof=1)


def rows_of(kind: str, dtype: str, seed: int, rows: int = ROWS, count: int = COUNT) -> np.ndarray:
    """Return rows of floats that are hard to add in one way or another."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    info = np.finfo(dtype)
    plain = rng.standard_normal((rows, count))
    scales = {
        "plain": np.ones_like(plain),
        "wild": 2.0 ** rng.uniform(info.minexp / 2, info.maxexp / 2, plain.shape),
        "cancelling": 2.0 ** rng.uniform(-20, 12, plain.shape),
        "subnormal": np.full(plain.shape, float(info.smallest_normal)),
        "huge": np.full(plain.shape, float(info.max) / 4),
        "odd": np.ones_like(plain),
    }
    with np.errstate(over="ignore"):
        data = (plain * scales[kind]).astype(dtype)
    if kind == "cancelling":
        data[:, 1::2] = -data[:, : count - 1 : 2]
        data[:, -1] = info.smallest_subnormal
        data = rng.permuted(data, axis=1)
    if kind == "odd":
        odd = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, float(info.max)], data.shape)
        data = np.where(rng.random(data.shape) < 0.03, odd.astype(dtype), data)
    return data


@functools.cache
def hard_rows(dtype: str) -> tuple[np.ndarray, dict[str, list[np.floating]]]:
    """Return rows of every kind, and what each op makes of each."""
    data = np.concatenate([rows_of(kind, dtype, 1) for kind in KINDS])
    rows = data.astype(float).tolist()
    return data, {op: [expected(op, row, dtype, ddof=1) for row in rows] for op in OPS}


def chosen(opened: DeviceContext, accumulator: Accumulator, kernel: str = "flat") -> Tuning:
    return choose(opened.device, accumulator, kernels={kernel})


def folded(
    opened: DeviceContext,
    bound: Bound,
    array: np.ndarray,
    axes: tuple[int, ...],
    tuning: Callable[[DeviceContext, Accumulator, str], Tuning] = chosen,
) -> Partial:
    """Fold as blocks do: what expansions have lost once more in limbs."""
    outputs = math.prod(n for axis, n in enumerate(array.shape) if axis not in axes)
    accumulator = bound.accumulator.for_outputs(outputs)

    def once(accumulator: Accumulator) -> Partial:
        whole = box(array.shape, axes)
        fold = Fold(opened, accumulator, tuning(opened, accumulator, whole.kernel), outputs)
        fold.add([upload(opened, array)], whole)
        return fold.read_back()

    partial = once(accumulator)
    if any_lost(accumulator, partial).any():
        again = once(accumulator.with_limbs())
        partial = restored(accumulator, partial, np.arange(outputs), again)
    return partial


def bits(partial: Partial) -> dict[str, object]:
    """Return all that a partial is, to be compared."""
    wide = {name: (rows.at.tolist(), rows.tables.tobytes()) for name, rows in partial.wide.items()}
    return {name: array.tobytes() for name, array in partial.arrays.items()} | wide


def same(got: np.ndarray, want: list[np.floating]) -> np.ndarray:
    """Compare bits, but for NaN's."""
    raw = f"u{got.dtype.itemsize}"
    wanted = np.array(want, got.dtype)
    return (got.view(raw) == wanted.view(raw)) | (np.isnan(got) & np.isnan(wanted))


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_row_is_the_nearest_float(opened: DeviceContext, dtype: str):
    bound = every(dtype)
    data, wanted = hard_rows(dtype)
    for array, axis in ((data, 1), (np.ascontiguousarray(data.T), 0)):
        partial = folded(opened, bound, array, (axis,))
        for statistic in bound.statistics:
            got, want = statistic.finish(partial), wanted[statistic.name]
            wrong = np.flatnonzero(~same(got, want))
            assert not wrong.size, (statistic.name, axis, data[wrong[0]].tolist(), got[wrong[0]])


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_cuts_order_and_combining_do_not_change_a_bit(opened: DeviceContext, dtype: str):
    bound = every(dtype)
    tuning = chosen(opened, bound.accumulator, "flat")
    rng = np.random.default_rng(3)
    data = np.concatenate([rows_of(kind, dtype, 3, rows=20).ravel() for kind in KINDS[:-1]])
    wanted = folded(opened, bound, data, (0,))
    for _ in range(20):
        shuffled = rng.permutation(data)
        cuts = np.sort(rng.integers(0, len(data), rng.integers(1, 9)))
        partials = []
        for piece in np.split(shuffled, cuts):
            fold = Fold(opened, bound.accumulator, tuning)
            fold.add([upload(opened, piece)], box(piece.shape, (0,)))
            partials.append(fold.read_back())
        assert bits(Combiner(opened, bound.accumulator, tuning).combine(partials)) == bits(wanted)


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_adversarial_sums(opened: DeviceContext, dtype: str):
    bound = every(dtype)
    most = float(np.finfo(dtype).max)
    tiny = float(np.finfo(dtype).smallest_subnormal)

    @settings(max_examples=60)
    @given(st.lists(st.floats(width=32 if dtype == "float32" else 64), max_size=70))
    @example([most, most, -most])
    @example([most, most])
    @example([-most] * 40 + [most] * 39)
    @example([most, -most, tiny])
    @example([tiny] * 33)
    @example([1.0, tiny, -1.0])
    @example([1.0, 2.0**-30, 2.0**-60, -1.0])
    @example([math.inf, -math.inf])
    @example([math.inf, most, most])
    @example([math.nan, 1.0])
    @example([-0.0, -0.0])
    @example([])
    def check(values: list[float]) -> None:
        array = np.array(values, dtype)
        want = expected("sum", values, dtype)
        # One output has limbs, several have expansions.
        for several in (array, np.stack([array, array], axis=1)):
            got = bound.statistics[0].finish(folded(opened, bound, several, (0,)))
            assert same(got, [want] * len(got)).all(), (values, got)
            assert got[0] != 0 or not np.signbit(got[0])

    check()


@pytest.mark.unoptimised
@pytest.mark.parametrize("kernel", FOLDS)
def test_buffers_in_any_order_next_to_overflow(opened: DeviceContext, kernel: str):
    """What a work-item ends with does not add up to a double, and is in limbs once."""
    most = float(np.finfo("f8").max)
    brink = [2.0**1023, 2.0**1022 + 2.0**970, 2.0**1022 - 2.0**971]
    buffers = [[0.0, 0.0, 0.0], brink, [-most, 0.0, 0.0]]
    want = float(sum(Fraction(x) for x in itertools.chain(*buffers)))
    bound = bind([as_monoid("sum")], [np.dtype("f8")], exact=True)
    outputs = {"flat": 1, "short_rows": 8}.get(kernel, 3)
    box_of = {
        "flat": ((3,), (0,)),
        "rows": ((3, 3), (1,)),
        "columns": ((3, 3), (0,)),
        "short_rows": ((8, 3), (1,)),
    }[kernel]
    form = bound.accumulator if kernel == "flat" else bound.accumulator.with_limbs()
    tuning = choose(opened.device, form, kernels=(kernel,))
    for order in itertools.permutations(buffers):
        fold = Fold(opened, form, tuning, outputs)
        for values in order:
            data = np.tile(values, (outputs, 1))
            data = data.T if kernel == "columns" else data
            whole = box(*box_of)
            assert whole.kernel == kernel
            fold.add([upload(opened, np.ascontiguousarray(data).reshape(-1))], whole)
        got = bound.statistics[0].finish(fold.read_back())
        assert np.array_equal(got, np.full(outputs, want)), order


@pytest.mark.unoptimised
def test_absent_elements_do_not_count(opened: DeviceContext):
    monoids = [as_monoid(op).skipping() for op in ("sum", "mean", "std")]
    bound = bind(monoids, [np.dtype("float32")], exact=True)
    data = rows_of("cancelling", "float32", 4, rows=50)
    data[np.random.default_rng(4).random(data.shape) < 0.3] = np.nan
    data[0] = np.nan
    partial = folded(opened, bound, data, (1,))
    held = [[x for x in row if not math.isnan(x)] for row in data.astype(float).tolist()]
    for statistic in bound.statistics:
        want = [expected(statistic.name, row, "float32") for row in held]
        assert same(statistic.finish(partial), want).all()


@pytest.mark.unoptimised
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_exact_in_each_part(opened: DeviceContext, dtype: str):
    part = "float32" if dtype == "complex64" else "float64"
    bound = bind([as_monoid("sum"), as_monoid("mean")], [np.dtype(dtype)], exact=True)
    data = np.empty((50, COUNT), dtype)
    data.real, data.imag = (rows_of("plain", part, seed, rows=50) for seed in (5, 6))
    data.real[::5] = rows_of("odd", part, 7, rows=10)
    partial = folded(opened, bound, data, (1,))
    for statistic in bound.statistics:
        got = statistic.finish(partial)
        for parts, found in ((data.real, got.real), (data.imag, got.imag)):
            want = [expected(statistic.name, row, part) for row in parts.astype(float).tolist()]
            assert same(np.ascontiguousarray(found), want).all()


@pytest.mark.unoptimised
@pytest.mark.parametrize("swapped", [">f4", ">f8"])
def test_foreign_byte_order_and_gaps(opened: DeviceContext, swapped: str):
    native = np.dtype(swapped).newbyteorder("=").name
    bound = bind([as_monoid("sum")], [np.dtype(swapped)], exact=True)
    data = rows_of("plain", native, 7, rows=40)
    accumulator = bound.accumulator.for_outputs(20)
    fold = Fold(opened, accumulator, chosen(opened, accumulator, "rows"), outputs=20)
    part = box((20, COUNT - 2), (1,), strides=(2 * COUNT, 1), offset=COUNT + 1)
    fold.add([upload(opened, data.astype(swapped))], part)
    got = bound.statistics[0].finish(fold.read_back())
    rows = data[1::2, 1 : COUNT - 1].astype(float).tolist()
    assert same(got, [expected("sum", row, native) for row in rows]).all()


@pytest.mark.unoptimised
def test_devices_without_float64_do_it_by_integers(opened: DeviceContext):
    dtype, ops = "float32", [as_monoid(op) for op in OPS]
    bound = bind(ops, [np.dtype(dtype)], fp64=False, exact=True, ddof=1)
    wide = every(dtype)
    for kind in KINDS:
        data = rows_of(kind, dtype, 8, rows=30)
        whole = [folded(opened, one, data, (0, 1)) for one in (bound, wide)]
        assert bits(whole[0]) == bits(whole[1])
        rows = [folded(opened, one, data, (1,)) for one in (bound, wide)]
        for mine, theirs in zip(bound.statistics, wide.statistics, strict=True):
            assert mine.finish(rows[0]).tobytes() == theirs.finish(rows[1]).tobytes()


@pytest.mark.parametrize("limit", [(1 << 62) - 1, -(1 << 62)])
def test_full_limbs_are_settled_before_they_overflow(
    opened: DeviceContext, limit: int, monkeypatch
):
    """Start next to the limit: each launch then deposits the most that a limb takes."""
    monkeypatch.setattr(fold_module, "MOST_DEPOSITS", 1000)
    accumulator = every("float64").accumulator
    fold = Fold(opened, accumulator, chosen(opened, accumulator))
    name, entries = next((name, field.entries) for name, field in accumulator.sums.items())
    # Terms far apart, so that every element leaves something over.
    data = np.array([math.copysign(2.0**e, limit) for e in range(-900, 900, 60)] * 34)
    buffer = upload(opened, data)
    fold.add([buffer], box(data.shape, (0,)))
    queue, tables = fold.launcher.queue, fold._tables
    used = fold._used
    full = np.full((used, accumulator.entries), limit)
    at = 0
    for field in accumulator.sums.values():
        at += field.entries
        full[:, at - SPECIALS : at] = 0
    cl.enqueue_copy(queue, tables._acc, full)
    for _ in range(3):
        fold.add([buffer], box(data.shape, (0,)))
    partial = fold.read_back()
    # Where there is one table alone, once more at the end.
    assert fold.profile()["settle", 0].launches == 4 + (used == 1)
    start = used * sum(limit << 32 * n for n in range(entries - SPECIALS))
    added = 3 * sum(map(scaled, data.tolist()))
    width = 32 * (entries - SPECIALS)
    assert (integers(partial.arrays[name])[0] - start - added) % (1 << width) == 0
    assert settled(partial.arrays[name]).tobytes() == partial.arrays[name].tobytes()


def test_partials_of_nothing_are_zero(opened: DeviceContext):
    wanted = {"mean": math.nan, "var": math.nan, "std": math.nan}
    bound = every("float64")
    for form in (bound.accumulator, bound.accumulator.for_outputs(3)):
        partial = Fold(opened, form, chosen(opened, form), outputs=3).read_back()
        for statistic in bound.statistics:
            want = [wanted.get(statistic.name, 0.0)] * 3
            assert np.array_equal(statistic.finish(partial), want, equal_nan=True)


def test_exact_fields_are_of_numbers():
    mine = Monoid("mine", fields={"s": "exact"}, zero=0, lift=lambda x: x, op="add")
    times = replace(mine, kinds="m")  # whose numbers are integers
    assert times.evaluate(np.array([2**62 + 1, 2**62, -5], "m8[s]")) == 2.0**63 - 4
    with pytest.raises(MonoidError, match=r"lift gives 's' a complex number; give .real or .imag"):
        replace(mine, kinds="c")
    parts = [replace(mine, kinds="cf", lift=lambda x: x.real), mine]
    assert len(bind(parts, [np.dtype("float32")]).accumulator.components) == 1
    with pytest.raises(
        MonoidError, match="exact of monoid 'mine' must be a Monoid of as many inputs"
    ):
        replace(mine, exact="yes")


def test_statistics_share_their_sums():
    form = every("float32").accumulator
    assert len(form.tables) == 3  # of values, magnitudes and squares
    assert not form.scalars  # the count is the host's
    assert [len(form.for_outputs(2).tables), len(form.for_outputs(2).scalars)] == [0, 9]


@pytest.mark.parametrize(("count", "quick"), [(4, True), (6, False)])
def test_halves_of_doubles_are_rounded_without_quotients(
    monkeypatch: pytest.MonkeyPatch, count: int, quick: bool
):
    """Of few elements many means lie between two floats, and most of them are doubles."""
    rows = np.random.default_rng(3).integers(1 << 23, 1 << 24, (1000, count))
    bound = bind([as_monoid("mean")], [np.dtype("float32")], exact=True)
    total = rows.sum(axis=1)
    zeros = np.zeros(len(total))
    partial = Partial({"c0_s0": total.astype(float), "c0_s1": zeros, "c0_s2": zeros}, {}, count)
    asked = []
    monkeypatch.setattr(
        exact_sums,
        "estimated_quotient",
        lambda *given: asked.append(given) or ziv_rounding.estimated_quotient(*given),
    )
    (mean,) = bound.statistics
    got = mean.finish(partial)
    assert got.dtype == np.float32
    assert got.tolist() == [nearest(Fraction(int(n), count), "float32") for n in total]
    assert bool(asked) is not quick
