"""Declarations: what is accepted, what is refused, and the whole joint on every device."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from chunkfold.kernels import (
    Accumulate,
    BuildError,
    Combiner,
    Fold,
    Monoid,
    MonoidError,
    OpenedDevice,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.variant import tiers
from tests.conftest import some
from tests.kernels.test_fold import folded, upload

pytestmark = pytest.mark.unoptimised


def test_one_field_may_be_given_bare():
    bare = Monoid("s", fields={"v": "int64"}, zero=0, lift="x", op="add")
    assert dict(bare.zero) == {"v": 0}
    assert dict(bare.op) == {"v": "add"}


_STEPS = ({"t": "int64"}, {"t": 0}, {"t": "s.t + x"})
_OF_FIRST = ({"t": "int64", "u": "int64"}, {"t": 0, "u": 0}, {"t": "s.u"}, {"s": "s.t"})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"name": "a-b"}, "identifier"),
        ({"inputs": 0}, "0 inputs"),
        ({"fields": {}}, "no fields"),
        ({"fields": {"s": "int8"}}, "'int8'"),
        ({"fields": {"a": "int32", "b": "int32"}}, "2 fields"),
        ({"zero": {"t": 0}}, r"names \['t'\], but should name \['s'\]"),
        ({"lift": "x) + (1"}, "unbalanced"),
        ({"lift": "x }"}, "unbalanced"),
        ({"lift": ""}, "is no text"),
        ({"lift": 5}, "is no text"),
        ({"lift": "x + \u0131"}, "beyond ASCII"),
        ({"zero": None}, "is None; give a number"),
        ({"zero": 1j}, "give a number"),
        ({"zero": True}, "give a number"),
        ({"name": 5}, "identifier"),
        ({"inputs": "a"}, "'a' inputs"),
        ({"on_empty": "foo"}, "use 'finish' or 'error'"),
        ({"fields": ["s"]}, "no fields"),
        ({"accumulate": 5}, "no cf.Accumulate"),
        ({"lift": "1\n#include </etc/passwd>\n"}, "'#'"),
        ({"op": "a.s + b.s // tail"}, "'//'"),
        ({"op": "a.s \\\n + b.s"}, "not allowed"),
        ({"fields": {"s": "count"}}, "'s' of monoid 's' is a count, whose zero is 0"),
        (
            {
                "fields": {"s": "int64", "n": "count"},
                "zero": {"s": 0, "n": 0},
                "lift": {"s": "x", "n": "1"},
                "op": {"s": "a.s + b.s + 0 * b.n", "n": "add"},
            },
            r"op\['s'\] of monoid 's' reads the count 'n'",
        ),
        ({"accumulate": Accumulate({"t": "int64"}, {}, "s.t += x;", {"s": "s.t"})}, "start"),
        ({"accumulate": Accumulate({"t": "int64"}, {"t": 0}, "%:define x", {"s": "s.t"})}, "%:"),
        (
            {"accumulate": Accumulate(*_STEPS, {"s": "s.t"}, first={"u": "x"})},
            r"first of monoid 's' names \['u'\], but the state has t",
        ),
        (
            {
                "accumulate": Accumulate(
                    {"t": "int64"}, {"t": 0}, {"t": "x"}, {"s": "s.t"}, first={"t": "x"}
                )
            },
            r"step of monoid 's' names \['t'\], but should name \[\]",
        ),
        (
            {"accumulate": Accumulate(*_OF_FIRST, first={"u": "s.t + 1"})},
            r"first\['u'\] of monoid 's' is 's.t \+ 1', which reads the state",
        ),
        (
            {"accumulate": Accumulate(*_OF_FIRST, first={"u": "x"}, carry={"t": "s.t + s.u"})},
            r"carry\['t'\] of monoid 's' has to do with \['u'\], which a first element sets",
        ),
        (
            {"accumulate": Accumulate(*_STEPS, {"s": "s.t"}, carry={"u": "0"})},
            r"carry of monoid 's' names \['u'\], but the state has t",
        ),
        (
            {"accumulate": Accumulate(*_STEPS, {"s": "s.t"}, carry={"t": "0 # 1"})},
            "accumulate.carry.*'#'",
        ),
        ({"accumulate": Accumulate(*_STEPS, {"s": "s.t"}, carry=["t"])}, "give a mapping of state"),
        (
            {"accumulate": Accumulate(*_STEPS, {"s": "s.t"}, join={"u": "0"})},
            r"accumulate.join of monoid 's' names \['u'\], but should name \['t'\]",
        ),
        (
            {"accumulate": Accumulate(*_STEPS, {"s": "s.t"}, join={"t": "a.t # 1"})},
            "accumulate.join.*'#'",
        ),
        ({"accumulate": Accumulate(*_STEPS, {"s": "s.t"}, join=["t"])}, "give a mapping of state"),
        (
            {"accumulate": Accumulate(*_STEPS, {"s": "s.t"}, join_alike={"t": "a.t + b.t"})},
            "join_alike of monoid 's' joins what one first element began.*give accumulate.join",
        ),
        (
            {
                "accumulate": Accumulate(
                    *_OF_FIRST, first={"u": "x"}, join_alike={"t": "a.t", "u": "a.u"}
                )
            },
            r"join_alike of monoid 's' names \['t', 'u'\], but should name \['t'\]",
        ),
        (
            {
                "fields": {"s": "count"},
                "lift": "1",
                "accumulate": Accumulate(*_STEPS, {"s": "s.t"}),
            },
            "which is a count that kernels may not have",
        ),
        ({"accumulate": (Accumulate(*_STEPS, {"s": "s.t"}),) * 2}, "gives a field twice"),
        (
            {
                "fields": {"s": "int64", "u": "int64"},
                "zero": {"s": 0, "u": 0},
                "lift": {"s": "x", "u": "x"},
                "op": {"s": "a.s + b.s + 0 * a.u", "u": "a.u + b.u"},
                "accumulate": (
                    Accumulate(*_STEPS, {"s": "s.t"}),
                    Accumulate(*_STEPS, {"u": "s.t"}),
                ),
            },
            r"op\['s'\] of monoid 's' reads \['u'\], in which its accumulate does not end",
        ),
    ],
)
def test_inconsistent_or_dangerous_declarations_are_refused(change: dict, match: str):
    good = {"name": "s", "fields": {"s": "int64"}, "zero": 0, "lift": "x", "op": "add"}
    given = good | change
    with pytest.raises(MonoidError, match=match):
        Monoid(given.pop("name"), **given)


@pytest.mark.parametrize(("dtype", "zero"), [("int64", 0.5), ("int32", 2**40), ("float32", 1e39)])
def test_a_zero_beyond_its_field_is_refused(dtype: str, zero: float):
    from chunkfold.kernels.bake import header

    monoid = Monoid("m", fields={"s": dtype}, zero=zero, lift="x", op="add")
    with pytest.raises(MonoidError, match=f"is no {dtype}"):
        header(bind([monoid], [np.dtype("int8")]).accumulator)


def test_a_carry_that_empties_nothing_is_found_out(opened: OpenedDevice):
    kept = Accumulate(
        {"s": "int64", "few": "int32"}, {"s": 0, "few": 0}, {"s": "s.s", "few": "s.few + x"},
        {"s": "s.s"}, carry={"s": "s.s + wide(s.few)"},
    )  # fmt: skip
    monoid = Monoid("kept", fields={"s": "int64"}, zero=0, lift="x", op="add", accumulate=kept)
    accumulator = bind([monoid], [np.dtype("int8")]).accumulator
    with pytest.raises(MonoidError, match="accumulate and op disagree: where a is"):
        choose(opened.device, accumulator, kernels=("flat",))


def test_a_join_that_loses_a_state_is_found_out(opened: OpenedDevice):
    kept = Accumulate(*_STEPS, {"s": "s.t"}, join={"t": "a.t"})
    monoid = Monoid("kept", fields={"s": "int64"}, zero=0, lift="x", op="add", accumulate=kept)
    accumulator = bind([monoid], [np.dtype("int8")]).accumulator
    with pytest.raises(MonoidError, match=r"accumulate\.join and op disagree: where a is"):
        choose(opened.device, accumulator, kernels=("rows",))


def test_parts_of_a_stream_whose_join_loses_one_are_found_out(opened: OpenedDevice):
    kept = Accumulate(
        state={"p": "int64", "t": "int64", "n": "int64"},
        start={"p": 0, "t": 0, "n": 0},
        first={"p": "x"},
        step={"t": "s.t + (wide(x) - s.p)", "n": "s.n + 1"},
        end={"s": "s.t + s.n * s.p"},
        join_alike={"t": "a.t", "n": "a.n + b.n"},
    )
    monoid = Monoid("kept", fields={"s": "int64"}, zero=0, lift="x", op="add", accumulate=kept)
    accumulator = bind([monoid], [np.dtype("int8")]).accumulator
    with pytest.raises(MonoidError, match=r"accumulate\.join_alike and op disagree: where a is"):
        choose(opened.device, accumulator, kernels=("rows",))


_ABOUT_THE_FIRST = {"s": "s.s + (wide(x) - s.p)", "n": "s.n + 1"}


@pytest.mark.parametrize(
    ("step", "first", "skipna"),
    some(
        [_ABOUT_THE_FIRST, "s.s += x - s.p; s.n += 1;"],
        ["wide(x)", "fmax(wide(x), 3)"],
        [False, True],
    ),
)
def test_the_first_element_of_each_stream_is_set_once(
    opened: OpenedDevice, step: dict[str, str] | str, first: str, *, skipna: bool
):
    """A sum about it is right only if it stays as it is, and is counted with the others."""
    about = Accumulate(
        state={"p": "float64", "s": "float64", "n": "float64"},
        start={"p": 0, "s": 0, "n": 0},
        first={"p": first},
        step=step,
        end={"s": "s.s + s.n * s.p"},
        join={"p": "0", "s": "a.s + a.n * a.p + b.s + b.n * b.p", "n": "0"},
        join_alike={"s": "a.s + b.s", "n": "a.n + b.n"},
    )
    monoid = Monoid(
        "about", fields={"s": "float64"}, zero=0, lift="x", op="add", accumulate=about,
        skipna=skipna,
    )  # fmt: skip
    array = (np.arange(6000 * 9 * 40) * 37 % 1009 - 500).reshape(6000, 9, 40).astype("float32")
    if skipna:
        array[np.random.default_rng(5).random(array.shape) < 0.4] = np.nan
        array[:, :, :17] = np.nan
    bound = bind([monoid], [array.dtype])
    for axes in [(0, 1, 2), (0,), (1,), (2,), (0, 2)]:
        whole = box(array.shape, axes)
        tuning = choose(opened.device, bound.accumulator, kernels=(whole.kernel,))
        got = folded(opened, bound, tuning, array, whole, outputs=whole.outputs)["about"]
        np.testing.assert_array_equal(got, np.nansum(array.astype("f8"), axis=axes).ravel())


@pytest.mark.parametrize(
    "step", [{"d": "fmin(s.d, wide(x) - s.p)"}, "s.d = fmin(s.d, x - s.p);"],
    ids=["on lanes", "statements"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["numbers", "the other input", "times"])
def test_what_is_absent_is_no_first_element(
    opened: OpenedDevice, kind: str, step: dict[str, str] | str
):
    """The least: about a first element, which begins at the largest float where there is none."""
    least = Accumulate(
        state={"p": "float64", "d": "float64"},
        start={"p": "highest", "d": 0},
        first={"p": "wide(x)"},
        step=step,
        end={"m": "s.p + s.d"},
    )
    inputs, absent = 1 + (kind == "the other input"), 64
    monoid = Monoid(
        "least", fields={"m": "float64"}, zero="highest", lift="x", op="min", accumulate=least,
        skipna=True, inputs=inputs, kinds="mM" if kind == "times" else "f",
    )  # fmt: skip
    array = np.arange(5, 3005).astype("m8[s]" if kind == "times" else "float32")
    array[:absent] = {"numbers": np.nan, "times": np.timedelta64("NaT")}.get(kind, -7)
    gaps = np.where(np.arange(3000) < absent, np.nan, 1).astype("float32")
    bound = bind([monoid], [array.dtype, gaps.dtype][:inputs])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    fold = Fold(opened, bound.accumulator, tuning)
    fold.add([upload(opened, one) for one in (array, gaps)[:inputs]], box((3000,), (0,)))
    assert list(bound.statistics[0].finish(fold.finish())) == [absent + 5]


def test_a_first_element_may_set_what_is_no_number(opened: OpenedDevice):
    """The difference of infinities: it is set all the same."""
    odd = Accumulate(
        state={"p": "float64", "n": "float64"}, start={"p": 0, "n": 0},
        first={"p": "wide(x0) - wide(x1)"}, step={"n": "s.n + 1"},
        end={"n": "s.n", "odd": "s.p != s.p"},
    )  # fmt: skip
    monoid = Monoid(
        "odd", fields={"n": "float64", "odd": "int32"}, zero={"n": 0, "odd": 0},
        lift={"n": "1", "odd": "0"}, op={"n": "add", "odd": "max"}, accumulate=odd, skipna=True,
        inputs=2,
    )  # fmt: skip
    array = np.full(640, np.inf, "float32")
    bound = bind([monoid], [array.dtype] * 2)
    fold = Fold(opened, bound.accumulator, next(tiers(opened.device, bound.accumulator))[0])
    fold.add([upload(opened, array)] * 2, box((640,), (0,)))
    arrays = fold.finish().arrays
    assert [int(array[0]) for name, array in sorted(arrays.items())] == [640, 1]


@pytest.mark.parametrize(
    ("given", "meant"), [("summ", "sum"), ("avg", "mean"), ("Variance", "var"), ("max ", "max")]
)
def test_an_unknown_reduction_suggests_the_nearest(given: str, meant: str):
    with pytest.raises(MonoidError, match=rf"'{given}'; did you mean '{meant}'\?.*There are: sum"):
        as_monoid(given)


def test_statistics_share_what_they_have_in_common():
    bound = bind([as_monoid("sum"), as_monoid("mean")], [np.dtype("float32")])
    assert len(bound.accumulator.slots) == 1  # one sum
    bound = bind([as_monoid("sum"), as_monoid("mean")], [np.dtype("int64")])
    assert len(bound.accumulator.slots) == 2  # one sum in two halves
    bound = bind([as_monoid("nansum"), as_monoid("nanmean")], [np.dtype("float32")])
    assert len(bound.accumulator.slots) == 2  # one sum, one count of what is not NaN


def test_elements_are_counted_by_the_host_unless_some_are_skipped(opened: OpenedDevice):
    share = Monoid(
        "share",
        fields={"t": "int32", "n": "count"},
        zero={"t": 0, "n": 0},
        lift={"t": "x > 0", "n": "1"},
        op={"t": "add", "n": "add"},
        finish=lambda fields, _: fields["t"] / fields["n"],
    )
    array = np.array([[1, -1, np.nan], [2, 3, np.nan], [-1, 1, 5]], "f4")
    for monoid, want in ((share, [2 / 3, 2 / 3, 1 / 3]), (share.skipping(), [2 / 3, 2 / 3, 1])):
        bound = bind([monoid], [array.dtype])
        tuning = choose(opened.device, bound.accumulator)
        fold = Fold(opened, bound.accumulator, tuning, outputs=3)
        parts = []
        for rows in (array[:1], array[1:]):
            fold.add([upload(opened, rows)], box(rows.shape, (0,)))
            parts.append(fold.finish())
        combiner = Combiner(opened, bound.accumulator, tuning)
        got = bound.statistics[0].finish(combiner.combine(parts))
        assert got.tolist() == want


def test_counts_of_nothing_else_are_folded():
    much = Monoid("much", fields={"n": "count"}, zero=0, lift="1", op="add")
    assert len(bind([much], [np.dtype("int8")]).accumulator.slots) == 1


def test_partials_are_widest_first_so_that_every_slot_is_aligned():
    monoid = Monoid(
        "mixed",
        fields={"a": "int32", "b": "float64", "c": "uint32", "d": "int64"},
        zero=dict.fromkeys("abcd", 0),
        lift=dict.fromkeys("abcd", "x"),
        op=dict.fromkeys("abcd", "add"),
    )
    sizes = [s.dtype.itemsize for s in bind([monoid], [np.dtype("int32")]).accumulator.slots]
    assert sizes == sorted(sizes, reverse=True)


def test_struct_accumulators_combine_fields_together(opened: OpenedDevice):
    """argmax: the op of one field reads another."""
    later = "b.v > a.v || (b.v == a.v && b.i < a.i)"
    argmax = Monoid(
        "argmax",
        fields={"v": "float64", "i": "uint64"},
        zero={"v": "lowest", "i": "highest"},
        lift={"v": "x", "i": "i"},
        op={"v": f"({later}) ? b.v : a.v", "i": f"({later}) ? b.i : a.i"},
        finish=lambda fields, _: fields["i"],
    )
    bound = bind([argmax], [np.dtype("float32")])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    rng = np.random.default_rng(0)
    for count in (1, 2, 1000, 10_007):
        array = rng.integers(0, 50, count).astype("f4")
        (got,) = folded(opened, bound, tuning, array, box((count,), (0,)))["argmax"]
        assert got == array.argmax()


def test_several_inputs_are_read_together(opened: OpenedDevice):
    dot = Monoid("dot", inputs=2, zero=0, lift="(double)x0 * x1", op="add")
    bound = bind([dot], [np.dtype("float32"), np.dtype("int16")])
    a, b = np.arange(5003, dtype="f4"), np.arange(5003, dtype="i2") % 7
    fold = Fold(
        opened, bound.accumulator, choose(opened.device, bound.accumulator, kernels=("flat",))
    )
    fold.add([upload(opened, a), upload(opened, b)], box((5003,), (0,)))
    (got,) = bound.statistics[0].finish(fold.finish())
    assert got == np.dot(a.astype("f8"), b.astype("f8"))


def test_accumulate_replaces_lift_with_state_of_its_own(opened: OpenedDevice):
    """Neumaier's compensated sum: a state of two fields that ends as one."""
    neumaier = Monoid(
        "neumaier",
        zero=0,
        lift="x",
        op="add",
        accumulate=Accumulate(
            state={"hi": "float64", "lo": "float64"},
            start={"hi": 0, "lo": 0},
            step="double t = s.hi + x;"
            "s.lo += fabs(s.hi) >= fabs((double)x) ? (s.hi - t) + x : (x - t) + s.hi;"
            "s.hi = t;",
            end={"s": "s.hi + s.lo"},
        ),
    )
    bound = bind([neumaier], [np.dtype("float64")])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    array = np.tile([1.0, 1e100, 1.0, -1e100], 1)
    (got,) = folded(opened, bound, tuning, array, box((4,), (0,)))["neumaier"]
    lanes = tuning.flat.local_size * tuning.flat.lanes
    assert got == 2.0 or lanes > 1  # lanes share four elements out, and then the op alone adds
    array = np.full(100_000, 0.1)
    (got,) = folded(opened, bound, tuning, array, box((100_000,), (0,)))["neumaier"]
    # Partial sums meet in the plain op, which rounds: once per work-item at most.
    assert abs(got - math.fsum(array)) <= 4 * np.spacing(got)


