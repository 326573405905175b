"""`chunkfold bench`: measure this machine's devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import click

from chunkfold.errors import ChunkfoldError, PlanError
from chunkfold.kernels import Device
from chunkfold.kernels import devices as find
from chunkfold.kernels.bench.measure import (
    CEILING,
    CROSSOVER_BYTES,
    IN_CACHE,
    NUMPY,
    OURS,
    REDUCTION_KERNEL,
    Row,
    bench_kernels,
    bench_ladder,
    crossover,
)
from chunkfold.kernels.bench.transfer import IN_PLACE, bench_transfer
from chunkfold.outputs.outputs import naming
from chunkfold.units import size_text
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli.common_options import Decorator, stacked
from chunkfold.workflows.cli.numbers import Whole
from chunkfold.workflows.options.parsing import words
from chunkfold.workflows.terminal.consoles import err, out
from chunkfold.workflows.terminal.plots import bar_chart, check_plot
from chunkfold.workflows.terminal.style import show, table

Rates = TypeVar("Rates")
_CONTENDERS = (OURS, CEILING, REDUCTION_KERNEL, NUMPY)
_OPS = ("sum", "min", "max", "mean", "var", "argmin", "sum+min+max+mean")
_MOST_PANELS = 16
_DOUBTFUL = 1.15
_DTYPES = ("float32", "float64", "int32", "int64", "int8", "float16")

_measured: Decorator = stacked(
    click.argument("spec", required=False),
    click.option("--mib", type=Whole(min=1), default=256, show_default=True,
                 help="Size of the array in MiB."),
    click.option("--rounds", type=Whole(min=1), default=9, show_default=True,
                 help="Number of interleaved rounds; medians are shown."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--plot", type=click.Path(path_type=Path),
                 help="Draw bars in this file: SVG, or another format (needs the extra 'plot')."),
)  # fmt: skip


@click.group()
def bench_command() -> None:
    """Measure kernels on this machine's devices, against ceilings and peers.

    SPEC names devices as in `chunkfold devices`; by default all are measured. Rates are bytes of
    elements per second, medians of rounds in which every contender takes its turn. The read
    ceiling is the best of several kernels that only read; "in a cache" is the same fold of elements
    that stay there: a rate near it is limited by arithmetic, not by reading.
    """


@bench_command.command()
@_measured
@click.option("--op", "ops", multiple=True, help="Reduction, or several joined by '+'.")
@click.option("--dtype", "dtypes", multiple=True, help="Dtype of the elements.")
def kernels(
    spec: str | None,
    mib: int,
    rounds: int,
    plot: Path | None,
    ops: tuple[str, ...],
    dtypes: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Production kernels, pyopencl's ReductionKernel and NumPy on one core.

    Without --op and --dtype seven reductions of six dtypes are measured: minutes a device. The last
    lines say from which size a device is faster than NumPy at sums, data in place.

    \b
    Examples:
      chunkfold bench kernels
      chunkfold bench kernels cpu --op sum --dtype float32 --mib 512 --plot kernels.svg
    """
    check_plot(plot)
    found, ops = find(spec or "all"), tuple(words(ops))
    panels = len(ops or _OPS) * len(dtypes or _DTYPES) * len(found)
    if plot is not None and panels > _MOST_PANELS:
        raise PlanError(
            f"--plot {plot} would have {panels} panels; narrow to {_MOST_PANELS} with SPEC, --op "
            "and --dtype"
        )
    rows: list[Row] = []
    try:
        with err.status("measuring") as status:
            for device in found:
                for row in bench_kernels(device, ops or _OPS, dtypes or _DTYPES, mib << 20, rounds):
                    rows.append(row)
                    status.update(f"measuring {device}: {len(rows)} of {panels} rows")
            faster = {device.spec: crossover(device, "sum", "float32", 5) for device in found}
    except (ChunkfoldError, KeyboardInterrupt):
        if rows and not as_json:
            _print_kernels(rows, mib)  # minutes of work
        raise
    if as_json:
        click.echo(json_text({"rows": [asdict(row) for row in rows], "faster_from": faster}))
    else:
        _print_kernels(rows, mib)
        if find_spec("mako") is None:
            err.print(f"{REDUCTION_KERNEL} needs the extra 'bench'", markup=False)
        for device_spec, nbytes in faster.items():
            said = "at no size up to" if nbytes is None else f"from {size_text(nbytes)} on, up to"
            most = size_text(CROSSOVER_BYTES[1])
            text = f"sum of float32: {device_spec} is faster than NumPy {said} {most}"
            out.print(text, markup=False)
        _doubt(rows)
    _draw(plot, _bars(rows, _CONTENDERS), highlight=OURS, line=CEILING)


