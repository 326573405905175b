"""Histograms: NumPy's counts for every dtype, edge and layout; tables combine like any partial."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkfold.kernels import (
    Combiner,
    DeviceContext,
    DeviceError,
    Fold,
    Monoid,
    MonoidError,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.accumulator.partial import zero_partial
from chunkfold.kernels.catalogue.histograms import bin_number, histogram
from chunkfold.kernels.expressions.library import lookup
from chunkfold.kernels.program.device_context import program_source
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.tuning.variant import tiers
from tests.conftest import SHAPES, tried
from tests.kernels.catalogue.test_quantiles import DTYPES, elements
from tests.kernels.fold.test_fold import LENGTHS, PLAIN, folded, upload, values

pytestmark = pytest.mark.unoptimised

EDGES = st.lists(
    st.one_of(st.integers(-300, 300), st.floats(-1e3, 1e3), st.sampled_from([math.inf, -math.inf])),
    min_size=2,
    max_size=40,
    unique=True,
).map(sorted)
_ran: dict[str, set[bool]] = {}
"""Whether each device counted in local memory, in global memory."""


def chosen(opened: DeviceContext, *monoids: Monoid, dtype: str = "f4") -> tuple:
    bound = bind(list(monoids), [np.dtype(dtype)])
    return bound, choose(opened.device, bound.accumulator, kernels=("flat",))


def counted(opened: DeviceContext, array: np.ndarray, edges: list) -> np.ndarray:
    bound = bind([histogram(edges)], [array.dtype])
    # Untried: a trial of each of so many edges would take minutes.
    tuning = next(iter(tiers(opened.device, bound.accumulator)))[0]
    return folded(opened, bound, tuning, array, box(array.shape, (0,)))["histogram"]["count"][0]


def exact(array: np.ndarray, edges: list) -> list[int]:
    """Compare Python's numbers, which are exact; NumPy rounds integers to float64 first."""
    bins = list(itertools.pairwise(edges))
    items = array.tolist()
    return [
        sum(a <= x < b or (n == len(bins) - 1 and x == b) for x in items)
        for n, (a, b) in enumerate(bins)
    ]


@pytest.mark.parametrize("dtype", PLAIN)
def test_bins_hold_what_their_edges_say(opened: DeviceContext, dtype: str):
    samples = values(dtype, 300, 5)
    if samples.dtype.kind in "iu":
        samples[::2] = samples[::2] % 100  # not all of them beyond every edge
    if samples.dtype.kind == "f":
        samples[:8] = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-30, -1e-30, 5]
    edges = [-50, -1.5, -0.0, 0.1, 3, 5, 64.25]
    limits = np.iinfo(dtype) if samples.dtype.kind in "iu" else np.finfo("f4")
    wide = [float(limits.min) * 4 - 1.5, 0, 10, int(limits.max) - 3, int(limits.max) * 4]
    for given_edges in (edges, wide, [-1e300, 7, math.inf], list(range(0, 100, 5))):
        got = counted(opened, samples, given_edges)
        assert got.dtype == np.int64
        assert got.tolist() == exact(samples, given_edges), given_edges


def test_random_edges_count_as_numpy_does(opened: DeviceContext):
    seen = values("f4", 2000, 3)

    @settings(max_examples=10)
    @given(EDGES)
    @example([-math.inf, math.inf])
    @example(np.linspace(-2, 3, 101).tolist())
    def check(edges: list) -> None:
        array = np.concatenate([seen, np.array(edges, "f4")])
        assert counted(opened, array, edges).tolist() == np.histogram(array, edges)[0].tolist()

    check()


@pytest.mark.short
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_kernel_counts(opened: DeviceContext, shape: str):
    monoids = [histogram(range(-40, 41)), as_monoid("mean"), as_monoid("max")]
    bound = bind(monoids, [np.dtype("int32")])
    tuning = tried(opened.device, bound.accumulator, shape, kernels=("flat",))
    if tuning is None:
        return  # a device without it: SHAPES are counted in test_fold

    @settings(max_examples=12)
    @given(LENGTHS.filter(bool), st.integers(0, 2**32), st.booleans())
    @example(1, 0, True)
    @example(1, 0, False)
    def check(count: int, seed: int, local: bool) -> None:
        array = np.random.default_rng(seed).integers(-50, 50, count, "i4")
        used = replace(tuning, local_tables=local)
        cut = count // 3
        parts = [box((cut,), (0,)), box((count - cut,), (0,), offset=cut)]
        got = folded(opened, bound, used, array, *parts)
        assert (
            got["histogram"]["count"][0].tolist() == np.histogram(array, range(-40, 41))[0].tolist()
        )
        assert got["max"][0] == array.max()
        _ran.setdefault(opened.device.spec, set()).add(local)

    check()


