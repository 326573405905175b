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
    from chunkfold.kernels.exact_array import ExactArray
    from chunkfold.kernels.expressions.library import (
        bits,
        first,
        fma,
        gap,
        lookup,
        lower,
        magnitude,
        nonzero,
        order_high,
        order_low,
        rank_high,
        rank_low,
        ratio,
        real,
        upper,
        where,
        wide,
    )
    from chunkfold.kernels.fold import Fold
    from chunkfold.kernels.geometry import Box, box
    from chunkfold.kernels.histograms import histogram
    from chunkfold.kernels.host import all_devices, default_devices, devices, split
    from chunkfold.kernels.keyed.fold import KeyedFold
    from chunkfold.kernels.keyed.layout import KeyedBox, keyed_box
    from chunkfold.kernels.monoid import Monoid
    from chunkfold.kernels.named import as_monoid
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
    "chunkfold.kernels.exact_array": ("ExactArray",),
    "chunkfold.kernels.expressions.library": (
        "bits",
        "first",
        "fma",
        "gap",
        "lookup",
        "lower",
        "magnitude",
        "nonzero",
        "order_high",
        "order_low",
        "rank_high",
        "rank_low",
        "ratio",
        "real",
        "upper",
        "where",
        "wide",
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
    "chunkfold.kernels.keyed.fold": ("KeyedFold",),
    "chunkfold.kernels.keyed.layout": (
        "KeyedBox",
        "keyed_box",
    ),
    "chunkfold.kernels.named": ("as_monoid",),
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
    "Accumulate",
    "Accumulator",
    "Bound",
    "Box",
    "BuildError",
    "CATALOGUE",
    "ChunkfoldError",
    "Combiner",
    "Device",
    "DeviceError",
    "ExactArray",
    "Fold",
    "KeyedBox",
    "KeyedFold",
    "Monoid",
    "MonoidError",
    "OpenedDevice",
    "Packing",
    "Partial",
    "Tuning",
    "VARIANTS",
    "all_devices",
    "as_monoid",
    "bind",
    "bits",
    "box",
    "choose",
    "default_devices",
    "devices",
    "first",
    "fma",
    "gap",
    "histogram",
    "is_defined",
    "keyed_box",
    "lookup",
    "lower",
    "magnitude",
    "nonzero",
    "order_high",
    "order_low",
    "rank_high",
    "rank_low",
    "ratio",
    "real",
    "split",
    "upper",
    "where",
    "wide",
]

__getattr__ = loader(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
