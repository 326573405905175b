"""What the suite runs of what pytest collected, and in which order.

`make test` has the short form, `make test-all` everything. `times.csv`, which `make test-all`
writes, says how long tests take that take long.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

TIMES = Path(__file__).parent / "times.csv"
SLOW_S = 1.7
"""The short form leaves out tests of which one takes longer, in seconds."""
SHARE_S = 1.2
"""Of a test with several combinations of parameters it has what takes so long, one at least."""
_DEVICE = re.compile(r"\[(?:.*-)?(\w+:\d+:\w+)")


@dataclass(frozen=True)
class Time:
    """How long a test takes on a device, of which it has some combinations of parameters."""

    seconds: float
    """Of all of them."""
    combinations: int

    @property
    def each(self) -> float:
        """Seconds of one."""
        return self.seconds / self.combinations


Test = tuple[str, str]
"""A test function as pytest names it, and the device that it has as a parameter, or ""."""


def function_of(nodeid: str) -> Test:
    """Return which test a node is a combination of.

    >>> function_of("tests/test_a.py::test_b[intel:0:cpu-float32]")
    ('tests/test_a.py::test_b', 'intel:0:cpu')
    """
    found = _DEVICE.search(nodeid)
    return nodeid.partition("[")[0], found[1] if found else ""


def read_times(path: Path = TIMES) -> dict[Test, Time]:
    """Return the times of the tests that take long."""
    with path.open(newline="") as file:
        return {
            (row["test"], row["device"]): Time(float(row["seconds"]), int(row["combinations"]))
            for row in csv.DictReader(file)
        }


def write_times(seconds: Mapping[str, float], path: Path = TIMES) -> None:
    """Write the times of tests that take long, from the seconds of each node."""
    taken: dict[Test, list[float]] = defaultdict(list)
    for nodeid, one in seconds.items():
        taken[function_of(nodeid)].append(one)
    rows = [
        (name, device, f"{sum(each):.1f}", len(each))
        for (name, device), each in sorted(taken.items())
        if sum(each) > SHARE_S
    ]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("test", "device", "seconds", "combinations"))
        writer.writerows(rows)


def longest_first(items: list[pytest.Item], times: Mapping[Test, Time]) -> None:
    """Begin with files that take long: one that is begun last has the others wait for it."""
    seconds: Counter[str] = Counter()
    for item in items:
        time = times.get(function_of(item.nodeid))
        seconds[item.nodeid.split("::")[0]] += time.each if time else 0.01

    def place(item: pytest.Item) -> tuple[float, str]:
        file = item.nodeid.split("::")[0]
        return -seconds[file], file

    items.sort(key=place)


def left_to_all(items: Iterable[pytest.Item], times: Mapping[Test, Time]) -> set[pytest.Item]:
    """Return what the short form has not.

    Those that are marked `short` are in it, with each value of each parameter; those that are
    marked `whole` are not, as they count what all others did.
    """
    tests: dict[Test, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[function_of(item.nodeid)].append(item)
    left: set[pytest.Item] = set()
    for test, same in tests.items():
        time = times.get(test)
        if same[0].get_closest_marker("whole"):
            left.update(same)
        elif time is not None:
            if same[0].get_closest_marker("short"):
                most = len(same)
            elif time.each <= SLOW_S:
                most = max(1, int(SHARE_S / time.each))
            else:
                most = 0
            taken = covering([parameters_of(item) for item in same], most)
            left.update(item for n, item in enumerate(same) if n not in taken)
    return left


def parameters_of(item: pytest.Item) -> dict[str, str]:
    """Return the parameters of a test, as texts."""
    parameters = getattr(item, "callspec", None)
    return {k: repr(v) for k, v in parameters.params.items()} if parameters else {}


def covering(combinations: Sequence[Mapping[str, str]], most: int) -> list[int]:
    """Return which combinations of parameters have every value once, or as many as `most` can.

    The first is among them.

    >>> covering([{"a": a, "b": b} for a in "12" for b in "12"], 4)
    [0, 3]
    """
    pool = [set(one.items()) for one in combinations]
    left: set[tuple[str, str]] = set().union(*pool)
    taken: list[int] = []
    while len(taken) < min(most, len(pool)) and (left or not taken):
        best = max(range(len(pool)), key=lambda n: len(pool[n] & left)) if taken else 0
        taken.append(best)
        left -= pool[best]
    return taken
