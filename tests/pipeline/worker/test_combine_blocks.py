"""Partials of some groups are combined as if each had all of them, the rest of nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import Partial
from chunkfold.kernels.accumulator.grouped_partials import picked, placed
from chunkfold.worker.combine_blocks import combined_groups
from tests.kernels.accumulator.test_grouped_partials import ACCUMULATOR, OUTPUTS, random_partial

GROUPS = 7


def added(partials: Sequence[Partial]) -> Partial:
    """Combine as kernels do, but for what is not worth a device here: minima, and limbs."""
    names = partials[0].arrays
    together = {
        slot.name: np.minimum if slot.field.op == "min" else np.add for slot in ACCUMULATOR.slots
    }
    return Partial(
        {name: together[name].reduce([one.arrays[name] for one in partials]) for name in names}
    )


@given(st.lists(st.sets(st.integers(0, GROUPS - 1), min_size=1), min_size=2, max_size=5))
def test_what_several_have_is_combined_and_the_rest_kept(groups: list[set[int]]):
    numbers = [np.array(sorted(one)) for one in groups]
    partials = [Partial(random_partial(len(one), seed).arrays) for seed, one in enumerate(numbers)]
    combines: list[int] = []

    def combine(parts: Sequence[Partial]) -> Partial:
        combines.append(parts[0].outputs // OUTPUTS)
        return added(parts)

    got = combined_groups(ACCUMULATOR, numbers, partials, combine)
    every = np.unique(np.concatenate(numbers))
    whole = added(
        [placed(ACCUMULATOR, GROUPS, [pair]) for pair in zip(numbers, partials, strict=True)]
    )
    want = picked(whole, GROUPS, every)
    for name, array in want.arrays.items():
        np.testing.assert_array_equal(got.arrays[name], array)
    several = sum(sum(n in one for one in groups) > 1 for n in range(GROUPS))
    assert combines == [several] * bool(several)
