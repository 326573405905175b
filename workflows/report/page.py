"""Makes one HTML page of a run's manifest and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from chunkfold.kernels.catalogue.finish_functions import BIN
from chunkfold.printable import printable
from chunkfold.results.density import step_of
from chunkfold.running.run import Run
from chunkfold.units import size_text
from chunkfold.workflows.as_json import json_text, jsonable
from chunkfold.workflows.manifest import Record, written_in_the_end
from chunkfold.workflows.outputs import check_output, staged
from chunkfold.workflows.report import svg


def check_report(out: str) -> None:
    """Find out before the work starts whether a report can be written; one that is there goes.

    Raises
    ------
    PlanError
        If not.
    """
    check_output(out, (".html",), overwrite=True)


@contextmanager
def reported(record: Record, out: str | None) -> Iterator[None]:
    """Write a report when the work has ended and its manifest is made, however that was.

    None: nowhere.
    """
    with written_in_the_end(lambda: _write(record, out)):
        yield


def _write(record: Record, out: str | None) -> None:
    if out is not None and record.manifest:
        with staged(out, overwrite=True) as made:
            made.write_text(render(record), "utf-8", errors="replace")


def render(record: Record) -> str:
    """Return the page. It loads nothing: its policy forbids that, and scripts."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_shown)
    environment.filters |= {"size": size_text}
    template = environment.from_string(
        files("chunkfold.workflows.report").joinpath("page.html").read_text("utf-8")
    )
    manifest = record.manifest
    runs = [_section(key, manifest["runs"][key], run) for key, run in record.runs.items()]
    text = json_text(_without_timelines(manifest), indent=2)
    return template.render(manifest=manifest, runs=runs, manifest_text=text)


def _shown(value: Any) -> Any:
    """Return what the template inserts: a text as `printable` spells its lines."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(map(printable, value.split("\n")))


def _section(key: str, entry: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Return what the template shows of one array."""
    seconds = entry["seconds"] or 1e-9
    folded = sum(device["bytes"] for device in entry["devices"])
    return {
        "key": key,
        "entry": entry,
        "folded": folded,
        "rate": folded / seconds,
        "results": [_result(name, value, step_of(run.plan)) for name, value in run.values.items()],
        "timeline": svg.timeline(entry["devices"], entry["readers"]),
        "rates": _rates(entry, folded / seconds) if run.values else Markup(""),
        "plan": str(run.plan),
    }


def _result(name: str, value: Any, step: float) -> dict[str, Any]:
    """Return a statistic as text, a table's row or a plot."""
    array = np.asarray(value)
    if array.dtype == BIN and array.ndim == 1:
        total = int(array["count"].sum())
        text = f"{total:,} values in {len(array):,} bins"
        return {"name": name, "text": text, "plot": svg.histogram(array, step)}
    text = str(jsonable(value)) if array.ndim == 0 else _extent(array)
    return {"name": name, "text": text, "plot": Markup("")}


def _extent(array: np.ndarray) -> str:
    """Say what an array of results holds."""
    shape = " x ".join(map(str, array.shape))
    if array.dtype.kind not in "iufb" or not array.size or np.isnan(array.astype(float)).all():
        return f"{array.dtype}, {shape}"
    low, high = np.nanmin(array), np.nanmax(array)
    return f"{array.dtype}, {shape}, from {low} to {high}"


def _rates(entry: Mapping[str, Any], rate: float) -> Markup:
    """Draw how fast the run was, beside what its readers could have brought had they never waited.

    That is the floor: nobody reads and decodes these chunks faster with so many threads.
    """
    busy = [(device["bytes"], device["read_seconds"]) for device in entry["devices"]]
    if not all(reading for _, reading in busy):
        return Markup("")
    floor = sum(nbytes / reading * entry["readers"] for nbytes, reading in busy)
    named = {
        "this run": rate,
        f"{entry['readers']} threads that never wait": floor,
    }
    return svg.rates(named)


def _without_timelines(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {name: inner for name, inner in value.items() if name != "timeline"}
        return {name: _without_timelines(inner) for name, inner in kept.items()}
    return [_without_timelines(inner) for inner in value] if isinstance(value, list) else value