def test_a_bad_expression_shows_the_log_with_its_own_line(opened: OpenedDevice):
    bad = Monoid("bad", zero=0, lift="x +\n  nonsense", op="add")
    bound = bind([bad], [np.dtype("float32")])
    with pytest.raises(BuildError) as error:
        choose(opened.device, bound.accumulator, kernels=("flat",))
    message = str(error.value)
    assert "nonsense" in message
    assert re.search(r'bad: lift of s"?:2:', message), message


def test_the_wrong_number_of_inputs_is_named():
    with pytest.raises(MonoidError, match="'sum' reduces one array, but 2 given"):
        bind([as_monoid("sum")], [np.dtype("f4"), np.dtype("f4")])


def test_several_fields_finish_as_a_record():
    monoid = Monoid(
        "both",
        fields={"a": "int64", "b": "float64"},
        zero={"a": 0, "b": 0},
        lift={"a": "1", "b": "x"},
        op={"a": "add", "b": "add"},
    )
    record = monoid.finish({"a": np.array([3]), "b": np.array([1.5])}, np.dtype("f4"))
    assert record.dtype.names == ("a", "b")
    assert record[0].item() == (3, 1.5)


def test_dtype_casts_elements_before_and_results_after(opened: OpenedDevice):
    array = np.arange(1000, dtype="i4") * 3
    for dtype in ("float32", "int64", "uint32", "float64"):
        bound = bind([as_monoid("sum")], [array.dtype], dtype=np.dtype(dtype))
        tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
        (got,) = folded(opened, bound, tuning, array, box((1000,), (0,)))["sum"]
        want = array.sum(dtype=dtype)
        assert got.dtype == want.dtype
        assert got == want


