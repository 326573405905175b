"""Launch signatures: what the source says is what is built, and what a launch must give."""

from __future__ import annotations

import re
from importlib import resources

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import Combiner, DeviceContext, Partial, as_monoid, bind, choose, histogram
from chunkfold.kernels.accumulator.partial import zero_partial
from chunkfold.kernels.geometry import FOLDS
from chunkfold.kernels.ladder import LADDER
from chunkfold.kernels.program.build_options import language_options
from chunkfold.kernels.program.device_context import program_source
from chunkfold.kernels.program.signature import Signature, input_types, signature
from chunkfold.kernels.tuning.trial import kernel_files


def kernels_of(kernel_file: str) -> list[str]:
    text = resources.files("chunkfold.kernels").joinpath("cl", kernel_file).read_text()
    return re.findall(r"^(?:__kernel )?void (\w+)\(", text, re.MULTILINE)


@pytest.mark.parametrize("kernel_file", kernel_files(FOLDS))
def test_built_kernels_take_what_their_source_says(opened: DeviceContext, kernel_file: str):
    monoids, passes = [as_monoid("dot"), as_monoid("max_abs_diff")], kernel_file == "passes.cl"
    pair = bind(monoids, [np.dtype("f4")] * 2, exact=passes).accumulator
    if passes:  # one of which is of limbs alone
        pair = pair.with_limbs()
    tuning = choose(opened.device, pair)
    options = [*language_options(opened.device), *tuning.options(kernel_file)]
    source = program_source(opened.device, kernel_file, pair, tuning)
    program = cl.Program(opened.context, source).build(
        [*options, "-cl-kernel-arg-info"],
        cache_dir=False,  # what comes from a cache has lost its arguments' names
    )
    info = cl.kernel_arg_info
    for kernel in [cl.Kernel(program, name) for name in kernels_of(kernel_file)]:
        takes = signature(kernel_file, kernel.function_name)
        takes.prepare(kernel, input_types(2, strided=False))
        for number, (name, declared) in enumerate(takes.parameters, 2 * takes.has_inputs):
            built = [kernel.get_arg_info(number, of) for of in (info.NAME, info.TYPE_NAME)]
            kind = re.sub("__global|const| ", "", declared)
            assert [word.replace(" ", "") for word in built] == [name, kind]


def test_every_rung_has_a_signature():
    for rung in LADDER:
        names = [name for name, _ in signature(rung.file, rung.kernel).parameters]
        assert names == ["n", "acc", "acc_n", "seen"]


def test_arguments_go_in_the_kernels_order_and_types(opened: DeviceContext):
    parameters = (("n", "ulong"), ("acc", "__global uchar *"), ("m", "uint"))
    takes = Signature("k", parameters, has_inputs=True)
    buffer = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, 8)
    assert takes.arguments({"m": 2, "acc": buffer, "n": 2**40}) == [2**40, buffer, 2]
    with pytest.raises(TypeError, match=r"k takes \['acc', 'm', 'n'\], not \['n'\]"):
        takes.arguments({"n": 1})
    with pytest.raises(TypeError, match=r"acc of k is __global uchar \*, not int"):
        takes.arguments({"n": 1, "acc": 1, "m": 1})
    with pytest.raises(TypeError, match="n of k is ulong, not Buffer"):
        takes.arguments({"n": buffer, "acc": buffer, "m": 1})
    source = "__kernel void k(ulong n, __global uchar *acc, uint m) {}"
    kernel = cl.Kernel(cl.Program(opened.context, source).build(), "k")
    takes.prepare(kernel, [])
    for values in ({"n": -1, "m": 1}, {"n": 1, "m": 2**32}):
        with pytest.raises(RuntimeError, match="processing arg"):
            kernel(opened.queue(), (1,), (1,), *takes.arguments({**values, "acc": buffer}))


def test_a_kernel_of_another_signature_is_noticed(opened: DeviceContext):
    program = cl.Program(opened.context, "__kernel void fill_zero(ulong n) {}").build()
    with pytest.raises(TypeError, match="fill_zero was built with 1 arguments of 4"):
        signature("passes.cl", "fill_zero").prepare(cl.Kernel(program, "fill_zero"), [None])


def test_partials_of_every_width_come_back_as_they_went(opened: DeviceContext):
    """What kernels read and write is what the host packs, slot by slot."""
    monoids = [as_monoid(op) for op in ("any", "argmax", "var", "count")]
    bound = bind([*monoids, histogram([0, 1, 5])], [np.dtype("f4")])
    accumulator, outputs = bound.accumulator, 5
    assert {slot.dtype.itemsize for slot in accumulator.scalars} == {4, 8}
    rng = np.random.default_rng(3)
    arrays = {
        slot.name: rng.integers(1, 2**30, slot.shape(outputs)).astype(slot.dtype)
        for slot in accumulator.slots
    }
    combiner = Combiner(opened, accumulator, choose(opened.device, accumulator))
    # The zero element beside it, so that kernels take it apart and put it together.
    back = combiner.combine([Partial(arrays), zero_partial(accumulator, outputs)])
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array, err_msg=name)