@bench_command.command()
@_measured
@click.option("--op", default="sum", show_default=True, help="Reduction.")
@click.option("--dtype", default="float32", show_default=True, help="Dtype of the elements.")
def ladder(
    spec: str | None,
    mib: int,
    rounds: int,
    plot: Path | None,
    op: str,
    dtype: str,
    *,
    as_json: bool,
) -> None:
    """The eleven kernels of the reduction tutorials, and the production one.

    \b
    Examples:
      chunkfold bench ladder
      chunkfold bench ladder gpu --mib 4096 --plot ladder.svg
    """
    check_plot(plot)
    rows = _on_each(spec, lambda device: bench_ladder(device, op, dtype, mib << 20, rounds))
    if as_json:
        click.echo(json_text({"rows": [asdict(row) for row in rows]}))
    else:
        for row in rows:
            _print_ladder(row)
        _doubt(rows)
    names = sorted({name for row in rows for name in row.rates}, key=_in_order)
    _draw(plot, _bars(rows, names), highlight=OURS, line=CEILING)


@bench_command.command()
@_measured
def transfer(spec: str | None, mib: int, rounds: int, plot: Path | None, *, as_json: bool) -> None:
    """The ways from host memory to a device: pageable, pinned, mapped, zero copy.

    "moved" ends when the bytes are there, "folded" when their sum is back. Reductions take the way
    with a star.

    \b
    Examples:
      chunkfold bench transfer
      chunkfold bench transfer gpu --mib 1024 --plot transfer.svg
    """
    check_plot(plot)
    found = _on_each(spec, lambda device: bench_transfer(device, mib << 20, rounds))
    if as_json:
        click.echo(json_text({"rows": [asdict(one) for one in found]}))
    else:
        out.print(f"GB/s, {mib} MiB of float32, medians of interleaved rounds", markup=False)
        made = table("device", "way", "#moved", "#folded")
        for one in found:
            for way, rate in one.folded.items():
                star = " *" if way == one.used else ""
                moved = f"{one.moved[way] / 1e9:.1f}" if way in one.moved else "-"
                made.add_row(one.device, way + star, moved, f"{rate / 1e9:.1f}")
        show(out, made)
    bars = {f"{one.device}\nmemory of the host until its sum is back": one.folded for one in found}
    # One bar stands out: devices of one kind take the same way.
    _draw(plot, bars, highlight=found[0].used, line=IN_PLACE)


def _on_each(spec: str | None, measure: Callable[[Device], Rates]) -> list[Rates]:
    """Measure something on every device that a spec names, or on all."""
    found = []
    with err.status("measuring") as status:
        for device in find(spec or "all"):
            status.update(f"measuring {device}")
            found.append(measure(device))
    return found


def _print_kernels(rows: Sequence[Row], mib: int) -> None:
    out.print(f"GB/s, {mib} MiB in place, medians of interleaved rounds", markup=False)
    measured = (OURS, CEILING, IN_CACHE, REDUCTION_KERNEL, NUMPY)
    shares = {"of the ceiling": CEILING, f"of that {IN_CACHE}": IN_CACHE}
    made = table("device", "op", "dtype", *(f"#{name}" for name in (*measured, *shares)))
    for row in rows:
        cells = [f"{row.rates[n] / 1e9:.1f}" if n in row.rates else "-" for n in measured]
        cells += [f"{row.share(of=n):.2f}" if n in row.rates else "-" for n in shares.values()]
        made.add_row(row.device, row.op, row.dtype, *cells)
    show(out, made)


def _print_ladder(row: Row) -> None:
    out.print()
    out.print(f"{row.device}: {row.op} of {row.dtype}, {size_text(row.nbytes)}", markup=False)
    made = table("kernel", "#GB/s", "#of the ceiling", "")
    for name in sorted([*row.rates, *row.left_out], key=_in_order):
        if name in row.rates:
            made.add_row(name, f"{row.rates[name] / 1e9:.1f}", f"{row.share(name):.2f}")
        else:
            made.add_row(name, "-", "-", row.left_out[name])
    show(out, made)


def _in_order(name: str) -> tuple[int, str]:
    """Sort rungs by number, before the others."""
    number = name.split(maxsplit=1)[0]
    return (int(number), name) if number.isdigit() else (99, name)


def _doubt(rows: Sequence[Row]) -> None:
    """Say so where something was faster than reading: then something else was running."""
    worst = max(row.share(name) for row in rows for name in row.rates if name != IN_CACHE)
    if worst > _DOUBTFUL:
        err.print(
            f"a contender came to {worst:.1f} of the read ceiling: the array fits a cache, or the "
            "machine was busy; measure more MiB, more rounds, or later",
            markup=False,
        )


def _bars(rows: Sequence[Row], names: Sequence[str]) -> dict[str, dict[str, float]]:
    return {
        f"{row.op} of {row.dtype}\n{row.device}": {
            name: row.rates[name] for name in names if name in row.rates
        }
        for row in rows
    }


def _draw(
    plot: Path | None, rates: Mapping[str, Mapping[str, float]], *, highlight: str, line: str
) -> None:
    """Draw bytes per second, a panel for each title, if a plot was asked for."""
    if plot is not None:
        groups = {
            title: {name: rate / 1e9 for name, rate in bars.items()}
            for title, bars in rates.items()
        }
        with naming(plot):
            bar_chart(plot, groups, highlight=highlight, line=line, unit="GB/s")
        err.print(f"drew {plot}", markup=False)
