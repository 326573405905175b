"""Two arrays compared: exactly, whatever their dtypes, or refused with the value."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from chunkfold.kernels import Bound, DeviceContext, Fold, MonoidError, as_monoid, bind, box
from chunkfold.kernels.catalogue.mixed_dtypes import common_time
from chunkfold.kernels.errors import RangeError
from tests.conftest import shaped
from tests.kernels.fold.test_fold import upload
from tests.kernels.test_identities import absent_in, kind_of, odd_ones, same

pytestmark = pytest.mark.unoptimised

OPS = ("first_mismatch", "max_abs_diff")
LENGTH = 5
NAT = -(2**63)


def folded(
    opened: DeviceContext, ops: tuple[str, ...], x: np.ndarray, y: np.ndarray, **given: Any
) -> dict[str, Any]:
    """Reduce the rows of two arrays; `nan<op>` skips what is absent."""
    monoids = [
        as_monoid(op.removeprefix("nan")).skipping(op) if op[:3] == "nan" else as_monoid(op)
        for op in ops
    ]
    bound = bind(monoids, [x.dtype, y.dtype], **given)
    accumulator = bound.accumulator.for_outputs(len(x))
    fold = Fold(opened, accumulator, shaped(opened.device, accumulator, "tree"), len(x))
    fold.add([upload(opened, x), upload(opened, y)], box(x.shape, (1,)))
    return finished(bound, fold, x.shape)


def finished(bound: Bound, fold: Fold, shape: tuple[int, ...]) -> dict[str, Any]:
    partial = fold.read_back()
    found = {}
    for one in bound.statistics:
        try:
            found[one.name] = one.finish(partial, shape, (1,))
        except RangeError as error:
            found[one.name] = str(error)
    return found


def rows_of_pairs(ones: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in which one pair is like every other, and one is all that is unlike."""
    pairs = list(itertools.product(ones, others))
    x = np.array([[one] * LENGTH for one, _ in pairs], ones.dtype)
    y = np.array([[other] * LENGTH for _, other in pairs], others.dtype)
    return x, y


def mismatches(x: np.ndarray, y: np.ndarray) -> list[int]:
    unlike = (x != y) & ~(absent_in(x) & absent_in(y))
    return [int(np.argmax(row)) if row.any() else -1 for row in unlike]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "int64", "uint64", "float16", "float32", "float64",
              "bfloat16", "complex64"]
)  # fmt: skip
def test_differences_are_numpys(opened: DeviceContext, dtype: str):
    kind = kind_of(dtype)
    if kind.kind == "c":
        parts = [1.5, np.nan, np.inf, 3e19]
        tokens = np.array([complex(*both) for both in itertools.product(parts, repeat=2)], kind)
    else:
        tokens = odd_ones(kind)
    x, y = rows_of_pairs(tokens, tokens)
    skips = kind.kind not in "biu"
    got = folded(opened, (*OPS, *["nanmax_abs_diff"] * skips), x, y)
    assert got["first_mismatch"].tolist() == mismatches(x, y)
    for row, (one, other) in enumerate(zip(x, y, strict=True)):
        with np.errstate(all="ignore"):
            if skips:
                apart = np.abs(one - other)
                want = apart.astype("f4").max() if dtype == "bfloat16" else apart.max()
            else:
                want = abs(int(one[0]) - int(other[0]))
        assert same(got["max_abs_diff"][row], want), (one, other)
        if skips:
            either = absent_in(one) | absent_in(other)
            assert same(got["nanmax_abs_diff"][row], np.nan if either.all() else want)
    if dtype != "bfloat16":
        assert got["max_abs_diff"].dtype == (apart.dtype if skips else "uint64")
    else:
        assert got["max_abs_diff"].dtype == ml_dtypes.bfloat16


SIGNED = np.array([NAT, 1 - 2**53, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1])
UNSIGNED = np.array([0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], "u8")


@pytest.mark.parametrize(("dtype", "swap"), [("int64", False), ("int8", True)])
def test_signed_and_unsigned_integers_are_compared_exactly(
    opened: DeviceContext, dtype: str, swap: bool
):
    held = np.iinfo(dtype)
    x, y = rows_of_pairs(
        SIGNED[(held.min <= SIGNED) & (held.max >= SIGNED)].astype(dtype), UNSIGNED
    )
    pair = (y, x) if swap else (x, y)
    apart = [abs(int(one[0]) - int(other[0])) for one, other in zip(x, y, strict=True)]
    ops = ("first_mismatch", "dot", "sum_sq_diff", "max_abs_diff")
    got = folded(opened, ops, *pair)
    assert got["first_mismatch"].tolist() == [0 if distance else -1 for distance in apart]
    most = next(distance for distance in apart if distance >= 2**64)
    names = f"{pair[0].dtype} and {pair[1].dtype}"
    assert f"of {names} is {most}, which uint64 cannot hold" in got["max_abs_diff"]
    np.testing.assert_allclose(got["sum_sq_diff"], [LENGTH * float(d) ** 2 for d in apart])
    assert [bool(found) for found in got["sum_sq_diff"]] == [bool(distance) for distance in apart]
    np.testing.assert_allclose(got["dot"], (x.astype("f8") * y.astype("f8")).sum(axis=1))
    assert {got[op].dtype.name for op in ("dot", "sum_sq_diff")} == {"float64"}
    whole = folded(opened, OPS[1:], *pair, dtype=np.dtype(object))["max_abs_diff"]
    assert whole.tolist() == apart
    few = np.array(apart) < 2**64
    held = folded(opened, OPS[1:], pair[0][few], pair[1][few])["max_abs_diff"]
    assert (held.dtype, held.tolist()) == ("uint64", [d for d in apart if d < 2**64])


