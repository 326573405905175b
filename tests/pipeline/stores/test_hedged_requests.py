"""Beside a request that takes long another is made, and the first answer is taken."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from chunkfold.stores.hedged_requests import Patience
from chunkfold.stores.requests import Flight
from chunkfold.stores.transient_faults import Fault

Seconds = Callable[[int, int], float]
"""Of a request's number, and how often it was made before; negative: it fails then."""


def passing(error: BaseException) -> Fault | None:
    return Fault(busy=False) if isinstance(error, OverflowError) else None


class Server:
    """Answers late."""

    def __init__(self, seconds: Seconds) -> None:
        self.seconds, self.asked = seconds, Counter[int]()
        self.busy = self.most = 0

    def request(self, number: int) -> Callable[[], Awaitable[int]]:
        async def answer() -> int:
            seconds = self.seconds(number, self.asked[number])
            self.asked[number] += 1
            self.busy += 1
            self.most = max(self.most, self.busy)
            try:
                await asyncio.sleep(abs(seconds))
            finally:
                self.busy -= 1
            if seconds < 0:
                raise OverflowError("cut")
            return number

        return answer


def asked(flight: Flight, server: Server, numbers: range) -> list[int]:
    landings = [
        flight.start(1, lambda n=n: flight.ask("h", server.request(n), passing)) for n in numbers
    ]
    return [landing.result(60) for landing in landings]


def after_some_answers(most: int, seconds: Seconds) -> tuple[Flight, Server]:
    """A server of which it is known that it answers in milliseconds."""
    flight, server = Flight(), Server(lambda _number, _before: 0.002)
    flight.bound(most, 1 << 30, 60)
    asked(flight, server, range(100))
    flight.taken()
    server.seconds, server.asked = seconds, Counter()
    return flight, server


@pytest.mark.parametrize("most", [100, 8, 1])
@pytest.mark.parametrize("stalls", [0.01, 0.3, 1.0])
def test_requests_that_stall_are_made_again_within_the_bound(most: int, stalls: float):
    def seconds(number: int, before: int) -> float:
        return 600.0 if not before and number % 100 < 100 * stalls else 0.002

    flight, server = after_some_answers(most, seconds)
    numbers = range(200 if most > 1 else 4)
    assert asked(flight, server, numbers) == [*numbers]
    assert server.most <= most
    told = flight.taken()
    late = sum(number % 100 < 100 * stalls for number in numbers)
    assert told.hedged >= late
    assert told.made == len(numbers) + told.hedged
    assert told.again == 0
    assert flight.waited(lambda: _settled(server))


async def _settled(server: Server) -> bool:
    """Whether nothing is in flight that nobody waits for."""
    deadline = time.monotonic() + 10
    while server.busy and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return not server.busy


def test_a_request_that_stalls_again_is_made_again_too():
    flight, server = after_some_answers(4, lambda _number, before: 600.0 if before < 4 else 0.002)
    assert asked(flight, server, range(3)) == [0, 1, 2]
    assert {server.asked[n] for n in range(3)} <= {5, 6, 7, 8}


def test_the_first_answer_is_taken_also_that_of_the_first_request():
    flight, server = after_some_answers(10, lambda _number, before: 600.0 if before else 1.0)
    assert asked(flight, server, range(3)) == [0, 1, 2]


def test_one_that_fails_beside_another_is_no_failure():
    flight, server = after_some_answers(10, lambda _number, before: -0.01 if before else 1.5)
    assert asked(flight, server, range(3)) == [0, 1, 2]
    assert flight.taken().again == 0


def test_the_last_failure_is_raised_or_made_again():
    flight, server = after_some_answers(10, lambda _number, before: -0.01 if before < 2 else 0.01)
    assert asked(flight, server, range(3)) == [0, 1, 2]
    assert 3 <= flight.taken().again <= 6


def test_longer_is_waited_where_it_does_not_help():
    patience = Patience()
    unknown = patience.seconds
    for _ in range(100):
        patience.answered(1.0)
    few = patience.seconds
    for _ in range(3):
        patience.judge(helped=False)
    assert 1.0 < few < unknown < patience.seconds == 8 * few
    for _ in range(9):
        patience.judge(helped=True)
    assert patience.seconds == few


def test_a_share_of_late_answers_is_late():
    patience = Patience()
    for number in range(128):
        patience.answered(3.0 if number % 50 == 0 else 0.1)
    assert patience.seconds < 1
    for _ in range(128):
        patience.answered(3.0)
    assert patience.seconds > 3
