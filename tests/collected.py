"""What the suite runs of what pytest collected, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

LONG = (
    "pipeline/cluster/test_local_cluster.py",
    "workflows/test_cli.py",
    "pipeline/test_exact.py",
    "pipeline/test_by.py",
    "kernels/fold/keyed/test_fold.py",
    "kernels/test_grid.py",
    "pipeline/planning/test_memory.py",
    "pipeline/test_leaks.py",
    "kernels/fold/keyed/test_strided.py",
    "kernels/catalogue/test_exact_sums.py",
    "workflows/test_diff.py",
    "pipeline/test_skipping.py",
    "pipeline/test_stopped.py",
    "kernels/exact/test_polynomials.py",
    "kernels/test_declared.py",
    "workflows/test_demo.py",
    "kernels/tuning/test_tuning_choice.py",
    "test_docs.py",
)
"""Files that take long for how few tests they have."""


def longest_first(items: list[pytest.Item]) -> None:
    """Begin with files that take long: one that is begun last has the others wait for it."""
    counts = Counter(item.nodeid.split("::")[0] for item in items)
    places = {f"tests/{file}": place for place, file in enumerate(LONG)}

    def place(item: pytest.Item) -> tuple[int, int, str]:
        file = item.nodeid.split("::")[0]
        return places.get(file, len(places)), -counts[file], file

    items.sort(key=place)


def covering(combinations: Sequence[Mapping[str, str]], most: int) -> list[int]:
    """Return which combinations of parameters have every value once, or as many as `most` can.

    The first is among them.

    >>> covering([{"a": a, "b": b} for a in "12" for b in "12"], 4)
    [0, 3]
    """
    pool = [set(one.items()) for one in combinations]
    left: set[tuple[str, str]] = set().union(*pool)
    taken: list[int] = []
    while len(taken) < most and (left or not taken):
        best = max(range(len(pool)), key=lambda n: len(pool[n] & left)) if taken else 0
        taken.append(best)
        left -= pool[best]
    return taken
