"""Quantiles and groups beside the plain reduction of the same data, and beside their peers.

    python benchmarks/questions.py [--mib 384] [--rounds 3] [--only TEXT] [--no-peers]

Peers are Dask's threads (and flox on them, if it is installed), on the same store.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from ingest import LARGE, PLANE, SMALL, write

import chunkfold as cf

LAYOUTS: Mapping[str, dict[str, Any]] = {
    "zstd, 33 MB chunks": LARGE,
    "zstd, 1 MB chunks": SMALL,
    "uncompressed, 33 MB chunks": LARGE | {"compressors": None},
}
_RNG = np.random.default_rng(0)
_COHERENT = np.add.outer(np.arange(PLANE[0]) // 73 * 10, np.arange(PLANE[1]) // 144)
_RANDOM = _RNG.integers(0, 10_000, PLANE)
Peer = Callable[[Any], Any]


@dataclass(frozen=True)
class Question:
    """What is asked, and beside which plain reduction."""

    name: str
    op: Any
    given: Mapping[str, Any]
    plain: str
    axis: int | None
    peer: Callable[[Any, int], Any] | None = None
    """Given Dask's array and how many steps of time it has."""


def _months(steps: int) -> np.ndarray:
    return np.arange(steps) // 4 % 12


def _grouped(array: Any, labels: np.ndarray, axis: Any, func: str) -> Any:
    from flox import groupby_reduce

    if axis == 0:  # it wants labels along the last
        array, axis = da.moveaxis(array, 0, -1), -1
    return groupby_reduce(array, labels, func=func, axis=axis)[0].compute()


QUESTIONS = (
    Question(
        "median over axis 0", "median", {}, "mean", 0,
        lambda x, n: da.median(x.rechunk({0: n}), axis=0).compute(),
    ),
    Question("median over everything", "median", {}, "sum", None),
    Question(
        "climatology of 12", "mean", {"by": _months}, "mean", 0,
        lambda x, n: _grouped(x, _months(n), 0, "mean"),
    ),
    Question(
        "climatology of monthly steps", "mean", {"by": lambda n: np.arange(n) % 12}, "mean", 0,
        lambda x, n: _grouped(x, np.arange(n) % 12, 0, "mean"),
    ),
    Question(
        "100 zones, sum and count", ["sum", "count"], {"by": _COHERENT}, "sum", None,
        lambda x, _: _grouped(x, np.broadcast_to(_COHERENT, x.shape), None, "sum"),
    ),
    Question(
        "10,000 random labels", ["sum", "count"], {"by": _RANDOM}, "sum", None,
        lambda x, _: _grouped(x, np.broadcast_to(_RANDOM, x.shape), None, "sum"),
    ),
    Question(
        "median, mean, std, min, max", ["median", "mean", "std", "min", "max"], {}, "mean", 0
    ),
)  # fmt: skip


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _peer(question: Question, path: Path) -> float | None:
    if question.peer is None:
        return None
    array = da.from_zarr(path)
    try:
        return _seconds(lambda: question.peer(array, array.shape[0]))
    except ImportError:
        return None


def _pair(path: Path, one: Question, given: Mapping[str, Any]) -> tuple[float, float, int]:
    """Return the seconds of the plain reduction and of the question, and its reads."""
    plain = cf.submit(path, one.plain, axis=one.axis)
    plain.result()
    asked = cf.submit(path, one.op, axis=one.axis, **given)
    asked.result()
    return plain.seconds, asked.seconds, asked.plan.reads


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=float, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="layouts whose names have this in them")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    print(f"{options.mib:g} MiB float32, in this process, medians of {options.rounds} rounds, the "
          "plain reduction and the question in turn; seconds")  # fmt: skip
    print(f"{'':64}{'plain':>8}{'this':>8}{'times':>8}{'reads':>7}{'peer':>8}")
    for layout, stored in LAYOUTS.items():
        if options.only not in layout:
            continue
        with tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder:
            path = Path(folder) / "t.zarr"
            steps = write(path, options.mib / 1024, stored, 0.01).shape[0]
            for one in QUESTIONS:
                given = {k: v(steps) if callable(v) else v for k, v in one.given.items()}
                runs = [_pair(path, one, given) for _ in range(options.rounds + 1)]
                plain, own = (statistics.median(pair[n] for pair in runs[1:]) for n in (0, 1))
                peer = _peer(one, path) if options.peers else None
                told = "" if peer is None else f"{peer:.2f}"
                print(f"{layout + ', ' + one.name:64}{plain:8.2f}{own:8.2f}{own / plain:8.2f}"
                      f"{runs[0][2]:7}{told:>8}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
