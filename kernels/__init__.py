"""One OpenCL device: monoids, kernels, folds. Knows nothing of Zarr, Dask or files.

Names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunkfold.kernels.lazily import loader

if TYPE_CHECKING:
    from chunkfold.kernels.accumulate import Accumulate
    from chunkfold.kernels.accumulator import Accumulator
    from chunkfold.kernels.binding import Bound, bind, is_defined
    from chunkfold.kernels.catalogue import CATALOGUE
    from chunkfold.kernels.choice import choose
    from chunkfold.kernels.combine import Combiner
    from chunkfold.kernels.device import Device
    from chunkfold.kernels.errors import BuildError, ChunkfoldError, DeviceError, MonoidError
    from chunkfold.kernels.fold import Fold
    from chunkfold.kernels.geometry import Box, box
    from chunkfold.kernels.histograms import histogram
    from chunkfold.kernels.host import all_devices, default_devices, devices, split
    from chunkfold.kernels.lookup import as_monoid
    from chunkfold.kernels.monoid import Monoid
    from chunkfold.kernels.opened import OpenedDevice
    from chunkfold.kernels.packing import Packing
    from chunkfold.kernels.partial import Partial
    from chunkfold.kernels.tuning import VARIANTS, Tuning

_HOMES = {
    "chunkfold.kernels.accumulate": ("Accumulate",),
    "chunkfold.kernels.accumulator": ("Accumulator",),
    "chunkfold.kernels.binding": (
        "Bound",
        "bind",
        "is_defined",
    ),
    "chunkfold.kernels.catalogue": ("CATALOGUE",),
    "chunkfold.kernels.choice": ("choose",),
    "chunkfold.kernels.combine": ("Combiner",),
    "chunkfold.kernels.device": ("Device",),
    "chunkfold.kernels.errors": (
        "BuildError",
        "ChunkfoldError",
        "DeviceError",
        "MonoidError",
    ),
    "chunkfold.kernels.fold": ("Fold",),
    "chunkfold.kernels.geometry": (
        "Box",
        "box",
    ),
    "chunkfold.kernels.histograms": ("histogram",),
    "chunkfold.kernels.host": (
        "all_devices",
        "default_devices",
        "devices",
        "split",
    ),
    "chunkfold.kernels.lookup": ("as_monoid",),
    "chunkfold.kernels.monoid": ("Monoid",),
    "chunkfold.kernels.opened": ("OpenedDevice",),
    "chunkfold.kernels.packing": ("Packing",),
    "chunkfold.kernels.partial": ("Partial",),
    "chunkfold.kernels.tuning": (
        "VARIANTS",
        "Tuning",
    ),
}
__all__ = [
    "CATALOGUE",
    "VARIANTS",
    "all_devices",
    "Accumulate",
    "Accumulator",
    "Bound",
    "Box",
    "BuildError",
    "ChunkfoldError",
    "Device",
    "DeviceError",
    "Combiner",
    "Fold",
    "Monoid",
    "MonoidError",
    "OpenedDevice",
    "Packing",
    "Partial",
    "Tuning",
    "as_monoid",
    "bind",
    "box",
    "choose",
    "default_devices",
    "devices",
    "histogram",
    "is_defined",
    "split",
]

__getattr__ = loader(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
