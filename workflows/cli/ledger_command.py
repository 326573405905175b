"""`chunkfold ledger`: what a ledger has, whether it is sound, and what may go."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import click
from dask.utils import parse_timedelta

from chunkfold.errors import PlanError
from chunkfold.ledger.ledger import Damage, Ledger
from chunkfold.ledger.upkeep import prune, verify
from chunkfold.plural import counted
from chunkfold.printable import printable
from chunkfold.units import size_text
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli import EXIT_FAULT
from chunkfold.workflows.terminal.consoles import err, out
from chunkfold.workflows.terminal.style import show, table

_place = click.argument("place", metavar="LEDGER")
_trust = click.option(
    "--trust-ledger", "trusted", is_flag=True, help="Use a folder that others may write to."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def ledger_command() -> None:
    """List the content of a ledger, verify it, or remove damaged and old entries.

    A ledger keeps the intermediate results of runs: see `chunkfold reduce --ledger`. LEDGER is the
    path of its folder, or its URL in an object store.

    \b
    Examples:
      chunkfold ledger show era5.ledger
      chunkfold ledger verify s3://bucket/era5.ledger
      chunkfold ledger prune era5.ledger --older-than 90d
    """


@ledger_command.command("show")
@_place
@_trust
@_json
def _show(place: str, *, trusted: bool, as_json: bool) -> None:
    """List the sources and reductions of its partials."""
    ledger = Ledger.at(place, trusted=trusted, create=False)
    abandoned = len(ledger.abandoned())
    blocks, nbytes, newest = Counter[Any](), Counter[Any](), dict[Any, datetime]()
    for _, note in ledger.notes():
        name = note.source, note.what.partition(" of [")[0]
        blocks[name] += 1
        nbytes[name] += note.nbytes
        newest[name] = max(newest.get(name, note.written), note.written)
    if as_json:
        rows = [
            {
                "source": source,
                "ops": ops.split(", "),
                "partials": count,
                "decoded_bytes": nbytes[source, ops],
                "newest": newest[source, ops].isoformat(timespec="seconds"),
            }
            for (source, ops), count in blocks.items()
        ]
        sizes = ledger.sizes()
        told = {"ledger": ledger.name, "segments": len(sizes), "bytes": sum(sizes.values())}
        told["abandoned"] = abandoned
        click.echo(json_text({**told, "sources": rows, **_damage(ledger.damaged)}, indent=2))
        return
    made = table("source", "reductions", "#partials", "#of data", "newest")
    for (source, ops), count in blocks.items():
        size = size_text(nbytes[source, ops])
        made.add_row(printable(source), ops, f"{count:,}", size, f"{newest[source, ops]:%F %T}")
    if blocks:
        show(out, made)
    sizes = ledger.sizes()
    click.echo(
        f"{counted(len(ledger), 'partial')} in {counted(len(sizes), 'file')} of "
        f"{size_text(sum(sizes.values()))}"
    )
    if abandoned:
        click.echo(f"{counted(abandoned, 'file')} of killed writers, which prune removes")
    _tell(ledger.damaged)


@ledger_command.command("verify")
@_place
@_trust
@_json
def _verify(place: str, *, trusted: bool, as_json: bool) -> None:
    """Read every entry, and compare its checksum. The exit code is 1 if any is damaged."""
    ledger = Ledger.at(place, trusted=trusted, create=False)
    damaged = verify(ledger)
    if as_json:
        click.echo(json_text({"partials": len(ledger), **_damage(damaged)}, indent=2))
    else:
        click.echo(f"{counted(len(ledger), 'partial')}, {len(damaged):,} damaged")
        _tell(damaged)
    if damaged:
        click.get_current_context().exit(EXIT_FAULT)


@ledger_command.command("prune")
@_place
@_trust
@click.option(
    "--older-than",
    metavar="AGE",
    help="Remove partials that were written longer ago, such as '90d' or '12h'.",
)
def _prune(place: str, older_than: str | None, *, trusted: bool) -> None:
    """Remove damaged entries; with --older-than also old ones. Other entries are kept.

    Files of writers that were killed more than an hour ago are removed, too.
    """
    age = None if older_than is None else timedelta(seconds=_seconds(older_than))
    removed = prune(Ledger.at(place, trusted=trusted, create=False), older_than=age)
    click.echo(f"removed {counted(len(removed), 'file')}")


def _seconds(text: str) -> float:
    try:
        seconds = float(parse_timedelta(text, default=False))
    except (ValueError, KeyError, TypeError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < 1e10:
        raise PlanError(f"older-than is {text!r}; give an age with its unit, as '90d' or '12h'")
    return seconds


def _damage(damaged: list[Damage]) -> dict[str, Any]:
    each = [{"file": one.name, "entry": one.key, "reason": one.reason} for one in damaged]
    return {"damaged": each}


def _tell(damaged: list[Damage]) -> None:
    for one in damaged:
        what = f"{one.name}: entry {one.key}" if one.key else one.name
        err.print(f"{what}: {one.reason}", markup=False, soft_wrap=True)
