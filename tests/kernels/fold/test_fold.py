"""Every shape of kernel, on every device, for every dtype: what NumPy says."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyopencl as cl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chunkfold.kernels import (
    VARIANTS,
    Bound,
    Combiner,
    DeviceContext,
    DeviceError,
    Fold,
    MonoidError,
    Tuning,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.exact.rounding import sum_bound
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.strides import c_strides
from tests.conftest import SHAPES, ran, reading, some, tried
from tests.exactly import sum_of

pytestmark = pytest.mark.unoptimised

PLAIN = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip
BASIC = ("sum", "min", "max", "mean")
LENGTHS = st.one_of(
    st.integers(0, 70), st.integers(0, 5000), st.sampled_from([255, 256, 257, 1023, 1024, 1025])
)


def bound_of(ops: tuple[str, ...], dtype: str, **kwargs) -> Bound:
    return bind([as_monoid(op) for op in ops], [np.dtype(dtype)], **kwargs)


def upload(opened: DeviceContext, array: np.ndarray) -> cl.Buffer:
    # An empty buffer is not allowed; an empty fold must not need one.
    host = array if array.size else np.zeros(1, array.dtype)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(opened.context, flags, hostbuf=np.ascontiguousarray(host))


def fold_for(opened: DeviceContext, bound: Bound, whole: Box, *, splits: int | None = None) -> Fold:
    """Make the fold of boxes like one, as the table has it for this device."""
    accumulator = bound.accumulator.for_outputs(whole.outputs)
    tuning = choose(opened.device, accumulator, kernels=(whole.kernel,))
    return Fold(opened, accumulator, tuning, outputs=whole.outputs, splits=splits)


def folded(
    opened: DeviceContext, bound: Bound, tuning: Tuning, array: np.ndarray, *boxes, outputs=1
):
    fold = Fold(opened, bound.accumulator, tuning, outputs=outputs)
    buffer = upload(opened, array)
    for one in boxes:
        fold.add([buffer], one)
    partial = fold.read_back()
    return {s.name: s.finish(partial) for s in bound.statistics}


def values(dtype: str, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if kind.kind == "f":
        return (rng.standard_normal(count) * 10.0 ** rng.integers(-2, 3)).astype(kind)
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, count, kind, endpoint=True)


def tame(array: np.ndarray) -> np.ndarray:
    """Make integers so small that thousands of them have a sum."""
    return array // 2**13 if array.dtype.itemsize == 8 and array.dtype.kind in "iu" else array


def close(got: np.ndarray, array: np.ndarray, op: str) -> bool:
    """Within the fast mode's bound of the exactly computed value."""
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    elements = array.tolist()
    exact = sum_of(elements) if array.dtype.kind == "f" else Fraction(sum(elements))
    magnitude = math.fsum(map(abs, elements))
    scale = 1 if op == "sum" else len(array)
    bound = sum_bound(len(array), magnitude, float(exact), dtype) / scale
    # One more rounding: of the division, or of values below the dtype's normal range.
    bound += float(np.finfo(dtype).smallest_subnormal) + abs(float(exact) / scale) * 2.0**-52
    return abs(Fraction(float(got)) - exact / scale) <= Fraction(bound)


def check(array: np.ndarray, results: dict) -> None:
    with np.errstate(over="ignore"):
        for op, (got,) in results.items():
            if op in ("min", "max"):
                want = getattr(np, op)(array)
                assert got == want
                assert got.dtype == array.dtype
            elif op == "sum" and array.dtype.kind != "f":
                assert got == array.sum()
                assert got.dtype == array.sum().dtype
            elif op == "sum" and not np.isfinite(got):
                assert abs(math.fsum(array.tolist())) > np.finfo(array.dtype).max
            else:
                assert close(got, array, op), (op, got, array)