def test_counters_were_tried_in_local_and_in_global_memory(opened: DeviceContext):
    assert _ran[opened.device.spec] == {True, False}


def along(
    opened: DeviceContext, tuning: Tuning, array: np.ndarray, axes: tuple[int, ...], bound
) -> np.ndarray:
    outputs = math.prod(n for axis, n in enumerate(array.shape) if axis not in axes)
    result = folded(opened, bound, tuning, array, box(array.shape, axes), outputs=outputs)
    return result["histogram"]["count"]


@pytest.mark.parametrize("shape", ["tree", "tree-64", "vectors"])
def test_each_output_along_axes_has_a_table_of_its_own(opened: DeviceContext, shape: str):
    edges = [-3, -1, 0, 2, 9]
    bound = bind([histogram(edges)], [np.dtype("int16")])
    tuning = tried(opened.device, bound.accumulator, shape)
    if tuning is None:
        return  # its compiler crashes on it

    @settings(max_examples=12)
    @given(
        st.lists(st.integers(1, 40), min_size=2, max_size=3),
        st.sets(st.integers(0, 2), min_size=1),
        st.integers(0, 2**32),
    )
    @example([300, 3], {0}, 0)
    @example([3, 300], {1}, 0)
    def check(extents: list[int], axes: set[int], seed: int) -> None:
        reduced = tuple(sorted(axis for axis in axes if axis < len(extents)))
        array = np.random.default_rng(seed).integers(-5, 12, extents, "i2")
        got = along(opened, tuning, array, reduced, bound)
        kept = [axis for axis in range(array.ndim) if axis not in reduced]
        rows = array.transpose(*kept, *reduced).reshape(got.shape[0], -1)
        assert got.tolist() == [np.histogram(row, edges)[0].tolist() for row in rows]

    check()


def test_tables_combine_and_nothing_is_their_zero(opened: DeviceContext):
    bound, tuning = chosen(opened, histogram([0, 1, 2, 3]), as_monoid("sum"), dtype="f8")
    array = values("f8", 900, 1)
    fold = Fold(opened, bound.accumulator, tuning)
    parts = []
    for piece in np.split(array, 3):
        fold.add([upload(opened, piece)], box(piece.shape, (0,)))
        parts.append(fold.read_back())
    nothing = zero_partial(bound.accumulator, 1)
    whole = Combiner(opened, bound.accumulator, tuning).combine([*parts, nothing])
    (got,) = bound.statistics[0].finish(whole)
    assert got.tolist() == [
        (n, n + 1, count) for n, count in enumerate(np.histogram(array, [0, 1, 2, 3])[0].tolist())
    ]
    assert fold.read_back().arrays["c0_counts"].tolist() == [[0, 0, 0]]


def test_a_buffer_that_comes_again_is_counted_from_zero_each_time(opened: DeviceContext):
    bound, tuning = chosen(opened, histogram([-50, 0, 50]))
    array = values("f4", 500, 3)
    fold, buffer = Fold(opened, bound.accumulator, tuning), upload(opened, array)
    counts, _ = np.histogram(array, [-50, 0, 50])
    for times in (1, 1, 1, 3, 3, 1):
        for _ in range(times):
            fold.add([buffer], box(array.shape, (0,)))
        (got,) = bound.statistics[0].finish(fold.read_back())
        assert got["count"].tolist() == (times * counts).tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "bool"])
def test_bins_without_edges_hold_every_number(opened: DeviceContext, dtype: str):
    array = values(dtype, 5000, 9)
    if array.dtype.kind == "f":
        array[:10] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-45, 3, -0.75, 65504]
    if dtype == "float64":
        array[10:14] = [1e300, -1e300, 5e-324, np.finfo("f4").max]
    bound, tuning = chosen(opened, histogram(), dtype=dtype)
    (bins,) = folded(opened, bound, tuning, array, box(array.shape, (0,)))["histogram"]
    assert bins["count"].sum() == np.count_nonzero(array == array)
    assert bins[["left", "right"]].tolist() == sorted(bins[["left", "right"]].tolist())
    items = array.tolist()
    for left, right, count in bins.tolist():
        if left == right:
            want = sum(x == left for x in items)
        elif left < 0 < right:
            want = sum(left < x < right for x in items)
        elif left > 0:
            want = sum(left <= x < right for x in items)
        else:
            want = sum(left < x <= right for x in items)
        assert count == want, (left, right)
        # A sixteenth of a power of two, but for the ends.
        if left >= 2.0**-126 and right < math.inf:
            assert (right - left) / 2.0 ** math.floor(math.log2(left)) == 1 / 16


