"""What `diff` says of two arrays is what NumPy says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.errors import MonoidError, PlanError
from chunkfold.workflows.comparisons.diff import diff
from chunkfold.workflows.files.results_json import difference_json

pytestmark = pytest.mark.unoptimised


def stored(values: np.ndarray, chunks: tuple[int, ...]) -> zarr.Array:
    made = zarr.create_array({}, shape=values.shape, chunks=chunks, dtype=values.dtype)
    made[...] = values
    return made


@given(
    st.sampled_from(["f4", "f8", "i1", "u8"]),
    st.lists(st.tuples(st.integers(0, 16), st.integers(0, 22)), max_size=4, unique=True),
    st.integers(0, 2**32 - 1),
)
def test_differences_are_numpys(dtype: str, places, seed: int):
    rng = np.random.default_rng(seed)
    one = rng.integers(0, 100, (17, 23)).astype(dtype)
    other = one.copy()
    for place in places:
        other[place] += rng.integers(1, 20)
    if dtype[0] == "f":
        one[0, :3] = other[0, :3] = np.nan, np.inf, -np.inf
    found = diff(stored(one, (5, 23)), stored(other, (17, 4)))
    unequal = np.argwhere((one != other) & ~((one != one) & (other != other)))
    assert found.different == len(unequal)
    assert found.equal == (not len(unequal))
    assert found.first == (tuple(unequal[0].tolist()) if len(unequal) else None)
    if found.first is not None:
        assert found.values == (one[found.first], other[found.first])
    apart = np.zeros(one.shape)
    there = np.isfinite(one.astype("f8"))
    apart[there] = np.abs(one[there].astype("f8") - other[there].astype("f8"))
    assert found.max_abs == apart.max()
    counted = one.size - (dtype[0] == "f")
    assert found.rmse == pytest.approx(np.sqrt((apart**2).sum() / counted), rel=1e-12)


def test_a_gap_on_one_side_is_a_difference():
    one = np.array([1, np.nan, 3.0])
    found = diff(stored(one, (1,)), stored(np.array([1, 2, 3.5]), (3,)))
    assert (found.different, found.first, found.max_abs) == (2, (1,), 0.5)
    assert found.rmse == np.sqrt(0.125)


def test_the_largest_integers_are_apart_exactly():
    one, other = np.array([0, 2**64 - 1], "u8"), np.array([0, 0], "u8")
    assert diff(stored(one, (1,)), stored(other, (2,))).max_abs == 2**64 - 1


def test_positions_are_the_arrays_own():
    one = np.zeros((10, 10))
    other = one.copy()
    other[[2, 7], 5] = 1
    found = diff(stored(one, (3, 3)), stored(other, (10, 1)), selection=(slice(3, None, 2), 5))
    assert found.first == (7, 5)
    assert found.elements == 4


ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 6e-5, 6e-8, -6e-8, 65504])


def steps(x: np.ndarray) -> np.ndarray:
    """The place of floats among all of their dtype, from 0 on, both zeros alike."""
    top = 8 * x.itemsize - 1
    held = x.view(f"u{x.itemsize}").astype(object)
    return np.where(held >> top, -(held & ((1 << top) - 1)), held)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("tolerance", [{"ulp": 2}, {"rtol": 1e-3, "atol": 1e-4, "ulp": 3}], ids=str)
def test_tolerances_are_numpys_and_steps_between_neighbours(dtype: str, tolerance: dict[str, Any]):
    rng = np.random.default_rng(3)
    near = rng.normal(size=200).astype(dtype)
    far = near.copy()
    for _ in range(4):
        far = np.where(rng.random(200) < 0.4, np.nextafter(far, np.inf, dtype=dtype), far)
    with np.errstate(over="ignore", under="ignore"):
        one, other = (x.ravel().astype(dtype) for x in np.meshgrid(ODD, ODD))
    one, other = np.append(one, near), np.append(other, far)
    given = {name: tolerance.get(name, 0) for name in ("rtol", "atol")}
    with np.errstate(invalid="ignore"):
        alike = np.isclose(one.astype("f8"), other.astype("f8"), **given, equal_nan=True)
    apart = np.array([abs(a - b) for a, b in zip(steps(one), steps(other), strict=True)])
    finite = np.isfinite(one) & np.isfinite(other)
    alike |= finite & (apart <= tolerance.get("ulp", 0))
    found = diff(stored(one, (100,)), stored(other, (77,)), **tolerance)
    assert found.different == (~alike).sum()
    assert found.first == (np.flatnonzero(~alike)[0],)
    assert f"differ by more than {found.within}" in found.lines()[0]


def test_tolerances_are_relative_to_the_second():
    one, other = stored(np.array([100.0]), (1,)), stored(np.array([110.0]), (1,))
    assert diff(one, other, rtol=0.095).equal
    assert not diff(other, one, rtol=0.095).equal
    told = ["equal within rtol 0.095: 1 elements", "max_abs 10.0", "rmse 10.0"]
    assert diff(one, other, rtol=0.095).lines() == told


def test_integers_and_complex_numbers_have_tolerances_times_and_bools_none():
    def differ(one: np.ndarray, other: np.ndarray, **given: Any) -> list[int]:
        """By one element each: those that differ."""
        pairs = zip(one, other, strict=True)
        each = [
            diff(stored(np.array([a]), (1,)), stored(np.array([b]), (1,)), **given)
            for a, b in pairs
        ]
        return [n for n, found in enumerate(each) if not found.equal]

    far, near = np.array([2**63 - 1, -5, 7]), np.array([-(2**63), -7, 8])
    assert differ(far, near, ulp=1) == [0, 1]
    assert differ(far, near, rtol=0.3) == [0]
    assert differ(far.astype("u8"), np.array([0, 0, 5]), atol=2) == [0, 1]
    waves = np.array([1 + 1j, 1 + 1j, 3 + 4j])
    assert differ(waves, waves + np.array([2**-52, 2**-51 * 1j, 1]), ulp=1, rtol=1e-20) == [1, 2]
    times = np.array(["2001-01-01", "2001-01-02"], "M8[s]")
    assert differ(times, times + np.array([0, 1], "m8[s]"), atol=5, ulp=5) == [1]
    assert differ(np.array([True]), np.array([False]), atol=5, ulp=5) == [0]


@pytest.mark.parametrize(
    "given",
    [{"rtol": -1}, {"atol": np.nan}, {"rtol": np.inf}, {"ulp": 0.5}, {"ulp": -1}, {"atol": True}],
)
def test_odd_tolerances_are_refused(given: dict[str, Any]):
    (name,) = given
    with pytest.raises(PlanError, match=f"{name} is"):
        diff(np.ones(3), np.ones(3), **given)


@pytest.mark.parametrize("dtype", ["f8", "i4"])
def test_nothing_equals_nothing(dtype: str):
    nothing = stored(np.empty((0, 3), dtype), (1, 3))
    found = diff(nothing, nothing)
    assert (found.equal, found.elements, found.max_abs, found.rmse) == (True, 0, 0, 0)


def test_times_are_equal_or_not():
    times = np.array(["2020-01-01", "NaT"], "M8[D]")
    found = diff(stored(times, (1,)), stored(times, (2,)))
    assert found.equal
    assert (found.max_abs, found.rmse) == (0, None)
    later = times + np.array([3, 0], "m8[D]")
    found = diff(stored(times.astype("M8[ns]"), (1,)), stored(later, (2,)))
    assert (found.different, found.first, found.rmse) == (1, (0,), None)
    assert (found.max_abs, found.max_abs.dtype) == (np.timedelta64(3, "D"), "m8[ns]")
    assert found.lines()[1:] == [f"max_abs {3 * 86_400 * 10**9} nanoseconds"]
    far = stored(np.array([2**62], "M8[s]"), (1,))
    found = diff(far, stored(times[:1].astype("M8[ms]"), (1,)))
    assert (found.different, found.max_abs) == (1, None)  # in milliseconds


def test_ids_that_float64_does_not_tell_apart_differ():
    ids = np.arange(2**53, 2**53 + 9)
    copy = ids.astype("u8")
    assert diff(stored(ids, (2,)), stored(copy, (3,))).equal
    copy[7] += 1
    for kind in ("u8", "i8"):
        found = diff(stored(ids, (2,)), stored(copy.astype(kind), (3,)))
        assert (found.different, found.first, found.max_abs, found.rmse) == (1, (7,), 1, 1 / 3)
    found = diff(stored(np.array([-(2**63)]), (1,)), stored(np.array([2**64 - 1], "u8"), (1,)))
    assert (found.max_abs, found.rmse) == (2**64 + 2**63 - 1, 1.5 * 2**64)
    assert f'"max_abs": {2**64 + 2**63 - 1}' in json.dumps(difference_json(found))


def test_complex_numbers_differ_by_their_distance():
    one = np.array([1 + 2j, np.inf, np.nan, 3 + 4j], "c8")
    other = np.array([1 + 2j, np.inf, np.nan + 1j, 0], "c16")
    found = diff(stored(one, (1,)), stored(other, (2,)))
    assert (found.different, found.first, found.max_abs) == (1, (3,), 5)
    assert found.rmse == np.sqrt(25 / 3)  # of pairs without NaN
    assert diff(stored(one, (1,)), stored(one, (2,))).equal


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(PlanError, match=r"has shape \(2,\), but .* has \(3,\)"):
        diff(stored(np.zeros(2), (2,)), stored(np.zeros(3), (3,)))
    with pytest.raises(MonoidError, match="no dtype holds both"):
        diff(stored(np.zeros(2), (2,)), stored(np.zeros(2, "M8[s]"), (2,)))
    with pytest.raises(MonoidError, match="no unit holds both"):
        diff(stored(np.zeros(2, "m8[M]"), (2,)), stored(np.zeros(2, "m8[D]"), (2,)))


def test_the_command_tells_by_its_exit_code(tmp_path: Path, command: Callable):
    for name, last in (("a", 1.0), ("b", 2.5)):
        made = zarr.create_array(str(tmp_path / name), shape=(4,), chunks=(2,), dtype="f4")
        made[...] = [0, 0, 0, last]
        made.attrs["scale_factor"] = last
    done = command("diff", tmp_path / "a", tmp_path / "b", code=1)
    assert "b: not applied: scale_factor 2.5" in " ".join(done.stderr.split())
    assert done.stdout == (
        "1 of 4 elements differ, the first at [3]: 1.0 and 2.5\nmax_abs 1.5\nrmse 0.75\n"
    )
    done = command("diff", tmp_path / "a", tmp_path / "a", "--json", "--quiet")
    assert json.loads(done.stdout)["equal"] is True


def test_packed_values_equal_those_they_stand_for(tmp_path: Path, command: Callable):
    packed = zarr.create_array(
        str(tmp_path / "packed.zarr"),
        data=np.array([[5, -7, 200], [-32767, 11, 0]], "i2"),
        attributes={"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -32767},
    )
    floats = np.array([[5.5, -0.5, 103.0], [np.nan, 8.5, 3.0]])
    assert diff(packed, stored(floats, (1, 2)), mask_and_scale=True).equal
    floats[1, 1:] = 9.5, np.nan
    found = diff(packed, stored(floats, (1, 2)), mask_and_scale=True)
    assert (found.different, found.first, found.values) == (2, (1, 1), (8.5, 9.5))
    assert (found.max_abs, [d.name for d in found.dtypes]) == (1.0, ["float64", "float64"])
    plain = zarr.create_array(str(tmp_path / "plain.zarr"), data=floats.astype("f4"))
    words = ("diff", packed.store.root, plain.store.root)
    assert "not applied: scale_factor 0.5" in command(*words, code=1).stderr
    told = command(*words, "--mask-and-scale", code=1)
    assert told.stdout.startswith("2 of 6 elements differ, the first at [1, 1]: 8.5 and 9.5")
    assert "not applied" not in told.stderr


def test_signs_are_read_as_attributes_say():
    signed = zarr.create_array({}, data=np.array([-1, 3], "i1"), attributes={"_Unsigned": "true"})
    found = diff(signed, stored(np.array([255, 4], "u1"), (2,)), mask_and_scale=True)
    assert (found.first, found.values, found.max_abs) == ((1,), (3, 4), 1)


@pytest.mark.parametrize(
    ("dtypes", "to"),
    [
        (("i8", "f8"), "float64"),
        (("f4", "u8"), "float64"),
        (("u8", "c8"), "complex128"),
        (("i8", "u8"), ""),
        (("i4", "f8"), ""),
        (("f4", "f8"), ""),
        (("i8", "i8"), ""),
        (("M8[s]", "M8[ms]"), ""),
    ],
)
def test_integers_that_are_rounded_to_be_compared_are_told(dtypes: tuple[str, str], to: str):
    """2**53 and the next one are the same float64: whoever reads "equal" must know."""
    one = np.array([3, 5]).astype(dtypes[0])
    other = one.astype(dtypes[1])
    if dtypes == ("i8", "f8"):
        one[0], other[0] = 2**53 + 1, 2**53
    found = diff(stored(one, (1,)), stored(other, (2,)))
    told = [line for line in found.lines() if "integers beyond 2**53 are rounded" in line]
    assert (found.rounded, bool(told)) == (to, bool(to))
    assert difference_json(found)["rounded_to"] == (to or None)
    assert found.equal