# The tree with all dtypes, others with a third of them, in turn.
@pytest.mark.short
@pytest.mark.parametrize(
    ("shape", "dtype"), dict.fromkeys([*(("tree", d) for d in PLAIN), *some(SHAPES, PLAIN, of=3)])
)
def test_equals_numpy_for_every_length_and_offset(opened: DeviceContext, shape: str, dtype: str):
    # Sums of integers carry, which no built-in does.
    integers = np.dtype(dtype).kind in "biu"
    builtin = shape.startswith(("work_group", "sub_group"))
    bound = bound_of(("min", "max") if integers and builtin else BASIC, dtype)
    tuning = tried(opened.device, bound.accumulator, shape, kernels=("flat",))
    if tuning is None:
        return  # counted in test_every_shape_ran_somewhere
    ran.setdefault(shape, set()).add(opened.device.spec)

    @given(LENGTHS, st.integers(0, 40), st.integers(0, 2**32))
    @example(1, 0, 0)
    @example(65, 3, 1)
    def check_length(count: int, offset: int, seed: int) -> None:
        array = tame(values(dtype, count + offset, seed))
        one = box((count,), (0,), offset=offset)
        results = folded(opened, bound, tuning, array, one)
        if count:
            check(array[offset:], results)
        elif "sum" in results:
            assert results["sum"] == 0
            assert np.isnan(results["mean"])

    check_length()


@pytest.mark.cpu_runtime  # NVIDIA's has no built-ins of work-groups
def test_every_shape_ran_somewhere():
    """Runs behind the contract suite above; a variant that ran nowhere was not tested."""
    assert set(ran) >= {*VARIANTS, *SHAPES}, f"never ran: {set(SHAPES) - set(ran)}"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_prod_of_floats_equals_numpy(opened: DeviceContext, dtype: str):
    bound = bound_of(("prod",), dtype)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))

    @given(LENGTHS, st.integers(0, 2**32))
    def check_length(count: int, seed: int) -> None:
        array = values(dtype, count, seed)
        array = np.exp2(np.sign(array) * (np.arange(count) % 3 == 0)).astype(dtype)
        (got,) = folded(opened, bound, tuning, array, box((count,), (0,)))["prod"]
        with np.errstate(over="ignore"):
            want = array.astype("f8").prod().astype(dtype)
        assert got == want
        assert got.dtype == want.dtype

    check_length()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64"])
def test_truths_and_bits_equal_numpy(opened: DeviceContext, dtype: str):
    bits = ("bitwise_and", "bitwise_or", "bitwise_xor") if dtype[0] != "f" else ()
    bound = bound_of(("any", "all", "count_nonzero", *bits), dtype)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))

    @given(LENGTHS, st.integers(0, 2**32), st.sampled_from([0, 0.01, 0.99, 1]))
    def check_length(count: int, seed: int, share: float) -> None:
        array = values(dtype, count, seed)
        array[np.random.default_rng(seed).random(count) < share] = 0
        results = folded(opened, bound, tuning, array, box((count,), (0,)))
        for op in ("any", "all", "count_nonzero"):
            assert results[op][0] == getattr(np, op)(array)
        for op in bits:
            assert results[op][0] == getattr(np, op).reduce(array)
            assert results[op].dtype == array.dtype

    check_length()


def test_bits_of_floats_are_refused():
    with pytest.raises(MonoidError, match="'bitwise_or' is not defined for float32, only for bool"):
        bound_of(("bitwise_or",), "float32")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values_propagate_as_in_numpy(opened: DeviceContext, dtype: str, special: float):
    bound = bound_of(BASIC, dtype)
    array = np.ones(1000, dtype)
    array[777] = special
    results = folded(
        opened,
        bound,
        choose(opened.device, bound.accumulator, kernels=("flat",)),
        array,
        box((1000,), (0,)),
    )
    for op in BASIC:
        np.testing.assert_equal(results[op][0], getattr(np, op)(array))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_min_and_max_order_zeros_and_keep_subnormals(opened: DeviceContext, dtype: str):
    bound = bound_of(("min", "max"), dtype)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    tiny = np.finfo(dtype).smallest_subnormal
    for array in (np.array([0.0, -0.0], dtype), np.array([-0.0, 0.0], dtype)):
        results = folded(opened, bound, tuning, array, box((2,), (0,)))
        assert np.signbit(results["min"][0])
        assert not np.signbit(results["max"][0])
    array = np.array([tiny, 0.0, -tiny], dtype)
    results = folded(opened, bound, tuning, array, box((3,), (0,)))
    assert (results["min"][0], results["max"][0]) == (-tiny, tiny)


