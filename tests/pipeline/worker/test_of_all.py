"""What is folded of all elements beside: what is kept stays, what is dropped was never there."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import Combiner, DeviceContext, Fold, as_monoid, bind, histogram
from chunkfold.kernels.fold.power import Powers
from chunkfold.kernels.geometry import box
from chunkfold.kernels.tuning.tuning_choice import choose
from chunkfold.worker.of_all import OfAll
from chunkfold.worker.totals import Totals
from chunkfold.worker.watch import Watch
from tests.conftest import DEVICES

pytestmark = [
    pytest.mark.unoptimised,
    pytest.mark.parametrize("device", DEVICES[:1], ids=lambda device: device.spec),
]
EDGES = [0.0, 2.0, 5.0, 9.0]


def test_what_is_dropped_is_not_there(opened: DeviceContext):
    bound = bind([as_monoid("mean"), histogram(EDGES)], [np.dtype("f4")], exact=True)
    accumulator = bound.accumulator
    tuning = choose(opened.device, accumulator, kernels=("flat", "rows"))
    fills = Powers(opened, [np.full(1, 3.5, "f4")], lambda _: tuning)
    queue = opened.queue()
    of_all = OfAll(
        accumulator,
        lambda queue: Fold(opened, accumulator, tuning, queue=queue),
        lambda count: fills.of(accumulator, count, 1),
        lambda accumulator, parts: Combiner(opened, accumulator, tuning).combine(parts),
        Totals("run", Watch(lambda *_: None, lambda: False)),
    )
    assert of_all.finish() is None
    values = np.random.default_rng(0).uniform(0, 9, (3, 8, 30)).astype("f4")
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    for number, step in enumerate(("keep", "drop", "")):
        buffer = cl.Buffer(opened.context, flags, hostbuf=values[number])
        window = box((8, 30), (1,), strides=(30, 1))  # of eight outputs
        of_all.add([buffer], window, queue, ()).wait()
        if step:
            getattr(of_all, step)()
    of_all.add_fill(7)
    partial = of_all.finish()
    assert partial is not None
    there = np.concatenate([values[0].ravel(), values[2].ravel(), np.full(7, 3.5, "f4")])
    mean, counts = (one.finish(partial)[0] for one in bound.statistics)
    assert mean == np.float32(there.mean(dtype="f8"))
    assert counts["count"].tolist() == np.histogram(there, EDGES)[0].tolist()
