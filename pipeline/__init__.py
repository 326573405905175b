"""chunkfold: reduce Zarr arrays larger than memory on every OpenCL device there is.

Names load on first use, so that `import chunkfold.kernels` pulls in neither Dask nor Zarr.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chunkfold.kernels.lazy_imports import loader

if TYPE_CHECKING:
    from chunkfold.acceleration import accelerate
    from chunkfold.api import plan, reduce, submit
    from chunkfold.cluster.local_cluster import LocalOpenCLCluster
    from chunkfold.covariances import corrcoef, cov
    from chunkfold.errors import (
        AlignmentWarning,
        BuildError,
        BusyError,
        CancelledError,
        ChunkError,
        ChunkfoldError,
        ClusterError,
        DeviceError,
        EmptyWarning,
        IncompleteError,
        JobError,
        LawsWarning,
        MissingWarning,
        MonoidError,
        NaNWarning,
        PackedWarning,
        PlaceWarning,
        PlanError,
        RangeError,
        RemarkWarning,
        ServerWarning,
        ShortMemoryWarning,
        SkippedWarning,
        SourceError,
        TimeLimitError,
        UnstoredWarning,
    )
    from chunkfold.kernels import (
        Accumulate,
        Device,
        ExactArray,
        Monoid,
        approx_nunique,
        argbottomk,
        argtopk,
        bits,
        bottomk,
        devices,
        first,
        fma,
        gap,
        histogram,
        longest_run,
        lookup,
        lower,
        magnitude,
        nonzero,
        order_high,
        order_low,
        quantile,
        rank_high,
        rank_low,
        ratio,
        real,
        topk,
        upper,
        where,
        wide,
    )
    from chunkfold.planning.plan import Plan
    from chunkfold.planning.questions import ask
    from chunkfold.results.result import Result
    from chunkfold.results.results import Results
    from chunkfold.running.run import Run
    from chunkfold.sources.bins import bins
    from chunkfold.sources.concatenating import concatenate

_HOMES = {
    "chunkfold.acceleration": ("accelerate",),
    "chunkfold.cluster.local_cluster": ("LocalOpenCLCluster",),
    "chunkfold.errors": (
        "BuildError",
        "BusyError",
        "CancelledError",
        "ChunkError",
        "ChunkfoldError",
        "ClusterError",
        "DeviceError",
        "EmptyWarning",
        "IncompleteError",
        "JobError",
        "LawsWarning",
        "MissingWarning",
        "MonoidError",
        "NaNWarning",
        "PackedWarning",
        "AlignmentWarning",
        "PlaceWarning",
        "PlanError",
        "RangeError",
        "RemarkWarning",
        "ServerWarning",
        "ShortMemoryWarning",
        "SkippedWarning",
        "SourceError",
        "TimeLimitError",
        "UnstoredWarning",
    ),
    "chunkfold.kernels": (
        "Accumulate",
        "Device",
        "ExactArray",
        "Monoid",
        "approx_nunique",
        "argbottomk",
        "argtopk",
        "bits",
        "bottomk",
        "devices",
        "first",
        "fma",
        "gap",
        "histogram",
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
        "topk",
        "upper",
        "where",
        "wide",
    ),
    "chunkfold.planning.plan": ("Plan",),
    "chunkfold.planning.questions": ("ask",),
    "chunkfold.api": ("plan", "reduce", "submit"),
    "chunkfold.covariances": ("corrcoef", "cov"),
    "chunkfold.results.result": ("Result",),
    "chunkfold.results.results": ("Results",),
    "chunkfold.running.run": ("Run",),
    "chunkfold.sources.bins": ("bins",),
    "chunkfold.sources.concatenating": ("concatenate",),
}
__all__ = [
    "Accumulate",
    "BuildError",
    "BusyError",
    "CancelledError",
    "ChunkError",
    "ChunkfoldError",
    "ClusterError",
    "Device",
    "DeviceError",
    "EmptyWarning",
    "ExactArray",
    "IncompleteError",
    "JobError",
    "LawsWarning",
    "LocalOpenCLCluster",
    "MissingWarning",
    "Monoid",
    "MonoidError",
    "NaNWarning",
    "PackedWarning",
    "AlignmentWarning",
    "PlaceWarning",
    "Plan",
    "PlanError",
    "RangeError",
    "RemarkWarning",
    "Result",
    "Results",
    "Run",
    "ServerWarning",
    "ShortMemoryWarning",
    "SkippedWarning",
    "SourceError",
    "TimeLimitError",
    "UnstoredWarning",
    "accelerate",
    "approx_nunique",
    "argbottomk",
    "argtopk",
    "ask",
    "bins",
    "bits",
    "bottomk",
    "concatenate",
    "corrcoef",
    "cov",
    "devices",
    "first",
    "fma",
    "gap",
    "histogram",
    "longest_run",
    "lookup",
    "lower",
    "magnitude",
    "nonzero",
    "order_high",
    "order_low",
    "plan",
    "quantile",
    "rank_high",
    "rank_low",
    "ratio",
    "real",
    "reduce",
    "submit",
    "topk",
    "upper",
    "where",
    "wide",
]


_load = loader(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("chunkfold")
    return _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)