def test_the_first_of_ids_that_float64_does_not_tell_apart_is_found(opened: DeviceContext):
    ids = np.arange(2**53, 2**53 + 1000).reshape(1, -1)
    copy = ids.astype("u8")
    copy[0, 771] += 1
    assert folded(opened, OPS, ids, copy) == {"first_mismatch": [771], "max_abs_diff": [1]}
    assert folded(opened, OPS, ids, ids.astype("u8")) == {
        "first_mismatch": [-1],
        "max_abs_diff": [0],
    }


TIMES = [
    ("M8[s]", "M8[s]"),
    ("M8[s]", "M8[ns]"),
    ("m8[7s]", "m8[3m]"),
    ("M8[M]", "M8[D]"),
    ("M8[h]", "M8[Y]"),
    ("M8[W]", "M8[M]"),
]


@pytest.mark.parametrize("dtypes", TIMES, ids=str)
def test_times_of_two_units_are_compared_exactly(opened: DeviceContext, dtypes: tuple[str, str]):
    kinds = [np.dtype(dtype) for dtype in dtypes]
    rng = np.random.default_rng(0)
    common = common_time(kinds)
    x = rng.integers(-1000, 1000, (99, LENGTH)).view(kinds[0])
    x[0, 0] = "NaT"
    y = x.astype(common).astype(kinds[1])
    y[0, :2] = "NaT"
    y[::7, 2] += 1
    got = folded(opened, (*OPS, "nanmax_abs_diff"), x, y)
    one, other = x.astype(common), y.astype(common)
    assert got["first_mismatch"].tolist() == mismatches(one, other)
    apart = np.abs(one - other)
    assert same(got["max_abs_diff"], apart.max(axis=1))
    assert np.array_equal(got["nanmax_abs_diff"], np.fmax.reduce(apart, axis=1))
    assert got["max_abs_diff"].dtype == apart.dtype


def test_times_beyond_64_bits_of_a_unit_are_no_others(opened: DeviceContext):
    """NumPy multiplies modulo 2**64 and takes these for equal, or refuses them, by its version."""
    x, y = np.array([[2**62]], "M8[s]"), np.array([[0]], "M8[ms]")
    got = folded(opened, OPS, x, y)
    assert got["first_mismatch"] == [0]
    assert f"of datetime64[ms] is {2**62 * 1000}, beyond" in got["max_abs_diff"]
    x, y = np.array([[2**62, NAT]]).view("M8[s]"), np.array([[-(2**62), 1]]).view("M8[s]")
    assert np.isnat(folded(opened, OPS, x, y)["max_abs_diff"]).all()
    assert f"is {2**63}, beyond" in folded(opened, OPS, x[:, :1], y[:, :1])["max_abs_diff"]


def test_pairs_with_nat_may_be_left_out(opened: DeviceContext):
    x = np.array([[NAT, NAT], [NAT, 5]]).view("m8[s]")
    y = np.array([[1, NAT], [3, 8]]).view("m8[s]")
    found = folded(opened, ("nanmax_abs_diff", "nanfirst_mismatch"), x, y)
    assert np.isnat(found["nanmax_abs_diff"]).tolist() == [True, False]
    assert found["nanmax_abs_diff"][1] == np.timedelta64(3, "s")
    assert found["nanfirst_mismatch"].tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("dtypes", "says"),
    [
        (("m8[M]", "m8[D]"), r"no unit holds both timedelta64\[M\] and timedelta64\[D\]"),
        (("M8[Y]", "M8[as]"), r"no unit holds both datetime64\[Y\] and datetime64\[as\]"),
        (("M8[s]", "m8[s]"), r"timedelta64\[s\] cannot be cast to datetime64\[s\]"),
    ],
)
def test_units_that_numpy_does_not_compare_are_refused(dtypes: tuple[str, str], says: str):
    with pytest.raises(MonoidError, match=says):
        bind([as_monoid("first_mismatch")], [np.dtype(dtype) for dtype in dtypes])


def test_a_reduction_without_a_form_for_a_pair_says_so():
    from chunkfold.kernels import Monoid

    mine = Monoid(
        "mine", inputs=2, fields={"s": "float64"}, zero=0, lift=lambda x0, x1: x0 - x1, op="add"
    )
    pair = [np.dtype("int64"), np.dtype("uint64")]
    assert bind([mine], pair).accumulator.value == ("float64", "float64")
    with pytest.raises(MonoidError, match=r"'mine' .* no dtype holds both int64 and uint64"):
        bind([mine, as_monoid("first_mismatch")], pair)


def test_complex_products_are_added(opened: DeviceContext):
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=(2, 50)) + 1j * rng.normal(size=(2, 50)) for _ in range(2))
    np.testing.assert_allclose(folded(opened, ("dot",), x, y)["dot"], (x * y).sum(axis=1))
