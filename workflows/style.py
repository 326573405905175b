"""Consoles and tables of the command line, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from chunkfold.kernels.finishes import BIN
from chunkfold.report import DeviceReport

_MOST_ROWS = 40
"""Of a histogram."""
_BAR = 40
"""Characters of a histogram's longest bar."""
_WIDE = 320
"""Columns where the output is no terminal, so that nothing is cut or folded."""


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=_WIDE)


out = _console(stderr=False)
"""Results."""
err = _console(stderr=True)
"""Everything else."""


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
    """Whether a result is one histogram."""
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == BIN


def bin_table(bins: np.ndarray, elements: int) -> Table:
    """Draw a histogram's records; neighbours share a row where there are many.

    `elements` were looked at: what is in no bin has a row of its own.
    """
    step = -(-len(bins) // _MOST_ROWS)
    made = table("#from", "#to", "#count", "")
    counts = [int(bins["count"][at : at + step].sum()) for at in range(0, len(bins), step or 1)]
    for row, count in enumerate(counts):
        part = bins[row * step : (row + 1) * step]
        bar = "█" * round(_BAR * count / max(*counts, 1))
        ends = (f"{part['left'][0]:.6g}", f"{part['right'][-1]:.6g}")
        made.add_row(*ends, f"{count:,}", bar)
    if elements > sum(counts):
        made.add_row("", "elsewhere", f"{elements - sum(counts):,}", "NaN, or in no bin")
    return made


def device_table(devices: Mapping[str, DeviceReport], seconds: float) -> Table:
    """Say which device folded how much, with which variant."""
    made = table("device", "uuid", "variant", "#blocks", "#GiB", "#GiB/s")
    for entry in devices.values():
        gib = entry.nbytes / 2**30
        rate = f"{gib / seconds:.2f}" if seconds else "-"
        cells = (entry.device.spec, entry.device.uuid, entry.variant, str(entry.blocks))
        made.add_row(*cells, f"{gib:.2f}", rate)
    return made


def pass_table(devices: Mapping[str, DeviceReport]) -> Table:
    """Say how long each pass took on each device: queued, run, first launch apart."""
    made = table(
        "device", "kernel", "#pass", "#launches", "#queued ms", "#run ms",
        "#first queued ms", "#first run ms",
    )  # fmt: skip
    for entry in devices.values():
        for (kernel, number), times in sorted(entry.profile.items(), key=lambda e: e[0][::-1]):
            nanoseconds = (times.wait_ns, times.run_ns, times.first_wait_ns, times.first_run_ns)
            cells = (entry.device.spec, kernel, str(number), str(times.launches))
            made.add_row(*cells, *(f"{ns / 1e6:.3f}" for ns in nanoseconds))
    return made
