"""Exact sums, moments and norms: the rational's nearest float, the same bits in any order."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkfold.kernels import (
    Bound,
    Fold,
    Monoid,
    MonoidError,
    OpenedDevice,
    Partial,
    Tuning,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels import fold as fold_module
from chunkfold.kernels.limbs import SPECIALS, integers, settled
from tests.conftest import DEVICES, SHAPES, ran, tried
from tests.exactly import expected, scaled
from tests.kernels.test_fold import upload

FLOATS = ["float16", "float32", "float64"]
OPS = ["sum", "mean", "norm1", "sumsq", "norm2", "var", "std"]
KINDS = ["plain", "wild", "cancelling", "subnormal", "huge", "odd"]
COUNT = 37
ROWS = 150
"""Rows of each kind, for each dtype and device: 150 * 6 * 3 * 7 ops are 18,900 cases a device."""


def bound_of(op: str, dtype: str, **kwargs) -> Bound:
    return bind([as_monoid(op)], [np.dtype(dtype)], exact=True, **kwargs)


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


def folded(
    opened: OpenedDevice, bound: Bound, tuning: Tuning, array: np.ndarray, axes: tuple[int, ...]
) -> tuple[np.ndarray, Partial]:
    outputs = math.prod(n for axis, n in enumerate(array.shape) if axis not in axes)
    fold = Fold(opened, bound.accumulator, tuning, outputs=outputs)
    fold.add([upload(opened, array)], box(array.shape, axes))
    partial = fold.finish()
    return bound.statistics[0].finish(partial.arrays), partial


def same(got: np.ndarray, want: list[np.floating]) -> np.ndarray:
    """Compare bits, but for NaN's."""
    raw = f"u{got.dtype.itemsize}"
    wanted = np.array(want, got.dtype)
    return (got.view(raw) == wanted.view(raw)) | (np.isnan(got) & np.isnan(wanted))


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_row_is_the_nearest_float(opened: OpenedDevice, dtype: str):
    bound = bind([as_monoid(op) for op in OPS], [np.dtype(dtype)], exact=True, ddof=1)
    tuning = choose(opened.device, bound.accumulator)
    data, wanted = hard_rows(dtype)
    for array, axis in ((data, 1), (np.ascontiguousarray(data.T), 0)):
        arrays = folded(opened, bound, tuning, array, (axis,))[1].arrays
        for statistic in bound.statistics:
            got, want = statistic.finish(arrays), wanted[statistic.name]
            wrong = np.flatnonzero(~same(got, want))
            assert not wrong.size, (statistic.name, axis, data[wrong[0]].tolist(), got[wrong[0]])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_shape_of_kernel_gives_the_same_bits(opened: OpenedDevice, dtype: str, shape: str):
    bound = bind([as_monoid("sum"), as_monoid("var")], [np.dtype(dtype)], exact=True)
    tuning = tried(opened.device, bound.accumulator, shape)
    if tuning is None:
        return  # no built-in does it
    ran.setdefault(f"exact {shape}", set()).add(opened.device.spec)
    want_tuning = choose(opened.device, bound.accumulator)
    for kind in KINDS:
        data = rows_of(kind, dtype, 2, rows=60)
        for axes in ((0, 1), (0,), (1,)):
            got = folded(opened, bound, tuning, data, axes)[1].arrays
            want = folded(opened, bound, want_tuning, data, axes)[1].arrays
            for name, array in got.items():
                assert array.tobytes() == want[name].tobytes(), (kind, axes, name)


