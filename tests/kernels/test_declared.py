"""Statistics that users would want, each declared once with public names, on every device."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from tests.exactly import nearest

pytestmark = pytest.mark.unoptimised
TOLERANCE = 1e-11
"""Relative, of float64: moments take differences of sums of a few thousand powers about 0."""
SHAPE, CHUNKS = (23, 31, 7), (8, 10, 7)


@pytest.fixture(autouse=True)
def _on(device: cf.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce on each device in turn, not on the first."""
    monkeypatch.setattr("chunkfold.worker.worker_device.default_devices", lambda: ([device], {}))


def stored(array: np.ndarray) -> zarr.Array:
    return zarr.create_array({}, data=array, chunks=CHUNKS)


def heavy(dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers above 0 with a long tail."""
    return (np.random.default_rng(seed).lognormal(1, 0.5, SHAPE) * 10 + 1).astype(dtype)


# Moments, from sums of powers about 0.


def about_the_mean(fields: Mapping[str, np.ndarray], order: int) -> np.ndarray:
    """The mean of deviations to a power, from means of powers."""
    n = fields["n"]
    mean = fields["p1"] / n
    if order == 2:
        return fields["p2"] / n - mean**2
    if order == 3:
        return fields["p3"] / n - 3 * mean * fields["p2"] / n + 2 * mean**3
    return (
        fields["p4"] / n
        - 4 * mean * fields["p3"] / n
        + 6 * mean**2 * fields["p2"] / n
        - 3 * mean**4
    )


def powers(most: int) -> Callable[[Any], dict[str, Any]]:
    return lambda x: {"n": 1, **{f"p{order}": cf.real(x) ** order for order in range(1, most + 1)}}


def powers_of(most: int) -> dict[str, Any]:
    names = [f"p{order}" for order in range(1, most + 1)]
    return {
        "fields": {"n": "count", **dict.fromkeys(names, "float64")},
        "zero": dict.fromkeys(["n", *names], 0),
        "lift": powers(most),
        "op": "add",
    }


SKEWNESS = cf.Monoid(
    "skewness",
    **powers_of(3),
    finish=lambda fields, _: about_the_mean(fields, 3) / about_the_mean(fields, 2) ** 1.5,
)
KURTOSIS = cf.Monoid(
    "kurtosis",
    **powers_of(4),
    finish=lambda fields, _: about_the_mean(fields, 4) / about_the_mean(fields, 2) ** 2 - 3,
)


def skewness(array: np.ndarray, axis: Any) -> np.ndarray:
    far = array - np.nanmean(array, axis, keepdims=True)
    return np.nanmean(far**3, axis) / np.nanmean(far**2, axis) ** 1.5


def kurtosis(array: np.ndarray, axis: Any) -> np.ndarray:
    far = array - np.nanmean(array, axis, keepdims=True)
    return np.nanmean(far**4, axis) / np.nanmean(far**2, axis) ** 2 - 3


# Means that are no sums of elements.

GEOMETRIC = cf.Monoid(
    "geometric",
    fields={"logs": "float64", "n": "count"},
    zero={"logs": 0, "n": 0},
    lift=lambda x: {"logs": np.log(cf.real(x)), "n": 1},
    op="add",
    finish=lambda fields, _: np.exp(fields["logs"] / fields["n"]),
)
HARMONIC = cf.Monoid(
    "harmonic",
    fields={"inverse": "float64", "n": "count"},
    zero={"inverse": 0, "n": 0},
    lift=lambda x: {"inverse": 1 / cf.real(x), "n": 1},
    op="add",
    finish=lambda fields, _: fields["n"] / fields["inverse"],
)
OF_ONE: dict[str, tuple[cf.Monoid, Callable[[np.ndarray, Any], np.ndarray]]] = {
    "skewness": (SKEWNESS, skewness),
    "kurtosis": (KURTOSIS, kurtosis),
    "geometric": (GEOMETRIC, lambda array, axis: np.exp(np.nanmean(np.log(array), axis))),
    "harmonic": (HARMONIC, lambda array, axis: 1 / np.nanmean(1 / array, axis)),
}


@pytest.mark.parametrize(
    ("dtype", "axis", "skipna"), [("int16", None, False), ("float32", 1, True)]
)
def test_statistics_of_one_array(dtype: str, axis: Any, *, skipna: bool):
    array = heavy(dtype)
    if skipna:
        array[np.random.default_rng(1).random(SHAPE) < 0.3] = np.nan
    monoids = [monoid for monoid, _ in OF_ONE.values()]
    results = cf.reduce(stored(array), monoids, axis=axis, skipna=skipna)
    for name, (_, expected) in OF_ONE.items():
        want = expected(array.astype("f8"), axis)
        assert results[name].dtype == np.float64
        np.testing.assert_allclose(results[name], want, rtol=TOLERANCE, atol=TOLERANCE)


# Of two arrays.


def products(x: Any, y: Any) -> dict[str, Any]:
    x, y = cf.real(x), cf.real(y)
    return {"n": 1, "x": x, "y": y, "xy": x * y, "xx": x * x, "yy": y * y}


def co_moment(fields: Mapping[str, np.ndarray], one: str, other: str) -> np.ndarray:
    """The sum of products of deviations."""
    return fields[one + other] - fields[one] * fields[other] / fields["n"]


PAIRS: dict[str, Any] = {
    "inputs": 2,
    "fields": {"n": "count", **dict.fromkeys(["x", "y", "xy", "xx", "yy"], "float64")},
    "zero": dict.fromkeys(["n", "x", "y", "xy", "xx", "yy"], 0),
    "lift": products,
    "op": "add",
}
COVARIANCE = cf.Monoid(
    "covariance",
    **PAIRS,
    finish=lambda fields, context: co_moment(fields, "x", "y") / (fields["n"] - context.ddof),
)
CORRELATION = cf.Monoid(
    "correlation",
    **PAIRS,
    finish=lambda fields, _: (
        co_moment(fields, "x", "y")
        / np.sqrt(co_moment(fields, "x", "x") * co_moment(fields, "y", "y"))
    ),
)
RMSE = cf.Monoid(
    "rmse",
    inputs=2,
    fields={"far": "float64", "n": "count"},
    zero={"far": 0, "n": 0},
    lift=lambda x, y: {"far": (cf.real(x) - cf.real(y)) ** 2, "n": 1},
    op="add",
    finish=lambda fields, _: np.sqrt(fields["far"] / fields["n"]),
)


@pytest.mark.parametrize(
    ("dtypes", "skipna"), [(("uint8", "int16"), False), (("float32", "float64"), True)]
)
def test_statistics_of_two_arrays(dtypes: tuple[str, str], *, skipna: bool):
    one = heavy("float64").clip(0, 200).astype(dtypes[0])
    other = (one * 0.5 + heavy("float64", seed=1)).astype(dtypes[1])
    if skipna:
        one[:3], other[5:7, 2] = np.nan, np.nan
    pair = [stored(one), stored(other)]
    results = cf.reduce(pair, [COVARIANCE, CORRELATION, RMSE], ddof=1, skipna=skipna)
    there = ~(np.isnan(one) | np.isnan(other))
    x, y = one[there].astype("f8"), other[there].astype("f8")
    expected = {
        "covariance": np.cov(x, y)[0, 1],
        "correlation": np.corrcoef(x, y)[0, 1],
        "rmse": np.sqrt(np.mean((x - y) ** 2)),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, rtol=TOLERANCE)


# The same without rounding, but once in the end.


def exactly(
    name: str,
    lift: Callable[..., dict[str, Any]],
    finish: Callable[[Mapping[str, Any], Any], Any],
    inputs: int = 1,
) -> cf.Monoid:
    fields = list(lift(*[1] * inputs))
    return cf.Monoid(
        name,
        inputs=inputs,
        fields={"n": "count", **dict.fromkeys(fields, "exact")},
        zero=dict.fromkeys(["n", *fields], 0),
        lift=lambda *x: {"n": 1, **lift(*x)},
        op="add",
        finish=finish,
    )


def sums_of_powers(most: int) -> Callable[[Any], dict[str, Any]]:
    return lambda x: {f"p{order}": x**order for order in range(1, most + 1)}


def sums_of_products(x: Any, y: Any) -> dict[str, Any]:
    return {"x": x, "y": y, "xy": x * y, "xx": x * x, "yy": y * y}


def far(fields: Mapping[str, Any], one: str, other: str) -> Any:
    """n times the sum of products of deviations."""
    return fields["n"] * fields[one + other] - fields[one] * fields[other]


EXACT = [
    exactly(
        "skewness",
        sums_of_powers(3),
        lambda fields, _: about_the_mean(fields, 3) / about_the_mean(fields, 2) ** 1.5,
    ),
    exactly(
        "kurtosis",
        sums_of_powers(4),
        lambda fields, _: about_the_mean(fields, 4) / about_the_mean(fields, 2) ** 2 - 3,
    ),
]
EXACT_PAIRS = [
    exactly(
        "covariance",
        sums_of_products,
        lambda fields, context: (
            far(fields, "x", "y") / (fields["n"] * (fields["n"] - context.ddof))
        ),
        inputs=2,
    ),
    exactly(
        "correlation",
        sums_of_products,
        lambda fields, _: (
            far(fields, "x", "y") / np.sqrt(far(fields, "x", "x") * far(fields, "y", "y"))
        ),
        inputs=2,
    ),
    exactly(
        "rmse",
        lambda x, y: {"far": (x - y) ** 2},
        lambda fields, _: np.sqrt(fields["far"] / fields["n"]),
        inputs=2,
    ),
]


def root_of(value: Fraction, dtype: str) -> float:
    """The float nearest to a root, of the square that has its sign: by an integer root of it."""
    digits = {"float32": 24, "float64": 53}[dtype]
    size = abs(value)
    shift = 2 * digits + 64 + max(0, size.denominator.bit_length() - size.numerator.bit_length())
    whole = math.isqrt(int(size * 4**shift))
    # Odd where it is no root: then rounding is as that of the root itself.
    root = Fraction(whole | (whole * whole != size * 4**shift), 2**shift)
    near = float(nearest(root, dtype))
    return -near if value < 0 else near


def moment(row: list[Fraction], order: int) -> Fraction:
    mean = sum(row) / len(row)
    return sum((x - mean) ** order for x in row) / len(row)


def joint(x: list[Fraction], y: list[Fraction]) -> Fraction:
    means = sum(x) / len(x), sum(y) / len(y)
    return sum((a - means[0]) * (b - means[1]) for a, b in zip(x, y, strict=True))


def squared_skewness(row: list[Fraction]) -> Fraction:
    third = moment(row, 3)
    return third * abs(third) / moment(row, 2) ** 3


def squared_correlation(x: list[Fraction], y: list[Fraction]) -> Fraction:
    both = joint(x, y)
    return both * abs(both) / (joint(x, x) * joint(y, y))


def squared_distance(x: list[Fraction], y: list[Fraction]) -> Fraction:
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / len(x)


def rationals_of(array: np.ndarray, axis: int | None) -> list[list[Fraction]]:
    """Each output's elements that are there."""
    rows = array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, -1).reshape(-1, 31)
    return [[Fraction(x) for x in row if x == x] for row in rows.tolist()]


