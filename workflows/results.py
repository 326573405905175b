"""Results as text, as JSON, and as files."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from chunkfold.errors import PlanError
from chunkfold.kernels import Device
from chunkfold.kernels.finishes import BIN
from chunkfold.planning import Plan
from chunkfold.report import DeviceReport
from chunkfold.run import Run

if TYPE_CHECKING:
    from chunkfold.workflows.describe import Description
    from chunkfold.workflows.diff import Difference
    from chunkfold.workflows.normalize import Normalization

_REMOVAL_DEADLINE_S = 20.0
_STAYS_AWAY_S = 0.3


def jsonable(value: Any) -> Any:
    """Turn a NumPy value into what JSON can carry.

    NaN and infinities, times and complex numbers become strings, records become objects.

    >>> jsonable(np.array([1.5, np.nan])), jsonable(np.int8(3)), jsonable(np.datetime64(0, "s"))
    ([1.5, 'NaN'], 3, '1970-01-01T00:00:00')
    """
    if isinstance(value, (np.ndarray, list, tuple)):
        return [jsonable(entry) for entry in value]
    if isinstance(value, np.void) and value.dtype.names:
        return {name: jsonable(value[name]) for name in value.dtype.names}
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return "NaN" if math.isnan(plain) else "Infinity" if plain > 0 else "-Infinity"
    return str(plain) if isinstance(plain, complex) else plain


def run_json(run: Run, results: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Describe a run and its results for machines."""
    return {
        "sources": [source.name for source in run.plan.sources],
        "results": {name: jsonable(value) for name, value in results.items()},
        "rounding": list(run.plan.rounding),
        "elements": run.plan.layout.elements,
        "skipped": dict(run.skipped),
        "bytes": run.plan.nbytes,
        "seconds": round(seconds, 6),
        "blocks": len(run.plan.blocks),
        "devices": [_device_json(entry) for entry in run.profile.values()],
    }


def plan_json(plan: Plan) -> dict[str, Any]:
    """Describe a plan for machines; sizes are bytes."""
    layout = plan.layout
    return {
        "sources": [
            {
                "name": source.name,
                "dtype": str(source.dtype),
                "shape": list(source.shape),
                "cell": list(source.cell),
                "direct": source.direct is not None,
            }
            for source in plan.sources
        ],
        "ops": list(plan.ops),
        "rounding": list(plan.rounding),
        "shape": list(layout.shape),
        "axes": list(layout.reduced),
        "elements": layout.elements,
        "bytes": plan.nbytes,
        "leaves": layout.tiles * layout.parts,
        "absent_leaves": plan.absent,
        "leaf_bytes": plan.leaf_bytes,
        "blocks": len(plan.blocks),
        "levels": plan.levels,
        "workers": plan.workers,
        "blocks_at_once": plan.threads,
        "readers": plan.readers,
        "memory": {**asdict(plan.memory), "total": plan.memory.total},
    }


def description_json(description: Description) -> dict[str, Any]:
    """Describe an array for machines."""
    stored = description.stored
    return {
        "name": description.name,
        "dtype": str(description.dtype),
        "shape": list(description.shape),
        "chunks": list(description.chunks),
        "elements": description.elements,
        "bytes": description.nbytes,
        "stored_bytes": None if stored is None else int(stored.sum()),
        "stored_objects": None if stored is None else int((stored > 0).sum()),
        "objects": None if stored is None else stored.size,
        "missing": description.missing,
        "statistics": {name: jsonable(value) for name, value in description.statistics.items()},
        "skipped": dict(description.skipped),
        "reason": description.reason,
    }


def difference_json(difference: Difference) -> dict[str, Any]:
    """Describe how two arrays differ for machines."""
    found = asdict(difference)
    found |= {"dtypes": [str(dtype) for dtype in difference.dtypes], "equal": difference.equal}
    return {name: jsonable(value) for name, value in found.items()}


def normalization_json(found: Normalization) -> dict[str, Any]:
    """Describe a normalization for machines: `(value - offset) / scale`."""
    statistics = {name: jsonable(values) for name, values in found.statistics.items()}
    return {
        "source": found.source,
        "channels": found.channels,
        "by": found.by,
        **statistics,
        "offset": jsonable(found.offset),
        "scale": jsonable(found.scale),
    }


def _device_json(entry: DeviceReport) -> dict[str, Any]:
    return {
        "uuid": entry.device.uuid,
        "device": entry.device.spec,
        "name": entry.device.name,
        "worker": entry.worker,
        "variant": entry.variant,
        "tuning": entry.tuning,
        "blocks": entry.blocks,
        "bytes": entry.nbytes,
        "read_seconds": round(entry.read_s, 6),
        "passes": [
            {
                "kernel": kernel,
                "pass": number,
                "launches": times.launches,
                "wait_seconds": times.wait_ns / 1e9,
                "run_seconds": times.run_ns / 1e9,
                "first_wait_seconds": times.first_wait_ns / 1e9,
                "first_run_seconds": times.first_run_ns / 1e9,
            }
            for (kernel, number), times in sorted(entry.profile.items(), key=lambda e: e[0][::-1])
        ],
    }