def test_bins_of_bfloat16(opened: DeviceContext):
    array = np.array([0.5, 1, 1.5, 2, 3, -1], ml_dtypes.bfloat16)
    assert counted(opened, array, [0, 1, 2]).tolist() == [1, 3]


def test_too_many_bins_are_refused():
    with pytest.raises(MonoidError, match="1,000,000 bins are too many; take at most 999,999"):
        histogram(range(1_000_001))


def test_absent_elements_count_nowhere(opened: DeviceContext):
    array = np.array([1, np.nan, 2, np.nan], "f4")
    bound, tuning = chosen(opened, histogram([0, 9]).skipping())
    got = folded(opened, bound, tuning, array, box((4,), (0,)))["histogram"]
    assert got.tolist() == [[(0, 9, 2)]]


def test_too_many_counters_for_local_memory_are_kept_in_global(opened: DeviceContext):
    edges = np.arange(-8_000, 8_001)
    bound, tuning = chosen(opened, histogram(edges), dtype="i4")
    assert not tuning.local_tables
    array = np.random.default_rng(2).integers(-9_000, 9_000, 100_000, "i4")
    got = folded(opened, bound, tuning, array, box(array.shape, (0,)))["histogram"]["count"][0]
    assert got.tolist() == np.histogram(array, edges)[0].tolist()


def test_more_constants_than_there_is_room_for_is_said_so(opened: DeviceContext):
    small = replace(opened.device, constant_bytes=1000)
    accumulator = bind([histogram(np.geomspace(1, 2, 300))], [np.dtype("f4")]).accumulator
    with pytest.raises(DeviceError, match=r"needs 1,196 bytes of constants, but .* has 1,000"):
        program_source(
            small, "flat.cl", accumulator, choose(opened.device, accumulator, kernels=("flat",))
        )


def test_a_users_table_is_told_its_counter_by_another(opened: DeviceContext):
    names = np.array([9, 8, 7, 6, 5, 4, 3, 2, 1, -1], "i4")
    last_digit = Monoid(
        "digits",
        fields={"counts": "int64[10]"},
        zero=0,
        lift=lambda x: lookup(names, x % 10),
        op="add",
        kinds="iu",
    )
    bound, tuning = chosen(opened, last_digit, dtype="u2")
    array = np.arange(1005, dtype="u2")
    (got,) = folded(opened, bound, tuning, array, box((1005,), (0,)))["digits"]
    assert got.tolist() == [0, *[100] * 4, *[101] * 5]


def test_tables_and_scalars_without_a_finish_are_a_record(opened: DeviceContext):
    parts = {"odd": lambda x: x % 2, "thirds": lambda x: x % 3, "s": lambda x: x}
    fields = {"odd": "int64[2]", "thirds": "int64[3]", "s": "int64"}
    monoid = Monoid("several", fields=fields, zero=dict.fromkeys(parts, 0), lift=parts,
                    op=dict.fromkeys(parts, "add"))  # fmt: skip
    bound, tuning = chosen(opened, monoid, dtype="u1")
    (got,) = folded(opened, bound, tuning, np.arange(7, dtype="u1"), box((7,), (0,)))["several"]
    assert (got["odd"].tolist(), got["thirds"].tolist(), got["s"]) == ([4, 3], [3, 2, 2], 21)


def test_a_table_may_be_told_its_counter_outright(opened: DeviceContext):
    classes = Monoid("classes", fields={"n": "int64[4]"}, zero=0, lift=lambda x: x, op="add")
    bound, tuning = chosen(opened, classes, dtype="i1")
    array = np.array([0, 1, 1, 3, -1, 4, 100], "i1")
    assert folded(opened, bound, tuning, array, box((7,), (0,)))["classes"].tolist() == [
        [1, 2, 0, 1]
    ]


@pytest.mark.parametrize(
    "edges", [[1], [1, 1], [2, 1], [0, math.nan], [[0, 1]], "ab", 5, ["a", 1], [0, 10**400]]
)
def test_what_are_no_edges_is_refused(edges: object):
    with pytest.raises(MonoidError, match="edges of a histogram"):
        histogram(edges)


