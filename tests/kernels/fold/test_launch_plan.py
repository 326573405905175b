"""How launches are laid over boxes: every row once, and no more accumulators than there are."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import as_monoid, bind, box
from chunkfold.kernels.fold.launch_plan import planned_launches
from chunkfold.kernels.tuning.variant import forced
from tests.conftest import DEVICES

SHAPES = st.lists(st.integers(1, 90), min_size=2, max_size=3)


@given(SHAPES, st.data())
def test_launches_cover_a_box_within_the_splits_there_are(shape: list[int], data):
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape)))
    whole, splits = box(shape, tuple(axes)), data.draw(st.integers(1, 40), "splits")
    if whole.kernel == "flat":
        return
    accumulator = bind([as_monoid("var")], [np.dtype("f4")]).accumulator
    for device in DEVICES:
        launches = planned_launches(
            forced(device, accumulator, "tree")[0], whole, splits, tables=False
        )
        assert sum(one.box.elements for one in launches) == math.prod(shape)
        for one in launches:
            assert one.box.outputs == whole.outputs
            assert 1 <= one.splits <= splits
            assert min(one.shape) >= 1
            if "span" in one.values:  # blocks of so many reach the end
                runs = one.box.elements_per_output // one.values.get("fold", 1)
                if one.where[1] == "fold_short_rows":
                    runs //= one.box.reduced[-1].size
                blocks = one.values.get("blocks", one.splits)
                assert runs <= blocks * one.values["span"]
