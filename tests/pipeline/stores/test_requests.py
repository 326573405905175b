"""Requests in flight are bounded, grow and shrink as a server bears them, and are tried again."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from chunkfold.http_denials import RefusedError
from chunkfold.stores import servers
from chunkfold.stores.requests import Flight
from chunkfold.stores.transient_faults import Fault


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "BACKOFF_S", (0.001, 0.01))


class Server:
    """Answers after a while, and refuses what is more than it bears."""

    def __init__(self, bears: int = 10**9, seconds: float = 0.002) -> None:
        self.bears, self.seconds = bears, seconds
        self.busy = self.most = self.refused = 0

    async def answer(self) -> int:
        self.busy += 1
        self.most = max(self.most, self.busy)
        over = self.busy > self.bears
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.busy -= 1
        if over:
            self.refused += 1
            raise OverflowError("429")
        return 7


def passing(error: BaseException) -> Fault | None:
    return Fault(busy=True) if isinstance(error, OverflowError) else None


def asked(flight: Flight, server: Server, count: int, nbytes: int = 1, host: str = "h") -> list:
    landings = [
        flight.start(nbytes, lambda: flight.ask(host, server.answer, passing)) for _ in range(count)
    ]
    answers = []
    for landing in landings:
        answers.append(landing.result(30))
        landing.close()
    return answers


def test_no_more_requests_are_in_flight_for_a_host_than_may_be():
    flight, server, other = Flight(), Server(), Server()
    flight.bound(12, 1 << 30, 60)
    assert asked(flight, server, 100) == [7] * 100
    asked(flight, other, 30, host="another")
    assert server.most == other.most == 12


def test_no_more_bytes_are_in_flight_than_there_is_room_for():
    flight, server = Flight(), Server()
    flight.bound(100, 1000, 60)
    assert asked(flight, server, 40, nbytes=300) == [7] * 40
    assert server.most == 3
    # What has no room at all has it alone.
    assert asked(flight, server, 5, nbytes=5000) == [7] * 5


def test_room_is_given_back_by_whoever_forgets_what_was_asked_for():
    flight, server = Flight(), Server()
    flight.bound(100, 1000, 60)
    for _ in range(10):
        landings = [
            flight.start(1000, lambda: flight.ask("h", server.answer, passing)) for _ in range(3)
        ]
        landings[0].result(30)
        del landings
        gc.collect()
    assert asked(flight, server, 3, nbytes=1000) == [7] * 3


def test_a_request_that_nobody_waits_for_is_not_made_again():
    flight, server = Flight(), Server(bears=0)
    flight.bound(10, 1000, 60)
    landing = flight.start(1000, lambda: flight.ask("h", server.answer, passing))
    deadline = time.monotonic() + 30
    while server.refused < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    landing.close()
    with pytest.raises(asyncio.CancelledError):
        landing.result(30)
    made = server.refused
    server.bears = 10
    assert asked(flight, server, 1, nbytes=1000) == [7]  # its room is free again
    time.sleep(0.5)
    assert server.refused == made >= 3


def test_fewer_are_asked_where_a_server_has_too_much_to_do():
    flight, server = Flight(), Server(bears=16)
    flight.bound(100, 1 << 30, 60)
    assert asked(flight, server, 3000) == [7] * 3000
    told = flight.taken()
    assert told.made == 3000 + server.refused
    assert told.again == server.refused < 0.1 * told.made
    assert told.fewest < 16
    assert flight.taken().made == 0  # since it was asked last


def test_a_failure_that_lasts_is_raised_after_a_while_and_others_at_once():
    flight, server = Flight(), Server(bears=0)
    flight.bound(4, 1 << 30, 0.2)
    began = time.monotonic()
    with pytest.raises(OverflowError):
        asked(flight, server, 1)
    assert 0.1 < time.monotonic() - began < 5
    assert server.refused > 3

    async def broken() -> None:
        server.refused = 0
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        flight.start(1, lambda: flight.ask("h", broken, passing)).result(30)
    assert flight.taken().made > 3


def test_many_threads_may_ask():
    flight, server, found = Flight(), Server(), []
    flight.bound(50, 1 << 20, 60)
    threads = [
        threading.Thread(target=lambda: found.extend(asked(flight, server, 50))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [7] * 400


def test_a_failed_request_goes_before_those_that_were_not_made_yet():
    flight, order = Flight(), []
    flight.bound(1, 1 << 30, 60)

    async def asking(number: int) -> None:
        async def answer() -> None:
            await asyncio.sleep(0.03)
            order.append(number)
            if order.count(number) == 1 and number == 0:
                raise OverflowError("503")

        await flight.ask("h", answer, passing)

    landings = [flight.start(1, lambda n=n: asking(n)) for n in range(6)]
    for landing in landings:
        landing.result(30)
    assert order.index(5) > len(order) - 1 - order[::-1].index(0)


def test_all_the_time_that_an_answer_took_counts():
    flight = Flight()
    flight.bound(4, 1 << 30, 2.4)
    made = []

    async def late() -> None:
        made.append(await asyncio.sleep(2.5))  # longer than one look at the clock counts
        raise OverflowError("timed out")

    with pytest.raises(OverflowError):
        flight.start(1, lambda: flight.ask("h", late, passing)).result(30)
    assert len(made) == 1


@pytest.mark.parametrize("seconds", [0.3, 0.0])
def test_a_host_is_left_alone_for_as_long_as_it_says_and_asked_so_once(seconds: float):
    flight, told, begun = Flight(), [], []
    flight.bound(10, 1 << 30, 60)

    async def answer() -> int:
        begun.append(time.monotonic())
        await asyncio.sleep(0.002)
        if not told or time.monotonic() < told[0] + 0.25:
            raise OverflowError("503")
        return 7

    async def wanted(_error: BaseException) -> float:
        await asyncio.sleep(0.05)
        told.append(time.monotonic())
        return seconds

    def busy(_error: BaseException) -> Fault:
        return Fault(busy=True, answered=True)

    landings = [flight.start(1, lambda: flight.ask("h", answer, busy, wanted)) for _ in range(30)]
    assert [landing.result(30) for landing in landings] == [7] * 30
    counts = flight.taken()
    assert len(told) == 1
    assert (counts.waits, counts.longest_wait_s) == ((1, seconds) if seconds else (0, 0.0))
    if seconds:
        assert not [at for at in begun if told[0] - 0.04 < at < told[0] + seconds]
        assert counts.made <= 10 + 1 + 30


def test_who_may_not_wait_so_long_is_told_at_once():
    flight = Flight()
    flight.bound(2, 1 << 30, 5)

    async def refused() -> None:
        raise OverflowError("429")

    async def wanted(_error: BaseException) -> float:
        return 100.0

    def busy(_error: BaseException) -> Fault:
        return Fault(busy=True, answered=True)

    landings = [flight.start(1, lambda: flight.ask("h", refused, busy, wanted)) for _ in range(9)]
    for landing in landings:
        with pytest.raises(RefusedError, match=r"pause of (100|99) s .* again for 5 s"):
            landing.result(3)
