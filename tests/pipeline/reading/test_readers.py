"""Reading threads do what earlier blocks ask for first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from chunkfold.reading.readers import Readers

LONG_S = 30.0


@pytest.fixture
def held() -> Iterator[tuple[Readers, Callable[[], None]]]:
    """One thread that waits until it is let go."""
    readers, go = Readers(1), threading.Event()
    began = threading.Event()
    readers.submit(0, lambda: (began.set(), go.wait(LONG_S)))
    assert began.wait(LONG_S)
    yield readers, go.set
    go.set()
    readers.leave()


def test_earlier_turns_go_first_and_within_one_what_came_first(held):
    readers, go = held
    done: list[str] = []
    asked = [(2, "c"), (1, "a"), (2, "d"), (1, "b")]
    futures = [readers.submit(turn, done.append, name) for turn, name in asked]
    go()
    for future in futures:
        future.result(LONG_S)
    assert done == ["a", "b", "c", "d"]


def test_what_was_cancelled_is_left_out(held):
    readers, go = held
    done: list[str] = []
    dropped, kept = (readers.submit(1, done.append, name) for name in "ab")
    assert dropped.cancel()
    go()
    kept.result(LONG_S)
    assert done == ["b"]
    assert not kept.cancel()


def test_others_do_what_waits_for_a_thread_that_never_came_back(held):
    readers, _ = held
    future = readers.submit(1, max, 3, 4)
    others = Readers(1, readers.leave())
    assert future.result(LONG_S) == 4
    others.leave()


def test_what_a_task_raises_is_raised_where_its_outcome_is_asked_for():
    readers = Readers(2)
    with pytest.raises(ZeroDivisionError):
        readers.submit(1, lambda: 1 / 0).result(LONG_S)
    assert readers.submit(1, max, 3, 4).result(LONG_S) == 4
    readers.leave()
