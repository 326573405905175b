"""Elements numbered on the device: as NumPy's `digitize`, box after box of any size."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import DeviceContext, bind
from chunkfold.kernels.catalogue.histograms import bin_number
from chunkfold.kernels.fold.numbering import Numbering
from tests.conftest import shaped
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised


@pytest.mark.parametrize("shape", ["tree", "vectors"])
def test_boxes_of_any_size_follow_each_other(opened: DeviceContext, shape: str):
    edges, rng = np.array([-1, 0, 0.5, 2]), np.random.default_rng(0)
    accumulator = bind([bin_number(edges, right=False)], [np.dtype("f4")]).accumulator
    queue = opened.queue()
    numbering = Numbering(opened, accumulator, shaped(opened.device, accumulator, shape), queue)
    for count in (7, 1000, 1, 1000, 33, 7):
        x = rng.standard_normal(count).astype("f4")
        found = np.empty(count, np.int32)
        cl.enqueue_copy(queue, found, numbering.of(upload(opened, x), (count,)))
        want = np.digitize(x, edges) - 1
        np.testing.assert_array_equal(found, np.where(want == 3, -1, want))
