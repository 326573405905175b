"""Keys of several labels: the number of each combination, made for a place at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.errors import PlanError
from chunkfold.planning import group_keys
from chunkfold.planning.group_keys import Keys, LabelCodes

EXTENTS = (5, 3, 4)


@st.composite
def factors(draw: st.DrawFn) -> list[LabelCodes]:
    """One to three labels, along any axes, some of them along the same."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        axes = tuple(sorted(draw(st.sets(st.integers(0, 2), min_size=1))))
        count = draw(st.integers(1, 4))
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        codes = rng.integers(-1, count, [EXTENTS[n] for n in axes]).astype(np.int8)
        made.append(LabelCodes(axes, codes, count))
    return made


def everywhere(labels: list[LabelCodes]) -> np.ndarray:
    """The number of each element's group; -1 where one of its labels is missing."""
    number, none = np.zeros(EXTENTS, int), np.zeros(EXTENTS, bool)
    for one in labels:
        lacking = [n for n in range(3) if n not in one.axes]
        codes = np.broadcast_to(np.expand_dims(one.codes, lacking), EXTENTS)
        number, none = number * one.count + codes, none | (codes < 0)
    return np.where(none, -1, number)


@given(factors(), st.tuples(*(st.integers(0, size - 1) for size in EXTENTS)))
def test_keys_of_a_place_are_the_combinations_of_labels_there(labels: list[LabelCodes], start):
    keys = Keys.of(labels)
    axes = keys.axes
    assert axes == tuple(sorted({n for one in labels for n in one.axes}))
    place = tuple(slice(start[n], EXTENTS[n]) for n in axes)
    cut = tuple(place[axes.index(n)] if n in axes else 0 for n in range(3))
    want = everywhere(labels)[cut]
    for held in (keys, keys.packed().unpacked()):
        got = held.at(place)
        assert got.dtype == np.int32
        assert got.flags.c_contiguous
        np.testing.assert_array_equal(np.where(got < 0, -1, got), want)
        counts = np.bincount(want[want >= 0], minlength=keys.count)
        np.testing.assert_array_equal(held.counts(place), counts)


def test_labels_along_axes_of_their_own_are_not_put_together():
    months = LabelCodes((0,), np.zeros(1000, np.int8), 12)
    zones = LabelCodes((1, 2), np.zeros((2000, 3000), np.int8), 3)
    keys = Keys.of([months, zones])
    assert (keys.count, keys.size) == (36, 6_000_000_000)
    assert keys.nbytes == 1000 + 6_000_000
    years = LabelCodes((0,), np.zeros(1000, np.int8), 4)
    assert Keys.of([months, years, zones]).nbytes == keys.nbytes  # those of one axis are


def test_more_groups_than_devices_count_are_refused():
    codes = np.zeros(2, np.int32)
    with pytest.raises(PlanError, match=r"50,000 x 60,000 groups"):
        Keys.of([LabelCodes((0,), codes, 50_000), LabelCodes((1,), codes, 60_000)])


@given(
    factors(), st.tuples(*(st.tuples(st.integers(0, n - 1), st.integers(1, n)) for n in EXTENTS))
)
def test_keys_of_some_groups_number_those_of_a_box(labels: list[LabelCodes], ends):
    keys = Keys.of(labels)
    reach = tuple(slice(first, first + count) for first, count in ends)
    found = keys.of_some(reach)
    place = tuple(slice(along.start, min(along.stop, EXTENTS[n]))
                  for n, along in enumerate(reach) if n in keys.axes)  # fmt: skip
    whole = keys.at(place)
    if found is None:
        few, numbers = keys, np.arange(keys.count)
    else:
        few, numbers = found
        assert len(numbers) == few.count < keys.count
    assert (np.diff(numbers) > 0).all()
    got = few.at(place)
    np.testing.assert_array_equal(got < 0, whole < 0)
    np.testing.assert_array_equal(numbers[got[got >= 0]], whole[whole >= 0])
    if len(keys.factors) == 1 and got.max() >= 0:
        assert set(numbers) == set(whole[whole >= 0])


def test_a_box_of_no_group_has_keys_of_one():
    keys = Keys.of([LabelCodes((0,), np.array([-1, -1, 0, 1], np.int8), 2)])
    few, numbers = keys.of_some((slice(0, 2),))
    assert (few.count, numbers.tolist(), few.at((slice(0, 2),)).tolist()) == (1, [0], [-1, -1])


def test_labels_that_are_many_are_not_numbered_anew(monkeypatch: pytest.MonkeyPatch):
    keys = Keys.of([LabelCodes((0,), np.arange(100, dtype=np.int8), 100)])
    assert keys.of_some((slice(0, 2),)) is not None
    monkeypatch.setattr(group_keys, "RENUMBERED_BYTES", 99)
    assert keys.of_some((slice(0, 2),)) is None