@pytest.mark.parametrize(("dtype", "axis"), [("int16", None), ("float32", 1), ("float64", None)])
def test_moments_are_exact_and_rounded_once(dtype: str, axis: int | None):
    array = heavy(dtype)
    if axis is not None and dtype != "int16":
        array[np.random.default_rng(1).random(SHAPE) < 0.3] = np.nan
    results = cf.reduce(stored(array), EXACT, axis=axis, skipna=axis is not None)
    to = "float32" if dtype == "float32" else "float64"
    rows = rationals_of(array, axis)
    skews = [root_of(squared_skewness(row), to) for row in rows]
    tails = [float(nearest(moment(row, 4) / moment(row, 2) ** 2 - 3, to)) for row in rows]
    assert np.ravel(results["skewness"]).tolist() == skews
    assert np.ravel(results["kurtosis"]).tolist() == tails


@pytest.mark.parametrize(("dtypes", "axis"), [(("uint8", "int16"), None), (("float32",) * 2, 1)])
def test_statistics_of_two_arrays_are_exact_and_rounded_once(
    dtypes: tuple[str, str], axis: int | None
):
    one = heavy("float64").clip(0, 200).astype(dtypes[0])
    other = (one * 0.5 + heavy("float64", seed=1)).astype(dtypes[1])
    results = cf.reduce([stored(one), stored(other)], EXACT_PAIRS, axis=axis, ddof=1)
    to = "float32" if dtypes[0] == "float32" else "float64"
    pairs = list(zip(rationals_of(one, axis), rationals_of(other, axis), strict=True))
    covariances = [float(nearest(joint(x, y) / (len(x) - 1), to)) for x, y in pairs]
    assert np.ravel(results["covariance"]).tolist() == covariances
    squares = {"correlation": squared_correlation, "rmse": squared_distance}
    for name, square in squares.items():
        want = [root_of(square(x, y), to) for x, y in pairs]
        assert np.ravel(results[name]).tolist() == want, name


