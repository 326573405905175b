"""`chunkfold demo`: the main job on real-sized data, checked against NumPy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from chunkfold.api import submit
from chunkfold.errors import PlanError
from chunkfold.kernels.cache.folders import cache_folder
from chunkfold.kernels.exact.rounding import sum_bound
from chunkfold.outputs.outputs import naming
from chunkfold.plural import counted
from chunkfold.running.run import Run
from chunkfold.sources.zarr_arrays import AnyArray
from chunkfold.units import size_text
from chunkfold.workflows.cli import EXIT_FAULT, common_options
from chunkfold.workflows.cli.numbers import Positive
from chunkfold.workflows.cli.sample import days_for, write_sample
from chunkfold.workflows.terminal.consoles import err, out
from chunkfold.workflows.terminal.progress import byte_bar, run_progress
from chunkfold.workflows.terminal.style import device_table, show, table

OPS = ["sum", "min", "max", "mean"]


@click.command()
@click.option(
    "--size",
    type=Positive(),
    default=1.0,
    show_default=True,
    help="Least size of the float32 array, in GiB.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder for the sample.  [default: chunkfold's cache]",
)
@common_options.devices
@click.pass_context
def demo_command(
    ctx: click.Context, size: float, folder: Path | None, specs: tuple[str, ...]
) -> None:
    """Write a sample Zarr array, reduce it on every device, and compare with NumPy.

    The exit code is 1 if integers, minima or maxima differ, or a float sum is outside its bound.

    \b
    Examples:
      chunkfold demo
      chunkfold demo --size 4 --device cpu/2
    """
    days = days_for(size)
    path = (folder or cache_folder("demo")) / f"sample-{days}-days.zarr"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlanError(f"--folder {folder} cannot be made: {error}") from None
    total = days * 721 * 1440 * 6
    out.print(f"writing {path}", markup=False)
    with naming(path), byte_bar(err, "write sample", total) as bar:
        group = write_sample(path, days, lambda n: bar.update(bar.task_ids[0], advance=n))
    wrong = 0
    with common_options.client_for(None, specs) as client:
        for name, array in sorted(group.arrays(), reverse=True):
            with run_progress(err, quiet=False) as watch:
                began = time.monotonic()
                run = submit(array, OPS, client=client, on_event=watch)
                results = run.result()
                seconds = time.monotonic() - began
            wrong += _show(name, array, run, results, seconds)
    if wrong:
        err.print(f"[bold red]{counted(wrong, 'result')} differ from NumPy's[/]")
        ctx.exit(EXIT_FAULT)
    out.print("every result agrees with NumPy's")


def _show(name: str, array: AnyArray, run: Run, results: dict[str, Any], seconds: float) -> int:
    """Print one array's results beside NumPy's; return how many are wrong."""
    out.print()
    out.print(f"[bold]{name}[/] {array.dtype} {array.shape}, chunks of {array.chunks}")
    began = time.monotonic()
    data = np.asarray(array[...])
    numpy_results = {op: getattr(np, op)(data) for op in OPS}
    numpy_seconds = time.monotonic() - began
    made = table("", "chunkfold", "NumPy", "agree", "")
    wrong = 0
    for op in OPS:
        right, why = _agree(op, data, results[op])
        wrong += not right
        made.add_row(op, str(results[op]), str(numpy_results[op]), "yes" if right else "NO", why)
    show(out, made)
    nbytes = run.plan.scan.nbytes
    out.print(
        f"{size_text(nbytes)} in {seconds:.2f} s ({size_text(nbytes / seconds)}/s); NumPy, which "
        f"holds it in memory, took {numpy_seconds:.2f} s"
    )
    show(out, device_table(run.profile, seconds))
    return wrong


def _agree(op: str, data: np.ndarray, got: Any) -> tuple[bool, str]:
    """Compare with NumPy: bit for bit, or within the float sum's bound around a float64 sum."""
    if op in ("min", "max") or (data.dtype.kind != "f" and op == "sum"):
        return bool(got == getattr(np, op)(data)), "identical"
    exact = float(data.sum(dtype=np.float64 if data.dtype.kind == "f" else np.int64))
    magnitude = float(np.abs(data, dtype=data.dtype).sum(dtype=np.float64))
    scale = 1 if op == "sum" else data.size
    dtype = data.dtype if data.dtype.kind == "f" else np.dtype(np.float64)
    # NumPy's float64 sum has an error of its own, by the same bound at most.
    bound = 2 * sum_bound(data.size, magnitude, exact, dtype) / scale
    off = abs(float(got) - exact / scale)
    return off <= bound, f"off by {off:.3g}, bound {bound:.3g}"
