"""One OpenCL device: monoids, kernels, folds. Knows nothing of Zarr, Dask or files."""

from chunkfold.kernels.accumulate import Accumulate
from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bind import Bound, bind, is_defined
from chunkfold.kernels.catalogue import CATALOGUE
from chunkfold.kernels.choice import choose
from chunkfold.kernels.combine import Combiner
from chunkfold.kernels.device import Device
from chunkfold.kernels.errors import BuildError, ChunkfoldError, DeviceError, MonoidError
from chunkfold.kernels.fold import Fold
from chunkfold.kernels.geometry import Box, box
from chunkfold.kernels.histogram import histogram
from chunkfold.kernels.host import all_devices, default_devices, devices
from chunkfold.kernels.lookup import as_monoid
from chunkfold.kernels.monoid import Monoid
from chunkfold.kernels.opened import OpenedDevice
from chunkfold.kernels.packing import Packing
from chunkfold.kernels.partial import Partial
from chunkfold.kernels.tuning import VARIANTS, Tuning

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
]