def test_many_buffers_fold_into_one_partial(opened: DeviceContext):
    bound = bound_of(BASIC, "int32")
    fold = Fold(
        opened, bound.accumulator, choose(opened.device, bound.accumulator, kernels=("flat",))
    )
    array = values("int32", 100_000, 3)
    cuts = [0, 1, 3, 1000, 1000, 50_001, 99_999, 100_000]
    buffers = [upload(opened, array[a:b]) for a, b in itertools.pairwise(cuts)]
    for buffer, (a, b) in zip(buffers, itertools.pairwise(cuts), strict=True):
        fold.add([buffer], box((b - a,), (0,)))
    partial = fold.read_back()
    check(array, {s.name: s.finish(partial) for s in bound.statistics})


def test_a_partial_stays_as_it_is_while_others_are_read(opened: DeviceContext):
    """Large partials stand in memory that is used again: not while anybody has a part of it."""
    bound = bind([as_monoid("max")], [np.dtype("int32")])
    tuning = choose(opened.device, bound.accumulator, kernels=("columns",))
    fold = Fold(opened, bound.accumulator, tuning, 1 << 15)
    held = []
    for value in range(4):
        array = np.full((3, 1 << 15), value, "int32")
        fold.add([upload(opened, array)], box(array.shape, (0,)))
        (whole,) = fold.read_back().arrays.values()
        held.append([whole, whole[7:9], np.empty(0)][value % 3])
        del whole
    for value, kept in enumerate(held):
        assert (kept == value).all()


def test_a_fold_starts_anew_after_finish(opened: DeviceContext):
    bound = bound_of(("sum",), "int64")
    fold = Fold(
        opened, bound.accumulator, choose(opened.device, bound.accumulator, kernels=("flat",))
    )
    buffer = upload(opened, np.arange(10))
    sums = []
    for _ in range(4):
        fold.add([buffer], box((10,), (0,)))
        sums.append(bound.statistics[0].finish(fold.read_back())[0])
    assert sums == [45, 45, 45, 45]


@pytest.mark.parametrize("exact", [False, True])
def test_boxes_that_come_again_are_folded_each_time(opened: DeviceContext, exact: bool):
    """Their launches are prepared, for as long as there is an accumulator to add to."""
    bound = bound_of(("sum", "max"), "float32", exact=exact)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    fold = Fold(opened, bound.accumulator, tuning)
    array = np.random.default_rng(3).integers(-99, 99, 5000).astype("f4")
    arrays = [array, -array[::-1]]
    buffers = [upload(opened, one) for one in arrays]
    boxes = [box((n,), (0,)) for n in (5000, 3, 4000, 0)]
    for rounds in (1, 4):  # the second time, what was prepared the first time is at hand
        taken = [(n, one) for _ in range(rounds) for one in boxes[::rounds] + boxes for n in (0, 1)]
        for n, one in taken:
            fold.add([buffers[n]], one)
        parts = [arrays[n][: one.elements] for n, one in taken]
        partial = fold.read_back()
        total, largest = (s.finish(partial)[0] for s in bound.statistics)
        assert total == sum(part.sum(dtype="f8") for part in parts)
        assert largest == max(part.max() for part in parts if part.size)
    assert {one for one, _ in fold._repeats} == set(boxes[:3])
    assert ((boxes[0], True) in fold._repeats) != exact  # whose tables are cleared first
    assert fold.profile()["fold_flat", 0].launches == 12 + 4 * 8


@pytest.mark.parametrize("count", [1, 2, 3, 15, 16, 17, 300, 5000])
def test_combine_equals_folding_the_whole(opened: DeviceContext, count: int):
    bound = bound_of(BASIC, "int16")
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    array = values("int16", count * 3, 5)
    fold = Fold(opened, bound.accumulator, tuning)
    buffer, parts = upload(opened, array), []
    for n in range(count):
        fold.add([buffer], box((3,), (0,), offset=3 * n))
        parts.append(fold.read_back())
    partial = Combiner(opened, bound.accumulator, tuning).combine(parts)
    check(array, {s.name: s.finish(partial) for s in bound.statistics})


