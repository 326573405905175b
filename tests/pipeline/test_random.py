"""Random reductions of every form against plain Python: what is selected, masked, weighed, grouped.

The suite tries some; `make test-random` tries 20,000.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.planning import planner, preaggregation, rules
from chunkfold.planning.rules import PlanRule
from tests.conftest import SHORT
from tests.exactly import expected, nearest
from tests.pipeline.sources.test_contract import entries
from tests.pipeline.test_reduce import selected

pytestmark = pytest.mark.unoptimised
CASES = int(os.environ.get("CHUNKFOLD_CASES", "20" if SHORT else "60"))
DTYPES = ("int8", "uint16", "int32", "int64", "float32", "float64")
EXACT = ("sum", "mean", "var", "std")
ALWAYS = ("sum", "count", "count_nonzero", "any", "all")
"""Those that have a value of no elements, whatever the dtype."""
OF_FLOATS = (*ALWAYS, "mean", "var", "std", "min", "max", "median")


@dataclass(frozen=True)
class Case:
    """A reduction, and the array that it is of."""

    values: np.ndarray
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    filled: bool
    """Whether the first chunk is not stored: it is the fill value, 0."""
    op: str
    axis: tuple[int, ...]
    selection: tuple[Any, ...]
    options: Mapping[str, Any]
    labels: Sequence[tuple[tuple[int, ...], np.ndarray]] = ()
    """Of groups: along which axes they are, and what they are."""
    weights: np.ndarray | None = None
    mask: np.ndarray | None = None

    def asked(self) -> dict[str, Any]:
        """Return what `cf.reduce` is given."""
        given = dict(self.options) | {"selection": self.selection, "axis": self.axis}
        if self.labels:
            given |= {
                "by": tuple(one for _, one in self.labels),
                "by_axis": tuple(list(axes) for axes, _ in self.labels),
            }
            if len(self.labels) == 1:
                given |= {"by": given["by"][0], "by_axis": given["by_axis"][0]}
        wheres = [one for one in (self.mask, self.options.get("where")) if one is not None]
        if wheres:
            given["where"] = wheres[0] if len(wheres) == 1 else tuple(wheres)
        return given | ({} if self.weights is None else {"weights": self.weights})


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw one."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3), "shape"))
    chunks = tuple(draw(st.integers(1, size)) for size in shape)
    shards = tuple(n * draw(st.integers(1, 2)) for n in chunks) if draw(st.booleans()) else None
    dtype = draw(st.sampled_from(DTYPES), "dtype")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), "seed"))
    floats, axes = dtype.startswith("f"), range(len(shape))
    if floats:
        values = rng.normal(size=shape) * 10.0 ** rng.integers(-12, 12, shape)
        values[rng.random(shape) < draw(st.sampled_from([0, 0.2]))] = np.nan
    else:
        values = rng.integers(0, 120, shape)
    axis = tuple(n for n in axes if draw(st.booleans())) or (len(shape) - 1,)
    selection = tuple(draw(entries(size)) if draw(st.booleans()) else slice(None) for size in shape)
    options: dict[str, Any] = {}
    if floats and draw(st.booleans()):
        options["skipna"] = True
    if draw(st.booleans()) and draw(st.booleans()):
        options["where"] = "x > 10"
    op = draw(st.sampled_from(OF_FLOATS if floats else (*ALWAYS, "mean", "std")), "op")
    if op in ("var", "std") and draw(st.booleans()):
        options["ddof"] = 1
    if floats and op in (*EXACT, "min", "max") and draw(st.integers(0, 4)) == 0:
        options["min_count"] = draw(st.integers(1, 4))
    weights = mask = None
    if op in ("sum", "mean") and draw(st.integers(0, 2)) == 0:
        options.pop("min_count", None)
        weights = rng.integers(0, 9, _thinned(draw, shape)).astype(draw(st.sampled_from("fdi")))
    if draw(st.integers(0, 2)) == 0:
        mask = rng.random(_thinned(draw, shape)) < 0.7
    labels = []
    if draw(st.integers(0, 1)):
        for _ in range(draw(st.integers(1, 2))):
            along = tuple(n for n in axis if draw(st.booleans())) or axis[:1]
            labels.append((along, _labels(draw, rng, [shape[n] for n in along])))
    return Case(
        values.astype(dtype), chunks, shards, draw(st.booleans()), op, axis, selection, options,
        labels, weights, mask,
    )  # fmt: skip


def _thinned(draw: st.DrawFn, shape: Sequence[int]) -> list[int]:
    """Return extents that NumPy broadcasts to a shape."""
    return [size if draw(st.booleans()) else 1 for size in shape]


def _labels(draw: st.DrawFn, rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Return labels of any kind, of which some are missing."""
    codes = rng.integers(-1, 3, shape)
    kind = draw(st.sampled_from(["numbers", "floats", "texts", "dates", "bools"]))
    if kind == "floats":
        return np.where(codes < 0, np.nan, codes * 2.0)
    if kind == "dates":
        dates = np.datetime64("2001-01-01", "D") + codes * 40
        return np.where(codes < 0, np.datetime64("NaT"), dates)
    if kind == "texts":
        return np.array(["north", "south", "tropics"])[np.maximum(codes, 0)]
    return codes > 0 if kind == "bools" else codes


