"""Faults of published reduction kernels: each is shown to be one, and that ours are free of it.

The published bodies run on every device as they stand; nothing else uses them. Reads of memory that
nobody wrote, and hazards between work-groups, are what oclgrind watches for in tests/real.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import DeviceContext, Fold, as_monoid, bind, box, choose
from chunkfold.kernels.tuning.work_groups import work_group_size
from tests.conftest import SHAPES, tried
from tests.kernels.fold.test_fold import upload

# Of floats: sums of integers carry, which no built-in does.
SUM = bind([as_monoid("sum")], [np.dtype("f4")])


def ours(opened: DeviceContext, count: int, shape: str) -> int | None:
    """Sum ones with a shape of ours; None where the device cannot do it."""
    tuning = tried(opened.device, SUM.accumulator, shape, kernels=("flat",))
    if tuning is None:
        return None
    fold = Fold(opened, SUM.accumulator, tuning)
    fold.add([upload(opened, np.ones(count, "f4"))], box((count,), (0,)))
    return int(SUM.statistics[0].finish(fold.read_back())[0])


def published(opened: DeviceContext, body: str, count: int, local: int, groups: int) -> int:
    """Sum ones with a published body in one launch, and its groups' results on the host."""
    source = f"""
    __kernel void published(__global const int *src, __global int *dst, int n, __local int *t)
    {{
        const int gid = get_global_id(0), lid = get_local_id(0), lsize = get_local_size(0);
        {body}
        if (lid == 0) dst[get_group_id(0)] = t[0];
    }}"""
    queue = opened.queue()
    out = np.zeros(groups, "i4")
    target = cl.Buffer(opened.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=out)
    # Ones behind the end too, so that a read past it is wrong but harmless.
    data = upload(opened, np.ones(count + 4096, "i4"))
    kernel = cl.Kernel(cl.Program(opened.context, source).build(), "published")
    scratch = cl.LocalMemory(4 * local)
    kernel(queue, (groups * local,), (local,), data, target, np.int32(count), scratch)
    cl.enqueue_copy(queue, out, target)
    return int(out.sum())


BARRIER = "barrier(CLK_LOCAL_MEM_FENCE);"
LEVELS = "for (int i = lsize / 2; i > 0; i /= 2) { if (lid < i) t[lid] += t[lid + i]; %s }"
TREE = LEVELS % BARRIER
LOAD = f"t[lid] = gid < n ? src[gid] : 0; {BARRIER}"
STRIDE = "int s = 0; for (int k = gid; k < n; k += {}) s += src[k]; t[lid] = s; " + BARRIER
CAPPED = "int i = 0, rounds = 0; while (i < n && rounds < 9999) {{ {} rounds++; }} "
FAULTS = {
    "a halving tree drops items of a group that is no power of two": (LOAD + TREE, 24, 24, 1),
    "len / 256 drops the tail": (
        "int s = 0; for (int k = 0; k < n / 256; k++) s += src[k * 256 + gid]; t[lid] = s;"
        + BARRIER + TREE, 1000, 256, 1),
    "id > max_id reads one past the end": (
        f"t[lid] = gid > n ? 0 : src[gid]; {BARRIER}" + TREE, 100, 128, 1),
    "src[gid + lsize] unguarded reads past the end": (
        f"t[lid] = gid < n ? src[gid] + src[gid + lsize] : 0; {BARRIER}" + TREE, 100, 64, 2),
    "a grid stride by the local size counts elements again": (
        STRIDE.format("lsize") + TREE, 1000, 64, 4),
    "i = 0; i *= 2 never ends": (
        CAPPED.format("i *= 2;") + "t[lid] = rounds < 9999 ? n : -1;" + BARRIER, 1000, 64, 1),
    "int indices end at 2**31": (
        "const uint last = 0x7fffffffu + (uint)n; t[lid] = (int)last < 0 ? -1 : n;" + BARRIER,
        1000, 64, 1),
    # Half the tile's number of 32-wide sub-groups, truncated: 3 of them fold as 2.
    "i /= 2 * ssi loses sub-groups": (
        LOAD + "if (lid % 32 == 0) for (int k = 1; k < 32; k++) t[lid] += t[lid + k];" + BARRIER
        + "if (lid == 0) for (int i = lsize / (2 * 32); i > 0; i /= 2 * 32) t[0] += t[32 * i];"
        + BARRIER, 96, 96, 1),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_the_published_form_is_wrong_and_ours_is_right(opened: DeviceContext, fault: str):
    body, count, local, groups = FAULTS[fault]
    assert published(opened, body, count, local, groups) != count
    for shape in SHAPES:
        for near in (count - 1, count, count + 1):
            assert ours(opened, near, shape) in (near, None), shape


def test_a_tail_without_barriers_assumes_a_lockstep_that_cpus_do_not_have(opened: DeviceContext):
    wrong = published(opened, LOAD + LEVELS % "", 256, 256, 1)
    assert wrong != 256 or opened.device.kind == "gpu"
    assert published(opened, LOAD + TREE, 256, 256, 1) == 256  # with them, the same is right
    assert {ours(opened, 256, shape) for shape in SHAPES} <= {256, None}


def test_length_one_and_none_read_nothing_that_nobody_wrote(opened: DeviceContext):
    tuning = choose(opened.device, SUM.accumulator, kernels=("flat",))
    for _ in range(20):  # other memory each time
        fold = Fold(opened, SUM.accumulator, tuning)
        assert SUM.statistics[0].finish(fold.read_back()) == [0]
        fold.add([upload(opened, np.array([7], "f4"))], box((1,), (0,)))
        assert SUM.statistics[0].finish(fold.read_back()) == [7]


def test_the_work_group_is_clamped_to_the_first_dimension(opened: DeviceContext):
    narrow = replace(opened.device, max_work_item_size=8)
    assert narrow.max_work_group_size > 8
    assert work_group_size(narrow, SUM.accumulator, "tree", 256) == 8