@given(st.data())
def test_axes_equal_numpy_for_every_combination(data):
    from tests.conftest import DEVICES, _opened

    device = data.draw(st.sampled_from(DEVICES), "device")
    opened = _opened.setdefault(device.uuid, DeviceContext(device))
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=5), "shape"))
    axes = tuple(n for n in range(len(shape)) if data.draw(st.booleans(), f"reduce {n}"))
    bound = bound_of(BASIC, "int32")
    name = data.draw(st.sampled_from(SHAPES), "kernel")
    tuning = tried(device, bound.accumulator, name) or choose(device, bound.accumulator)
    array = values("int32", math.prod(shape), 1).reshape(shape)
    outputs = math.prod(n for axis, n in enumerate(shape) if axis not in axes)
    results = folded(opened, bound, tuning, array, box(shape, axes), outputs=outputs)
    for op in ("sum", "min", "max"):
        np.testing.assert_array_equal(results[op], getattr(np, op)(array, axis=axes).ravel())
    np.testing.assert_allclose(results["mean"], array.mean(axis=axes).ravel(), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3000, 5), (0,)),
        ((5, 3000), (1,)),
        ((4, 900, 6), (1,)),
        ((50, 7, 50), (0, 2)),
        ((6000, 2), (1,)),
    ],
)
def test_axes_of_larger_boxes(opened: DeviceContext, shape: tuple[int, ...], axes: tuple[int, ...]):
    bound = bound_of(("sum", "max"), "float64")
    array = values("float64", math.prod(shape), 9).reshape(shape)
    outputs = math.prod(n for axis, n in enumerate(shape) if axis not in axes)
    whole = box(shape, axes)
    tuning = choose(opened.device, bound.accumulator, kernels={whole.kernel})
    results = folded(opened, bound, tuning, array, whole, outputs=outputs)
    np.testing.assert_allclose(results["sum"], array.sum(axis=axes).ravel(), rtol=1e-11, atol=1e-9)
    np.testing.assert_array_equal(results["max"], array.max(axis=axes).ravel())


@pytest.mark.parametrize("shape_name", ["tree", "tree-stride", "vectors"])
@pytest.mark.parametrize("columns", [1, 3, 4, 7])
def test_vectors_stay_within_rows_that_do_not_follow_each_other(
    opened: DeviceContext, columns: int, shape_name: str
):
    """Of chunks at an edge, and of selections, where many short rows are side by side."""
    bound = bound_of(("sum", "argmax"), "int16")
    whole = values("int16", 5000 * 8, 4).reshape(5000, 8)
    array = whole[:, :columns]
    tuning = tried(opened.device, bound.accumulator, shape_name, {"columns"})
    assert tuning is not None
    cut = box(array.shape, (0,), strides=(8, 1), index_strides=c_strides(array.shape))
    fold = Fold(opened, bound.accumulator, tuning, outputs=columns)
    fold.add([upload(opened, whole)], cut)
    partial = fold.read_back()
    got = {s.name: s.finish(partial, array.shape, (0,)) for s in bound.statistics}
    np.testing.assert_array_equal(got["sum"], array.sum(axis=0))
    np.testing.assert_array_equal(got["argmax"], array.argmax(axis=0))


