"""The first elements in order, and their positions: NumPy's sorts, on every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from chunkfold.kernels import DeviceContext, Fold, Monoid, MonoidError, as_monoid, bind, box
from chunkfold.kernels.binding.laws import try_laws
from chunkfold.kernels.catalogue.named import is_known
from chunkfold.kernels.catalogue.topk import MOST, argbottomk, argtopk, bottomk, topk
from tests.conftest import SHAPES, shaped
from tests.kernels.catalogue.test_quantiles import elements
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised
DTYPES = ["?", "f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "M8[s]", "m8[ms]"]
ABLE = [shape for shape in SHAPES if not shape.startswith(("work_group", "sub_group"))]
"""Those are for ops that OpenCL's collectives know."""


def ordered(x: np.ndarray, *, greatest: bool) -> np.ndarray:
    """Return positions along the last axis, in order; of equal elements the first comes first."""
    if not greatest:
        return np.argsort(x, axis=-1, stable=True)
    flipped = np.argsort(x[..., ::-1], axis=-1, stable=True)[..., ::-1]
    return x.shape[-1] - 1 - flipped


def rows_of(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    kept = [n for n in range(x.ndim) if n not in axes]
    return x.transpose(*kept, *axes).reshape(*(x.shape[n] for n in kept), -1)


def sample(dtype: str, shape: tuple[int, ...] = (37, 3, 20)) -> np.ndarray:
    """Return elements with many ties, and NaN or NaT."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return elements("i2", shape) % 40 == 0
    if kind in "mM":
        x = elements("i4", shape).astype(dtype)
        x.flat[[5, 77]] = "NaT"
        return x
    x = elements(dtype, shape)
    x.flat[::3] = x.flat[1]
    if kind == "f":
        x.flat[[5, 77]] = np.nan
    return x


def assert_first(got: np.ndarray, where: np.ndarray, rows: np.ndarray, k: int, end: str) -> None:
    """See that elements and positions are the first ones that NumPy's sort gives."""
    first = ordered(rows, greatest=end == "top")[..., :k]
    np.testing.assert_array_equal(where, first)
    np.testing.assert_array_equal(got, np.take_along_axis(rows, first, -1))
    assert got.dtype == rows.dtype


def both(
    opened: DeviceContext, end: str, k: int, x: np.ndarray, axes: tuple[int, ...], shape: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return elements and positions, of one read."""
    part = box(x.shape, axes)
    bound = bind([as_monoid(f"{end}{k}"), as_monoid(f"arg{end}{k}")], [x.dtype])
    accumulator = bound.accumulator.for_outputs(part.outputs)
    fold = Fold(opened, accumulator, shaped(opened.device, accumulator, shape), part.outputs)
    fold.add([upload(opened, x)], part)
    partial, outputs = fold.read_back(), [x.shape[n] for n in range(x.ndim) if n not in axes]
    got, where = (one.finish(partial, x.shape, axes) for one in bound.statistics)
    return got.reshape(*outputs, k), where.reshape(*outputs, k)


AXES = [(0, 1, 2), (0,), (2,)]


@pytest.mark.parametrize(("number", "dtype"), [*enumerate(DTYPES)])
def test_they_are_numpys_on_every_device(opened: DeviceContext, number: int, dtype: str):
    """Of many equal elements, both zeros, infinities, NaN and NaT."""
    x, end, axes = sample(dtype), ("top", "bottom")[number % 2], AXES[number % 3]
    assert_first(*both(opened, end, 3, x, axes, "tree"), rows_of(x, axes), 3, end)


@pytest.mark.parametrize("shape", ABLE)
def test_every_shape_of_kernel_finds_as_many_as_there_may_be(opened: DeviceContext, shape: str):
    x = sample("f4", (57, 4, 6))
    axes = (0,) if shape == "tree-stride" else (0, 1, 2)
    got = both(opened, "top", MOST, x, axes, shape)
    assert_first(*got, rows_of(x, axes), MOST, "top")


@settings(deadline=None, max_examples=20)
@given(
    x=st.sampled_from(["f4", "f8", "i1", "u8", "?"]).flatmap(
        lambda dtype: arrays.arrays(dtype, st.integers(1, 20))
    ),
    k=st.integers(1, MOST),
    end=st.sampled_from(["top", "bottom"]),
)
def test_any_elements_are_in_order(x: np.ndarray, k: int, end: str):
    k = min(k, x.size)
    got, where = (as_monoid(f"{arg}{end}{k}").evaluate(x) for arg in ("", "arg"))
    assert_first(got, where, x, k, end)


@pytest.mark.parametrize("made", [topk, bottomk, argtopk, argbottomk])
def test_their_laws_hold(made: Callable[[int], Monoid]):
    """They are those of the catalogue, whose laws nobody tries again."""
    monoid = made(3)
    assert is_known(monoid)
    doubted = bind([replace(monoid, specialised=None)], [np.dtype("f4")]).accumulator
    assert any(part.rtol is not None for part in doubted.components)
    assert try_laws(doubted).broken == ""


def test_what_is_missing_is_nan_or_nowhere():
    """Behind all that is there."""
    x = np.array([3, np.nan, 5, np.nan], "f4")
    np.testing.assert_array_equal(as_monoid("nantop3").evaluate(x), [5, 3, np.nan])
    np.testing.assert_array_equal(as_monoid("nanbottom3").evaluate(x), [3, 5, np.nan])
    assert as_monoid("nanargtop3").evaluate(x).tolist() == [2, 0, -1]
    times = np.array([3, "NaT", 5], "M8[s]")
    np.testing.assert_array_equal(topk(3).evaluate(times), times[[1, 2, 0]])
    np.testing.assert_array_equal(topk(3).skipping().evaluate(times), times[[2, 0, 1]])
    with pytest.raises(MonoidError, match=r"'top2' of int32 has no value where fewer than 2.*1 of"):
        topk(2).among(lambda x: x > 8).evaluate(np.arange(10, dtype="i4"))
    got = topk(2).among(lambda x: x > 8).evaluate(np.arange(10, dtype="i4"), dtype="f8")
    np.testing.assert_array_equal(got, [9, np.nan])


@pytest.mark.parametrize("k", [0, -1, MOST + 1, 2.0, True, "3", None])
def test_what_is_no_number_of_slots_is_refused(k: object):
    """In one sentence with the value."""
    for made in (topk, bottomk, argtopk, argbottomk):
        with pytest.raises(MonoidError, match=rf"k of {made.__name__} is .*an integer from 1 to"):
            made(k)  # type: ignore[arg-type]


def test_more_than_there_are_is_refused():
    with pytest.raises(MonoidError, match="'top5' needs 5 elements, but 4 are given"):
        topk(5).evaluate(np.arange(4.0))
    with pytest.raises(MonoidError, match="k of argbottomk is 0"):
        as_monoid("argbottom0")
