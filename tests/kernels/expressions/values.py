"""Edge values of every dtype, and kernels that evaluate trees on them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import pyopencl as cl

from chunkfold.kernels import Device
from chunkfold.kernels.device.host import handle_of
from chunkfold.kernels.expressions.emit import emitted, tables
from chunkfold.kernels.expressions.nodes import BOOL, Node, input_node, node
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.opencl.opencl_code import library
from chunkfold.kernels.program.build_options import build_options, division

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
          "float32", "float64")  # fmt: skip


def edges(name: str) -> np.ndarray:
    """Return values at which operations change their minds, and some at random."""
    dtype, rng = np.dtype(name), np.random.default_rng(7)
    if name == "bool":
        return np.array([False, True])
    if dtype.kind == "f":
        info = np.finfo(dtype)
        powers = [2.0**31, 2.0**32, 2.0**62, 2.0**63, 2.0**64, 2.0**15, 255.5, 1 / 3]
        some = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, np.inf, float(info.max), float(info.tiny), *powers]
        return np.array([*some, *(-one for one in some), np.nan, *rng.normal(0, 9, 4)], dtype)
    info = np.iinfo(dtype)
    bits = 8 * dtype.itemsize
    some = {0, 1, 2, 3, 7, bits - 1, bits, info.max, info.max - 1, info.max // 2, info.max // 2 + 1,
            info.min, info.min + 1, info.min // 2, -1, -2, -7,
            *rng.integers(-90, 90, 4).tolist()}  # fmt: skip
    return np.array(sorted(one for one in some if info.min <= one <= info.max), dtype)


def pairs(first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """Return every pair of edge values of two dtypes, in two arrays of a multiple of 16."""
    a, b = edges(first), edges(second)
    one, other = np.repeat(a, len(b)), np.tile(b, len(a))
    return tuple(np.resize(array, -(-len(one) // 16) * 16) for array in (one, other))


def symbol(number: int, name: str) -> Symbol:
    """Return an input of a dtype."""
    return Symbol(input_node(number, np.dtype(name)))


@functools.cache
def _context(device: Device) -> cl.Context:
    return cl.Context([handle_of(device)])


def on_device(
    device: Device, roots: Sequence[Node], inputs: Mapping[int, np.ndarray], width: int
) -> list[np.ndarray]:
    """Evaluate trees on a device, `width` elements at a time; 0: one, as scalars."""
    style = LANES if width else ONE
    lanes = max(1, width)
    count = len(next(iter(inputs.values())))
    held = [node("cast", np.dtype(np.uint8), r) if r.dtype == BOOL else r for r in roots]
    names = {n: "uchar" if a.dtype == bool else ONE.type(a.dtype) for n, a in inputs.items()}
    lines, texts = emitted(held, lambda leaf: f"x{leaf.arg[0]}", style)
    parameters = ", ".join(f"__global const {name} *p{n}" for n, name in names.items())
    loads = [
        f"const {name if not style.lanes else f'CHF_VEC({name})'} x{n} = "
        + (f"p{n}[at];" if lanes == 1 else f"vload{lanes}(0, p{n} + at);")
        for n, name in names.items()
    ]
    offsets = np.concatenate([[0], np.cumsum([count * 8 for _ in held])]).tolist()
    stores = []
    for text, root, offset in zip(texts, held, offsets, strict=False):
        ctype = ONE.type(root.dtype)
        to = f"(__global {ctype} *)(out + {offset}) + at"
        stores.append(f"*({to}) = {text};" if lanes == 1 else f"vstore{lanes}({text}, 0, {to});")
    head = ["#pragma OPENCL FP_CONTRACT OFF", f"#define CHF_LANES {lanes}",
            f"#define CHF_WIDTH {lanes}",
            "#define CHF_CPU 1", "#define CHF_ALIGNED 0", "#define CHF_PASTE_(a, b) a##b",
            "#define CHF_PASTE(a, b) CHF_PASTE_(a, b)", division(device), library("vectors.clh"),
            tables(held)]  # fmt: skip
    body = "\n    ".join(
        [f"const size_t at = get_global_id(0) * {lanes};", *loads, *lines, *stores]
    )
    source = "\n".join(
        [*head, f"__kernel void run({parameters}, __global uchar *out)\n{{\n    {body}\n}}"]
    )
    context = _context(device)
    queue = cl.CommandQueue(context)
    options = [*build_options(device), "-cl-opt-disable"]
    program = cl.Program(context, source).build(options, cache_dir=False)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=np.ascontiguousarray(a)) for a in inputs.values()]
    out = np.zeros(max(8, offsets[-1]), np.uint8)
    target = cl.Buffer(context, cl.mem_flags.READ_WRITE, out.nbytes)
    cl.Kernel(program, "run")(queue, (count // lanes,), None, *buffers, target)
    cl.enqueue_copy(queue, out, target)
    return [
        out[offset : offset + count * root.dtype.itemsize].view(root.dtype).astype(given.dtype)
        for root, given, offset in zip(held, roots, offsets, strict=False)
    ]
