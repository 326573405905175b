"""Tables of the command line, and how values look, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chunkfold.bad_chunks import Skipped
from chunkfold.kernels.catalogue.finish_functions import BIN
from chunkfold.kernels.tuning.reasons import Reason
from chunkfold.plural import counted
from chunkfold.printable import printable
from chunkfold.results.density import extent, heights
from chunkfold.units import size_text
from chunkfold.worker.block_report import DeviceReport, LedgerReport, distinct_names
from chunkfold.workflows.terminal.consoles import err, lines, out

if TYPE_CHECKING:
    from chunkfold.running.run import Run
    from chunkfold.workflows.checks.findings import Soundness
    from chunkfold.workflows.describe import Description

_MOST_ROWS = 40
"""The most rows of a histogram."""
_BAR = 40
"""Characters of a histogram's longest bar."""
_SPARKS, _BARS = 24, " ▁▂▃▄▅▆▇█"
"""Characters of a histogram in a table's row, at most; and which, by height."""
_FIGURES = ("min", "max", "mean", "std")
_DRAWN = ("histogram", "min", "max")


def show(console: Console, made: Table) -> None:
    """Print a table; without the blanks that fill its rows where that is no terminal."""
    if console.is_terminal:
        console.print(made)
        return
    with console.capture() as captured:
        console.print(made)
    for line in captured.get().splitlines():
        console.file.write(line.rstrip() + "\n")
    console.file.flush()


def table(*columns: str) -> Table:
    """Return an empty table in the house's style; columns with '#' align right."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        right = column.startswith("#")
        made.add_column(column.lstrip("#"), justify="right" if right else "left", overflow="fold")
    return made


def value_text(value: Any) -> str:
    """Write a result: every digit of a scalar, the beginning and end of an array."""
    if isinstance(value, np.ndarray):
        return np.array2string(value, threshold=20, edgeitems=3)
    return str(value)


def is_bins(value: Any) -> bool:
    """Return True if a result is one histogram."""
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == BIN


def bin_table(bins: np.ndarray, elements: int, apart: float = 0.0) -> Table:
    """Draw a histogram's records; neighbours share a row where there are many.

    Bars are as long as values, which are `apart` at least, are dense: rows differ in width.
    `elements` were looked at: what is in no bin has a row of its own.
    """
    step = -(-len(bins) // _MOST_ROWS)
    made = table("#from", "#to", "#count", "")
    begins = np.arange(0, len(bins), step or 1)
    rows = bins[begins]
    if len(bins):
        rows["right"] = bins["right"][np.append(begins[1:], len(bins)) - 1]
        rows["count"] = np.add.reduceat(bins["count"], begins)
    low, high = extent(bins)
    dense = heights(rows, max(apart, (high - low) / _MOST_ROWS))
    for (left, right, count), height in zip(rows.tolist(), dense, strict=True):
        made.add_row(f"{left:.6g}", f"{right:.6g}", f"{count:,}", "█" * round(_BAR * height))
    counts = rows["count"].tolist()
    if elements > sum(counts):
        made.add_row("", "elsewhere", f"{elements - sum(counts):,}", "NaN, or in no bin")
    return made


def print_results(results: Mapping[str, Any], elements: int, apart: float = 0.0) -> None:
    """Print results; a histogram as `bin_table` draws it."""
    for name, value in results.items():
        if is_bins(value):
            out.print(name, markup=False)
            show(out, bin_table(value, elements, apart))
        else:
            out.print(lines(f"{printable(name)} {value_text(value)}"))


def spark(bins: np.ndarray, low: float, high: float) -> str:
    """Draw how many elements lie in each of equal parts from the lowest to the highest.

    Bins are wider the further they are from 0: their elements are taken as spread evenly.

    >>> spark(np.array([(0, 1, 8), (1, 3, 8)], BIN), 0, 3)
    '████████▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄'
    >>> spark(np.array([(5, 6, 3)], BIN), 5, 5)
    '█'
    """
    finite = np.isfinite(bins["left"]) & np.isfinite(bins["right"])
    if not finite.any() or not (np.isfinite(low) and np.isfinite(high)):
        return ""
    left, right = (np.clip(bins[name][finite], low, high) for name in ("left", "right"))
    edges = np.linspace(low, high, _SPARKS + 1 if low < high else 2)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        below = np.clip((edges - left) / (right - left), 0, 1)
    below = np.where(left < right, below, edges >= right)
    below[0] = 0  # also of what all lies at the lowest
    counts = np.diff(below @ bins["count"][finite].astype(float))
    heights = np.ceil(np.round(counts / max(counts.max(), 1e-300) * (len(_BARS) - 1), 6))
    return "".join(_BARS[height] for height in heights.astype(int))


def description_table(descriptions: Sequence[Description]) -> Table:
    """Say what is in arrays, a row each."""
    made = table(
        "array", "dtype", "shape", "chunks", "#stored", "#missing", "#min", "#max", "#mean", "#std",
        "histogram",
    )  # fmt: skip
    if any(one.ledger for one in descriptions):
        made.add_column("known before")
    for one in descriptions:
        row = [escape(one.name), "" if one.dtype is None else escape(str(one.dtype))]
        row += [_extents(one.shape), _extents(one.chunks), _stored(one)]
        if one.reason:
            made.add_row(*row, *[""] * 5, escape(one.reason.partition(";")[0]))
            continue
        found = one.statistics
        figures = [_short(found[name]) if name in found else "" for name in _FIGURES]
        missing = "" if one.missing is None else f"{one.missing:,}"
        drawn = [found[name] for name in _DRAWN if name in found]
        row += [missing, *figures, spark(*drawn) if len(drawn) == len(_DRAWN) else ""]
        made.add_row(*row, *([] if one.ledger is None else [_known(one.ledger)]))
    return made


def _known(report: LedgerReport) -> str:
    """Say how much of a description a ledger had, and how old that is.

    >>> from datetime import UTC, datetime
    >>> _known(LedgerReport(4, known=3, oldest=datetime(2026, 1, 2, 3, 4, tzinfo=UTC)))
    '3 of 4 blocks, since 2026-01-02 03:04 UTC'
    """
    since = "" if report.oldest is None else f", since {report.oldest:%F %H:%M %Z}"
    return f"{report.known:,} of {counted(report.blocks, 'block')}{since}"


def finding_table(found: Soundness) -> Table:
    """Say what was found in an archive, a row for each finding."""
    made = table("array", "", "finding", "#chunks", "what", "first")
    for one in found.findings:
        level = "[bold red]error[/]" if one.error else "remark"
        chunks = f"{one.chunks:,}" if one.chunks else ""
        said = (one.kind, chunks, one.message, one.first)
        name = one.name.removeprefix(f"{found.source}/")
        made.add_row(escape(name), level, *map(escape, said))
    return made


def _extents(shape: Sequence[int] | None) -> str:
    if shape is None:
        return ""
    return "x".join(map(str, shape)) or "scalar"


def _stored(one: Description) -> str:
    """Say how many bytes are stored, and how much of the array, if not all."""
    if one.stored is None:
        return "" if one.reason else "?"
    share = float(np.mean(one.stored > 0)) if one.stored.size else 0.0
    part = "" if share in (0.0, 1.0) else f", {share:.0%} of it"
    return size_text(int(one.stored.sum())) + part


def _short(value: Any) -> str:
    """Write a statistic so that a column of them can be read."""
    if isinstance(value, (np.floating, np.complexfloating)):
        return f"{value:.6g}"
    return str(value)


def tell_skipped(skipped: Skipped, elements: int) -> None:
    """Say which chunks were left out, and how much that is of all elements."""
    left_out = sum(skipped.values())
    err.print(f"[bold yellow]skipped:[/] {left_out:,} of {elements:,} elements, of bad chunks:")
    for chunk, count in skipped.items():
        err.print(f"  {chunk or 'others'} ({count:,} elements)", markup=False)


def reason_table(reasons: Sequence[Reason]) -> Table:
    """Say what was chosen, and why."""
    made = table("what", "choice", "why")
    before = ""
    for what, choice, why in reasons:
        made.add_row("" if what == before else what, choice, why)
        before = what
    return made


def ledger_text(run: Run) -> str:
    """Say what a run's ledger had, and what was kept there."""
    assert run.plan.ledger is not None
    told, name = run.ledger, run.plan.ledger.name
    damaged = f"; {told.damaged:,} damaged in it, not used: prune it" if told.damaged else ""
    return f"ledger {name}: had {counted(told.known, 'block')}, keeps {told.kept:,} more{damaged}"