def test_without_float64_sums_are_float32(opened: OpenedDevice):
    from chunkfold.kernels.assemble import assemble
    from chunkfold.kernels.bake import needs_fp64

    for dtype in ("float32", "float16", "int32", "uint8"):
        bound = bind([as_monoid("sum"), as_monoid("mean")], [np.dtype(dtype)], fp64=False)
        assert not needs_fp64(bound.accumulator)
        assert "double" not in assemble("flat.cl", bound.accumulator)
        tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
        array = np.arange(100).astype(dtype)
        results = folded(opened, bound, tuning, array, box((100,), (0,)))
        assert results["sum"][0] == 4950
        assert results["mean"][0] == 49.5


def test_float64_on_a_device_without_it_names_both(opened: OpenedDevice):
    from dataclasses import replace

    from chunkfold.kernels import DeviceError

    lacking = replace(
        opened.device,
        extensions=opened.device.extensions - {"cl_khr_fp64"},
        features=opened.device.features - {"__opencl_c_fp64"},
    )
    bound = bind([as_monoid("sum")], [np.dtype("float64")])
    with pytest.raises(DeviceError, match=r"sum of float64 needs float64, which .* lacks"):
        choose(lacking, bound.accumulator)


@pytest.mark.parametrize("signs", [(0.0, -0.0), (-0.0, 0.0)])
def test_numbers_of_unlike_bits_are_not_shared(opened: OpenedDevice, signs: tuple[float, float]):
    monoids = [
        Monoid(name, zero="lowest", lift="1 / w[0]", op="max", constants={"w": np.array([sign])})
        for name, sign in zip("ab", signs, strict=True)
    ] + [
        Monoid(name, zero=sign, lift="x", op="max") for name, sign in zip("cd", signs, strict=True)
    ]
    bound = bind(monoids, [np.dtype("f8")])
    assert len(bound.accumulator.components) == 4
    tuning = next(iter(tiers(opened.device, bound.accumulator)))[0]
    got = folded(opened, bound, tuning, np.ones(3), box((3,), (0,)))
    assert [got[name][0] for name in "ab"] == [np.copysign(np.inf, sign) for sign in signs]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4"])
