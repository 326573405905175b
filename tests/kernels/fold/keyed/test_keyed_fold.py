"""Folds by key give what NumPy says of each group by itself, by every route, on every device."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import (
    Accumulator,
    Device,
    DeviceContext,
    DeviceError,
    KeyedFold,
    Monoid,
    MonoidError,
    Tuning,
    as_monoid,
    bind,
    histogram,
    keyed_box,
)
from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.accumulator.sums import any_lost
from chunkfold.kernels.fold.keyed import keyed_plan as plan_module
from chunkfold.kernels.fold.keyed import shared_tables as tables_module
from chunkfold.kernels.fold.keyed.keyed_plan import LocalTables
from tests.conftest import shaped
from tests.exactly import expected as nearest
from tests.kernels.catalogue.test_exact_sums import KINDS, rows_of
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised

_opened = functools.cache(DeviceContext)
_expected: dict[object, np.ndarray] = {}
ROUTES = ("local", "one window", "several tables", "global", "private")
OPS = ("sum", "mean", "std", "norm2", "count")
OTHERS = ("min", "max", "argmax", "count_nonzero", "any")


def route(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all sums take one of the routes that device, labels and outputs choose between."""
    forced = {"one window": (1, None), "several tables": (1, 3), "global": (0, None)}
    if name in forced:
        digits, some = forced[name]

        def tables(_: Device, tuning: Tuning, __: object, keys: int) -> LocalTables:
            together = some and tuning.sharing > 1
            return LocalTables(digits, some if together else keys)

        monkeypatch.setattr(tables_module, "local_tables", tables)
    if name == "private":
        monkeypatch.setattr(plan_module, "MOST_OUTPUTS", 0)


