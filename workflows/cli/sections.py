"""Help in sections: click's options that know theirs, and commands that show them so."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from chunkfold.planning.option_values import Section


class SectionedOption(click.Option):
    """An option that help shows in a section."""

    def __init__(self, *args: Any, section: Section, **given: Any) -> None:
        super().__init__(*args, **given)
        self.section = section


class SectionedCommand(click.Command):
    """A command that shows its options by section; those without one say what it does."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them."""
        shown: dict[Section, list[tuple[str, str]]] = {one: [] for one in Section}
        last = self.get_help_option(ctx)
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                own = Section.RUNNING if param is last else Section.OPERATION
                shown[getattr(param, "section", own)].append(record)
        for section, records in shown.items():
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)


option = partial(click.option, cls=SectionedOption)
command = partial(click.command, cls=SectionedCommand)