def stored(case: Case, folder: Path) -> tuple[Path, np.ndarray]:
    """Store an array; return where it is, and what it holds then."""
    made = zarr.create_array(
        folder / "a", shape=case.values.shape, chunks=case.chunks, shards=case.shards,
        dtype=case.values.dtype, fill_value=0, overwrite=True,
    )  # fmt: skip
    values = case.values.copy()
    if case.filled:
        values[tuple(slice(0, n) for n in case.shards or case.chunks)] = 0
    made[...] = values
    return folder / "a", values


def answer(case: Case, values: np.ndarray) -> np.ndarray:
    """Return what should come of it, output by output, group by group."""

    def along(array: Any, axes: Sequence[int]) -> np.ndarray:
        """Return what an array has of each selected element."""
        at = [1] * values.ndim
        for n, size in zip(axes, np.shape(array), strict=True):
            at[n] = size
        return selected(np.broadcast_to(np.reshape(array, at), values.shape), case.selection)

    every = range(values.ndim)
    chosen = along(values, every)
    there = np.ones(chosen.shape, bool) if case.mask is None else along(case.mask, every)
    if "where" in case.options:
        there = there & (chosen > 10)
    if case.options.get("skipna"):
        there = there & ~np.isnan(chosen)
    weights = None if case.weights is None else along(case.weights, every)
    marks = [along(label, axes) for axes, label in case.labels]
    found = [_groups(mark) for mark in marks]  # those that are selected
    kept = [n for n in every if n not in case.axis]
    groups = tuple(len(one) for one in found)
    out = np.empty([*(chosen.shape[n] for n in kept), *groups], object)
    for place in np.ndindex(*(chosen.shape[n] for n in kept)):
        where: list[Any] = [slice(None)] * values.ndim
        for n, at in zip(kept, place, strict=True):
            where[n] = at
        own = tuple(where)
        for combination in np.ndindex(*groups):
            is_in = there[own]
            for mark, labels, number in zip(marks, found, combination, strict=True):
                is_in = is_in & (mark[own] == labels[number])
            by = None if weights is None else weights[own][is_in]
            out[(*place, *combination)] = _one(case, chosen[own][is_in], by)
    first = min((n for axes, _ in case.labels for n in axes), default=0)
    before = sum(n < first for n in kept)
    return np.moveaxis(out, range(len(kept), out.ndim), range(before, before + len(groups)))


