"""Answers do not depend on what a device lacks: each capability taken away, one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from chunkfold.kernels import (
    VARIANTS,
    Accumulator,
    Box,
    Device,
    DeviceContext,
    DeviceError,
    Fold,
    Monoid,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.accumulator.sums import any_lost
from chunkfold.kernels.binding.binding import Bound
from chunkfold.kernels.catalogue.histograms import histogram
from chunkfold.kernels.device.capabilities import CAPABILITIES, VARIABLE, taken_away
from chunkfold.kernels.device.host import split
from chunkfold.kernels.exact.rounding import sum_bound
from chunkfold.kernels.program.device_context import program_source
from chunkfold.kernels.tuning.variant import forced
from tests.conftest import ALL_SHAPES, shaped
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised

LAYOUTS = {"flat": (0, 1), "rows": (1,), "columns": (0,)}
SHAPE = (40, 70)  # more than a short row's elements
_FLOATS = ["sum", "mean", "std", "min", "max", "argmax", "count"]
_INTEGERS = ["sum", "mean", "min", "max", "argmax"]


def above(x):
    return x > 0.3


WHERE = [as_monoid("sum").among(above), as_monoid("min").among(above)]
CASES: dict[str, tuple[str, list[Monoid]]] = {
    "float32": ("float32", [*map(as_monoid, _FLOATS), *WHERE, histogram([-1e9, -1.5, 0, 3, 1e9])]),
    "int32": ("int32", [*map(as_monoid, _INTEGERS)]),
    "int64": ("int64", [*map(as_monoid, _INTEGERS)]),
    "float16": ("float16", [as_monoid("sum")]),
    "extremes": ("float32", [as_monoid("minmax")]),  # which have built-ins
}


def elements(dtype: str) -> np.ndarray:
    """Numbers of both signs, huge and tiny ones, so that any rounding shows."""
    rng = np.random.default_rng(11)
    if dtype.startswith("int"):
        limits = np.iinfo(dtype)
        # Of 64 bits so large that sums still fit.
        return rng.integers(limits.min, limits.max, SHAPE, dtype) >> (12 if dtype == "int64" else 0)
    most = 14 if dtype == "float16" else 120
    return np.ldexp(rng.standard_normal(SHAPE), rng.integers(-most, most, SHAPE)).astype(dtype)


def partial_of(opened: DeviceContext, accumulator: Accumulator, buffer, part: Box, shape: str):
    tuning = shaped(opened.device, accumulator, shape)
    assert tuning is not None
    fold = Fold(opened, accumulator, tuning, part.outputs)
    fold.add([buffer], part)
    return fold.read_back()


def answers(
    opened: DeviceContext, bound: Bound, data: np.ndarray, shape: str, layouts: Iterable[str]
) -> list[list[bytes]]:
    """Fold an array in some layouts; return the bits of every result."""
    buffer, out = upload(opened, data), []
    for axes in map(LAYOUTS.__getitem__, layouts):
        part = box(data.shape, axes)
        accumulator = bound.accumulator.for_outputs(part.outputs)
        partial = partial_of(opened, accumulator, buffer, part, shape)
        if any_lost(accumulator, partial).any():  # as blocks do, then
            partial = partial_of(opened, accumulator.with_limbs(), buffer, part, shape)
        results = [one.finish(partial, data.shape, axes) for one in bound.statistics]
        out.append([result.tobytes() for result in results])
    return out


def programs(device: Device, bound: Bound, shape: str) -> list[str]:
    """What is compiled to fold in every layout."""
    tuning = shaped(device, bound.accumulator, shape)
    assert tuning is not None
    return [
        program_source(device, f"{kernel}.cl", bound.accumulator, tuning)
        for kernel in (*LAYOUTS, "passes")
    ]


_known: dict[object, list[list[bytes]]] = {}
"""Answers of devices that lack nothing."""


@pytest.mark.parametrize(
    ("case", "capability"),
    [
        (case, name)
        for case, name in itertools.product(CASES, CAPABILITIES)
        # Whose tables and built-ins are those of all.
        if ALL_SHAPES or name == "fp64" or case in ("float32", "extremes")
    ],
)
def test_answers_are_the_same_bits_without(opened: DeviceContext, case: str, capability: str):
    dtype, monoids = CASES[case]
    data = elements(dtype)
    whole = bind(monoids, [data.dtype], exact=True)
    if (opened.device, case) not in _known:
        _known[opened.device, case] = answers(opened, whole, data, "tree", LAYOUTS)
    want = _known[opened.device, case]
    lacking = DeviceContext(replace(opened.device, without=frozenset({capability})))
    bound = bind(monoids, [data.dtype], exact=True, fp64=lacking.device.fp64)
    # Items that share tables, and each of the built-ins.
    shapes = ["tree-64" if bound.accumulator.tables else "tree", *VARIANTS[1:]]
    for shape in shapes:
        if shaped(lacking.device, bound.accumulator, shape) is None:
            continue
        theirs = programs(opened.device, whole, shape)
        alike = programs(lacking.device, bound, shape) == theirs
        layouts = ["flat"] if alike else list(LAYOUTS)
        assert answers(lacking, bound, data, shape, layouts) == want[: len(layouts)]


@pytest.mark.parametrize("variant", VARIANTS[1:])
def test_a_variant_whose_built_ins_are_taken_away_is_refused(device: Device, variant: str):
    accumulator = bind([as_monoid("minmax")], [np.dtype("f4")]).accumulator
    name = {"work_group": "work_group_functions", "sub_group": "sub_groups"}[variant]
    lacking = replace(device, without=frozenset({name}))
    with pytest.raises(DeviceError, match=f"{VARIABLE} disables {name}"):
        forced(lacking, accumulator, variant)


@pytest.mark.parametrize("axes", LAYOUTS.values(), ids=LAYOUTS)
def test_fast_sums_without_float64_keep_their_bound(device: Device, axes: tuple[int, ...]):
    lacking = DeviceContext(replace(device, without=frozenset({"fp64"})))
    data = np.random.default_rng(7).standard_normal((50, 90)).astype("f4")
    part = box(data.shape, axes)
    bound = bind([as_monoid("sum")], [data.dtype], fp64=False)
    fold = partial_of(lacking, bound.accumulator, upload(lacking, data), part, "tree")
    (statistic,) = bound.statistics
    got = statistic.finish(fold, data.shape, axes)
    exact, wide = data.astype("f8").sum(axes).reshape(-1), np.abs(data.astype("f8"))
    limits = [
        sum_bound(part.elements_per_output, magnitude, result, data.dtype, fp64=False)
        for magnitude, result in zip(wide.sum(axes).reshape(-1), exact, strict=True)
    ]
    assert (np.abs(got - exact) <= limits).all()
    assert np.finfo("f4").eps < max(limits) < 2


def test_float64_without_float64_is_refused_in_one_sentence(device: Device):
    lacking = replace(device, without=frozenset({"fp64"}))
    accumulator = bind([as_monoid("sum")], [np.dtype("f8")], fp64=False).accumulator
    with pytest.raises(DeviceError, match=r"^sum of float64 needs float64, which .* lacks") as told:
        choose(lacking, accumulator)
    assert "\n" not in str(told.value)


def test_parts_of_a_device_lack_what_it_lacks(device: Device):
    if device.kind != "cpu":
        pytest.skip("only CPUs have parts")
    lacking = replace(device, without=frozenset({"fp64"}))
    assert not any(part.fp64 for part in split(lacking, 1))


@pytest.mark.parametrize(
    ("given", "names"),
    [("", set()), ("fp64", {"fp64"}), (" fp64, sub_groups,", {"fp64", "sub_groups"})],
)
def test_the_environment_takes_capabilities_away(given: str, names: set[str], monkeypatch):
    monkeypatch.setenv(VARIABLE, given)
    assert taken_away() == names


def test_an_unknown_capability_is_refused_with_those_there_are(monkeypatch):
    monkeypatch.setenv(VARIABLE, "fp64,double")
    with pytest.raises(DeviceError, match=f"'double'; use one of: {', '.join(CAPABILITIES)}"):
        taken_away()
