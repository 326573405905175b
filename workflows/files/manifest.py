"""The manifest of a run: what was read, by what, how, and what came of it, as JSON."""

from __future__ import annotations

import hashlib
import json
import platform
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

from chunkfold.outputs.outputs import staged
from chunkfold.redaction import shown_address, without_secrets
from chunkfold.running.run import Run
from chunkfold.running.tally import Tally
from chunkfold.sources.source import Source
from chunkfold.workflows.as_json import json_text, jsonable
from chunkfold.workflows.files.results_json import described_labels, device_json, run_facts

VERSION = 1
"""The version of the format of manifests."""
_PACKAGES = ("chunkfold", "dask", "distributed", "numcodecs", "numpy", "pyopencl", "zarr")
_OF_DEVICE = ("name", "kind", "platform", "driver", "opencl", "hardware")
_MOST_VALUES = 1024
"""The most values of a result that the manifest itself has."""


@dataclass
class Record:
    """The contents of a manifest, collected during the work."""

    name: str
    """The name of the job, or of the reduced array."""
    settings: Mapping[str, Any]
    """The arguments, as JSON."""
    runs: dict[str, Run] = field(default_factory=dict)
    """Runs by the names that outputs have for their sources."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Reasons why arrays of a job are not read, by their names."""
    status: str = "done"
    """"done", "skipped" (done, but for bad chunks or arrays), "failed", "interrupted"."""
    error: str | None = None
    manifest: dict[str, Any] = field(default_factory=dict)
    """The manifest; empty until the work has ended."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _began: float = field(default_factory=time.monotonic)

    def as_json(self) -> dict[str, Any]:
        """Return the manifest."""
        return {
            "manifest": VERSION,
            "name": self.name,
            "status": self.status,
            "error": self.error,
            "started": self.started.isoformat(),
            "seconds": round(time.monotonic() - self._began, 3),
            "host": socket.gethostname(),
            "python": platform.python_version(),
            "versions": {name: metadata.version(name) for name in _PACKAGES},
            "settings": _told(self.settings),
            "left_out": [
                {"name": name, "reason": reason} for name, reason in self.left_out.items()
            ],
            "runs": {key: _run_entry(run) for key, run in self.runs.items()},
        }


@contextmanager
def recorded(record: Record, path: str | None) -> Iterator[Record]:
    """Write a manifest when the work ends, however it does; None: nowhere."""
    with written_in_the_end(lambda: _write(record, path)):
        try:
            yield record
            if record.status == "done" and (
                record.left_out or any(run.skipped for run in record.runs.values())
            ):
                record.status = "skipped"
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            record.status = "interrupted" if interrupted else "failed"
            record.error = None if interrupted else f"{type(error).__name__}: {error}"
            raise


@contextmanager
def written_in_the_end(write: Callable[[], None]) -> Iterator[None]:
    """Write when the work ends, however it does; what ended it matters more than what ends that."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            write()
        raise
    write()


def _write(record: Record, path: str | None) -> None:
    record.manifest = record.as_json()
    if path is not None:
        with staged(path, overwrite=True) as made:
            made.write_text(json_text(record.manifest, indent=2) + "\n")


def _told(value: Any) -> Any:
    """Return settings without the secrets of URLs."""
    if isinstance(value, Mapping):
        return {name: _told(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_told(inner) for inner in value]
    return without_secrets(shown_address(value)) if isinstance(value, str) else value


def _run_entry(run: Run) -> dict[str, Any]:
    tally = Tally()
    for event in list(run.events):
        tally.hear(event)
    found = run_facts(run)
    devices = [
        {name: value for name, value in device_json(entry.device).items() if name in _OF_DEVICE}
        for entry in run.profile.values()
    ]
    return {
        "sources": [_source_entry(source) for source in run.plan.sources],
        "results": {name: _summary(value) for name, value in run.values.items()},
        "labels": _labels(run) if run.values else {},
        "plan": str(run.plan),
        **found,
        "levels": run.plan.largest_tree.height,
        "memory_bound": run.plan.memory.total,
        "retries": {
            "blocks": tally.again,
            "workers": [{"worker": one.worker, "reason": one.reason} for one in tally.retired],
        },
        "devices": [
            device | entry for device, entry in zip(devices, found["devices"], strict=True)
        ],
    }


def _labels(run: Run) -> dict[str, Any]:
    """Describe the labels of results; of several questions by their names."""
    told = {name: described_labels(one.results, _MOST_VALUES) for name, one in run.answers.items()}
    found: dict[str, Any] = told.get("", told)
    return found


def _source_entry(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "dtype": str(source.dtype),
        "shape": list(source.shape),
        "chunks": list(source.chunks),
        "metadata_sha256": metadata_hash(source),
    }


def metadata_hash(source: Source) -> str:
    """Return the SHA-256 of an array's metadata, whatever the order in which its store has them."""
    described = json.dumps(source.metadata, sort_keys=True, default=str)
    return hashlib.sha256(described.encode()).hexdigest()


def _summary(value: Any) -> Any:
    """Return a result, or of a large one its dtype, shape, extremes and hash."""
    array = np.asarray(value)
    if array.size <= _MOST_VALUES:
        return jsonable(value)
    ends = {}
    if array.dtype.kind in "iuf" and not np.isnan(array).all():
        ends = {"low": jsonable(np.nanmin(array)), "high": jsonable(np.nanmax(array))}
    content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        **ends,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