def test_exact_sums_ran_in_every_shape_that_they_may_have():
    """Runs behind the suite above."""
    trees = {shape for shape in SHAPES if shape.startswith(("tree", "vectors"))}
    everywhere = {device.spec for device in DEVICES}
    for shape in trees:
        assert ran[f"exact {shape}"] == everywhere


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cuts_order_and_combining_do_not_change_a_bit(opened: OpenedDevice, dtype: str):
    bound = bind([as_monoid("sum"), as_monoid("std")], [np.dtype(dtype)], exact=True)
    tuning = choose(opened.device, bound.accumulator)
    rng = np.random.default_rng(3)
    data = np.concatenate([rows_of(kind, dtype, 3, rows=20).ravel() for kind in KINDS[:-1]])
    wanted = folded(opened, bound, tuning, data, (0,))[1].arrays
    for _ in range(20):
        shuffled = rng.permutation(data)
        cuts = np.sort(rng.integers(0, len(data), rng.integers(1, 9)))
        partials = []
        for piece in np.split(shuffled, cuts):
            fold = Fold(opened, bound.accumulator, tuning)
            fold.add([upload(opened, piece)], box(piece.shape, (0,)))
            partials.append(fold.finish())
        whole = Fold(opened, bound.accumulator, tuning).combine(partials)
        for name, array in whole.arrays.items():
            assert array.tobytes() == wanted[name].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adversarial_sums(opened: OpenedDevice, dtype: str):
    bound = bound_of("sum", dtype)
    tuning = choose(opened.device, bound.accumulator)
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
        got, _ = folded(opened, bound, tuning, array, (0,))
        assert same(got, [expected("sum", values, dtype)])[0], (values, got)
        assert got[0] != 0 or not np.signbit(got[0])

    check()


def test_absent_elements_do_not_count(opened: OpenedDevice):
    monoids = [as_monoid(op).skipping() for op in ("sum", "mean", "std")]
    bound = bind(monoids, [np.dtype("float32")], exact=True)
    tuning = choose(opened.device, bound.accumulator)
    data = rows_of("wild", "float32", 4, rows=50)
    data[np.random.default_rng(4).random(data.shape) < 0.3] = np.nan
    data[0] = np.nan
    arrays = folded(opened, bound, tuning, data, (1,))[1].arrays
    held = [[x for x in row if not math.isnan(x)] for row in data.astype(float).tolist()]
    for statistic in bound.statistics:
        want = [expected(statistic.name, row, "float32") for row in held]
        assert same(statistic.finish(arrays), want).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("op", ["sum", "mean"])
def test_complex_numbers_are_exact_in_each_part(opened: OpenedDevice, dtype: str, op: str):
    part = "float32" if dtype == "complex64" else "float64"
    bound = bound_of(op, dtype)
    data = np.empty((50, COUNT), dtype)
    data.real, data.imag = (rows_of("wild", part, seed, rows=50) for seed in (5, 6))
    got, _ = folded(opened, bound, choose(opened.device, bound.accumulator), data, (1,))
    for parts, found in ((data.real, got.real), (data.imag, got.imag)):
        want = [expected(op, row, part) for row in parts.astype(float).tolist()]
        assert same(np.ascontiguousarray(found), want).all()


@pytest.mark.parametrize("swapped", [">f4", ">f8", "<f2"])
def test_foreign_byte_order_and_gaps(opened: OpenedDevice, swapped: str):
    native = np.dtype(swapped).newbyteorder("=").name
    bound = bind([as_monoid("sum")], [np.dtype(swapped)], exact=True)
    data = rows_of("wild", native, 7, rows=40)
    fold = Fold(opened, bound.accumulator, choose(opened.device, bound.accumulator), outputs=20)
    part = box((20, COUNT - 2), (1,), strides=(2 * COUNT, 1), offset=COUNT + 1)
    fold.add([upload(opened, data.astype(swapped))], part)
    got = bound.statistics[0].finish(fold.finish().arrays)
    rows = data[1::2, 1 : COUNT - 1].astype(float).tolist()
    assert same(got, [expected("sum", row, native) for row in rows]).all()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_devices_without_float64_do_it_by_integers(opened: OpenedDevice, dtype: str):
    bound, wide = bound_of("var", dtype, fp64=False), bound_of("var", dtype)
    for kind in KINDS:
        data = rows_of(kind, dtype, 8, rows=30)
        for axes in ((1,), (0, 1)):
            got = folded(opened, bound, choose(opened.device, bound.accumulator), data, axes)
            want = folded(opened, wide, choose(opened.device, wide.accumulator), data, axes)
            for name, array in got[1].arrays.items():
                assert array.tobytes() == want[1].arrays[name].tobytes()


