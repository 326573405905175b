"""The page of a run is made again of the manifest that the run wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.results.pictures import Drawable
from chunkfold.workflows.files.manifest import VERSION
from chunkfold.workflows.files.read_results import of_json, read_results
from chunkfold.workflows.report.figures import can_draw


def read_manifest(path: str) -> dict[str, Any]:
    """Return a manifest.

    Raises
    ------
    PlanError
        If the file is not there, or is none.
    """
    try:
        manifest: Any = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(
            f"manifest {path} cannot be read ({error}): give a file that --manifest or a job wrote"
        ) from error
    version = manifest.get("manifest") if isinstance(manifest, dict) else None
    if version != VERSION:
        raise PlanError(
            f"{path} is not a manifest of version {VERSION}: give a file that --manifest or a job "
            "wrote"
        )
    return dict(manifest)


def found_again(manifest: Mapping[str, Any]) -> dict[str, Drawable]:
    """Return the results of each run: of the manifest, and large ones of the output.

    An output that is not there any more, or is a table, has none.
    """
    if not can_draw():
        return {}
    runs, written = manifest["runs"], _written(manifest)
    found = {}
    for key, entry in runs.items():
        own = dict(written if len(runs) == 1 else {})
        own |= {
            name.removeprefix(f"{key}_"): one
            for name, one in written.items()
            if name.startswith(f"{key}_")
        }
        own |= written.get(key, {}) if isinstance(written.get(key), dict) else {}
        found[key] = {**own, **_kept(entry)}
    return found


def _written(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    output = manifest["settings"].get("output")
    path = output.get("path") if isinstance(output, Mapping) else output
    with suppress(PlanError):
        return dict(read_results(path)) if path else {}
    return {}


def _kept(entry: Mapping[str, Any]) -> dict[str, Drawable]:
    """Return the results that a manifest has itself."""
    labels, results = entry.get("labels", {}), entry["results"]
    if not any("/" in name for name in results):
        return of_json({**results, "labels": labels})
    by_question: dict[str, dict[str, Any]] = {}
    for name, value in results.items():
        question, _, op = name.rpartition("/")
        by_question.setdefault(question, {"labels": labels.get(question, {})})[op] = value
    return {question: of_json(held) for question, held in by_question.items()}
