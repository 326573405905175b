"""`--ask`: several questions on one command line, which one read answers."""

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
from chunkfold.workflows.cli import options, reduction_options, sections
from chunkfold.workflows.written_options import WRITTEN


def _click_option(name: str) -> click.Parameter:
    flags, given = options.declared(name)
    return sections.SectionedOption(flags, **given)


_OWN = [_click_option(name) for name in WRITTEN if name not in COMMON]
_BESIDE = [flag for name in WRITTEN if name in COMMON for flag in _click_option(name).opts]
_COMMAND = click.Command("ask", params=_OWN, add_help_option=False)
ask = sections.option(
    "--ask",
    "asks",
    multiple=True,
    metavar="'NAME: OPTIONS'",
    section=Section.OPERATION,
    help="Ask one more question in the same read, with --op, --axis, --by, --weights and so on of "
    "its own: 'months: --op mean --axis time --by time.month'. Options outside --ask are for all "
    "questions that do not have their own. May be repeated; results go by NAME.",
)


def asked_for(asks: Sequence[str], given: Mapping[str, Any]) -> Options | dict[str, Options]:
    """Turn what a command line says of a reduction, or of several, into the library's options.

    Raises
    ------
    ChunkfoldError
        If a question cannot be read, or two go by the same name.
    """
    if not asks:
        return reduction_options.asked_for(**given)
    found: dict[str, Options] = {}
    for question in asks:
        name, colon, text = question.partition(":")
        name = name.strip()
        if not colon:
            raise PlanError(f"--ask {question!r} has no name: write 'NAME: OPTIONS'")
        if name in found:
            raise PlanError(f"--ask {name!r} is there twice: give each a name of its own")
        try:
            found[name] = reduction_options.asked_for(**{**given, **_own(text)})
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
            told = f"{error.option_name} says what all questions read: give it beside --ask"
        elif isinstance(error, click.NoSuchOption):
            told += " A question has the options of a reduction; others stand beside --ask."
        raise PlanError(told) from error
    named = ParameterSource.COMMANDLINE
    return {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is named
    }
