"""Several questions in one read beside each of them alone.

    python benchmarks/together.py [--mib 384] [--rounds 3] [--only TEXT]

"dearest" is the longest of them alone, "one by one" all of them after each other.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingest import write
from questions import _COHERENT, LAYOUTS, _months

import chunkfold as cf

TEN = ["mean", "std", "var", "min", "max", "sum", "sumsq", "norm2", "count", "any"]


def asked(steps: int) -> Mapping[str, Any]:
    """Return ten statistics, zones and a climatology."""
    return {
        "ten statistics": cf.ask(TEN, axis=0),
        "100 zones": cf.ask(["sum", "count"], by=_COHERENT),
        "climatology of 12": cf.ask("mean", axis=0, by=_months(steps)),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=float, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="layouts whose names have this in them")
    options = parser.parse_args()
    print(
        f"{options.mib:g} MiB float32, in this process, medians of {options.rounds} rounds; seconds"
    )
    for layout, stored in LAYOUTS.items():
        if options.only in layout:
            with tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder:
                path = Path(folder) / "array"
                array = write(path, options.mib / 1024, stored, 0.01)
                _measure(layout, path, asked(array.shape[0]), options.rounds)


def _measure(layout: str, path: Path, questions: Mapping[str, Any], rounds: int) -> None:
    found: dict[str, list[float]] = {name: [] for name in (*questions, "together")}
    for _ in range(rounds + 1):  # the first one warms up
        for name in questions:
            run = cf.submit(path, questions[name].op, **questions[name].given)
            run.result()
            found[name].append(run.seconds)
        run = cf.submit(path, questions)
        run.result()
        found["together"].append(run.seconds)
    seconds = {name: statistics.median(each[1:]) for name, each in found.items()}
    together = seconds.pop("together")
    each = ", ".join(f"{name} {one:.2f}" for name, one in seconds.items())
    print(
        f"{layout}: {each}; together {together:.2f}: {together / max(seconds.values()):.2f} of the "
        f"dearest, {together / sum(seconds.values()):.2f} of one by one"
    )


if __name__ == "__main__":
    main()
