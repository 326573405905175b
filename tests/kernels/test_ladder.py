"""The ladder: every rung, for every length, on every device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest
from hypothesis import given

from chunkfold.kernels import DeviceContext, as_monoid, bind, box
from chunkfold.kernels.ladder import LADDER, Rung, RungFold
from chunkfold.kernels.program.build_options import language_options
from tests.conftest import ALL_SHAPES, DEVICES
from tests.kernels.fold.test_fold import LENGTHS, upload, values

_ran: set[int] = set()


@pytest.mark.short
@pytest.mark.every_device
@pytest.mark.parametrize("rung", LADDER, ids=lambda rung: rung.kernel)
@pytest.mark.parametrize("turn", [0, 1] if ALL_SHAPES else [0])
def test_a_rung_is_right_for_every_length(opened: DeviceContext, rung: Rung, turn: int):
    # Each rung with one of the dtypes, another on the next device; `make test-shapes` runs both.
    dtype = ("int32", "float16")[(rung.number + DEVICES.index(opened.device) + turn) % 2]
    if rung.variant != "tree":
        dtype = "float16"  # sums of integers carry, which no built-in does
    # argmin too, where built-ins are not needed: any monoid goes.
    ops = ["sum", "max"] if rung.variant != "tree" else ["sum", "max", "argmin"]
    bound = bind([as_monoid(op) for op in ops], [np.dtype(dtype)])
    if rung.why_not(opened.device, bound.accumulator):
        return  # counted below
    _ran.add(rung.number)

    @given(LENGTHS.filter(bool))
    def check(count: int) -> None:
        array = (values("int8", count, count)).astype(dtype)
        fold = RungFold(opened, bound.accumulator, rung, count)
        fold.add([upload(opened, array)], box((count,), (0,)))
        partial = fold.read_back()
        got = {s.name: s.finish(partial, (count,), (0,))[0] for s in bound.statistics}
        assert got["sum"] == array.astype("f8").sum().astype(got["sum"].dtype)
        assert got["max"] == array.max()
        if "argmin" in got:
            assert got["argmin"] == array.argmin()

    check()


@pytest.mark.cpu_runtime  # NVIDIA's has no built-ins of work-groups
def test_every_rung_ran_somewhere():
    assert _ran == {rung.number for rung in LADDER}


@pytest.mark.parametrize("rung", LADDER, ids=lambda rung: rung.kernel)
def test_a_rung_compiles_alone(opened: DeviceContext, rung: Rung):
    folder = Path(__file__).parents[2] / "kernels" / "cl"
    options = [*language_options(opened.device), "-I", str(folder)]
    if rung.variant != "tree":
        accumulator = bind([as_monoid("sum")], [np.dtype("f4")]).accumulator
        if rung.why_not(opened.device, accumulator):
            return
        options.append(f"-DCHF_STAGE={['tree', 'work_group', 'sub_group'].index(rung.variant)}")
    program = cl.Program(opened.context, (folder / rung.file).read_text()).build(options)
    assert [kernel.function_name for kernel in program.all_kernels()] == [rung.kernel]


def test_every_file_is_a_rung():
    folder = Path(__file__).parents[2] / "kernels" / "cl"
    files = {f"ladder/{path.name}" for path in (folder / "ladder").glob("*.cl")}
    assert files == {rung.file for rung in LADDER}
