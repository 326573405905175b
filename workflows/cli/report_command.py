"""`chunkfold report`: the page about a run, made again."""

from __future__ import annotations

from pathlib import Path

import click

from chunkfold.workflows.cli import common_options
from chunkfold.workflows.report.again import found_again, read_manifest
from chunkfold.workflows.report.page import check_report, write_page


@common_options.command()
@click.argument("manifest")
@click.argument("page", required=False)
def report_command(manifest: str, page: str | None) -> None:
    """Make PAGE, as --report does, from a MANIFEST that --manifest or a job wrote.

    By default PAGE is the manifest's name with .html; an existing page is replaced. Results of more
    than 1,024 values are drawn if the run's output still exists.

    \b
    Examples:
      chunkfold report night.manifest.json
      chunkfold report night.manifest.json night.html
    """
    out = page or str(Path(manifest).with_suffix(".html"))
    told = read_manifest(manifest)
    check_report(out)
    write_page(out, told, found_again(told))
