"""Declarations: what is accepted, what is refused, and the whole joint on every device."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chunkfold.kernels import (
    Accumulate,
    Combiner,
    DeviceContext,
    Fold,
    Monoid,
    MonoidError,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.expressions.library import magnitude, nonzero, real, where
from chunkfold.kernels.tuning.variant import tiers
from tests.conftest import some
from tests.kernels.fold.test_fold import folded, upload

pytestmark = pytest.mark.unoptimised


def itself(x: Any) -> Any:
    return x


def added_up(**parts: Any) -> Accumulate:
    """An `Accumulate` that adds up elements in `t`, but for what is said otherwise."""
    plain = {
        "state": {"t": "int64"},
        "start": {"t": 0},
        "step": lambda s, x: {"t": s.t + x},
        "end": lambda s: {"s": s.t},
    }
    return Accumulate(**plain | parts)


def of_first(**parts: Any) -> Accumulate:
    """One whose first element sets `u`."""
    plain = {
        "state": {"t": "int64", "u": "int64"},
        "start": {"t": 0, "u": 0},
        "step": lambda s, x: {"t": s.u},
        "first": lambda x: {"u": x},
    }
    return added_up(**plain | parts)


GOOD = {"name": "s", "fields": {"s": "int64"}, "zero": 0, "lift": itself, "op": "add"}
"""A declaration that is accepted."""
_TWO_FIELDS = {"fields": {"s": "int64", "u": "int64"}, "zero": {"s": 0, "u": 0}}
_COUNTED = {"fields": {"s": "int64", "n": "count"}, "zero": {"s": 0, "n": 0}}


def declared(**parts: Any) -> Monoid:
    given = GOOD | parts
    return Monoid(given.pop("name"), **given)


def test_one_field_may_be_given_bare():
    bare = Monoid("s", fields={"v": "int64"}, zero=0, lift=itself, op="add")
    assert dict(bare.zero) == {"v": 0}
    whole = Monoid("s", fields={"v": "int64"}, zero={"v": 0}, lift={"v": itself}, op={"v": "add"})
    one, other = (bind([monoid], [np.dtype("i4")]).accumulator for monoid in (bare, whole))
    assert one.components == other.components


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"name": "a-b"}, "identifier"),
        ({"name": 5}, "identifier"),
        ({"inputs": 0}, "0 inputs"),
        ({"inputs": "a"}, "'a' inputs"),
        ({"fields": {}}, "no fields"),
        ({"fields": ["s"]}, "no fields"),
        ({"fields": {"s": "int8"}}, "'int8'"),
        ({"fields": {"a": "int32", "b": "int32"}}, "2 fields"),
        ({"zero": {"t": 0}}, r"names \['t'\], but should name \['s'\]"),
        ({"zero": None}, "is None; give a number"),
        ({"zero": 1j}, "give a number"),
        ({"zero": True}, "give a number"),
        ({"on_empty": "foo"}, "use 'finish' or 'error'"),
        ({"accumulate": 5}, "give a cf.Accumulate"),
        ({"fields": {"s": "count"}}, "'s' of monoid 's' is a count, whose zero must be 0"),
        (
            {"fields": {"s": "count"}, "lift": 1, "zero": 1},
            "is a count, whose zero must be 0 and whose lift must be 1, not 1 and 1",
        ),
        ({"fields": {"s": "count"}, "lift": 1, "op": "max"}, "is a count, whose op must be 'add'"),
        (
            {
                **_COUNTED,
                "lift": lambda x: {"s": x, "n": 1},
                "op": {"s": lambda a, b: a.s + b.s + 0 * b.n, "n": "add"},
            },
            r"op\['s'\] of monoid 's' reads the count 'n'",
        ),
        ({"accumulate": added_up(start={})}, "accumulate.start of monoid 's' names"),
        ({"accumulate": added_up(state={"t": "int8"})}, "state field 't' .* has dtype 'int8'"),
        ({"accumulate": (added_up(),) * 2}, "gives a field twice"),
        (
            {"fields": {"s": "count"}, "lift": 1, "accumulate": added_up()},
            "which is a count that kernels may not have",
        ),
        (
            {"accumulate": of_first(carry=lambda s: {"t": s.t + s.u})},
            r"carry\['t'\] of monoid 's' uses \['u'\], which the first element sets",
        ),
        (
            {"accumulate": of_first(carry=lambda s: {"u": 0})},
            r"carry\['u'\] of monoid 's' uses \['u'\], which the first element sets",
        ),
        (
            {
                **_TWO_FIELDS,
                "lift": lambda x: {"s": x, "u": x},
                "op": lambda a, b: {"s": a.s + b.s + 0 * a.u, "u": a.u + b.u},
                "accumulate": (added_up(), added_up(end=lambda s: {"u": s.t})),
            },
            r"op\['s'\] of monoid 's' reads \['u'\], in which its accumulate does not end",
        ),
    ],
)
def test_inconsistent_declarations_are_refused(change: dict, match: str):
    with pytest.raises(MonoidError, match=match):
        declared(**change)


FUNCTION = "write a function of symbols, as lift=lambda x: x \\* x"
"""The remedy, as a pattern."""


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"lift": "x * x"}, "lift of monoid 's' is 'x .* give a function of symbols or a number"),
        ({"lift": {"s": "x"}}, "lift of monoid 's' is 'x'; .*; OpenCL C text is not accepted"),
        ({"lift": ""}, "lift of monoid 's' is ''; .*; OpenCL C text is not accepted"),
        ({"op": "a.s + b.s"}, r"op .* give a function of symbols, or one of add, min, max, as op="),
        ({"op": {"s": "a.s + b.s"}}, "op of monoid 's' .* OpenCL C text is not accepted"),
        ({"lift": lambda x: "x * 2"}, rf"lift gives 's' 'x \* 2', OpenCL C text; {FUNCTION}"),
        ({"op": lambda a, b: {"s": "a.s"}}, f"op gives 's' 'a.s', OpenCL C text; {FUNCTION}"),
        ({"accumulate": added_up(step="s.t += x;")}, f"accumulate.step is 's.t .*; {FUNCTION}"),
        ({"accumulate": added_up(step=lambda s, x: {"t": "s.t"})}, "step gives 't' 's.t', OpenCL"),
        ({"accumulate": added_up(end={"s": "s.t"})}, f"accumulate.end is 's.t', .*; {FUNCTION}"),
        ({"accumulate": of_first(first="x")}, f"accumulate.first is 'x', .*; {FUNCTION}"),
        ({"accumulate": added_up(carry="t = 0")}, f"accumulate.carry is 't = 0', .*; {FUNCTION}"),
    ],
)
def test_text_is_refused_with_what_to_write(change: dict, match: str):
    with pytest.raises(MonoidError, match=match):
        declared(**change)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"lift": None}, "lift of monoid 's' is None; give a function of symbols or a number"),
        ({"lift": 1j}, "is 1j; give a function of symbols or a number"),
        ({"op": 5}, "op of monoid 's' is 5; give a function of symbols, or one of add, min, max"),
        ({"op": "sum"}, "is 'sum'; give a function of symbols, or one of add, min, max"),
        ({"lift": lambda x: None}, "of float64: .*None is neither a symbol nor a number"),
        ({"lift": lambda x: {}}, r"lift names \[\], but should name \['s'\]"),
        ({"lift": lambda x: {"s": x, "t": x}}, r"lift names \['s', 't'\], but should name"),
        ({"lift": {"t": itself}}, r"lift of monoid 's' names \['t'\], but should name \['s'\]"),
        ({**_TWO_FIELDS, "lift": itself}, "lift gives .*; give a mapping of s, u and expressions"),
        ({**_TWO_FIELDS, "lift": lambda x: [x, x]}, "give a mapping of s, u and expressions"),
        ({**_TWO_FIELDS, "lift": lambda x: {"s": x}}, r"lift names \['s'\], but should name"),
        ({"op": {}}, r"op of monoid 's' names \[\], but should name \['s'\]"),
        ({"op": lambda a, b: {"t": a.s}}, r"op names \['t'\], but should name \['s'\]"),
        ({"op": lambda a, b: a.t + b.t}, "op failed at .*no field is called 't'; fields: s"),
        ({"kinds": "c"}, "monoid 's' of complex128: lift gives 's' a complex number; give .real"),
        ({"kinds": "c", "lift": lambda x: x + 1}, "lift failed at"),
        ({"lift": lambda x: max(0, x)}, r"write cf.where\(condition, a, b\) for `if`"),
        ({"lift": lambda x: 0 < x < 1}, r"\(0 < x\) & \(x < 1\) for 0 < x < 1"),
        ({"lift": lambda x: max(x, 0)}, r"np.maximum for min\(\) and max\(\)"),
        ({"lift": math.sqrt}, "np.exp and the like for math.exp"),
        ({"lift": int}, r"x.astype\('int64'\) for int\(x\)"),
        ({"lift": lambda x: [1, 2][x]}, r"cf.lookup\(table, x, default\) for table\[x\]"),
        ({"lift": np.sort}, "np.sort has no meaning for symbols; use one of"),
        ({"lift": lambda x: x.astype("c8")}, "kernels have no complex64; use one of bool, int8"),
        ({"lift": lambda x: x & 1}, "bitwise_and has no meaning for float64 and 1"),
        ({"lift": lambda: 1}, "lift failed.* takes 0 positional arguments but 1 was given"),
        ({"lift": lambda x, y, i: x}, "lift failed.* missing 1 required positional argument"),
    ],
)
def test_what_gives_no_expression_of_each_field_is_refused(change: dict, match: str):
    with pytest.raises(MonoidError, match=match):
        declared(**change)


@pytest.mark.parametrize(
    ("accumulate", "match"),
    [
        (added_up(step=lambda s, x: {}), r"step names \[\], but should name \['t'\]"),
        (added_up(step=lambda s, x: {"v": x}), r"step names \['v'\], but should name \['t'\]"),
        (added_up(step=lambda s, x: s.t + x), "step gives .*; give a mapping of t and expressions"),
        (added_up(step=lambda s, x: {"t": s.v}), "no field is called 'v'; fields: t"),
        (
            of_first(step=lambda s, x: {"t": x, "u": x}),
            r"step names \['t', 'u'\], but should name \['t'\]",
        ),
        (added_up(first=lambda x: {"u": x}), r"first names \['u'\]; the fields are t"),
        (of_first(first=lambda x: x), "accumulate.first gives .*; give a mapping of fields"),
        (of_first(first=lambda s, x: {"u": x}), ""),
        (added_up(carry=lambda s: {"u": 0}), r"carry names \['u'\]; the fields are t"),
        (added_up(carry=["t"]), r"accumulate.carry is \['t'\], which is not a function of symbols"),
        (added_up(carry=lambda s: ["t"]), "carry gives .*; give a mapping of fields"),
        (added_up(end=lambda s: {"u": s.t}), r"end names \['u'\]; the fields are s"),
        (added_up(end=lambda s: s.t), "end gives .*; give a mapping of fields and expressions"),
        (added_up(end=lambda s: {}), "accumulate of monoid 's' ends in no field"),
        (added_up(end={"s": 5}), "accumulate.end is 5, which is not a function of symbols"),
        (
            added_up(end=lambda s: {"s": s.u}),
            "end failed at .*no field is called 'u'; fields: t",
        ),
        (added_up(step=lambda s, x: {"t": x if s.t else 0}), "step failed at .*cf.where"),
    ],
)
def test_parts_of_an_accumulate_give_the_fields_that_they_should(accumulate, match: str):
    if not match:  # a second parameter is the index
        assert declared(accumulate=accumulate).accumulates == (accumulate,)
        return
    with pytest.raises(MonoidError, match=match):
        declared(accumulate=accumulate)


def test_numbers_may_be_numpys():
    least = np.finfo("f4").min
    given = Monoid("m", zero=least, lift=np.float32(0.1), op="max")
    plain = Monoid("m", zero=float(least), lift=float(np.float32(0.1)), op="max")
    one, other = (bind([monoid], [np.dtype("i4")]).accumulator for monoid in (given, plain))
    assert one == other
    many = Monoid(
        "m", fields={"s": "int64"}, zero={"s": np.int8(3)}, lift={"s": np.uint8(4)}, op="max"
    )
    assert (dict(many.zero), dict(many.lift)) == ({"s": 3}, {"s": 4})


@pytest.mark.parametrize(
    ("kinds", "lift", "able"),
    [
        ("biuf", lambda x: x & 1, "iub"),
        ("fi", lambda x: x << 1, "i"),
        ("fmM", lambda x: x >> 1, "mM"),
        ("fc", lambda x: x.real if x.dtype.kind == "c" else x & 1, "c"),
    ],
)
def test_what_is_meant_for_other_kinds_is_told_to_say_so(kinds: str, lift: Callable, able: str):
    with pytest.raises(MonoidError, match=f"if it is for others, give kinds='{able}'"):
        Monoid("odd", zero=0, lift=lift, op="add", kinds=kinds)
    Monoid("odd", zero=0, lift=lift, op="add", kinds=able)


def test_what_no_kind_has_a_meaning_for_is_told_no_kind():
    with pytest.raises(MonoidError) as error:
        Monoid("odd", zero=0, lift=lambda x: x.nothing, op="add")
    assert "kinds" not in str(error.value)


def test_a_function_that_fails_shows_where_and_of_what():
    def lift(x: Any) -> Any:
        half = x / 2
        return half.nothing

    with pytest.raises(MonoidError) as error:
        Monoid("bad", zero=0, lift=lift, op="add", kinds="i")
    line = lift.__code__.co_firstlineno + 2
    assert str(error.value) == (
        f"monoid 'bad' of int64: lift failed at {__file__}:{line}, \"return half.nothing\": "
        "a symbol has no 'nothing'"
    )


def test_a_function_without_meaning_for_a_dtype_is_told_when_it_is_bound():
    """Declared of floats, of which it has one; of int64 it has none."""
    mine = Monoid("mine", zero=0, lift=lambda x: 1 / (x**-1), op="add", kinds="fi")
    bind([mine], [np.dtype("f4")])
    with pytest.raises(MonoidError, match=r"'mine' of int16: lift failed at .*test_monoid"):
        bind([mine], [np.dtype("i2")])


@pytest.mark.parametrize(("dtype", "zero"), [("int64", 0.5), ("int32", 2**40), ("float32", 1e39)])
def test_a_zero_beyond_its_field_is_refused(dtype: str, zero: float):
    from chunkfold.kernels.program.header import header

    monoid = Monoid("m", fields={"s": dtype}, zero=zero, lift=itself, op="add")
    with pytest.raises(MonoidError, match=f"does not fit {dtype}"):
        header(bind([monoid], [np.dtype("int8")]).accumulator)


def test_a_carry_that_empties_nothing_is_found_out(opened: DeviceContext):
    kept = added_up(
        state={"t": "int64", "few": "int32"},
        start={"t": 0, "few": 0},
        step=lambda s, x: {"t": s.t, "few": s.few + x},
        carry=lambda s: {"t": s.t + s.few},
    )
    monoid = declared(name="kept", accumulate=kept)
    accumulator = bind([monoid], [np.dtype("int8")]).accumulator
    with pytest.raises(MonoidError, match="accumulate and op disagree: where a is"):
        choose(opened.device, accumulator, kernels=("flat",))


@pytest.mark.parametrize(
    ("first", "skipna"),
    some([real, lambda x: np.fmax(real(x), 3)], [False, True]),
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_the_first_element_of_each_stream_is_set_once(
    opened: DeviceContext, first: Callable, *, skipna: bool
):
    """A sum about it is right only if it stays as it is, and is counted with the others."""
    about = Accumulate(
        state={"p": "float64", "s": "float64", "n": "float64"},
        start={"p": 0, "s": 0, "n": 0},
        first=lambda x: {"p": first(x)},
        step=lambda s, x: {"s": s.s + (x - s.p), "n": s.n + 1},
        end=lambda s: {"s": s.s + s.n * s.p},
    )
    monoid = Monoid("about", zero=0, lift=itself, op="add", accumulate=about, skipna=skipna)
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


@pytest.mark.parametrize("kind", ["numbers", "the other input", "times"])
def test_what_is_absent_is_no_first_element(opened: DeviceContext, kind: str):
    """The least: about a first element, which begins at the largest float where there is none."""
    least = Accumulate(
        state={"p": "float64", "d": "float64"},
        start={"p": "highest", "d": 0},
        first=lambda x, *_: {"p": real(x)},
        step=lambda s, x, *_: {"d": np.fmin(s.d, real(x) - s.p)},
        end=lambda s: {"m": s.p + s.d},
    )
    inputs, absent = 1 + (kind == "the other input"), 64
    monoid = Monoid(
        "least",
        fields={"m": "float64"},
        zero="highest",
        lift=lambda x, *_: x,
        op="min",
        accumulate=least,
        skipna=True,
        inputs=inputs,
        kinds="mM" if kind == "times" else "f",
    )
    array = np.arange(5, 3005).astype("m8[s]" if kind == "times" else "float32")
    array[:absent] = {"numbers": np.nan, "times": np.timedelta64("NaT")}.get(kind, -7)
    gaps = np.where(np.arange(3000) < absent, np.nan, 1).astype("float32")
    bound = bind([monoid], [array.dtype, gaps.dtype][:inputs])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    fold = Fold(opened, bound.accumulator, tuning)
    fold.add([upload(opened, one) for one in (array, gaps)[:inputs]], box((3000,), (0,)))
    assert list(bound.statistics[0].finish(fold.read_back())) == [absent + 5]


def test_a_first_element_may_set_what_is_no_number(opened: DeviceContext):
    """The difference of infinities: it is set all the same."""
    odd = Accumulate(
        state={"p": "float64", "n": "float64"},
        start={"p": 0, "n": 0},
        first=lambda x0, x1: {"p": real(x0) - real(x1)},
        step=lambda s, x0, x1: {"n": s.n + 1},
        end=lambda s: {"n": s.n, "odd": np.isnan(s.p)},
    )
    monoid = Monoid(
        "odd",
        fields={"n": "float64", "odd": "int32"},
        zero={"n": 0, "odd": 0},
        lift={"n": 1, "odd": 0},
        op={"n": "add", "odd": "max"},
        accumulate=odd,
        skipna=True,
        inputs=2,
    )
    array = np.full(640, np.inf, "float32")
    bound = bind([monoid], [array.dtype] * 2)
    fold = Fold(opened, bound.accumulator, next(tiers(opened.device, bound.accumulator))[0])
    fold.add([upload(opened, array)] * 2, box((640,), (0,)))
    arrays = fold.read_back().arrays
    assert [int(array[0]) for name, array in sorted(arrays.items())] == [640, 1]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("summ", "sum"),
        ("avg", "mean"),
        ("Variance", "var"),
        ("max ", "max"),
        ("rmsee", "rmse"),
        ("pearson", "corr"),
    ],
)
def test_an_unknown_reduction_suggests_the_nearest(given: str, meant: str):
    with pytest.raises(MonoidError, match=rf"'{given}'; did you mean '{meant}'\?.*Use one of: sum"):
        as_monoid(given)


@pytest.mark.parametrize("given", ["skewness", "kurtosis", "interpolate"])
def test_what_no_reduction_is_like_gets_no_suggestion(given: str):
    with pytest.raises(MonoidError) as raised:
        as_monoid(given)
    assert "did you mean" not in str(raised.value)
    assert all(name in str(raised.value) for name in ("rmse", "p95", "topN", "argbottomN", "nan"))


def test_statistics_share_what_they_have_in_common():
    bound = bind([as_monoid("sum"), as_monoid("mean")], [np.dtype("float32")])
    assert len(bound.accumulator.slots) == 1  # one sum
    bound = bind([as_monoid("sum"), as_monoid("mean")], [np.dtype("int64")])
    assert len(bound.accumulator.slots) == 2  # one sum in two halves
    bound = bind([as_monoid("nansum"), as_monoid("nanmean")], [np.dtype("float32")])
    assert len(bound.accumulator.slots) == 2  # one sum, one count of what is not NaN


def test_elements_are_counted_by_the_host_unless_some_are_skipped(opened: DeviceContext):
    share = Monoid(
        "share",
        fields={"t": "int32", "n": "count"},
        zero={"t": 0, "n": 0},
        lift=lambda x: {"t": x > 0, "n": 1},
        op="add",
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
            parts.append(fold.read_back())
        combiner = Combiner(opened, bound.accumulator, tuning)
        got = bound.statistics[0].finish(combiner.combine(parts))
        assert got.tolist() == want


def test_counts_of_nothing_else_are_folded():
    much = Monoid("much", fields={"n": "count"}, zero=0, lift=1, op="add")
    assert len(bind([much], [np.dtype("int8")]).accumulator.slots) == 1


def test_partials_are_widest_first_so_that_every_slot_is_aligned():
    monoid = Monoid(
        "mixed",
        fields={"a": "int32", "b": "float64", "c": "uint32", "d": "int64"},
        zero=dict.fromkeys("abcd", 0),
        lift=dict.fromkeys("abcd", itself),
        op="add",
    )
    sizes = [s.dtype.itemsize for s in bind([monoid], [np.dtype("int32")]).accumulator.slots]
    assert sizes == sorted(sizes, reverse=True)


def test_struct_accumulators_combine_fields_together(opened: DeviceContext):
    """argmax: the op of one field reads another."""

    def later(a: Any, b: Any) -> dict:
        beyond = (b.v > a.v) | ((b.v == a.v) & (b.i < a.i))
        return {"v": where(beyond, b.v, a.v), "i": where(beyond, b.i, a.i)}

    argmax = Monoid(
        "argmax",
        fields={"v": "float64", "i": "uint64"},
        zero={"v": "lowest", "i": "highest"},
        lift=lambda x, i: {"v": x, "i": i},
        op=later,
        finish=lambda fields, _: fields["i"],
    )
    bound = bind([argmax], [np.dtype("float32")])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    rng = np.random.default_rng(0)
    for count in (1, 2, 1000, 10_007):
        array = rng.integers(0, 50, count).astype("f4")
        (got,) = folded(opened, bound, tuning, array, box((count,), (0,)))["argmax"]
        assert got == array.argmax()


def test_several_inputs_are_read_together(opened: DeviceContext):
    dot = Monoid("dot", inputs=2, zero=0, lift=lambda x0, x1: real(x0) * x1, op="add")
    bound = bind([dot], [np.dtype("float32"), np.dtype("int16")])
    a, b = np.arange(5003, dtype="f4"), np.arange(5003, dtype="i2") % 7
    fold = Fold(
        opened, bound.accumulator, choose(opened.device, bound.accumulator, kernels=("flat",))
    )
    fold.add([upload(opened, a), upload(opened, b)], box((5003,), (0,)))
    (got,) = bound.statistics[0].finish(fold.read_back())
    assert got == np.dot(a.astype("f8"), b.astype("f8"))


def test_accumulate_replaces_lift_with_state_of_its_own(opened: DeviceContext):
    """Neumaier's compensated sum: a state of two fields that ends as one."""

    def step(s: Any, x: Any) -> dict:
        t = s.hi + x
        lost = where(abs(s.hi) >= abs(x), (s.hi - t) + x, (x - t) + s.hi)
        return {"hi": t, "lo": s.lo + lost}

    neumaier = Monoid(
        "neumaier",
        zero=0,
        lift=itself,
        op="add",
        accumulate=Accumulate(
            state={"hi": "float64", "lo": "float64"},
            start={"hi": 0, "lo": 0},
            step=step,
            end=lambda s: {"s": s.hi + s.lo},
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


def test_the_wrong_number_of_inputs_is_named():
    with pytest.raises(MonoidError, match="'sum' reduces one array, but 2 given"):
        bind([as_monoid("sum")], [np.dtype("f4"), np.dtype("f4")])


def test_several_fields_finish_as_a_record():
    monoid = Monoid(
        "both",
        fields={"a": "int64", "b": "float64"},
        zero={"a": 0, "b": 0},
        lift=lambda x: {"a": 1, "b": x},
        op="add",
    )
    record = monoid.finish({"a": np.array([3]), "b": np.array([1.5])}, np.dtype("f4"))
    assert record.dtype.names == ("a", "b")
    assert record[0].item() == (3, 1.5)


def test_dtype_casts_elements_before_and_results_after(opened: DeviceContext):
    array = np.arange(1000, dtype="i4") * 3
    for dtype in ("float32", "int64", "uint32", "float64"):
        bound = bind([as_monoid("sum")], [array.dtype], dtype=np.dtype(dtype))
        tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
        (got,) = folded(opened, bound, tuning, array, box((1000,), (0,)))["sum"]
        want = array.sum(dtype=dtype)
        assert got.dtype == want.dtype
        assert got == want


def test_without_float64_sums_are_float32(opened: DeviceContext):
    from chunkfold.kernels.program.assemble import assemble
    from chunkfold.kernels.program.header import needs_fp64

    for dtype in ("float32", "float16", "int32", "uint8"):
        bound = bind([as_monoid("sum"), as_monoid("mean")], [np.dtype(dtype)], fp64=False)
        assert not needs_fp64(bound.accumulator)
        text = assemble("flat.cl", bound.accumulator)
        before, divides, behind = text.partition("#if CHF_DIVIDES_IN_DOUBLE")  # where there is one
        assert "(double" not in before + behind.partition("#else")[2]
        assert divides
        tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
        array = np.arange(100).astype(dtype)
        results = folded(opened, bound, tuning, array, box((100,), (0,)))
        assert results["sum"][0] == 4950
        assert results["mean"][0] == 49.5


def test_float64_on_a_device_without_it_names_both(opened: DeviceContext):
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
def test_numbers_of_unlike_bits_are_not_shared(opened: DeviceContext, signs: tuple[float, float]):
    monoids = [
        Monoid(name, zero="lowest", lift=lambda x, sign=sign: x / sign, op="max")
        for name, sign in zip("ab", signs, strict=True)
    ] + [
        Monoid(name, zero=sign, lift=itself, op="max")
        for name, sign in zip("cd", signs, strict=True)
    ]
    bound = bind(monoids, [np.dtype("f8")])
    assert len(bound.accumulator.components) == 4
    tuning = next(iter(tiers(opened.device, bound.accumulator)))[0]
    got = folded(opened, bound, tuning, np.ones(3), box((3,), (0,)))
    assert [got[name][0] for name in "ab"] == [np.copysign(np.inf, sign) for sign in signs]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4"])
def test_a_magnitude_is_unsigned_and_computes_as_numpy_s(opened: DeviceContext, dtype: str):
    array = np.resize(np.array([1, -128, 127], "i1").astype(dtype), 40)
    size = np.abs(array.astype("i8")).astype(f"u{array.itemsize}")
    forms = {
        "more": (lambda x: magnitude(x) + 1, size + np.ones(1, size.dtype)),
        "less": (lambda x: magnitude(x).astype("i8") - 1000, size.astype("i8") - 1000),
    }
    monoids = [
        Monoid(name, fields={"s": "int64"}, zero=0, lift=lift, op="add")
        for name, (lift, _) in forms.items()
    ]
    bound = bind(monoids, [array.dtype])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    got = folded(opened, bound, tuning, array, box((40,), (0,)))
    for name, (_, want) in forms.items():
        assert got[name] == [want.astype("i8").sum()]


@pytest.mark.parametrize(
    ("lift", "of"),
    [
        (lambda x, _: nonzero(x), lambda x, _: x),
        (lambda x, _: nonzero(real(x)), lambda x, _: x),
        (lambda x, _: nonzero(x - x), lambda x, _: x - x),
        (lambda _, other: nonzero(other), lambda _, other: other),
    ],
    ids=["x", "wide", "x - x", "the other"],
)
def test_what_is_not_zero_is_told_of_halves_and_of_what_is_made_of_them(
    opened: DeviceContext, lift: Callable, of: Callable
):
    monoid = Monoid("some", inputs=2, zero=0, lift=lift, op="add")
    bound = bind([monoid], [np.dtype("f2"), np.dtype("i4")])
    values = np.resize(np.array([0.0, -0.0, 6e-8, 1, np.inf, -7], "f2"), 1000)
    others = np.resize(np.array([-(2**31), 0, 1], "i4"), 1000)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    fold = Fold(opened, bound.accumulator, tuning)
    fold.add([upload(opened, values), upload(opened, others)], box((1000,), (0,)))
    with np.errstate(invalid="ignore"):
        told = of(values, others)
    assert bound.statistics[0].finish(fold.read_back()) == [np.count_nonzero(told)]


def test_a_zero_beyond_every_float_is_refused():
    with pytest.raises(MonoidError, match=r"zero of field 's' .* is beyond float64's range"):
        Monoid("m", zero=10**400, lift=itself, op="max")


UNLAWFUL = {
    "op is not commutative": {"op": lambda a, b: a.s - b.s, "zero": 0},
    "op is not associative": {"op": lambda a, b: (a.s + b.s) * 0.5, "zero": 0},
    "zero is not op's identity": {"op": lambda a, b: a.s * b.s, "zero": 0},
    "accumulate and op disagree": {
        "op": "add",
        "zero": 0,
        "accumulate": added_up(state={"t": "real"}, step=lambda s, x: {"t": 0.5 * s.t + x}),
    },
}
NO_IDENTITY = {
    # Those of "all" and "any", which lift nothing but 0 and 1.
    "least of anything and 1": {"op": "min", "zero": 1},
    "greatest of anything and 0": {"op": "max", "zero": 0},
    "sum from 1": {"op": "add", "zero": 1},
}


@pytest.mark.parametrize("law", UNLAWFUL)
def test_what_is_no_monoid_is_refused_with_a_counter_example(opened: DeviceContext, law: str):
    bad = Monoid("bad", **UNLAWFUL[law], lift=itself)
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
def test_a_named_op_needs_its_own_identity(opened: DeviceContext, what: str):
    bad = Monoid("any", fields={"t": "int32"}, lift=itself, **NO_IDENTITY[what])
    with pytest.raises(MonoidError, match="zero is not op's identity: where a is"):
        choose(opened.device, bind([bad], [np.dtype("i4")]).accumulator)


def test_a_sum_of_what_is_rounded_needs_no_tolerance(opened: DeviceContext):
    roots = Monoid("roots", zero=0, lift=lambda x: np.sqrt(abs(x)), op="add")
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


def test_rounding_needs_a_tolerance(opened: DeviceContext):
    parts = {"op": lambda a, b: np.sqrt(a.s * a.s + b.s * b.s), "zero": 0, "lift": abs}
    exact = bind([Monoid("hypot", **parts)], [np.dtype("f8")]).accumulator
    with pytest.raises(MonoidError, match="give rtol if only rounding differs"):
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
    same = declared(name="sum", zero=1, op=lambda a, b: a.s + b.s + 1)
    (component,) = bind([same], [np.dtype("i4")]).accumulator.components
    assert component.rtol == 0
    (component,) = bind([as_monoid("nanvar")], [np.dtype("f4")]).accumulator.components
    assert component.rtol is None
