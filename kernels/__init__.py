"""One OpenCL device: monoids, kernels, folds. Knows nothing of Zarr, Dask or files.

Names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunkfold.kernels.lazy_imports import loader

if TYPE_CHECKING:
    from chunkfold.kernels.accumulator.accumulator import Accumulator
    from chunkfold.kernels.accumulator.exact_array import ExactArray
    from chunkfold.kernels.accumulator.packing import Packing
    from chunkfold.kernels.accumulator.partial import Partial
    from chunkfold.kernels.binding.binding import Bound, bind, is_defined
    from chunkfold.kernels.catalogue.catalogue import CATALOGUE
    from chunkfold.kernels.catalogue.distinct import approx_nunique
    from chunkfold.kernels.catalogue.histograms import histogram
    from chunkfold.kernels.catalogue.named import as_monoid
    from chunkfold.kernels.catalogue.quantiles import quantile
    from chunkfold.kernels.catalogue.runs import longest_run
    from chunkfold.kernels.catalogue.topk import argbottomk, argtopk, bottomk, topk
    from chunkfold.kernels.device.device import Device
    from chunkfold.kernels.device.host import all_devices, default_devices, devices, split
    from chunkfold.kernels.errors import BuildError, ChunkfoldError, DeviceError, MonoidError
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
    from chunkfold.kernels.fold.combine import Combiner
    from chunkfold.kernels.fold.fold import Fold
    from chunkfold.kernels.fold.keyed.keyed_box import KeyedBox, keyed_box
    from chunkfold.kernels.fold.keyed.keyed_fold import KeyedFold
    from chunkfold.kernels.geometry import Box, box
    from chunkfold.kernels.monoid.accumulate import Accumulate
    from chunkfold.kernels.monoid.monoid import Monoid
    from chunkfold.kernels.program.device_context import DeviceContext
    from chunkfold.kernels.program.options import VARIANTS, Tuning
    from chunkfold.kernels.strides import strides_along
    from chunkfold.kernels.tuning.tuning_choice import choose

_HOMES = {
    "chunkfold.kernels.monoid.accumulate": ("Accumulate",),
    "chunkfold.kernels.accumulator.accumulator": ("Accumulator",),
    "chunkfold.kernels.binding.binding": (
        "Bound",
        "bind",
        "is_defined",
    ),
    "chunkfold.kernels.catalogue.catalogue": ("CATALOGUE",),
    "chunkfold.kernels.tuning.tuning_choice": ("choose",),
    "chunkfold.kernels.fold.combine": ("Combiner",),
    "chunkfold.kernels.device.device": ("Device",),
    "chunkfold.kernels.errors": (
        "BuildError",
        "ChunkfoldError",
        "DeviceError",
        "MonoidError",
    ),
    "chunkfold.kernels.accumulator.exact_array": ("ExactArray",),
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
    "chunkfold.kernels.fold.fold": ("Fold",),
    "chunkfold.kernels.geometry": (
        "Box",
        "box",
    ),
    "chunkfold.kernels.strides": ("strides_along",),
    "chunkfold.kernels.catalogue.distinct": ("approx_nunique",),
    "chunkfold.kernels.catalogue.histograms": ("histogram",),
    "chunkfold.kernels.catalogue.quantiles": ("quantile",),
    "chunkfold.kernels.catalogue.runs": ("longest_run",),
    "chunkfold.kernels.catalogue.topk": ("argbottomk", "argtopk", "bottomk", "topk"),
    "chunkfold.kernels.device.host": (
        "all_devices",
        "default_devices",
        "devices",
        "split",
    ),
    "chunkfold.kernels.fold.keyed.keyed_fold": ("KeyedFold",),
    "chunkfold.kernels.fold.keyed.keyed_box": (
        "KeyedBox",
        "keyed_box",
    ),
    "chunkfold.kernels.catalogue.named": ("as_monoid",),
    "chunkfold.kernels.monoid.monoid": ("Monoid",),
    "chunkfold.kernels.program.device_context": ("DeviceContext",),
    "chunkfold.kernels.accumulator.packing": ("Packing",),
    "chunkfold.kernels.accumulator.partial": ("Partial",),
    "chunkfold.kernels.program.options": (
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
    "DeviceContext",
    "DeviceError",
    "ExactArray",
    "Fold",
    "KeyedBox",
    "KeyedFold",
    "Monoid",
    "MonoidError",
    "Packing",
    "Partial",
    "Tuning",
    "VARIANTS",
    "all_devices",
    "approx_nunique",
    "argbottomk",
    "argtopk",
    "as_monoid",
    "bind",
    "bits",
    "bottomk",
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
    "longest_run",
    "lookup",
    "lower",
    "magnitude",
    "nonzero",
    "order_high",
    "order_low",
    "quantile",
    "rank_high",
    "rank_low",
    "ratio",
    "real",
    "split",
    "strides_along",
    "topk",
    "upper",
    "where",
    "wide",
]

__getattr__ = loader(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
