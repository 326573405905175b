"""Short runs of neighbouring elements, a lane for each: what NumPy says, wherever they lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chunkfold.kernels import Bound, DeviceContext, Fold, Tuning, as_monoid, bind, box, choose
from chunkfold.kernels.geometry import SHORT_RUN, SHORT_RUNS
from chunkfold.kernels.program.options import Loads
from chunkfold.kernels.strides import c_strides
from chunkfold.kernels.tuning.tuning_choice import try_tunings
from chunkfold.kernels.tuning.variant import forced
from tests.conftest import some
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised

OPS = {
    "sum+min+argmax": ("sum", "min", "argmax"),  # fields alone, and one with an index
    "var": ("var",),  # a state that ends as vectors
    "nanmean+nanmin": ("nanmean", "nanmin"),
    "min+max": ("min", "max"),  # of floats, a state that is joined as vectors
    "count_nonzero": ("count_nonzero",),  # a narrow state, emptied now and then
    "prod": ("prod",),  # of integers, whose ends are no vectors
}
DTYPES = ("bool", "int8", "uint16", ">i2", "int32", "int64", "float16", ">f2", "float32", ">f8")
SIZES = st.tuples(
    st.integers(1, 3), st.integers(SHORT_RUNS, 4 * SHORT_RUNS + 1), st.integers(2, SHORT_RUN)
)


def numbers(dtype: np.dtype, shape: tuple[int, ...], seed: int, ops: str) -> np.ndarray:
    """Small whole numbers, whose sums are exact in any order; of floats some are NaN."""
    rng = np.random.default_rng(seed)
    if ops == "prod":
        return (1 + (rng.random(shape) < 0.02)).astype(dtype)
    made = rng.integers(0, 2 if dtype.kind == "b" else 50, shape).astype(dtype)
    if dtype.kind == "f":
        made[rng.random(shape) < 0.02] = np.nan
    return made


def expected(op: str, array: np.ndarray) -> np.ndarray:
    """Reduce the first and the last axis, in NumPy."""
    rows = np.moveaxis(array, 0, 1).reshape(array.shape[1], -1)
    rows = rows.astype(array.dtype.newbyteorder("="))
    if op in ("argmax", "argmin"):
        return getattr(rows, op)(axis=1)
    if op == "nanmin":  # of nothing but NaN it would warn
        return np.where(np.isnan(rows), np.inf, rows).min(axis=1).astype(rows.dtype)
    wide = rows.astype("f8") if rows.dtype.kind == "f" or op == "var" else rows
    with np.errstate(over="ignore"):
        return getattr(np, op)(wide, axis=1)


@pytest.mark.parametrize(("ops", "dtype"), some(OPS, DTYPES))
def test_short_rows_equal_numpy(opened: DeviceContext, ops: str, dtype: str):
    kind = np.dtype(dtype)
    if ops.startswith("nan") and kind.kind != "f":
        ops = "var"
    bound = bind([as_monoid(op) for op in OPS[ops]], [kind])
    accumulator = bound.accumulator.for_outputs(SHORT_RUNS)
    tuning = choose(opened.device, accumulator, kernels=("short_rows",))
    check_with_numpy(opened, bound, tuning, ops)


@pytest.mark.parametrize(
    ("ops", "dtype"),
    [("var", "float32"), ("nanmean+nanmin", ">f2"), ("sum+min+argmax", "int32"), ("prod", "int64")],
)
def test_staged_rows_equal_numpy(opened: DeviceContext, ops: str, dtype: str):
    """As a GPU folds them that stages them in local memory, on every device."""
    bound = bind([as_monoid(op) for op in OPS[ops]], [np.dtype(dtype)])
    accumulator = bound.accumulator.for_outputs(SHORT_RUNS)
    staged = replace(
        forced(opened.device, accumulator, "tree")[0],
        strip=False,
        short_rows=Loads(32, lanes=1, width=1, unroll=4),
    )
    (tuning,), verdict = try_tunings(opened.device, accumulator, staged, kernels=("short_rows",))
    assert verdict.usable, verdict
    check_with_numpy(opened, bound, tuning, ops)


def check_with_numpy(opened: DeviceContext, bound: Bound, tuning: Tuning, ops: str) -> None:
    """Fold short rows, wherever they lie, all at once and not."""
    accumulator = bound.accumulator.for_outputs(SHORT_RUNS)
    kind = np.dtype(accumulator.stored[0])
    if accumulator.swapped[0]:
        kind = kind.newbyteorder(">")

    @given(SIZES, st.integers(0, 9), st.booleans(), st.integers(0, 2**32))
    @example((1, SHORT_RUNS, SHORT_RUN), 0, True, 1)
    @example((3, 4 * SHORT_RUNS + 3, 7), 5, True, 2)
    @example((2, 2 * SHORT_RUNS + 1, 45), 3, False, 3)
    def check(shape: tuple[int, int, int], gap: int, once: bool, seed: int) -> None:
        outer, rows, run = shape
        array = numbers(kind, shape, seed, ops)
        if ops.startswith("nan"):
            array[0, :, 0] = 3  # no row is empty
        held = numbers(kind, (outer, rows, run + gap), seed + 1, ops)
        held[:, :, gap:] = array
        # All at once, or the first of the outer dim and then the rest, into what there is already.
        parts = [(0, outer)] if once or outer == 1 else [(0, 1), (1, outer)]
        fold = Fold(opened, accumulator, tuning, outputs=rows)
        buffer = upload(opened, held)
        for first, last in parts:
            one = box(
                (last - first, rows, run),
                (0, 2),
                strides=c_strides(held.shape),
                index_strides=c_strides(shape),
                offset=first * rows * (run + gap) + gap,
                index=first * rows * run,
            )
            assert one.kernel == "short_rows"
            fold.add([buffer], one)
        partial = fold.read_back()
        used = {name for name, _ in fold.profile()}
        assert f"fold_{tuning.fold('short_rows')}" in used
        for statistic in bound.statistics:
            got = statistic.finish(partial, shape, (0, 2))
            want = expected(statistic.name, array)
            np.testing.assert_allclose(
                got.astype("f8"), want.astype("f8"), rtol=2e-3 if kind.itemsize == 2 else 1e-6
            )

    check()


def test_short_rows_of_exact_sums_are_those_of_long_ones(opened: DeviceContext):
    """Bit by bit, on the grid and off it."""
    bound = bind([as_monoid("sum"), as_monoid("norm2")], [np.dtype("float64")], exact=True)
    accumulator = bound.accumulator.for_outputs(SHORT_RUNS)
    tuning = choose(opened.device, accumulator, kernels=("rows", "short_rows"))
    rng = np.random.default_rng(7)
    array = rng.standard_normal((53, 61)) * 10.0 ** rng.integers(-3, 4, (53, 1))
    array[17] *= 10.0 ** rng.integers(-5, 5, 61)
    array[40, 3] = np.inf
    answers = []
    for shape in (tuning, replace(tuning, short_rows=None)):
        fold = Fold(opened, accumulator, shape, outputs=len(array))
        fold.add([upload(opened, array)], box(array.shape, (1,)))
        partial = fold.read_back()
        answers.append([s.finish(partial).tobytes() for s in bound.statistics])
    assert answers[0] == answers[1]


def test_short_rows_are_folded_as_long_ones_where_that_is_better(opened: DeviceContext):
    """What has tables or two numbers an element; on a GPU also what has little to put together."""
    cpu = opened.device.kind == "cpu"
    for op, dtype, short in (
        ("sum", "float32", cpu),
        ("var", "float32", True),
        ("histogram", "float32", False),
        ("sum", "complex64", False),
    ):
        accumulator = bind([as_monoid(op)], [np.dtype(dtype)]).accumulator.for_outputs(64)
        tuning = choose(opened.device, accumulator, kernels=("short_rows",))
        assert tuning.fold("short_rows") == ("short_rows" if short else "rows")
        assert {tuning.fold(kernel) for kernel in ("flat", "rows")} == {"flat", "rows"}
