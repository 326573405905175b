"""Time contenders side by side, so that noise meets all of them."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping

Timed = Callable[[], object]
"""Does the work once and returns when it is done."""
_WARM_UP = 2


def medians(
    contenders: Mapping[str, Timed], rounds: int, *, settled: bool = False
) -> dict[str, float]:
    """Return each contender's median seconds over interleaved rounds, after some to warm up.

    Each round has an order of its own: who follows one that is slow on one core finds the rest
    asleep.

    `settled` lets each run once, untimed, when its turn comes: libraries with GPU contexts of their
    own would else pay for the change from another's.

    >>> sorted(medians({"a": lambda: 1, "b": lambda: 2}, 3))
    ['a', 'b']
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    turns, shuffle = list(contenders.items()), random.Random(0).shuffle
    for number in range(rounds + _WARM_UP):
        shuffle(turns)
        for name, run in turns:
            if settled:
                run()
            began = time.perf_counter()
            run()
            if number >= _WARM_UP:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}
