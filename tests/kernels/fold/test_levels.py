"""Levels that kernels make: those of exact arithmetic, rounded once, or none at all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import DeviceContext
from chunkfold.kernels.exact.rounding import rounded_ratio
from chunkfold.kernels.fold.levels import Levels, LevelsFold, try_levels
from tests.conftest import DEVICES

pytestmark = [
    pytest.mark.unoptimised,
    pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.spec),
]


def made(
    opened: DeviceContext, levels: Levels, *images: np.ndarray
) -> list[list[np.ndarray] | None]:
    fold = LevelsFold(opened, levels, opened.queue())
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(opened.context, flags, hostbuf=image) for image in images]
    return [fold.made(*one) for one in zip(buffers, (i.shape for i in images), strict=True)]


def windows(image: np.ndarray, factors: Sequence[int]) -> np.ndarray:
    """What exact arithmetic has of each window: objects, of lists of elements."""
    shape = [-(-n // by) for n, by in zip(image.shape, factors, strict=True)]
    found = np.empty(shape, object)
    for at in np.ndindex(*shape):
        box = tuple(slice(n * by, (n + 1) * by) for n, by in zip(at, factors, strict=True))
        found[at] = image[box].ravel().tolist()
    return found


def mean(values: list, dtype: np.dtype) -> float:
    whole = sum(map(Fraction, values)) / len(values)
    if dtype.kind != "f":
        return round(whole)  # halves to the even one
    size = rounded_ratio(abs(whole.numerator), whole.denominator, 0, dtype)
    return -size if whole < 0 else size


def check(image: np.ndarray, levels: Levels, got: list[np.ndarray] | None) -> None:
    assert got is not None
    assert len(got) == levels.count
    for n, level in enumerate(got, 1):
        each = windows(image, [by**n for by in levels.factors])
        of = {"min": min, "max": max}.get(levels.op, lambda one: mean(one, image.dtype))
        want = np.vectorize(of, otypes=[image.dtype])(each)
        assert level.dtype == image.dtype
        np.testing.assert_array_equal(level, want, f"level {n}")


CASES = [
    ("float32", (2, 2), (37, 53), 4),
    ("float32", (3, 5), (20, 31), 2),
    ("float32", (1, 2, 1, 3), (2, 3, 4, 29), 2),
    ("uint8", (2, 2), (33, 70), 3),
    ("int16", (2, 1, 2), (5, 3, 40), 2),
    ("uint16", (1, 4), (3, 90), 3),
    ("int32", (2, 2), (18, 35), 3),
]


@pytest.mark.parametrize(("case", "op"), list(zip(CASES, itertools.cycle(("mean", "max", "min")))))
@pytest.mark.parametrize("means", [True, False])
def test_each_level_is_exact_and_rounded_once(opened: DeviceContext, case, op: str, means: bool):
    dtype, factors, shape, count = case
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind == "f":
        values = rng.standard_normal(shape) * 2.0 ** rng.integers(-4, 4, shape)
        image = values.astype(dtype)
    else:
        ends = np.iinfo(dtype)
        image = rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    levels = Levels("mean" if means else op, dtype, factors, count)
    assert levels.able
    (got, again) = made(opened, levels, image, image[: shape[0] - 1])
    check(image, levels, got)
    check(image[: shape[0] - 1], levels, again)


NEAR_HALF = np.float32(1 + 2**-23)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1.0, 2.0**-60], True),  # a sum that no double holds
        ([1.0, -1.0], False),
        ([np.nan, 1.0], True),
        ([np.inf, 1.0], True),
        ([1e-40, 1.0], True),  # subnormal
        ([2.0**-126, -(2.0**-127) * 1.5], True),
        ([3e38, -3e38], False),
        ([1.0, NEAR_HALF], False),  # a tie
        ([-0.0, 0.0], False),
    ],
)
def test_what_might_not_be_exact_is_told(opened: DeviceContext, values: list[float], told: bool):
    image = np.full((4, 40), 2.0, "f4")
    image[1, 20:22] = values
    levels = Levels("mean", "float32", (1, 2), 2)
    (got,) = made(opened, levels, image)
    assert (got is None) == told
    if got is not None:
        check(image, levels, got)


@pytest.mark.parametrize(("value", "told"), [(np.nan, True), (-0.0, True), (np.inf, False)])
def test_extremes_that_devices_may_order_in_two_ways_are_told(opened: DeviceContext, value, told):
    image = np.zeros((4, 40), "f4")
    image[2, 39] = value
    levels = Levels("max", "float32", (2, 2), 1)
    (got,) = made(opened, levels, image)
    assert (got is None) == told


def test_what_a_device_makes_wrong_or_not_at_all_is_found_out(opened: DeviceContext, monkeypatch):
    levels = Levels("mean", "int16", (1, 2, 2), 3)
    assert try_levels(opened, levels)
    make = LevelsFold.made

    def off_by_one(self: LevelsFold, *given: Any) -> Any:
        *levels, last = make(self, *given)
        return [*levels, last + 1]

    monkeypatch.setattr(LevelsFold, "made", off_by_one)
    assert not try_levels(opened, levels)
    monkeypatch.undo()
    monkeypatch.setattr(Levels, "options", lambda *_, **__: ["-DCHF_ELEMENT=nothing"])
    assert not try_levels(opened, levels)


@pytest.mark.parametrize("factors", [(2, 2), (1, 2, 1, 3), (4,)])
@pytest.mark.parametrize(("dtype", "op"), [("float32", "mean"), ("uint8", "max")])
def test_devices_make_right_what_is_tried(opened: DeviceContext, factors, dtype, op):
    assert try_levels(opened, Levels(op, dtype, factors, 2))


def test_levels_that_kernels_cannot_make_are_known(opened: DeviceContext):
    del opened
    able = [
        Levels("sum", "uint8", (2, 2), 1),
        Levels("mean", "float64", (2, 2), 1),
        Levels("mean", "float32", (2, 1, 1, 2), 1),
        Levels("mean", "int32", (2, 2), 11),
    ]
    assert [one.able for one in able] == [False] * len(able)
    assert Levels("mean", "int32", (2, 2), 10).able
    assert Levels("max", "int32", (2, 2), 11).able
