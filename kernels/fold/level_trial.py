"""Try on a few elements whether a device makes levels right, before it makes others."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import pyopencl as cl

from chunkfold.kernels.catalogue.window_modes import reduced_windows
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.fold.levels import Levels, LevelsFold
from chunkfold.kernels.program.device_context import DeviceContext

_COLUMNS = 19
"""Windows along the last axis: two vectors of them, and some more."""
_known: WeakKeyDictionary[DeviceContext, dict[Levels, bool]] = WeakKeyDictionary()


def makes_right(opened: DeviceContext, levels: Levels) -> bool:
    """Return whether a device computes the same levels as NumPy; the answer is cached."""
    known = _known.setdefault(opened, {})
    if levels not in known:
        known[levels] = _tried(opened, levels)
    return known[levels]


def _tried(opened: DeviceContext, levels: Levels) -> bool:
    shape = [2 * by + 1 if by > 1 else 1 for by in levels.windows]
    shape[-1] = _COLUMNS * levels.windows[-1] + 1
    image = (np.arange(np.prod(shape)) * 37 % 101).astype(levels.dtype).reshape(shape)
    # With as many axes as there are factors: those before the last three have one element.
    image = image.reshape(([1] * len(levels.factors) + shape)[-len(levels.factors) :])
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    try:
        buffer = cl.Buffer(opened.context, flags, hostbuf=image)
        made = LevelsFold(opened, levels, opened.queue()).made(buffer, image.shape)
    except (DeviceError, cl.Error):  # it does not build, or is not run
        return False
    wanted = [by_numpy(image, levels, n) for n in range(1, levels.count + 1)]
    return made is not None and all(map(np.array_equal, made, wanted))


def by_numpy(image: np.ndarray, levels: Levels, number: int) -> np.ndarray:
    """Return a level of small whole numbers, of which sums and means are exact in float64."""
    functions = {"mean": np.add, "min": np.minimum, "max": np.maximum}
    windows = [by**number for by in levels.factors]
    done = reduced_windows(functions[levels.op], image.astype(np.float64), windows)
    if levels.op == "mean":
        done = done / reduced_windows(np.add, np.ones(image.shape), windows)
    dtype = np.dtype(levels.dtype)
    return (done if dtype.kind == "f" else np.rint(done)).astype(dtype)