DIRECT = {
    "fields": {"t": "int64[4]"},
    "zero": 0,
    "lift": lambda x: x,
    "op": "add",
    "kinds": "iu",
}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"op": "max"}, "is a table, whose op must be 'add', not 'max'"),
        ({"op": lambda a, b: a.t + b.t}, "is a table, whose op must be 'add'"),
        ({"zero": 1}, "zero of table 't' of monoid 'm' must be 0, not 1"),
        ({"fields": {"t": "int64[0]"}}, "has dtype 'int64\\[0\\]'"),
        ({"fields": {"t": "float64[4]"}}, "or int64\\[n\\] for a table"),
        (
            {"lift": lambda x: lookup(np.zeros((2, 2)), x)},
            r"a lookup table must have one axis of numbers, not float64 \(2, 2\)",
        ),
        ({"lift": lambda x: lookup([], x)}, r"one axis of numbers, not float64 \(0,\)"),
        (
            {"lift": lambda x: lookup(np.array([1], "u1"), x, -1)},
            r"-1 does not fit uint8 \(0 to 255\)",
        ),
        (
            {"lift": lambda x: lookup([1, 2], 1)},
            r"looked up by a symbol, not by 1: write table\[1\]",
        ),
        ({"lift": lambda x: lookup([1j], x)}, "one axis of numbers, not complex128"),
        ({"lift": lambda x: lookup(["a"], x)}, "one axis of numbers, not <U1"),
        (
            {"kinds": "f", "lift": lambda x: lookup([1, 2], x)},
            "looked up by an integer, not by float64",
        ),
        ({"fields": {"t": "int64[1000000]"}}, "a table of 1 to 999999 counters"),
    ],
)
def test_what_is_no_table_is_refused(parts: dict, message: str):
    with pytest.raises(MonoidError, match=message):
        Monoid("m", **DIRECT | parts)


def wanted_bins(x: np.ndarray, edges: np.ndarray, *, right: bool) -> np.ndarray:
    """Return the number of each element's interval, by comparisons of Python's numbers."""
    behind = [[(e < one) if right else (e <= one) for e in edges.tolist()] for one in x.tolist()]
    numbers = np.array([sum(row) - 1 for row in behind])
    return np.where(numbers >= len(edges) - 1, -1, numbers)


@given(st.data())
def test_ends_are_compared_exactly(data: st.DataObject):
    x = elements(data.draw(st.sampled_from(DTYPES)), (60,), data.draw(st.integers(0, 9)))
    some = data.draw(st.lists(st.sampled_from(x[np.isfinite(x)].tolist()), max_size=4))
    more = data.draw(st.lists(st.floats(-1e20, 1e20) | st.integers(-300, 300), min_size=2))
    edges = np.unique(np.array([*some, *more], np.float64))
    if len(edges) > 1:
        right = data.draw(st.booleans())
        got = bin_number(edges, right=right).evaluate(x[None], axis=0)
        np.testing.assert_array_equal(got, wanted_bins(x, edges, right=right))
        assert got.dtype == np.int32


@pytest.mark.parametrize("right", [False, True])
def test_whole_edges_are_exact_where_floats_are_not(right: bool):
    x = np.array([2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
    edges = np.array([-(2**63), 2**53, 2**53 + 1, 2**63 - 1])
    got = bin_number(edges, right=right).evaluate(x[None], axis=0)
    np.testing.assert_array_equal(got, wanted_bins(x, edges, right=right))


def test_edges_beyond_what_other_dtypes_hold_are_those_of_unsigned_integers():
    x = np.array([0, 2**63, 2**64 - 1], "u8")
    got = bin_number(np.array([1e18, 1e19, 2e19]), right=False).evaluate(x[None], axis=0)
    assert got.tolist() == [-1, 0, 1]


def test_what_is_missing_is_in_none():
    x = np.array([np.nan, np.inf, -np.inf, 1], "f4")
    everything = bin_number(np.array([-np.inf, 0, np.inf]), right=False)
    assert everything.evaluate(x[None], axis=0).tolist() == [-1, -1, 0, 1]
    days = np.array(["NaT", "2001-01-01", "2001-03-01"], "M8[s]")
    one = bin_number(np.array(["2001-01-01", "2001-02-01"], "M8[D]"), right=False)
    assert one.evaluate(days[None], axis=0).tolist() == [-1, 0, -1]


def test_edges_that_the_unit_does_not_hold_are_refused():
    edges = np.array(["2001-01-01T00:00:00.5", "2001-02-01"], "M8[ms]")
    with pytest.raises(
        MonoidError, match=r"an edge 2001-01-01T00:00:00.500, which datetime64\[s\]"
    ):
        bin_number(edges, right=False).evaluate(np.zeros(3, "M8[s]"))
