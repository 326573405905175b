"""A listing is the program: it compiles, and answers with the same bits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import DeviceContext, Fold, as_monoid, bind, box
from chunkfold.kernels.catalogue.histograms import histogram
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.programs import programs
from chunkfold.kernels.listing.declarations import declarations
from chunkfold.kernels.listing.program_listing import WIDTH, Program, listing, wrapped_lines
from chunkfold.kernels.program import device_context as opened_module
from chunkfold.kernels.program.device_context import program_options, program_source
from chunkfold.kernels.tuning.variant import tiers
from tests.conftest import DEVICES, as_gpu, shaped

pytestmark = pytest.mark.unoptimised

MONOIDS = [as_monoid("sum"), as_monoid("argmax"), histogram([-2, 0, 1])]


@pytest.mark.parametrize(
    ("axes", "shape"), [((0, 1), "tree"), ((1,), "vectors"), ((0,), "tree")],
    ids=["flat", "rows", "columns"],
)  # fmt: skip
def test_what_is_listed_answers_as_what_is_compiled(
    opened: DeviceContext, axes: tuple[int, ...], shape: str, monkeypatch
):
    data = np.random.default_rng(3).standard_normal((30, 80)).astype("f4")
    bound = bind(MONOIDS, [data.dtype], exact=True, fp64=opened.device.fp64)
    part = box(data.shape, axes)
    accumulator = bound.accumulator.for_outputs(part.outputs)
    tuning = shaped(opened.device, accumulator, shape)
    assert tuning is not None

    def answers(device: DeviceContext) -> list[bytes]:
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        fold = Fold(device, accumulator, tuning, part.outputs)
        fold.add([cl.Buffer(device.context, flags, hostbuf=data)], part)
        partial = fold.read_back()
        return [one.finish(partial, data.shape, axes).tobytes() for one in bound.statistics]

    want = answers(opened)
    compiled = []

    def listed(device: Device, file: str, *given) -> str:
        source = program_source(device, file, *given)
        options = program_options(device, file, given[1])
        compiled.append(file)
        return Program(file, source, options).text()

    monkeypatch.setattr(opened_module, "program_source", listed)
    assert answers(DeviceContext(opened.device)) == want
    assert len(compiled) >= 2


SEEN = {
    "as it is": DEVICES[0],
    "as a GPU": as_gpu(DEVICES[0]),
    "as a GPU without built-ins": as_gpu(DEVICES[0], "work_group_functions", "sub_groups"),
}
"""The first device, as it is and with the claims of others."""


@cache
def listed(*ops: str, exact: bool = True, seen: str = "as it is") -> str:
    device = SEEN[seen]
    bound = bind(list(map(as_monoid, ops)), [np.dtype("f4")], exact=exact, fp64=device.fp64)
    accumulator, part = bound.accumulator, box((9000,), (0,))
    return listing(programs(device, accumulator, next(tiers(device, accumulator))[0], [part]))


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize(
    ("ops", "exact", "on_cpu", "on_gpu"),
    [
        (["sum"], False, 300, 320),
        (["sum"], True, 680, 540),
        (["mean", "std", "min", "max"], True, 1040, 840),
    ],
)
def test_a_listing_can_be_read(ops: list[str], exact: bool, on_cpu: int, on_gpu: int, seen: str):
    lines = listed(*ops, exact=exact, seen=seen).splitlines()
    assert len(lines) <= (on_gpu if "GPU" in seen else on_cpu), len(lines)
    assert max(map(len, lines)) <= WIDTH


BOXES = [box((1000,), (0,)), box((40, 90), (1,)), box((40, 90), (0,)), box((40, 9), (1,))]


@pytest.mark.parametrize(
    ("ops", "dtype", "outputs"),
    [("std argmax", "f4", 1), ("std", "f8", 40), ("nanmean histogram logsumexp", "i8", 40)],
)
def test_wrapping_changes_space_alone(ops: str, dtype: str, outputs: int):
    device = DEVICES[0]
    monoids = [histogram([0, 1, 5]) if op == "histogram" else as_monoid(op) for op in ops.split()]
    bound = bind(monoids, [np.dtype(dtype)], exact=True, fp64=device.fp64)
    accumulator = bound.accumulator.for_outputs(outputs)
    tuning = next(tiers(device, accumulator))[0]
    for program in programs(device, accumulator, tuning, BOXES):
        for one in program.needed():
            lines = wrapped_lines(one)
            assert lines.split() == one.text.split()
            assert max(map(len, lines.splitlines())) <= WIDTH


def test_long_lines_are_indented_where_they_go_on():
    arguments = ", ".join(f"number{n}" for n in range(30))
    source = f"void f(void)\n{{\n\n    g({arguments});\n}}"
    (one,) = declarations(source)
    first, brace, call, *others, end = wrapped_lines(one).splitlines()
    assert (first, brace, end) == ("void f(void)", "{", "}")
    assert call.startswith("    g(number0, ")
    assert all(line.startswith(" " * 12 + "number") for line in others)
    assert len(others) == 3


def test_every_part_says_where_it_is_from():
    text = listed("sum", "min")
    parts = [line for line in text.splitlines() if line.startswith("// -- ")]
    assert "// -- flat.cl" in parts
    assert any("component 0: s of sum, an exact sum" in part for part in parts)
    assert any("of min" in part for part in parts)
    declared = [line for line in text.splitlines() if line and not line.startswith("//")]
    first = next(n for n, line in enumerate(text.splitlines()) if line == declared[0])
    assert text.splitlines()[first - 1].startswith("// -- ")


@pytest.mark.parametrize("seen", SEEN)
def test_what_stands_in_two_programs_is_told_once(seen: str):
    text = listed("sum", exact=False, seen=seen)
    heads = [line for line in text.splitlines() if line.startswith("static")]
    assert len(heads) == len(set(heads))
    again = text.partition("As above: ")[2].partition("\n// --")[0].replace("\n// ", " ")
    names = again.split(", ")
    assert {"c0_t", "acc_t", "chf_op"} <= set(names)
    whole = [one.name for one in declarations(text)]
    assert set(names) <= set(whole)


def test_nothing_is_listed_that_no_kernel_needs():
    text = listed("sum", exact=False)
    kernels = [one for one in declarations(text) if "__kernel" in one.words]
    others = [one for one in declarations(text) if one not in kernels and not one.is_directive]
    for one in others:
        assert any(one.name in other.words for other in declarations(text) if other is not one)
    assert len(kernels) >= 2
