"""Undo filters of numcodecs on a device: the kernels of `cl/filters`, over many chunks at once."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode.codec_chain import Filter
from chunkfold.kernels.decode.workspace import StageInput, Workspace
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.program.device_context import DeviceContext

_TYPES = {
    **{f"{kind}{1 << k}": name for kind, names in (
        ("i", ("char", "short", "int", "long")), ("u", ("uchar", "ushort", "uint", "ulong")),
    ) for k, name in enumerate(names)},
    "f4": "float", "f8": "double",
}  # fmt: skip
_KERNELS = {
    "shuffle": ("undo_shuffle", "shuffled.clh", "filters/shuffle.cl"),
    "delta": ("undo_delta", "filters/elements.clh", "filters/delta.cl"),
    "fixedscaleoffset": ("undo_scale_offset", "filters/elements.clh", "filters/scale_offset.cl"),
}
_LANES, _UNIT = 64, 8


class FilterKernel:
    """The kernel that undoes a filter, which a device can."""

    def __init__(self, opened: DeviceContext, filter: Filter) -> None:  # noqa: A002 # as numcodecs
        if filter.name == "fixedscaleoffset" and (why := opened.device.lacks("fp64")):
            raise DeviceError(f"{opened.device.name} cannot divide in float64: {why}")
        self._filter = filter
        name, *files = _KERNELS[filter.name]
        options = [f"-DWIDTH={filter.decoded.itemsize}"]
        if filter.name != "shuffle":
            options = [*_types("ENCODED", filter.encoded), *_types("DECODED", filter.decoded)]
        if filter.name == "delta":
            options.append(f"-DLANES={_LANES}")
        self._kernel = cl.Kernel(opened.standalone(*files, options=tuple(options)), name)
        self._numbers: tuple[np.float64, ...] = ()
        if filter.name == "fixedscaleoffset":
            self._numbers = np.float64(filter.scale), np.float64(filter.offset)

    def decode(self, workspace: Workspace, given: StageInput) -> bool:
        """Enqueue the filter for chunks of as many bytes each, at multiples of one step."""
        count, elements = len(given.to), int(given.nbytes) // self._filter.decoded.itemsize
        shape = {
            "shuffle": (elements // _UNIT + 1, count),
            "delta": (count * _LANES,),
            "fixedscaleoffset": (elements, count),
        }[self._filter.name]
        workspace.launch(
            *(self._kernel, shape, (_LANES, 1)[: len(shape)]),
            *(given.stored, given.decoded, _step(given.places), _step(given.to)),
            *(np.uint64(elements), *self._numbers),
        )
        return True


def _types(name: str, dtype: np.dtype) -> tuple[str, ...]:
    kind, bits = f"{dtype.kind}{dtype.itemsize}", _TYPES[f"u{dtype.itemsize}"]
    big = int(dtype.str[0] == ">")
    return f"-D{name}={_TYPES[kind]}", f"-D{name}_BITS={bits}", f"-D{name}_BIG={big}"


def _step(places: np.ndarray) -> np.uint64:
    return np.uint64(places[1] if len(places) > 1 else 0)
