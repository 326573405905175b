"""Options that several commands share, and what they mean."""

from __future__ import annotations

import logging
import math
import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np
from distributed import Client

from chunkfold.api import ON_BAD_CHUNK
from chunkfold.cluster import LocalOpenCLCluster, connect
from chunkfold.errors import PlanError
from chunkfold.grid import Selection
from chunkfold.kernels import CATALOGUE, Monoid, histogram
from chunkfold.kernels.histogram import MOST_BINS
from chunkfold.request import MODES
from chunkfold.source import Source
from chunkfold.workflows.axes import axis_numbers
from chunkfold.workflows.style import err

_RANGE = (float, float, int)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def stacked(*options: Decorator) -> Decorator:
    """Join decorators into one, in the order given."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


memory = click.option(
    "--memory",
    metavar="SIZE",
    help="Most that a worker may take above an idle one, as in '2GiB'.  [default: 60% of the "
    "memory limit of a Dask worker]",
)
select = click.option(
    "--select",
    "selection",
    metavar="INDEX",
    help="Take a part: as in NumPy's brackets, '0:100, ..., 3'.",
)
on_bad_chunk = click.option(
    "--on-bad-chunk",
    type=click.Choice(ON_BAD_CHUNK),
    default=ON_BAD_CHUNK[0],
    show_default=True,
    help="skip: leave chunks out that cannot be read, say which, and exit with 3.",
)

as_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="For machines; NaN, infinities and times are strings.",
)
quiet = click.option("--quiet", "-q", is_flag=True, help="Results and errors only.")
keepdims = click.option("--keepdims", is_flag=True, help="Keep reduced axes with size one.")
overwrite = click.option(
    "--overwrite", is_flag=True, help="An output that exists goes, once the new one is made."
)

sources = click.argument("sources", nargs=-1, required=True, metavar="SOURCE [SOURCE]")
reduction = stacked(
    click.option(
        "--op",
        "ops",
        multiple=True,
        help="Reduction; may be repeated, or several joined by commas. One of "
        f"{', '.join(CATALOGUE)}.  [default: sum]",
    ),
    click.option(
        "--edges",
        metavar="EDGES",
        help="Bins of a histogram: their edges, '0,10,100', or LOW:HIGH:BINS of equal width.  "
        "[default: sixteen bins to a power of two]",
    ),
    click.option(
        "--axis",
        "axes",
        multiple=True,
        help="Axis to reduce, by number or name; may be repeated, or several joined by commas.",
    ),
    click.option("--ddof", type=float, default=0, help="Variances divide by count - ddof."),
    click.option("--skipna", is_flag=True, help="Take elements that are NaN or NaT for absent."),
    click.option(
        "--mode",
        type=click.Choice(MODES),
        default=MODES[0],
        show_default=True,
        help="exact: float sums, means, variances and norms without rounding, rounded once, the "
        "same bits wherever they run; fast: with the error bound of docs/numerics.md.",
    ),
    click.option(
        "--dtype",
        help="Cast elements to this first, and the result to it; object: sums (of any size) and "
        "products (of 64 bits) of integers as Python's.",
    ),
    memory,
    select,
)
"""How it is reduced."""

devices = click.option(
    "--device",
    "specs",
    multiple=True,
    metavar="SPEC",
    help="platform:device:type, each by index or name, or a UUID; '/n' splits a CPU device in n "
    "workers. May be repeated.  [default: the GPUs, else one CPU device]",
)

cluster = stacked(
    devices,
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Use the device workers of this Dask scheduler instead of starting a local cluster.",
    ),
)
"""Where it runs."""


_QUIET = logging.CRITICAL
"""Errors reach the user as such; workers need not log them with a traceback too."""


@contextmanager
def client_for(scheduler: str | None, specs: tuple[str, ...]) -> Iterator[Client]:
    """Yield a client of the scheduler given, else of a local cluster of the devices given."""
    if scheduler is not None:
        if specs:
            raise PlanError(
                f"--device {specs[0]!r} and --scheduler {scheduler!r} exclude each other: "
                "the workers of a scheduler own their devices already"
            )
        with connect(scheduler) as client:
            yield client
        return
    with err.status("starting a local cluster"):
        made = LocalOpenCLCluster(list(specs) or None, silence_logs=_QUIET)
    with made, connect(made.scheduler_address) as client:
        yield client


def parse_selection(text: str | None) -> Selection:
    """Read a selection as it stands in NumPy's brackets.

    Raises
    ------
    PlanError
        If an entry is neither an integer, a slice nor an ellipsis.

    >>> parse_selection("0:10:2, ..., -1")
    (slice(0, 10, 2), Ellipsis, -1)
    """
    if text is None:
        return None
    entries: list[Any] = []
    for entry in text.strip().strip("[]").split(","):
        word = entry.strip()
        try:
            if word == "...":
                entries.append(Ellipsis)
            elif ":" in word:
                entries.append(slice(*(int(n) if n.strip() else None for n in word.split(":"))))
            else:
                entries.append(int(word))
        except (ValueError, TypeError):
            raise PlanError(
                f"--select {text!r}: {word!r} is neither an integer, start:stop:step nor '...'"
            ) from None
    return tuple(entries)


def parse_edges(text: str) -> list[float]:
    """Read the edges of a histogram's bins.

    Raises
    ------
    PlanError
        If they are neither numbers nor LOW:HIGH:BINS.

    >>> parse_edges("0,1,10"), parse_edges("0:1:4")
    ([0, 1, 10], [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    try:
        if ":" not in text:
            return [_number(word) for word in text.split(",")]
        low, high, bins = (kind(word) for kind, word in zip(_RANGE, text.split(":"), strict=True))
    except ValueError:
        raise PlanError(
            f"--edges {reprlib.repr(text)} are neither numbers, as in '0,10,100', nor LOW:HIGH:BINS"
        ) from None
    if not 1 <= bins <= MOST_BINS:
        raise PlanError(f"--edges {text!r} asks for {bins} bins; take 1 to {MOST_BINS}")
    if not math.isfinite(high - low):
        raise PlanError(f"--edges {text!r} has no finite width")
    edges: list[float] = np.linspace(low, high, int(bins) + 1).tolist()
    return edges


def _words(given: tuple[str, ...]) -> list[str]:
    """Take apart what is joined by commas.

    >>> _words(("0", "1, 2"))
    ['0', '1', '2']
    """
    return [word.strip() for entry in given for word in entry.split(",")]


def axis(word: str) -> int | str:
    """Return an axis: by its number, else by its name."""
    try:
        return int(word)
    except ValueError:
        return word


def _number(word: str) -> float:
    try:
        return int(word)
    except ValueError:
        return float(word)


def _binned(ops: list[str], text: str | None) -> list[str | Monoid]:
    """Give the histogram among the ops its edges."""
    if text is None:
        return list(ops)
    if "histogram" not in ops:
        raise PlanError(f"--edges {text!r} are for --op histogram, which is not asked for")
    return [histogram(parse_edges(text)) if op == "histogram" else op for op in ops]


def arguments(
    source: Source,
    *,
    ops: tuple[str, ...],
    edges: str | None,
    axes: tuple[str, ...],
    ddof: float,
    skipna: bool,
    mode: str,
    dtype: str | None,
    selection: str | None,
    memory: str | None,
) -> dict[str, Any]:
    """Turn the options of a reduction of `source` into the library's arguments."""
    return {
        "op": _binned(_words(ops) or ["sum"], edges),
        "axis": axis_numbers(source, [axis(word) for word in _words(axes)] if axes else None),
        "ddof": int(ddof) if ddof.is_integer() else ddof,
        "skipna": skipna,
        "mode": mode,
        "dtype": dtype,
        "selection": parse_selection(selection),
        "memory": memory,
    }