def read_text(run: Run) -> str:
    """Say how much a run read, and how fast."""
    nbytes = run.plan.scan.nbytes
    if run.plan.ledger is not None:  # what it had damaged was read, too
        nbytes = sum(entry.nbytes for entry in run.profile.values())
    return f"{size_text(nbytes)} in {run.seconds:.2f} s, {size_text(nbytes / run.seconds)}/s"


def device_table(devices: Mapping[str, DeviceReport], seconds: float) -> Table:
    """Say which device folded how much, with which variant."""
    made = table("device", "uuid", "variant", "#blocks", "#GiB", "#GiB/s")
    specs = distinct_names(entry.device for entry in devices.values())
    for identity, entry in devices.items():
        gib = entry.nbytes / 2**30
        rate = f"{gib / seconds:.2f}" if seconds else "-"
        cells = (specs[identity], entry.device.uuid, entry.variant, str(entry.blocks))
        made.add_row(*cells, f"{gib:.2f}", rate)
    return made


def pass_table(devices: Mapping[str, DeviceReport]) -> Table:
    """Say how long each pass took on each device: queued, run, first launch apart."""
    made = table(
        "device", "kernel", "#pass", "#launches", "#queued ms", "#run ms",
        "#first queued ms", "#first run ms",
    )  # fmt: skip
    specs = distinct_names(entry.device for entry in devices.values())
    for identity, entry in devices.items():
        for (kernel, number), times in sorted(entry.profile.items(), key=lambda e: e[0][::-1]):
            nanoseconds = (times.wait_ns, times.run_ns, times.first_wait_ns, times.first_run_ns)
            cells = (specs[identity], kernel, str(number), str(times.launches))
            made.add_row(*cells, *(f"{ns / 1e6:.3f}" for ns in nanoseconds))
    return made