def device_json(device: Device) -> dict[str, Any]:
    """Describe a device for machines."""
    return {
        "device": device.spec,
        "uuid": device.uuid,
        "name": device.name,
        "kind": device.kind,
        "platform": device.platform,
        "vendor": device.vendor,
        "driver": device.driver,
        "opencl": ".".join(map(str, device.version)),
        "opencl_c": [".".join(map(str, version)) for version in device.c_versions],
        "hardware": device.hardware,
        "compute_units": device.compute_units,
        "max_work_group_size": device.max_work_group_size,
        "local_bytes": device.local_bytes,
        "global_bytes": device.global_bytes,
        "max_alloc_bytes": device.max_alloc_bytes,
        "extensions": sorted(device.extensions),
        "features": sorted(device.features),
    }


def check_output(path: Path, dtype: str | None = None) -> None:
    """Find out before the work starts whether results of a `dtype` can be written there.

    Raises
    ------
    PlanError
        If not, or if its name asks for another format than JSON or Zarr, or for Zarr where results
        are Python's integers.
    """
    if dtype is not None and is_object(dtype) and path.suffix != ".json":
        raise PlanError(
            f"output {path}: Zarr has no data type for Python's integers (dtype {dtype}); use .json"
        )
    if path.suffix not in ("", ".json", ".zarr"):
        raise PlanError(
            f"output {path} ends in {path.suffix!r}; use .json for JSON, .zarr for a Zarr group"
        )
    check_writable(path)


def is_object(dtype: Any) -> bool:
    """Whether results of a dtype are Python's integers; what is no dtype is not."""
    try:
        return bool(np.dtype(dtype).kind == "O")
    except TypeError:
        return False


def check_zarr(path: Path, dtype: str | None = None) -> None:
    """Find out before the work starts whether a Zarr of a `dtype` can be written there.

    Raises
    ------
    PlanError
        If not, or if its name asks for another format.
    """
    if path.suffix not in ("", ".zarr"):
        raise PlanError(f"output {path} is to be a Zarr; end it in .zarr")
    check_output(path, dtype)


def check_writable(path: Path) -> None:
    """Find out before the work starts whether an output can be written.

    Raises
    ------
    PlanError
        If it exists, or its folder does not, or cannot be written.
    """
    if re.match(r"\w+:/", str(path)):
        raise PlanError(f"output {path} is a URL; outputs are local files and folders")
    if os.path.lexists(path):
        raise PlanError(f"output {path} exists; remove it or choose another")
    if not path.parent.is_dir():
        raise PlanError(f"output {path} cannot be written: {path.parent} is not a folder")
    try:
        _staging(path).rmdir()
    except OSError as error:
        raise PlanError(f"output {path} cannot be written: {error}") from None


def _staging(path: Path) -> Path:
    """Make a folder beside an output, from which it moves into place whole."""
    return Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write results as JSON (.json) or as a Zarr group with one array each; whole or not at all.

    Records become groups, of an array for each of their fields.
    """
    with staged(path) as made:
        if path.suffix == ".json":
            made.write_text(json.dumps({k: jsonable(v) for k, v in results.items()}, indent=2))
        else:
            group = zarr.open_group(str(made), mode="w", zarr_format=3)
            for name, value in results.items():
                for part, data in _arrays(name, np.asarray(value)):
                    group.create_array(part, data=data)


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Yield where to write an output; it moves into place once all of it is there."""
    folder = _staging(path)
    try:
        made = folder / path.name
        yield made
        made.rename(path)
    except BaseException:
        _remove(folder)
        raise
    folder.rmdir()


def _remove(folder: Path) -> None:
    """Remove a folder that workers may still write to for a moment: until it stays away."""
    deadline = time.monotonic() + _REMOVAL_DEADLINE_S
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_STAYS_AWAY_S)


def _arrays(name: str, value: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Take records apart: Zarr's third format has no data type for them.

    A field that is the same for every output is written once.
    """
    if value.dtype.names is None:
        return [(name, value)]
    parts = {field: np.ascontiguousarray(value[field]) for field in value.dtype.names}
    if value.dtype == BIN and value.ndim > 1:
        for end in ("left", "right"):
            parts[end] = parts[end].reshape(-1, value.shape[-1])[:1].reshape(-1)
    return [(f"{name}/{field}", part) for field, part in parts.items()]