# Where something is.


def bounding_box(shape: tuple[int, ...], condition: Callable[[Any], Any]) -> cf.Monoid:
    """The first and the last index, along each axis, of elements for which something holds.

    -1 where there are none. The index that `lift` is given counts in C order, over all axes.
    """
    strides = [int(np.prod(shape[axis + 1 :], dtype=int)) for axis in range(len(shape))]
    nowhere = 2**63 - 1

    def lift(x: Any, i: Any) -> dict[str, Any]:
        inside = condition(x)
        places = [i // stride % extent for stride, extent in zip(strides, shape, strict=True)]
        return {
            **{f"lo{axis}": cf.where(inside, at, nowhere) for axis, at in enumerate(places)},
            **{f"hi{axis}": cf.where(inside, at, -1) for axis, at in enumerate(places)},
        }

    def finish(fields: Mapping[str, np.ndarray], context: Any) -> np.ndarray:
        assert context.shape == shape
        bounds = [
            [np.where(fields[f"hi{axis}"] < 0, -1, fields[f"{end}{axis}"]) for end in ("lo", "hi")]
            for axis in context.axes
        ]
        return np.moveaxis(np.array(bounds), -1, 0)

    axes = range(len(shape))
    ops = {f"lo{axis}": "min" for axis in axes} | {f"hi{axis}": "max" for axis in axes}
    return cf.Monoid(
        "bounding_box",
        fields=dict.fromkeys(ops, "int64"),
        zero={name: "highest" if op == "min" else -1 for name, op in ops.items()},
        lift=lift,
        op=ops,
        finish=finish,
    )


def box_of(array: np.ndarray, condition: Callable[[Any], Any]) -> list[list[int]]:
    found = np.nonzero(condition(array))
    return [[at.min(), at.max()] if at.size else [-1, -1] for at in found]


def test_the_box_of_what_a_condition_holds_for():
    array = np.zeros(SHAPE, "uint8")
    array[9:15, 3:29, 2:4] = heavy("uint8")[9:15, 3:29, 2:4]
    box = bounding_box(SHAPE, lambda x: (x > 40) & (x < 80))
    for given in (array, array[::-1], np.zeros(SHAPE, "uint8")):
        wanted = box_of(given, lambda x: (x > 40) & (x < 80))
        np.testing.assert_array_equal(cf.reduce(stored(given), box), wanted)


def test_boxes_of_each_row():
    array = heavy("float32")
    array[3] = 0
    found = cf.reduce(stored(array), bounding_box(SHAPE, lambda x: x > 60), axis=(1, 2))
    for row, bounds in zip(array, found, strict=True):
        assert bounds.tolist() == box_of(row, lambda x: x > 60)
