"""Who is stopped, of what a scheduler tells: all of it is arithmetic of times."""

from __future__ import annotations

import pytest

from chunkfold.cluster.heartbeats import Heartbeats

EVERY, LIMIT = 5.0, 60.0


def after(*answers: dict[str, float], waited: float = EVERY) -> Heartbeats:
    """Hear so many answers."""
    beats = Heartbeats()
    for seen in answers:
        beats = beats.then(seen, waited, 2 * EVERY)
    return beats


def steps(count: int, **stops: float) -> list[dict[str, float]]:
    """Answers every 5 s of workers a and b; the heartbeats of some stop at a time."""
    times = [1000.0 + EVERY * n for n in range(count)]
    return [{w: min(now, stops.get(w, now)) for w in ("a", "b")} for now in times]


@pytest.mark.parametrize(
    ("answers", "stopped"),
    [
        ([], []),
        (steps(30), []),
        (steps(12, b=1000.0), []),  # for 55 s so far
        (steps(13, b=1000.0), []),  # for 60 s
        (steps(14, b=1000.0), ["b"]),
        (steps(40, b=1000.0), ["b"]),
        (steps(40, a=1000.0, b=1000.0), []),  # nobody is heard
        (steps(20, b=1000.0)[:12] + steps(40)[12:], []),  # it goes on just in time
        ([{"a": 1000.0}] * 40, []),  # the only one
        # It was silent before anybody asked.
        ([{"a": 1000.0 + EVERY * n, "b": 0.0} for n in range(12)], []),
        ([{"a": 1000.0 + EVERY * n, "b": 0.0} for n in range(15)], ["b"]),
        # All slept for 90 s, and a was the first to be heard again.
        ([*steps(3), {"a": 1100.0, "b": 1010.0}, {"a": 1105.0, "b": 1104.0}], []),
        ([*steps(3), {"a": 1100.0, "b": 1010.0}], []),
        # The other is gone, not late.
        ([*steps(3), *({"a": 1010.0 + EVERY * n} for n in range(40))], []),
    ],
)
def test_a_worker_is_stopped_if_others_are_heard_for_as_long(answers, stopped):
    assert after(*answers).stopped(LIMIT) == stopped


def test_how_long_nobody_is_heard_is_counted_while_the_scheduler_answers():
    silent = [{"a": 1000.0}] * 11
    assert after(*silent).nobody == 10 * EVERY
    assert after(*silent, {"a": 1001.0}).nobody == 0
    assert after(*[{}] * 11).nobody == 11 * EVERY
    # What passes between two answers counts for two questions at most: a laptop slept.
    assert after(*silent, waited=90).nobody == 10 * 2 * EVERY


def test_who_is_removed_is_forgotten():
    beats = after(*steps(14, b=1000.0)).without("b")
    assert beats.stopped(LIMIT) == []
    assert set(beats.seen) == {"a"}


def test_who_is_waited_for_is_said():
    assert after(*steps(14)).silence_text(10, 60, 120) == ""
    late = after(*steps(4, b=1000.0)).silence_text(10, 60, 120)
    assert late == "worker b was not heard for 15 s; after 60 s others do its work"
    nobody = after(*steps(4, a=1000.0, b=1000.0)).silence_text(10, 60, 120)
    assert nobody == "no worker was heard for 15 s (a, b); after 120 s the run ends"
    assert "(no workers)" in after({}, {}, {}).silence_text(10, 60, 120)
