"""Options of reductions, and of several questions by `--ask`; they become the library's options."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from chunkfold.errors import PlanError
from chunkfold.planning.option_values import Section
from chunkfold.planning.options import Options
from chunkfold.planning.questions import COMMON
from chunkfold.sources.concatenating import concatenate
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source
from chunkfold.workflows.cli import common_options
from chunkfold.workflows.job.sources import matching
from chunkfold.workflows.options.parsing import axis
from chunkfold.workflows.options.written_options import WRITTEN, library_options

sources = common_options.stacked(
    click.argument("sources", nargs=-1, required=True, metavar="SOURCE..."),
    common_options.option(
        "--concatenate",
        "joined",
        section=Section.SOURCE,
        metavar="AXIS",
        help="Join all SOURCEs along this axis, by number or name. They may be patterns: "
        "'data/*.zarr/air', 'data/*.nc/air'.",
    ),
    common_options.stores,
)
reduction = common_options.written(*WRITTEN)
"""All options of a reduction."""
whole_reduction = common_options.written(*(name for name in WRITTEN if name != "on_bad_chunk"))
"""The same without `--on-bad-chunk`, for outputs that must be whole."""


def opened(sources: Sequence[str], joined: str | None) -> list[Source]:
    """Open what the user named: each by itself, or all of them as one along an axis."""
    if joined is None:
        return [open_source(source) for source in sources]
    addresses = [address for source in sources for address in matching(source)]
    return [concatenate(addresses, axis(joined))]


def options_from(**given: Any) -> Options:
    """Turn what a command line says of a reduction into the library's options."""
    read = {name: WRITTEN[name].read(value) for name, value in given.items()}
    return Options(**library_options(read))


def _click_option(name: str) -> click.Parameter:
    flags, given = common_options.declared(name)
    return common_options.SectionedOption(flags, **given)


_OWN = [_click_option(name) for name in WRITTEN if name not in COMMON]
_BESIDE = [flag for name in WRITTEN if name in COMMON for flag in _click_option(name).opts]
_COMMAND = click.Command("ask", params=_OWN, add_help_option=False)
ask = common_options.option(
    "--ask",
    "asks",
    multiple=True,
    metavar="'NAME: OPTIONS'",
    section=Section.OPERATION,
    help="Ask one more question in the same read, with its own --op, --axis, --by, --weights and "
    "so on: 'months: --op mean --axis time --by time.month'. Options outside --ask are for all "
    "questions that do not have their own. May be repeated. NAME names the results.",
)


def questions_from(asks: Sequence[str], given: Mapping[str, Any]) -> Options | dict[str, Options]:
    """Turn what a command line says of a reduction, or of several, into the library's options.

    Raises
    ------
    ChunkfoldError
        If a question cannot be read, or two go by the same name.
    """
    if not asks:
        return options_from(**given)
    found: dict[str, Options] = {}
    for question in asks:
        name, colon, text = question.partition(":")
        name = name.strip()
        if not colon:
            raise PlanError(f"--ask {question!r} has no name: write 'NAME: OPTIONS'")
        if name in found:
            raise PlanError(f"--ask {name!r} is given twice: give each question its own name")
        try:
            found[name] = options_from(**{**given, **_own(text)})
        except PlanError as error:
            raise PlanError(f"--ask {name!r}: {error}") from error
    return found


def _own(text: str) -> dict[str, Any]:
    """Return the options that a question names itself."""
    try:
        context = _COMMAND.make_context("ask", shlex.split(text))
    except (click.UsageError, ValueError) as error:
        told = error.format_message() if isinstance(error, click.UsageError) else str(error)
        if isinstance(error, click.NoSuchOption) and error.option_name in _BESIDE:
            told = f"{error.option_name} applies to what all questions read: give it outside --ask"
        elif isinstance(error, click.NoSuchOption):
            told += " A question has the options of a reduction; give others outside --ask."
        raise PlanError(told) from error
    named = ParameterSource.COMMANDLINE
    return {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is named
    }
