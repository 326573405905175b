"""Options that say what is reduced and how, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from chunkfold.planning.option_values import Section
from chunkfold.planning.options import Options
from chunkfold.sources.concatenating import concatenate
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source
from chunkfold.workflows.cli import options, sections
from chunkfold.workflows.job.sources import matching
from chunkfold.workflows.parsing import axis
from chunkfold.workflows.written_options import WRITTEN, library_options

sources = options.stacked(
    click.argument("sources", nargs=-1, required=True, metavar="SOURCE [SOURCE]"),
    sections.option(
        "--concatenate",
        "joined",
        section=Section.SOURCE,
        metavar="AXIS",
        help="Join all SOURCEs along this axis, by number or name. They may be patterns: "
        "'data/*.zarr/air', 'data/*.nc/air'.",
    ),
    options.stores,
)
reduction = options.written(*WRITTEN)
"""All options of a reduction."""
whole_reduction = options.written(*(name for name in WRITTEN if name != "on_bad_chunk"))
"""The same without `--on-bad-chunk`, for outputs that must be whole."""


def opened(sources: Sequence[str], joined: str | None) -> list[Source]:
    """Open what the user named: each by itself, or all of them as one along an axis."""
    if joined is None:
        return [open_source(source) for source in sources]
    addresses = [address for source in sources for address in matching(source)]
    return [concatenate(addresses, axis(joined))]


def asked_for(**given: Any) -> Options:
    """Turn what a command line says of a reduction into the library's options."""
    read = {name: WRITTEN[name].read(value) for name, value in given.items()}
    return Options(**library_options(read))