def test_a_magnitude_is_what_it_is_to_c(opened: OpenedDevice, dtype: str):
    array = np.ones(40, dtype)
    for text in ("magnitude(x) + 1", "magnitude(x) - 1000"):
        both = [
            Monoid(name, fields={"s": "int64"}, zero=0, lift=lift, op="add")
            for name, lift in (("lanes", text), ("one", f"({text}) / 1"))
        ]
        bound = bind(both, [array.dtype])
        tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
        got = folded(opened, bound, tuning, array, box((40,), (0,)))
        assert got["lanes"] == got["one"]


@pytest.mark.parametrize(
    "text", ["nonzero(x)", "nonzero(wide(x))", "nonzero(x - x)", "nonzero(x1)"]
)
def test_what_is_not_zero_is_told_of_halves_and_of_what_is_made_of_them(
    opened: OpenedDevice, text: str
):
    monoid = Monoid("some", inputs=2, fields={"s": "float64"}, zero=0, lift=text, op="add")
    bound = bind([monoid], [np.dtype("f2"), np.dtype("i4")])
    values = np.resize(np.array([0.0, -0.0, 6e-8, 1, np.inf, -7], "f2"), 1000)
    others = np.resize(np.array([-(2**31), 0, 1], "i4"), 1000)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    fold = Fold(opened, bound.accumulator, tuning)
    fold.add([upload(opened, values), upload(opened, others)], box((1000,), (0,)))
    with np.errstate(invalid="ignore"):
        told = {"nonzero(x - x)": values - values, "nonzero(x1)": others}.get(text, values)
    assert bound.statistics[0].finish(fold.finish()) == [np.count_nonzero(told)]