def folded(
    opened: DeviceContext,
    ops: Sequence[str | Monoid],
    array: np.ndarray,
    labels: np.ndarray,
    groups: int,
    axes: tuple[int, ...],
    along: tuple[int, ...],
    shape: str = "tree",
    pieces: int = 1,
    *,
    told: bool = False,
    exact: bool = True,
) -> dict[str, np.ndarray]:
    """Fold an array by labels that have some of its axes; results are (groups, kept axes).

    `told`: the fold knows keys on the host, too.
    """
    monoids = [as_monoid(op) if isinstance(op, str) else op for op in ops]
    bound = bind(monoids, [array.dtype], exact=exact, keyed=True)
    kept = [n for axis, n in enumerate(array.shape) if axis not in axes]
    outputs = math.prod(kept)
    accumulator = bound.accumulator.for_outputs(max(2, groups * outputs))

    def once(accumulator: Accumulator) -> Partial:
        tuning = shaped(opened.device, accumulator, shape)
        assert tuning is not None
        fold = KeyedFold(opened, accumulator, tuning, groups, outputs)
        # Pieces of the first axis, as chunks are.
        step = -(-array.shape[0] // pieces)
        for at in range(0, array.shape[0], step):
            part = array[at : at + step]
            own = labels[at : at + step] if 0 in along else labels
            layout = keyed_box(
                part.shape, axes, along, index=at * math.prod(array.shape[1:]),
                index_strides=[s // array.itemsize for s in array.strides],
            )  # fmt: skip
            codes = np.ascontiguousarray(own) if told else None
            fold.add([upload(opened, part)], upload(opened, own), layout, codes=codes)
        return fold.read_back()

    partial = once(accumulator)
    if any_lost(accumulator, partial).any():
        partial = once(accumulator.with_limbs())
    done = {s.name: s.finish(partial, array.shape, axes) for s in bound.statistics}
    return {name: each.reshape(groups, *kept, *each.shape[1:]) for name, each in done.items()}


def expected(
    op: str | Monoid,
    array: np.ndarray,
    labels: np.ndarray,
    groups: int,
    axes: tuple[int, ...],
    along: tuple[int, ...],
) -> np.ndarray:
    """Evaluate an op on each group of each output by itself, once for all routes and devices."""
    if isinstance(op, Monoid):
        return _evaluated(op, array, labels, groups, axes, along)
    given = (array.tobytes(), array.shape, array.dtype.str, labels.tobytes(), labels.shape)
    key = (op, *given, groups, axes, along)
    if key not in _expected:
        _expected[key] = _evaluated(as_monoid(op), array, labels, groups, axes, along)
    return _expected[key]


def _evaluated(
    monoid: Monoid,
    array: np.ndarray,
    labels: np.ndarray,
    groups: int,
    axes: tuple[int, ...],
    along: tuple[int, ...],
) -> np.ndarray:
    shape = tuple(n if axis in along else 1 for axis, n in enumerate(array.shape))
    everywhere = np.broadcast_to(labels.reshape(shape), array.shape)
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    order = (*kept, *axes)
    rows = array.transpose(order).reshape(math.prod(array.shape[a] for a in kept), -1)
    keys = everywhere.transpose(order).reshape(rows.shape)
    done = [
        [monoid.evaluate(row[key == group]) for row, key in zip(rows, keys, strict=True)]
        for group in range(groups)
    ]
    return np.array(done).reshape(groups, *(array.shape[a] for a in kept))


def assert_same(got: np.ndarray, want: np.ndarray, what: object) -> None:
    assert got.dtype == want.dtype, what
    raw = f"u{got.dtype.itemsize}" if got.dtype.kind == "f" else got.dtype
    alike = (got.view(raw) == want.view(raw)) | ((got != got) & (want != want))
    assert alike.all(), (what, got[~alike][:3], want[~alike][:3])


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_exact_sums_of_hard_numbers_are_the_nearest_float(
    opened: DeviceContext, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
):
    route(name, monkeypatch)
    for kind in KINDS:
        array = rows_of(kind, dtype, 7, rows=40)
        labels = np.random.default_rng(1).integers(-2, 9, array.shape).astype(np.int32)
        got = folded(opened, OPS, array, labels, 8, (0, 1), (0, 1))
        for op in OPS:
            want = expected(op, array, labels, 8, (0, 1), (0, 1))
            assert_same(got[op], want, (kind, op))


@pytest.mark.parametrize("shape", ["tree-64", "tree-stride"])
@pytest.mark.parametrize("name", ["local", "several tables", "global"])
def test_work_items_share_tables(
    opened: DeviceContext, monkeypatch: pytest.MonkeyPatch, name: str, shape: str
):
    route(name, monkeypatch)
    array = np.concatenate([rows_of(kind, "float32", 3, rows=60) for kind in ("plain", "wild")])
    for groups in (1, 3, 40 if name == "several tables" else 300):
        labels = np.random.default_rng(groups).integers(-1, groups, array.shape[1], np.int32)
        got = folded(opened, OPS, array, labels, groups, (0, 1), (1,), shape, pieces=3)
        for op in OPS:
            assert_same(got[op], expected(op, array, labels, groups, (0, 1), (1,)), (groups, op))


@pytest.mark.parametrize("name", ["local", "several tables", "global", "private"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_sums_of_integers_carry(
    opened: DeviceContext, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
):
    """Those of the greatest and the least, and of their squares, need more than 64 bits."""
    route(name, monkeypatch)
    rng = np.random.default_rng(9)
    if dtype == "bool":
        ends, middle = [False, True], rng.integers(0, 2, (4, 500)).astype(bool)
    else:
        info = np.iinfo(dtype)
        ends = [info.min, info.max]
        middle = rng.integers(info.min, info.max, (4, 500), dtype, endpoint=True)
    array = np.concatenate([np.full((3, 500), end, dtype) for end in ends] + [middle])
    labels = rng.integers(-1, 8, array.shape).astype(np.int32)
    ops = [as_monoid(op) for op in ("mean", "std", "norm1", "nanmean")]
    got = folded(opened, ops, array, labels, 8, (0, 1), (0, 1), "tree-64", pieces=2)
    for op in ops:
        assert_same(got[op.name], expected(op, array, labels, 8, (0, 1), (0, 1)), op.name)


AXES = [
    (axes, along)
    for axes in [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]
    for along in [(0,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]
]


@pytest.mark.parametrize("dtype", ["float32", "int16", "int64", "uint8"])
def test_labels_may_have_any_axes_and_any_axes_may_be_reduced(opened: DeviceContext, dtype: str):
    rng = np.random.default_rng(5)
    array = (rng.standard_normal((4, 5, 6)) * 50).astype(dtype)
    ops = ("sum", "mean", *OTHERS)
    told = itertools.cycle(op for op in ops if op not in ("sum", "argmax"))
    for axes, along in AXES[:: 1 if dtype == "float32" else 4]:
        # Each group has elements in each output: integers of none have no maximum.
        labels = np.zeros([array.shape[axis] for axis in along], np.int32)
        if set(along) & set(axes):
            at = np.indices(labels.shape)[next(n for n, axis in enumerate(along) if axis in axes)]
            labels = (at % 2).astype(np.int32)
        groups = int(labels.max()) + 1
        got = folded(opened, ops, array, labels, groups, axes, along)
        for op in ("sum", next(told)):  # one launch folds all of them
            assert_same(
                got[op], expected(op, array, labels, groups, axes, along), (axes, along, op)
            )
        if axes == (0, 1, 2):
            flat = np.broadcast_to(
                labels.reshape([n if axis in along else 1 for axis, n in enumerate(array.shape)]),
                array.shape,
            ).reshape(-1)
            for group, position in enumerate(got["argmax"]):
                own = np.flatnonzero(flat == group)
                assert position == own[array.reshape(-1)[own].argmax()]


@pytest.mark.parametrize("dtype", ["uint32", "uint64", "int32", "int64", "float64"])
def test_one_op_alone_needs_nothing_of_others(opened: DeviceContext, dtype: str):
    """Nor does a compiler lose the complements by which minima are greatest."""
    rng = np.random.default_rng(8)
    array = rng.integers(0, 1 << 30, (6, 50)).astype(dtype)
    labels = rng.permutation(np.arange(50) % 4).astype(np.int32)
    for op in ("min", "max", "count"):
        for axes in ((0, 1), (1,)):
            got = folded(
                opened, [op], array, labels, 4, axes, (1,), pieces=3 if axes == (0, 1) else 1
            )
            assert_same(got[op], expected(op, array, labels, 4, axes, (1,)), (op, axes))


@pytest.mark.parametrize(
    ("dtype", "shape", "along", "labelled"),
    [
        ("float32", (20, 3, 35), (0, 1), "in runs"),
        ("float64", (12, 67), (0,), "in runs"),
        ("float32", (200, 70), (0,), "in runs"),
        ("int16", (12, 2, 40), (0,), "in runs"),
        ("uint64", (9, 33), (0,), "in runs"),
        ("float32", (40, 70), (0,), "in turn"),
        ("float64", (14, 3, 35), (0,), "in turn"),
        ("float32", (30, 70), (0,), "in any order"),
        ("float32", (20, 3, 35), (0, 1), "in any order"),
    ],
)
def test_neighbouring_outputs_of_one_key_are_folded_in_vectors(
    opened: DeviceContext,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    shape: tuple[int, ...],
    along: tuple[int, ...],
    labelled: str,
):
    route("private", monkeypatch)
    rng = np.random.default_rng(6)
    array = (abs(rng.standard_normal(shape)) * 100).astype(dtype)
    extents = [shape[axis] for axis in along]
    labels = rng.integers(0, 3, extents).astype(np.int32)
    if labelled == "in runs":
        labels = np.sort(labels, axis=0)
    if labelled == "in turn":
        labels = np.arange(extents[0], dtype=np.int32) % 3
    labels[0], labels[1], labels[-1] = 0, 1, 2  # each group has elements in each output
    ops = ("sum", "std", "min", "argmax", "count", "count_nonzero")
    for pieces, told in itertools.product((1, 3), (False, True)):
        got = folded(opened, ops, array, labels, 3, (0,), along, pieces=pieces, told=told)
        where = got.pop("argmax")
        for op in got:
            assert_same(got[op], expected(op, array, labels, 3, (0,), along), (op, pieces, told))
        everywhere = labels.reshape(*labels.shape, *[1] * (array.ndim - len(along)))
        for key in range(3):
            own = np.where(everywhere == key, array, array.min())
            np.testing.assert_array_equal(where[key], own.argmax(0))


@pytest.mark.parametrize(
    ("labels", "filled"),
    [
        ([0, 0, -1, 0, 1, 1, 2, 2, 3, 4, 4, 5], 0),  # one run of each
        ([5, 5, 4, 3, 3, -1, 2, 2, 1, 1, 0, 9], 0),
        ([0, 1, 0, 1, 2, 2, 3, 3, 4, 4, 5, 5], 0),  # two keys come again
        ([0, 0, 2, 2, 0, 2, 4, 4, 4, 4, 4, 4], 3),  # and others never do
        ([-1] * 12, 1),
    ],
)
@pytest.mark.parametrize("pieces", [1, 2])
def test_accumulators_are_made_zero_where_nothing_is_stored_first(
    opened: DeviceContext, labels: list[int], filled: int, pieces: int
):
    """Whatever stood in their memory before."""
    keys, shape = 6, (12, 300)
    bound = bind(list(map(as_monoid, OTHERS[:2])), [np.dtype("f4")], keyed=True)
    accumulator = bound.accumulator.for_outputs(keys * shape[1])
    tuning = shaped(opened.device, accumulator, "tree")
    assert tuning is not None
    fold = KeyedFold(opened, accumulator, tuning, keys, shape[1])
    rng = np.random.default_rng(7)
    for each, launches in ((np.arange(12) // 2, 0), (labels, filled)):
        codes = np.array(each, np.int32)
        array = rng.standard_normal(shape).astype(np.float32)
        before = _fills(fold)
        for part, own in zip(np.split(array, pieces), np.split(codes, pieces), strict=True):
            layout = keyed_box(part.shape, (0,), (0,))
            fold.add([upload(opened, part)], upload(opened, own), layout, codes=own)
        done = fold.read_back()
        if pieces == 1 and tuning.strip:  # where work-items do not share outputs
            assert _fills(fold) - before == launches
        for statistic in bound.statistics:
            got = statistic.finish(done).reshape(keys, -1)
            func = getattr(np, statistic.name)
            want = [func(array[codes == key], axis=0, initial=-np.inf if "max" in statistic.name
                         else np.inf) for key in range(keys)]  # fmt: skip
            met = np.isin(np.arange(keys), codes)
            np.testing.assert_array_equal(got[met], np.array(want, np.float32)[met])
            assert np.isnan(got[~met]).all()


def _fills(fold: KeyedFold) -> int:
    times = fold.profile().get(("fill_zero", 0))
    return 0 if times is None else times.launches


@given(
    seed=st.integers(0, 2**32), rows=st.integers(1, 40), columns=st.integers(1, 300),
    groups=st.integers(1, 60), pieces=st.integers(1, 4),
)  # fmt: skip
def test_sums_do_not_depend_on_chunks_or_order(
    device: Device, seed: int, rows: int, columns: int, groups: int, pieces: int
):
    opened = _opened(device)
    rng = np.random.default_rng(seed)
    scale = 2.0 ** rng.integers(-100, 100, (rows, columns))
    array = (rng.standard_normal((rows, columns)) * scale).astype(np.float32)
    labels = rng.integers(-1, groups, (rows, columns)).astype(np.int32)
    whole = folded(opened, ["sum", "var"], array, labels, groups, (0, 1), (0, 1))
    order = rng.permutation(rows)
    moved = folded(
        opened, ["sum", "var"], array[order], labels[order], groups, (0, 1), (0, 1), pieces=pieces
    )
    for op in whole:
        assert whole[op].tobytes() == moved[op].tobytes()
    for group in range(groups):
        own = array[labels == group].astype(float).tolist()
        assert whole["sum"][group] == nearest("sum", own, "float32", ddof=0)


@pytest.mark.parametrize("shape", ["tree", "tree-64", "tree-stride"])
@pytest.mark.parametrize("name", ["local", "several tables", "global", "private"])
@pytest.mark.parametrize("beside", [(), ("nansum", "nanmax")])
@pytest.mark.parametrize("without", [(), ("int64_atomics",)])
def test_absent_elements_and_counters_by_label(
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    shape: str,
    beside: tuple[str, ...],
    without: tuple[str, ...],
):
    route(name, monkeypatch)
    opened = DeviceContext(replace(device, without=frozenset(without)))
    rng = np.random.default_rng(2)
    array = rng.standard_normal((30, 41)).astype(np.float32)
    array[rng.random(array.shape) < 0.2] = np.nan
    edges = [-2, -1, 0, 1, 2]
    for along in ((1,), (0, 1)):
        labels = rng.integers(-1, 7, [array.shape[axis] for axis in along]).astype(np.int32)
        ops = [*map(as_monoid, beside), histogram(edges=edges)]
        got = folded(opened, ops, array, labels, 7, (0, 1), along, shape, pieces=2)
        for op in ops[:-1]:
            assert_same(got[op.name], expected(op, array, labels, 7, (0, 1), along), op.name)
        everywhere = np.broadcast_to(labels, array.shape)
        for group, bins in enumerate(got["histogram"]):
            want, _ = np.histogram(array[everywhere == group], edges)
            assert bins["count"].tolist() == want.tolist()


@pytest.mark.parametrize("shape", ["tree", "tree-64", "tree-stride"])
@pytest.mark.parametrize("name", ["local", "several tables", "global", "private"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool", "datetime64[s]"])
def test_positions_by_label_are_the_first_of_equal_elements(
    opened: DeviceContext, monkeypatch: pytest.MonkeyPatch, name: str, shape: str, dtype: str
):
    route(name, monkeypatch)
    rng = np.random.default_rng(6)
    array = rng.integers(0, 5, (6, 11, 50)).astype(dtype)
    if array.dtype.kind == "f":
        array[rng.random(array.shape) < 0.02] = np.nan
        array[rng.random(array.shape) < 0.1] = -0.0
    for axes, along in (
        ((0, 1, 2), (0, 1, 2)),
        ((0, 1, 2), (2,)),
        ((0, 2), (0,)),
        ((0, 1), (0, 1)),
    ):
        extents = [array.shape[axis] for axis in along]
        labels = (np.arange(math.prod(extents)) * 7 % 5 - 1).reshape(extents).astype(np.int32)
        groups = 4
        got = folded(
            opened, ("argmax", "argmin", "max"), array, labels, groups, axes, along, shape, pieces=2
        )
        assert_same(got["max"], expected("max", array, labels, groups, axes, along), axes)
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        everywhere = np.broadcast_to(
            labels.reshape([n if axis in along else 1 for axis, n in enumerate(array.shape)]),
            array.shape,
        )
        rows, keys = (
            each.transpose(*kept, *axes).reshape(math.prod(array.shape[n] for n in kept), -1)
            for each in (array, everywhere)
        )
        for op in ("argmax", "argmin"):
            found = got[op].reshape(groups, len(rows))
            for (group, output), position in np.ndenumerate(found):
                (own,) = np.nonzero(keys[output] == group)
                assert position == own[getattr(rows[output][own], op)()], (op, axes, along)


@pytest.mark.parametrize("shape", ["tree-64", "tree-stride"])
@pytest.mark.parametrize("name", ["local", "several tables", "global"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_sums_that_may_round_are_exact_where_work_items_share_them(
    opened: DeviceContext, monkeypatch: pytest.MonkeyPatch, name: str, shape: str, dtype: str
):
    route(name, monkeypatch)
    ops = ["sum", "mean", "norm1", "count", "max"]
    for kind in ("plain", "wild", "odd"):
        array = rows_of(kind, dtype, 5, rows=30)
        labels = np.random.default_rng(3).integers(-1, 9, array.shape).astype(np.int32)
        got = folded(opened, ops, array, labels, 9, (0, 1), (0, 1), shape, 2, exact=False)
        for op in ("sum", "mean", "norm1"):
            for group, found in enumerate(got[op]):
                own = array[labels == group].astype(float).tolist()
                want = nearest("sum" if op == "mean" else op, own, "float64", ddof=0)
                with np.errstate(all="ignore"):
                    want = np.divide(want, len(own) if op == "mean" else 1).astype(found.dtype)
                assert want == found or (want != want and found != found), (kind, op)


@pytest.mark.parametrize("shape", ["tree", "tree-64", "tree-stride"])
def test_counters_of_a_label_that_nearly_all_elements_have(opened: DeviceContext, shape: str):
    rng = np.random.default_rng(5)
    array = rng.integers(0, 5, 50_000).astype(np.uint8)
    labels = np.where(rng.random(array.size) < 0.1, np.arange(array.size) % 300, 7)
    labels = labels.astype(np.int32)
    got = folded(opened, ["mode"], array, labels, 300, (0,), (0,), shape)
    assert_same(got["mode"], expected("mode", array, labels, 300, (0,), (0,)), "mode")


def test_sums_that_may_round_need_no_float64(device: Device):
    """Digits of exact sums are made of doubles."""
    lacking = replace(device, without=frozenset({"fp64"}))
    monoids = [as_monoid("sum"), as_monoid("max")]
    bound = bind(monoids, [np.dtype("f4")], exact=False, keyed=True, fp64=lacking.fp64)
    tuning = shaped(lacking, bound.accumulator, "tree-64")
    assert tuning is not None
    opened = DeviceContext(lacking)
    fold = KeyedFold(opened, bound.accumulator.for_outputs(4), tuning, 4)
    array, labels = np.arange(1000, dtype=np.float32), np.arange(1000, dtype=np.int32) % 4
    fold.add([upload(opened, array)], upload(opened, labels), keyed_box((1000,), (0,)))
    partial = fold.read_back()
    for one in bound.statistics:
        want = [getattr(array[labels == group], one.name)() for group in range(4)]
        assert one.finish(partial, (1000,), (0,)).reshape(-1).tolist() == want


def test_devices_without_64_bit_atomics_give_the_same_bits(device: Device):
    array = np.concatenate([rows_of(kind, "float32", 9, rows=20) for kind in KINDS])
    labels = np.random.default_rng(4).integers(-1, 30, array.shape).astype(np.int32)
    ops = ("sum", "var", "max", "count")
    lacking = DeviceContext(replace(device, without=frozenset({"int64_atomics"})))
    for shape in ("tree", "tree-stride"):
        got = folded(lacking, ops, array, labels, 30, (0, 1), (0, 1), shape)
        for op in ops:
            assert_same(got[op], expected(op, array, labels, 30, (0, 1), (0, 1)), op)


def test_many_labels_do_not_fit_local_memory(opened: DeviceContext):
    rng = np.random.default_rng(3)
    groups = 100_000
    array = rng.integers(-1000, 1000, 300_000).astype(np.int32)
    labels = rng.integers(0, groups, array.size).astype(np.int32)
    got = folded(opened, ["sum", "count"], array, labels, groups, (0,), (0,))
    assert got["count"].tolist() == np.bincount(labels, minlength=groups).tolist()
    want = np.bincount(labels, weights=array, minlength=groups).astype(np.int64)
    assert got["sum"].tolist() == want.tolist()


def test_what_is_wrong_is_told(opened: DeviceContext):
    bound = bind([as_monoid("sum")], [np.dtype("f4")], exact=True, keyed=True)
    accumulator = bound.accumulator.for_outputs(3)
    tuning = shaped(opened.device, accumulator, "tree")
    assert tuning is not None
    with pytest.raises(MonoidError, match="0 keys"):
        KeyedFold(opened, accumulator, tuning, 0)
    fold = KeyedFold(opened, accumulator, tuning, 3)
    one = upload(opened, np.ones((2, 2), np.float32))
    keys = upload(opened, np.zeros(2, np.int32))
    with pytest.raises(DeviceError, match="a box of 2 outputs cannot join 1"):
        fold.add([one], keys, keyed_box((2, 2), (1,), (1,)))
    assert fold.add([one], keys, keyed_box((0, 2), (0, 1), (1,))) is None
    (statistic,) = bound.statistics
    assert statistic.finish(fold.read_back()).tolist() == [0, 0, 0]
    integers = bind([as_monoid("sum")], [np.dtype("i4")], exact=True, keyed=True).accumulator
    fold = KeyedFold(opened, integers.for_outputs(3), tuning, 3)
    with pytest.raises(DeviceError, match="2,147,483,648 elements of an output"):
        fold.add([one], keys, keyed_box((1 << 31,), (0,)))


def test_a_group_of_no_elements_has_no_maximum(opened: DeviceContext):
    array, labels = np.arange(4, dtype=np.int32), np.array([0, 0, 2, 2], np.int32)
    with pytest.raises(MonoidError, match="1 of 3 outputs"):
        folded(opened, ["max"], array, labels, 3, (0,), (0,))
    got = folded(opened, ["mean"], array.astype(float), labels, 3, (0,), (0,))
    assert got["mean"][[0, 2]].tolist() == [0.5, 2.5]
    assert math.isnan(got["mean"][1])


def test_every_pair_of_axes_is_tried():
    assert len(AXES) == len(set(AXES)) == len(list(itertools.product(range(7), range(6))))