@pytest.mark.parametrize("limit", [(1 << 62) - 1, -(1 << 62)])
def test_full_limbs_are_settled_before_they_overflow(opened: OpenedDevice, limit: int, monkeypatch):
    """Start next to the limit: each launch then deposits the most that a limb takes."""
    monkeypatch.setattr(fold_module, "MOST_DEPOSITS", 1000)
    bound = bound_of("sum", "float64")
    tuning = choose(opened.device, bound.accumulator)
    fold = Fold(opened, bound.accumulator, tuning)
    entries, used = bound.accumulator.entries, None
    # Terms far apart, so that every element leaves something over.
    data = np.array([math.copysign(2.0**e, limit) for e in range(-900, 900, 60)] * 34)
    buffer = upload(opened, data)
    fold.add([buffer], box(data.shape, (0,)))
    queue, tables = fold.launcher.queue, fold._tables
    used = fold._used
    full = np.full((used, entries), limit)
    full[:, -SPECIALS:] = 0
    cl.enqueue_copy(queue, tables._acc, full)
    for _ in range(3):
        fold.add([buffer], box(data.shape, (0,)))
    partial = fold.finish()
    assert fold.profile()["settle", 0].launches == 4
    (name,) = partial.arrays
    start = used * sum(limit << 32 * n for n in range(entries - SPECIALS))
    added = 3 * sum(map(scaled, data.tolist()))
    width = 32 * (entries - SPECIALS)
    assert (integers(partial.arrays[name])[0] - start - added) % (1 << width) == 0
    assert settled(partial.arrays[name]).tobytes() == partial.arrays[name].tobytes()


def test_partials_of_nothing_are_zero(opened: OpenedDevice):
    wanted = {"sum": 0.0, "mean": math.nan, "norm2": 0.0, "var": math.nan}
    bound = bind([as_monoid(op) for op in wanted], [np.dtype("float64")], exact=True)
    fold = Fold(opened, bound.accumulator, choose(opened.device, bound.accumulator), outputs=3)
    arrays = fold.finish().arrays
    for statistic in bound.statistics:
        want = [wanted[statistic.name]] * 3
        assert np.array_equal(statistic.finish(arrays), want, equal_nan=True)


def test_exact_fields_are_of_floats():
    mine = Monoid("mine", fields={"s": "exact"}, zero=0, lift="x", op="add")
    with pytest.raises(MonoidError, match="exact sums are of floats and complex numbers, not of i"):
        bind([mine], [np.dtype("int32")])
    with pytest.raises(MonoidError, match=r"lift\['s'\] of monoid 'mine' is 'x \* 2', but exact"):
        replace(mine, lift="x * 2")
    with pytest.raises(MonoidError, match=r"'re.x.', which is not exact for float32: complex"):
        bind([replace(mine, lift="re(x)")], [np.dtype("float32")])
    with pytest.raises(MonoidError, match="exact of monoid 'mine' is no Monoid of as many inputs"):
        replace(mine, exact="yes")


def test_many_large_partials_are_combined_two_at_a_time(opened: OpenedDevice, monkeypatch):
    monkeypatch.setattr(fold_module, "COMBINED_BYTES", 1)
    bound = bound_of("mean", "float32")
    data = rows_of("wild", "float32", 10, rows=9)
    fold = Fold(opened, bound.accumulator, choose(opened.device, bound.accumulator), outputs=COUNT)
    partials = []
    for row in data:
        fold.add([upload(opened, row)], box((1, COUNT), (0,)))
        partials.append(fold.finish())
    whole = bound.statistics[0].finish(fold.combine(partials).arrays)
    assert same(whole, [expected("mean", column, "float32") for column in data.T.tolist()]).all()


def test_statistics_share_their_sums():
    many = bind([as_monoid(op) for op in OPS], [np.dtype("float32")], exact=True)
    assert len(many.accumulator.tables) == 3  # of values, magnitudes and squares
    assert len(many.accumulator.scalars) == 1


def test_a_launch_without_vectors_is_as_exact(opened: OpenedDevice):
    bound = bound_of("var", "float64")
    tuning = choose(opened.device, bound.accumulator)
    data = rows_of("wild", "float64", 9)
    wanted = folded(opened, bound, tuning, data, (1,))[1].arrays
    plain = replace(tuning.plain(), local_size=1)
    got = folded(opened, bound, plain, data, (1,))[1].arrays
    assert all(array.tobytes() == wanted[name].tobytes() for name, array in got.items())