def test_a_zero_beyond_every_float_is_refused():
    with pytest.raises(MonoidError, match=r"zero of field 's' .* is beyond float64's range"):
        Monoid("m", zero=10**400, lift="x", op="max")


def test_an_op_that_nobody_knows_is_said_so():
    with pytest.raises(MonoidError, match=r"is 'sum'; use 'add', 'min', 'max', or an expression"):
        Monoid("m", zero=0, lift="x", op="sum")


UNLAWFUL = {
    "op is not commutative": {"op": "a.s - b.s", "zero": 0},
    "op is not associative": {"op": "(a.s + b.s) * 0.5", "zero": 0},
    "zero is not op's identity": {"op": "a.s * b.s", "zero": 0},
    "accumulate and op disagree": {
        "op": "add",
        "zero": 0,
        "accumulate": Accumulate({"t": "real"}, {"t": 0}, {"t": "0.5 * s.t + x"}, {"s": "s.t"}),
    },
}
NO_IDENTITY = {
    # Those of "all" and "any", which lift nothing but 0 and 1.
    "least of anything and 1": {"op": "min", "zero": 1},
    "greatest of anything and 0": {"op": "max", "zero": 0},
    "sum from 1": {"op": "add", "zero": 1},
}


@pytest.mark.parametrize("law", UNLAWFUL)
def test_what_is_no_monoid_is_refused_with_a_counter_example(opened: OpenedDevice, law: str):
    bad = Monoid("bad", **UNLAWFUL[law], lift="x")
    accumulator = bind([bad], [np.dtype("f4")]).accumulator
    with pytest.raises(MonoidError) as error:
        choose(opened.device, accumulator, kernels=("flat",))
    message = str(error.value)
    assert message.startswith(f"monoid 'bad': {law}: where a is (s=")
    # The counter-example is one.
    (a, *rest) = (float(text) for text in re.findall(r"s=([-\d.e+]+)", message))
    assert len(rest) >= 2
    assert rest[-1] != rest[-2] or a != rest[-1]