@given(st.data())
def test_boxes_of_any_strides_equal_numpy(data):
    """F order, transposes, and every other element of a larger buffer."""
    from tests.conftest import DEVICES, _opened

    device = data.draw(st.sampled_from(DEVICES), "device")
    opened = _opened.setdefault(device.uuid, DeviceContext(device))
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3), "shape"))
    axes = tuple(n for n in range(len(shape)) if data.draw(st.booleans(), f"reduce {n}"))
    steps = tuple(data.draw(st.integers(1, 3), "step") for _ in shape)
    order = data.draw(st.permutations(range(len(shape))), "order")
    whole = values("int16", math.prod(n * s for n, s in zip(shape, steps, strict=True)), 1)
    held = whole.reshape([shape[n] * steps[n] for n in order])
    view = held.transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)]
    bound = bound_of(("sum", "argmin"), "int16")
    name = data.draw(st.sampled_from(["tree", "tree-64", "tree-stride", "vectors"]), "kernel")
    tuning = tried(device, bound.accumulator, name) or choose(device, bound.accumulator)
    strides = [stride // 2 for stride in view.strides]
    one = box(shape, axes, strides=strides, index_strides=c_strides(shape))
    outputs = math.prod(n for axis, n in enumerate(shape) if axis not in axes)
    fold = Fold(opened, bound.accumulator, tuning, outputs=outputs)
    fold.add([upload(opened, whole)], one)
    partial = fold.read_back()
    got = {s.name: s.finish(partial, shape, axes) for s in bound.statistics}
    np.testing.assert_array_equal(got["sum"], view.sum(axis=axes).ravel())
    kept = [n for n in range(len(shape)) if n not in axes]
    rows = view.transpose([*kept, *axes]).reshape([outputs, -1])
    np.testing.assert_array_equal(got["argmin"], rows.argmin(axis=1))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((70_001, 3), (0,)),
        ((3, 70_001), (1,)),
        ((517, 300), (0,)),
        ((40, 511, 130), (1,)),
        ((9, 40, 8, 130), (0, 2)),
        ((60_000, 5), (1,)),
        ((33, 1024), (1,)),
        ((7, 11, 13, 17), (0, 3)),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("shape_name", ["tree", "tree-stride", "vectors"])
def test_layouts_of_axes_on_every_shape(
    opened: DeviceContext,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    dtype: str,
    shape_name: str,
):
    bound = bound_of(("sum", "max"), dtype)
    tuning = tried(opened.device, bound.accumulator, shape_name)
    if tuning is None:
        return  # counted in test_every_shape_ran_somewhere
    array = values("int8", math.prod(shape), 9).astype(dtype).reshape(shape)
    outputs = math.prod(n for axis, n in enumerate(shape) if axis not in axes)
    fold = Fold(opened, bound.accumulator, tuning, outputs=outputs)
    buffer = upload(opened, array)
    # Twice, and once more without its last row: accumulators are fresh only once.
    cut = (shape[0] - 1 if 0 in axes else shape[0], *shape[1:])
    for extents in (shape, shape, cut):
        fold.add([buffer], box(extents, axes, strides=c_strides(shape)))
    partial = fold.read_back()
    got = {s.name: s.finish(partial) for s in bound.statistics}
    part = array[: cut[0]].astype("i8")
    want = 2 * array.astype("i8").sum(axis=axes) + part.sum(axis=axes)
    np.testing.assert_array_equal(got["sum"], want.ravel())
    np.testing.assert_array_equal(got["max"], array.max(axis=axes).ravel())


def test_indices_go_beyond_32_bits(opened: DeviceContext):
    """The global index of elements far into an array larger than 2**32."""
    from chunkfold.kernels import Monoid

    last = Monoid("last", fields={"i": "uint64"}, zero=0, lift=lambda x, i: i, op="max")
    bound = bind([last], [np.dtype("int8")])
    tuning = choose(opened.device, bound.accumulator)
    array, start = np.ones(1000, np.int8), 2**33 + 5
    for one in (
        box((1000,), (0,), index=start),
        box((10, 100), (0, 1), index=start, index_strides=(2**33, 1)),
    ):
        (got,) = folded(opened, bound, tuning, array, one)["last"]
        assert got == start + (999 if one.kernel == "flat" else 9 * 2**33 + 99)


def test_buffers_go_beyond_32_bits():
    """More than 2**32 elements in one buffer, on a device that allows one."""
    from tests.conftest import DEVICES, _opened

    count = 2**32 + 1003
    able = [device for device in DEVICES if device.max_alloc_bytes > count]
    assert able, "no device here allows a buffer of 4 GiB"
    device = able[0]
    opened = _opened.setdefault(device.uuid, DeviceContext(device))
    array = np.zeros(count, np.int8)
    array[[0, 2**31, 2**32, count - 1]] = [1, 2, 3, 100]
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
    buffer = cl.Buffer(opened.context, flags, hostbuf=array)
    bound = bound_of(("sum", "max"), "int8")
    fold = Fold(opened, bound.accumulator, choose(device, bound.accumulator, kernels=("flat",)))
    fold.add([buffer], box((count,), (0,)))
    partial = fold.read_back()
    assert [int(s.finish(partial)[0]) for s in bound.statistics] == [106, 100]


def test_integers_come_out_the_same_every_time(opened: DeviceContext):
    bound = bound_of(("sum", "min"), "int64")
    for shape in ("tree-64", "work_group", "sub_group", "vectors"):
        tuning = tried(opened.device, bound.accumulator, shape, kernels=("flat",))
        if tuning is None:
            continue
        fold = Fold(opened, bound.accumulator, tuning)
        buffer = upload(opened, values("int64", 10_007, 1))
        seen = set()
        for _ in range(2_500):  # 10,000 over the shapes
            fold.add([buffer], box((10_007,), (0,)))
            seen.add(tuple(array.tobytes() for array in fold.read_back().arrays.values()))
        assert len(seen) == 1


def test_a_failed_wait_is_a_device_error_with_kernel_pass_and_code(opened: DeviceContext):
    """A launch behind an event that fails never runs; not every driver says so."""
    bound = bound_of(("sum",), "float32")
    fold = Fold(opened, bound.accumulator, choose(opened.device, bound.accumulator))
    gate = cl.UserEvent(opened.context)
    fold.add([upload(opened, np.ones(100, "f4"))], box((100,), (0,)), wait_for=[gate])
    gate.set_status(-5)
    with pytest.raises(DeviceError) as error:
        fold.read_back()
    message = str(error.value)
    assert opened.device.name in message
    said = "fold_flat of pass 0" in message and "(-" in message
    noticed = "folded 0 elements of 100" in message
    assert said or noticed, message


def test_a_refused_launch_is_a_device_error_with_kernel_pass_and_code(opened: DeviceContext):
    bound = bound_of(("sum",), "float32")
    tuning = choose(opened.device, bound.accumulator)
    fold = Fold(opened, bound.accumulator, tuning)
    buffer = upload(opened, np.ones(100, "f4"))
    fold.add([buffer], box((100,), (0,)))
    fold.tuning = reading(tuning, local_size=tuning.flat.local_size * 4)  # not what was compiled
    with pytest.raises(DeviceError, match=r"launching fold_flat in pass 0: INVALID.*\(-\d+\)"):
        fold.add([buffer], box((100,), (0,)))


def test_one_accumulator_an_output_becomes_a_partial_where_it_is(opened: DeviceContext):
    rows, columns = 3, 100_000
    bound = bound_of(("sum",), "float32")
    tuning = choose(opened.device, bound.accumulator, kernels=("columns",))
    fold = Fold(opened, bound.accumulator, tuning, outputs=columns, splits=1)
    data = np.arange(rows * columns, dtype="f4").reshape(rows, columns) % 1000
    buffer = upload(opened, data)
    for _ in range(2):
        fold.add([buffer], box(data.shape, (0,)))
        partial = fold.read_back()
        assert [name for name, _ in fold.profile()] == ["fold_columns", "pass_settle"]
        assert np.array_equal(bound.statistics[0].finish(partial), data.sum(axis=0))
    assert Combiner(opened, bound.accumulator, tuning).combine([partial]) is partial


def test_profile_counts_every_launch(opened: DeviceContext):
    bound = bound_of(("sum",), "float32")
    fold = Fold(opened, bound.accumulator, choose(opened.device, bound.accumulator))
    buffer = upload(opened, np.ones(100_000, "f4"))
    for _ in range(5):
        fold.add([buffer], box((100_000,), (0,)))
    fold.read_back()
    profile = fold.profile()
    assert profile["fold_flat", 0].launches == 5
    assert profile["pass_rows", 1].launches >= 1
    for times in profile.values():
        assert times.run_ns >= times.first_run_ns >= 0
        assert times.wait_ns >= times.first_wait_ns >= 0
