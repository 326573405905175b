"""Positions of extremes: elements that are passed over would have changed nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from chunkfold.kernels import DeviceContext, Fold, Monoid, Tuning, as_monoid, bind, box, choose
from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.expressions.library import first
from chunkfold.kernels.kinds import kinds_of
from chunkfold.kernels.kinds.position import only_positions
from chunkfold.kernels.program.header import header
from chunkfold.kernels.tuning.variant import forced, why_not
from tests.kernels.fold.test_fold import upload

CASES = [
    pytest.param("float32", ["argmin"]),
    pytest.param("uint64", ["argmin"], marks=pytest.mark.unoptimised),
    pytest.param("uint64", ["argmax"], marks=pytest.mark.unoptimised),
    pytest.param("int8", ["argmax"], marks=pytest.mark.unoptimised),
    pytest.param("float16", ["argmin", "argmax"], marks=pytest.mark.unoptimised),
]
LAYOUTS = [((200_000,), (0,)), ((3, 20_001), (1,)), ((700, 37), (0,)), ((2, 5, 9_000), (0, 2))]
"""In all but the third there are batches that may be passed over."""


def accumulator(*ops: str, dtype: str = "float32") -> Accumulator:
    return bind([as_monoid(op) for op in ops], [np.dtype(dtype)]).accumulator


def has_positions(made: Accumulator) -> bool:
    return only_positions(kinds_of(made))


def lines(dtype: str, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return arrays whose extremes are where they may be missed."""
    rng, count = np.random.default_rng(0), int(np.prod(shape))
    kind = np.dtype(dtype)
    top, bottom = (
        (np.inf, -np.inf) if kind.kind == "f" else (np.iinfo(kind).max, np.iinfo(kind).min)
    )
    arrays = {
        "all the highest": np.full(count, top, kind),
        "all the lowest": np.full(count, bottom, kind),
        "few values": rng.integers(0, 3, count),
        "falling": np.arange(count)[::-1] // (count // 100),
        "rising": np.arange(count) // (count // 100),
    }
    late = rng.integers(10, 20, count)
    late[-5:] = 5
    late[-9:-7] = 25
    arrays["late"] = late
    for lane in range(16):  # in each that a vector may have
        low, high = rng.integers(count // 16, size=2) * 16 + lane
        arrays[f"alone at {low} and {high}"] = rng.integers(10, 20, count)
        arrays[f"alone at {low} and {high}"][[low, high]] = 5, 25
    made = {name: array.astype(kind).reshape(shape) for name, array in arrays.items()}
    if kind.kind == "f":
        for at in (0, count // 2, count - 1):
            made[f"NaN at {at}"] = made["few values"].copy()
            made[f"NaN at {at}"].flat[at:][:2] = np.nan
    return made


def as_chosen(tuning: Tuning) -> Tuning:
    return tuning


def striding(tuning: Tuning) -> Tuning:
    """Return what has few work-items read side by side, as on a GPU."""
    loads = replace(tuning.flat, local_size=4, lanes=1, width=4, unroll=2)
    return replace(tuning, strip=False, groups=2, flat=loads, rows=loads)


def positions(
    opened: DeviceContext,
    ops: list[str] | list[Monoid],
    array: np.ndarray,
    axes: tuple[int, ...],
    cuts: int = 1,
    tuned: Callable[[Tuning], Tuning] = as_chosen,
) -> dict[str, np.ndarray]:
    """Fold parts of an array along its first axis, the last of them first."""
    bound = bind([as_monoid(op) for op in ops], [array.dtype])
    one = box(array.shape, axes)
    tuning = tuned(choose(opened.device, bound.accumulator, kernels=(one.kernel,)))
    fold = Fold(opened, bound.accumulator, tuning, one.outputs)
    strides = tuple(np.cumprod((1, *array.shape[:0:-1]))[::-1].tolist())
    for rows in reversed(np.array_split(np.arange(len(array)), cuts)):
        part = np.ascontiguousarray(array[rows])
        index = int(rows[0]) * strides[0]
        fold.add([upload(opened, part)], box(part.shape, axes, index_strides=strides, index=index))
    partial = fold.read_back()
    return {s.name: s.finish(partial, array.shape, axes) for s in bound.statistics}


def wanted(op: str, array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    kept = [n for n in range(array.ndim) if n not in axes]
    rows = array.transpose(*kept, *axes).reshape(*(array.shape[n] for n in kept), -1)
    return np.atleast_1d(getattr(np, op)(rows, axis=-1)).reshape(-1)


@pytest.mark.parametrize(("dtype", "ops"), CASES, ids=str)
@pytest.mark.parametrize(
    ("shape", "axes", "tuned"),
    [(*layout, as_chosen) for layout in LAYOUTS] + [(*layout, striding) for layout in LAYOUTS[:2]],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_first_extreme_is_found_wherever_it_is(
    opened: DeviceContext,
    dtype: str,
    ops: list[str],
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    tuned: Callable[[Tuning], Tuning],
):
    for name, array in lines(dtype, shape).items():
        for cuts in (1, 2) if 0 in axes else (1,):
            got = positions(opened, ops, array, axes, cuts, tuned)
            for op in ops:
                want = wanted(op, array, axes)
                assert np.array_equal(got[op].reshape(-1), want), (name, cuts, op)


@pytest.mark.unoptimised
def test_where_all_is_absent_there_is_none(opened: DeviceContext):
    array = np.full((3, 20_001), np.nan, "f4")
    array[1, 15_000:15_002] = np.inf
    got = positions(opened, ["nanargmin", "nanargmax"], array, (1,))
    assert {op: found.tolist() for op, found in got.items()} == {
        "nanargmin": [-1, 15_000, -1],
        "nanargmax": [-1, 15_000, -1],
    }


@pytest.mark.unoptimised
@pytest.mark.parametrize("tuned", [as_chosen, striding])
@pytest.mark.parametrize(
    ("op", "dtype", "far"),
    [
        ("argmin", "M8[ns]", 2**63 - 1),
        ("argmax", "M8[ns]", 1 - 2**63),
        ("argmin", "int32", 2**31 - 1),
        ("argmax", "int64", -(2**63)),
        ("argmin", "float32", np.inf),
    ],
)
def test_the_farthest_there_is_is_found_behind_absent_ones(
    opened: DeviceContext, op: str, dtype: str, far: float, tuned: Callable[[Tuning], Tuning]
):
    """It may be as far as where nothing was found."""
    array = np.full(200_000, 3).astype(dtype)
    array[190_000:] = np.array(far).astype(dtype)
    if dtype == "M8[ns]":
        array[:190_000] = np.datetime64("NaT")
        monoid = as_monoid(f"nan{op}")
    else:
        monoid = as_monoid(op).among(lambda x: x != 3)
    got = positions(opened, [monoid], array, (0,), tuned=tuned)
    assert got[monoid.name].tolist() == [190_000]


@pytest.mark.parametrize("variant", ["work_group", "sub_group"])
@pytest.mark.parametrize(("dtype", "ops"), CASES[:2], ids=str)
def test_built_ins_put_together_what_work_items_found(
    opened: DeviceContext, variant: str, dtype: str, ops: list[str]
):
    """Of items that have the same key the least index counts, whichever item has it."""
    made = accumulator(*ops, dtype=dtype)
    if why_not(opened.device, made, variant):
        pytest.skip("the device has no such built-in")
    tuned = striding(forced(opened.device, made, variant)[0])
    tuned = replace(tuned, flat=replace(tuned.flat, local_size=64))
    for name, array in lines(dtype, (20_001,)).items():
        got = positions(opened, ops, array, (0,), tuned=lambda _: tuned)
        assert got[ops[0]].tolist() == [wanted(ops[0], array, (0,))], name


def test_only_positions_pass_elements_over():
    assert has_positions(accumulator("argmin"))
    assert has_positions(accumulator("argmin", "nanargmax", dtype="int8"))
    assert not has_positions(accumulator("argmin", "sum"))
    assert not has_positions(accumulator("minmax"))
    assert "#define CHF_POSITIONS CHF_CPU" in header(accumulator("argmax"))
    assert "#define CHF_POSITIONS 0" in header(accumulator("max"))


@pytest.mark.parametrize(
    ("key", "index"),
    [
        (lambda x, _: x, lambda a, b: first(b.m, a.m, a.i, b.i)),
        (lambda x, i: x + i, lambda a, b: first(a.m, b.m, a.i, b.i)),
    ],
    ids=["of the other extreme", "of the index"],
)
def test_what_is_like_a_position_is_none(key: Callable, index: Callable):
    like = Monoid(
        "like",
        fields={"m": "int64", "i": "int64"},
        zero={"m": "highest", "i": "highest"},
        lift=lambda x, i: {"m": key(x, i), "i": i},
        op={"m": "min", "i": index},
    )
    assert not has_positions(bind([like], [np.dtype("int32")]).accumulator)
