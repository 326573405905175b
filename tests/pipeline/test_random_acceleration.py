"""Random expressions of xarray's have the same results under `accelerate` as without.

The suite tries some; `CHUNKFOLD_CASES=500` is for all.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkfold as cf
from tests.accelerated import opened, same, written
from tests.conftest import SHORT

pytestmark = pytest.mark.unoptimised
CASES = int(os.environ.get("CHUNKFOLD_CASES", "25" if SHORT else "60"))
ARRAYS = ("x", "x", "packed", "whole", "double", "truth")
DIMS = ("time", "lat", "lon")
GROUPS = ("time.month", "time.season", "time.year", "zone", "lat")
SKIP = st.sampled_from([None, None, True, False])
TAKEN: Counter[bool] = Counter()
"""The numbers of expressions of which chunkfold computed something, and of the others."""
Step = tuple[str, Callable[[Any], Any]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("random") / "s.zarr")


def some_dims(draw: Any, dims: Sequence[str], least: int = 1) -> list[str]:
    return draw(st.lists(st.sampled_from(dims), min_size=least, unique=True))


def before(draw: Any) -> Step:
    """Draw a step before a reduction: a selection, other axes or chunks, a cast, arithmetic."""
    kind = draw(
        st.sampled_from(["", "", "isel", "point", "list", "turn", "chunk", "cast", "minus"])
    )
    start, step = draw(st.integers(0, 2)), draw(st.integers(1, 2))
    size = draw(st.integers(2, 30))
    turned = draw(st.permutations(DIMS))
    steps: dict[str, Callable[[Any], Any]] = {
        "": lambda a: a,
        "isel": lambda a: a.isel(time=slice(start, 50, step), lat=slice(start, None)),
        "point": lambda a: a.isel(lon=start),
        "list": lambda a: a.isel(time=[9, 3, 3 + start, 40]),
        "turn": lambda a: a.transpose(*turned),
        "chunk": lambda a: a.chunk(time=size, lat=-1),
        "cast": lambda a: a.astype("f8"),
        "minus": lambda a: a - 1,
    }
    return f"{kind} {start}:{step} {size}", steps[kind]


def computed(draw: Any, name: str) -> tuple[str, Callable[[Any, xr.Dataset], Any]]:
    """Draw what is computed of elements before, also of those of another array."""
    kinds = ["", "times", "above"] if name == "truth" else [
        "", "times", "above", "from", "square", "over", "some", "other", "filled", "cast", "two"
    ]  # fmt: skip
    kind, number = draw(st.sampled_from(kinds)), draw(st.sampled_from([2, 0.3, -1.5]))
    beside = draw(st.sampled_from(["x", "packed", "double", "whole"]))

    def with_other(a: Any, ds: xr.Dataset) -> Any:
        other = ds[beside]
        return other if a.shape == other.shape and a.dims == other.dims else a

    steps: dict[str, Callable[[Any, xr.Dataset], Any]] = {
        "": lambda a, ds: a,
        "times": lambda a, ds: a * number,
        "above": lambda a, ds: (a > number / 2).astype("i4"),
        "from": lambda a, ds: number - abs(a),
        "square": lambda a, ds: a**2,
        "over": lambda a, ds: a / number,
        "some": lambda a, ds: a.where(a > number / 2),
        "other": lambda a, ds: a.where(with_other(a, ds) <= 0.25, number),
        "filled": lambda a, ds: a.fillna(number),
        "cast": lambda a, ds: a.astype("f4") + np.float32(number),
        "two": lambda a, ds: a * with_other(a, ds) + number,
    }
    return f"{kind} {number} {beside}", steps[kind]


def reduced(draw: Any, name: str) -> Step:
    """A reduction over some axes, or by groups, windows, spans."""
    kind = draw(st.sampled_from(["plain"] * 4 + ["groups", "groups", "windows", "spans", "order"]))
    ops = ["sum", "mean", "min", "max", "count", "var", "std"]
    op = draw(st.sampled_from([*ops, "any", "all", "argmin"] if kind == "plain" else ops))
    dims, by = some_dims(draw, DIMS), draw(st.sampled_from(GROUPS))
    given: dict[str, Any] = {} if op in ("count", "any", "all") else {"skipna": draw(SKIP)}
    if op in ("var", "std"):
        given["ddof"] = draw(st.integers(0, 1))
    if name == "truth":
        op, given = draw(st.sampled_from(["any", "all", "sum"])), {}
    window, share = draw(st.integers(2, 4)), draw(st.sampled_from([0.5, [0.1, 0.9]]))
    dim = dims[0]
    along: Any = dim if op == "argmin" else dims
    method = draw(st.sampled_from([None, "cohorts", "map-reduce"]))

    def groups(a: Any) -> Any:
        return getattr(a.groupby(by), op)(**given, **({"method": method} if method else {}))

    def order(a: Any) -> Any:
        whole = a.chunk({dim: -1})
        if op in ("min", "max"):
            return whole.median(dim, skipna=given["skipna"])
        return whole.quantile(share, dim, skipna=given.get("skipna"))

    steps: dict[str, Callable[[Any], Any]] = {
        "plain": lambda a: getattr(a, op)(along, **given),
        "groups": groups,
        "windows": lambda a: getattr(a.coarsen({dim: window}, boundary="trim"), op)(**given),
        "spans": lambda a: getattr(a.resample(time="1MS"), op)(**given),
        "order": order,
    }
    told = f"{kind} {op} {dims} {by} {given} {window} {share} {method}"
    return told, steps[kind]


def after(draw: Any) -> Step:
    """Draw a step after it: none, arithmetic, a part of it, another reduction."""
    kind = draw(st.sampled_from(["", "", "plus", "part", "sum"]))
    steps: dict[str, Callable[[Any], Any]] = {
        "": lambda a: a,
        "plus": lambda a: a + a.sum(),
        "part": lambda a: a.isel({dim: slice(0, 1) for dim in a.dims[:1]}),
        "sum": lambda a: a.sum(),
    }
    return kind, steps[kind]


@st.composite
def expressions(draw: Any) -> tuple[str, Callable[[xr.Dataset], Any]]:
    name = draw(st.sampled_from(ARRAYS))
    first, reducing, last = before(draw), reduced(draw, name), after(draw)
    made_of, compute = computed(draw, name)

    def made(ds: xr.Dataset) -> Any:
        return last[1](reducing[1](compute(first[1](ds[name]), ds)))

    return " | ".join([name, first[0], made_of, reducing[0], last[0]]), made


def lazily(make: Callable[[xr.Dataset], Any], ds: xr.Dataset) -> Any:
    """Return an expression that xarray makes; None of one that it refuses."""
    try:
        return make(ds)
    except (ValueError, TypeError, KeyError, NotImplementedError, AttributeError):
        return None


@pytest.mark.short
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), deadline=None)
@given(expression=expressions())
def test_random_expressions_have_the_same_results(
    store: Path, expression: tuple[str, Callable[[xr.Dataset], Any]]
):
    told, make = expression
    with warnings.catch_warnings(), dask.config.set({"chunkfold.accelerate.least-bytes": 1}):
        warnings.simplefilter("ignore")
        ds = opened(store)
        lazy = lazily(make, ds)
        if lazy is None or lazy.chunks is None:
            return
        want: Any
        try:
            want = lazy.compute()
        except ValueError as error:
            want = error
        lines: list[str] = []
        with cf.accelerate(verbose=lines.append):
            if isinstance(want, ValueError):
                with pytest.raises(type(want)):
                    lazy.compute()
                return
            got = lazy.compute()
    TAKEN[any("computed here" in line for line in lines)] += 1
    name, _, computing, *_ = told.split(" | ")
    narrow = "f4" in ds[name].dtype.str or computing.startswith("cast")
    same(want, got, of="f4" if narrow else "f8")


def test_most_of_them_are_computed_here():
    assert TAKEN[True] > TAKEN[False]