def _groups(labels: np.ndarray) -> list[Any]:
    """Return the labels that there are, in order, but for missing ones."""
    flat = labels.reshape(-1)
    if flat.dtype.kind in "fM":
        flat = flat[~np.isnat(flat)] if flat.dtype.kind == "M" else flat[~np.isnan(flat)]
    elif flat.dtype.kind == "i":
        flat = flat[flat >= 0]
    return list(np.unique(flat))


def _one(case: Case, values: np.ndarray, weights: np.ndarray | None) -> Any:
    """Return the result of some elements."""
    op, kind = case.op, values.dtype
    if len(values) < case.options.get("min_count", 0) and op not in ALWAYS[1:]:
        return math.nan
    if op == "count":
        return len(values)
    if op in ("any", "all", "count_nonzero"):
        return getattr(np, op)(values)
    if weights is not None:
        return _weighed(op, values, weights)
    if op == "sum" and kind.kind in "iu":
        return int(values.sum(dtype=object)) if len(values) else 0
    if op in EXACT:
        numbers = [float(x) for x in values]
        dtype = str(kind) if kind.kind == "f" else "float64"
        return expected(op, numbers, dtype, case.options.get("ddof", 0))
    if not len(values):
        return math.nan
    with np.errstate(invalid="ignore"):
        if op == "median":
            return kind.type(_middle(np.sort(values.astype("f8")).tolist()))
        return getattr(np, op)(values)


def _middle(ordered: Sequence[float]) -> float:
    """Return the mean of the two elements in the middle, rounded once to float64."""
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    if math.isnan(ordered[-1]):
        return math.nan
    if math.isfinite(low) and math.isfinite(high):
        return float((Fraction(low) + Fraction(high)) / 2)
    return low / 2 + high / 2


def _weighed(op: str, values: np.ndarray, weights: np.ndarray) -> Any:
    """Return a weighted sum or mean."""
    dtype = np.result_type(values, weights)
    dtype = dtype if dtype.kind == "f" else np.dtype("f8")
    if np.isnan(values.astype("f8")).any():
        return math.nan
    total = sum((Fraction(float(w)) for w in weights), Fraction())
    products = (
        Fraction(float(x)) * Fraction(float(w)) for x, w in zip(values, weights, strict=True)
    )
    whole = sum(products, Fraction())
    if op == "mean":
        return nearest(whole / total, str(dtype)) if total else math.nan
    return nearest(whole, str(dtype))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("random")


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "LEAF_BYTES", 64)
    monkeypatch.setattr(preaggregation, "LEAST_WEIGHED", 2)
    monkeypatch.setattr(preaggregation, "LEAST_GROUPED", 2)
    monkeypatch.setattr(preaggregation, "LEAST_OF_LEAF", 1)


@pytest.mark.short
@pytest.mark.timeout(max(300, 5 * CASES))
@settings(max_examples=CASES)
@given(case=cases())
def test_any_reduction_is_as_python_has_it(case: Case, folder: Path):
    path, values = stored(case, folder)
    want = answer(case, values)
    if not want.size or not selected(values, case.selection).size:
        return
    found = np.asarray(cf.reduce(path, case.op, **case.asked()))
    assert found.shape == want.shape
    for place in np.ndindex(*want.shape):
        same = found[place] == want[place] or (
            found[place] != found[place] and want[place] != want[place]
        )
        assert same, (place, found[place], want[place])


@pytest.mark.parametrize("rule", [*PlanRule, "all"])
@pytest.mark.timeout(max(300, 5 * CASES))
@settings(max_examples=max(1, CASES // 4))
@given(case=cases())
def test_no_rule_changes_a_bit(case: Case, folder: Path, rule: str):
    path, values = stored(case, folder)
    if not selected(values, case.selection).size or not answer(case, values).size:
        return
    found = np.asarray(cf.reduce(path, case.op, **case.asked()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(rules.VARIABLE, str(rule))
        without = np.asarray(cf.reduce(path, case.op, **case.asked()))
    assert (found.dtype, found.shape) == (without.dtype, without.shape)
    assert found.tobytes() == without.tobytes()