@pytest.mark.parametrize("what", NO_IDENTITY)
def test_a_named_op_needs_its_own_identity(opened: OpenedDevice, what: str):
    bad = Monoid("any", fields={"t": "int32"}, lift="x", **NO_IDENTITY[what])
    with pytest.raises(MonoidError, match="zero is not op's identity: where a is"):
        choose(opened.device, bind([bad], [np.dtype("i4")]).accumulator)


def test_a_sum_of_what_is_rounded_needs_no_tolerance(opened: OpenedDevice):
    roots = Monoid("roots", fields={"total": "float64"}, zero=0, lift="sqrt(fabs(x))", op="add")
    bound = bind([roots], [np.dtype("f4")])
    array = np.array([2.0, 3.0, 5.0], "f4")
    got = folded(
        opened,
        bound,
        choose(opened.device, bound.accumulator, kernels=("flat",)),
        array,
        box((3,), (0,)),
    )
    np.testing.assert_allclose(got["roots"], np.sqrt(array).sum(), rtol=1e-6)


def test_rounding_needs_a_tolerance(opened: OpenedDevice):
    parts = {"op": "sqrt(a.s * a.s + b.s * b.s)", "zero": 0, "lift": "fabs(x)"}
    exact = bind([Monoid("hypot", **parts)], [np.dtype("f8")]).accumulator
    with pytest.raises(MonoidError, match="give rtol if rounding is all the difference"):
        choose(opened.device, exact, kernels=("flat",))
    near = bind([Monoid("hypot", **parts, rtol=1e-12)], [np.dtype("f8")])
    array = np.array([3.0, 4.0, 12.0])
    got = folded(
        opened,
        near,
        choose(opened.device, near.accumulator, kernels=("flat",)),
        array,
        box((3,), (0,)),
    )
    np.testing.assert_allclose(got["hypot"], [13], rtol=1e-12)


def test_a_monoid_named_like_a_built_in_is_tried_all_the_same():
    same = Monoid("sum", fields={"s": "int64"}, zero=1, lift="x", op="a.s + b.s + 1")
    (component,) = bind([same], [np.dtype("i4")]).accumulator.components
    assert component.rtol == 0
    (component,) = bind([as_monoid("nanvar")], [np.dtype("f4")]).accumulator.components
    assert component.rtol is None
