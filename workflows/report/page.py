"""Makes one HTML page of a run's manifest and results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from chunkfold.outputs.outputs import check_output, staged
from chunkfold.plural import counted
from chunkfold.printable import printable
from chunkfold.results.pictures import Drawable
from chunkfold.units import size_text
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.files.manifest import Record, written_in_the_end
from chunkfold.workflows.report import figures
from chunkfold.workflows.report.words import result_words
from chunkfold.workflows.terminal.plots import drawable

_NUMBER = re.compile(r"(?<![^\s(])[\w.:,+-]*\d[\w.:,+-]{0,40}(?![^\s);,:])")
_ELSEWHERE = ("timeline", "plan", "labels")


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
        done = record.runs.items() if figures.can_draw() else ()
        found = {key: drawable(run.answers) for key, run in done if run.values}
        write_page(out, record.manifest, found)


def write_page(out: str, manifest: Mapping[str, Any], found: Mapping[str, Drawable]) -> None:
    """Write the page of a manifest; what was `found` by each run is drawn."""
    with staged(out, overwrite=True) as made:
        made.write_text(render(manifest, found), "utf-8", errors="replace")


def render(manifest: Mapping[str, Any], found: Mapping[str, Drawable]) -> str:
    """Return the page. It loads nothing: its policy forbids that, and scripts."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_shown)
    environment.filters |= {"size": size_text, "counted": counted}
    template = environment.from_string(
        files("chunkfold.workflows.report").joinpath("page.html").read_text("utf-8")
    )
    runs = [_section(key, entry, found.get(key, {})) for key, entry in manifest["runs"].items()]
    text = json_text(_without_timelines(manifest), indent=2)
    return template.render(
        manifest=manifest, runs=runs, manifest_text=text, can_draw=figures.can_draw()
    )


def _shown(value: Any) -> Any:
    """Return what the template inserts: a text as `printable` spells its lines."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(map(printable, value.split("\n")))


def _section(key: str, entry: Mapping[str, Any], found: Drawable) -> dict[str, Any]:
    """Return what the template shows of one array."""
    seconds, devices = entry["seconds"] or 1e-9, entry["devices"]
    folded = sum(device["bytes"] for device in devices)
    return {
        "key": key,
        "entry": entry,
        "folded": folded,
        "rate": folded / seconds,
        "floor": _floor(entry),
        "results": _words(entry),
        "figures": figures.results(found, f"results of {key}"),
        "timeline": figures.timeline(devices, entry["readers"], f"timeline of {key}"),
        "busy": [figures.busy(device, entry["readers"], devices) for device in devices],
        "plan": entry.get("plan", ""),
    }


def _words(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each result: its name, and what is said of it."""
    labels, rows = entry.get("labels", {}), []
    for name, value in entry["results"].items():
        question, _, op = name.rpartition("/")
        own = labels.get(question, {}) if question else labels
        said = [(what, _unbroken(much)) for what, much in result_words(op, value, own)]
        rows.append({"name": name, "said": said})
    return rows


def _unbroken(text: str) -> Markup:
    """Return a text whose numbers and dates stand on one line each, but for very long ones."""
    safe = str(Markup.escape(_shown(text)))
    return Markup(_NUMBER.sub(r'<span class="value">\g<0></span>', safe))  # noqa: S704 # escaped


def _floor(entry: Mapping[str, Any]) -> float | None:
    """Return how fast readers could have been had they never waited; None if that is unknown.

    Nobody reads and decodes these chunks faster with so many threads.
    """
    busy = [(device["bytes"], device["read_seconds"]) for device in entry["devices"]]
    if not busy or not entry["results"] or not all(reading for _, reading in busy):
        return None
    return float(sum(nbytes / reading * entry["readers"] for nbytes, reading in busy))


def _without_timelines(value: Any) -> Any:
    """Leave out of a manifest what the page shows otherwise."""
    if isinstance(value, Mapping):
        kept = {name: inner for name, inner in value.items() if name not in _ELSEWHERE}
        return {name: _without_timelines(inner) for name, inner in kept.items()}
    return [_without_timelines(inner) for inner in value] if isinstance(value, list) else value
