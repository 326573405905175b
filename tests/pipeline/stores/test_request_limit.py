"""A window follows what a server bears, and not what fails by chance."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest

from chunkfold.stores.request_limit import RequestLimit

LATENCY_S = 0.05
Refuses = Callable[[int, float], bool]
"""Whether a request is refused, by how many are in flight and when."""


def load(
    refuses: Refuses, windows: int = 1, requests: int = 3000, most: int = 100
) -> tuple[float, float, list[RequestLimit]]:
    """Make requests by several windows; return seconds, share of them refused, and the windows."""
    asked = [RequestLimit(most // windows) for _ in range(windows)]
    flying, left = [0] * windows, [requests // windows] * windows
    busy = made = refused = 0
    events: list[tuple[float, int, int, float, bool]] = []
    now, jitter = 0.0, random.Random(0)
    while True:
        for one, window in enumerate(asked):
            while left[one] and flying[one] < int(window.limit):
                flying[one], busy, made = flying[one] + 1, busy + 1, made + 1
                left[one] -= 1
                ends = now + LATENCY_S * jitter.uniform(0.98, 1.05)
                heapq.heappush(events, (ends, made, one, now, refuses(busy, now)))
        if not events:
            return now, refused / made, asked
        now, _, one, began, failed = heapq.heappop(events)
        flying[one], busy, refused = flying[one] - 1, busy - 1, refused + failed
        left[one] += failed
        (asked[one].refused if failed else asked[one].answered)(began, now)


def by_chance(share: float) -> Refuses:
    chance = random.Random(1)
    return lambda _busy, _now: chance.random() < share


@pytest.mark.parametrize(
    ("windows", "bears", "longer", "again"),
    [(1, 64, 1.2, 0.05), (2, 64, 1.3, 0.05), (4, 64, 1.45, 0.05), (1, 16, 1.3, 0.25)],
)
def test_windows_find_what_a_server_bears(windows: int, bears: int, longer: float, again: float):
    requests = 4000 * bears // 64
    seconds, refused, _ = load(lambda busy, _now: busy > bears, windows, requests)
    assert seconds < longer * requests * LATENCY_S / bears
    assert refused < again


@pytest.mark.parametrize("share", [0.01, 0.15, 0.3])
def test_what_fails_by_chance_does_not_close_a_window(share: float):
    seconds, refused, _ = load(by_chance(share))
    assert seconds < 2.5 * 3000 / (1 - share) * LATENCY_S / 100
    assert refused == pytest.approx(share, abs=0.03)


def test_a_window_is_as_wide_as_before_soon_after_an_outage():
    away = 5.0
    seconds, _, (window,) = load(lambda _busy, now: 0.2 < now < away)
    assert window.least == 1
    assert seconds < away + 3000 * LATENCY_S / 100 + 40 * LATENCY_S


def test_load_is_seen_that_comes_where_requests_failed_by_chance():
    chance = by_chance(0.1)
    _, refused, (window,) = load(
        lambda busy, now: chance(busy, now) or (now > 1 and busy > 20), requests=6000
    )
    assert window.limit < 50
    assert refused < 0.35


def test_a_window_is_halved_once_for_all_that_were_in_flight_and_grows_by_one():
    window = RequestLimit(100)
    for began in (0.0, 0.5, 0.9):
        window.refused(began, 1.0)
    assert window.limit == window.least == 50
    for _ in range(50):  # until it is known that this helped
        window.answered(1.5, 2.0)
    for _ in range(10):
        window.answered(2.0, 3.0)
    assert 47 < window.limit < 53  # half of it was borne: from there on by one with each round
    window.knee = 90.0
    for _ in range(10):
        window.answered(2.0, 3.0)
    assert 57 < window.limit < 63


def test_a_bound_that_comes_later_counts():
    window = RequestLimit(100)
    window.bound(25)
    assert window.limit == window.least == 25
    window.bound(50)
    assert window.limit == 50
    window.refused(0.0, 1.0)
    window.bound(100)
    assert window.limit == window.least == 25
    for _ in range(500):
        window.answered(2.0, 3.0)
    window.bound(100)
    assert window.least == 25  # it is told what was, too
