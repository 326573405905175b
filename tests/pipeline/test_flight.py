"""Requests in flight are bounded, grow and shrink as a server bears them, and are tried again."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from chunkfold import flight as module
from chunkfold.flight import Fault, Flight, Window


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", (0.001, 0.01))


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


def test_a_window_grows_by_one_with_each_answer_and_is_halved_once_for_a_round():
    window = Window(100)
    for began in (0.0, 0.5, 0.9):
        window.refused(began, 1.0)
    assert window.limit == window.least == 50
    for _ in range(40):
        window.answered(2.0)
    assert window.limit == 90  # about what it bore, and then by one with all that are in flight
    for _ in range(2 * 90):
        window.answered(3.0)
    assert 90.9 < window.limit < 91.1
    for _ in range(40):
        window.answered(60.0)  # long ago
    assert window.limit == 100
