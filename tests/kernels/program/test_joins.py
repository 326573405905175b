"""Which states are joined field by field, as their steps say, and which are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chunkfold.kernels import Accumulate, Monoid, as_monoid, bind
from chunkfold.kernels.accumulator.component import BoundState
from chunkfold.kernels.expressions.infix import infix
from chunkfold.kernels.expressions.library import wide
from chunkfold.kernels.program.joins import joins


def state_of(monoid: Monoid | str, dtype: str) -> BoundState:
    (component, *_) = bind([as_monoid(monoid)], [np.dtype(dtype)]).accumulator.components
    assert component.state is not None
    return component.state


def joined(state: BoundState) -> list[str]:
    return sorted(infix(tree) for tree in joins(state).values())


def kept(**parts: Any) -> Monoid:
    """A monoid whose state has fields t and few, all of which begin with 0."""
    plain: dict[str, Any] = {
        "state": {"t": "int64", "few": "int64"},
        "start": {"t": 0, "few": 0},
        "step": lambda s, x: {"t": s.t, "few": s.few + x},
        "carry": lambda s: {"t": s.t + s.few, "few": 0},
        "end": lambda s: {"s": s.t},
    }
    way = Accumulate(**plain | parts)
    return Monoid("kept", fields={"s": "int64"}, zero=0, lift=wide, op="add", accumulate=way)


@pytest.mark.parametrize(
    ("monoid", "dtype", "by"),
    [
        ("sum", "i2", ["a.few + b.few", "a.s + b.s"]),
        ("prod", "i4", ["a.f * b.f", "a.low * b.low"]),
        ("sumsq", "f4", ["a.q + b.q"]),  # which fma adds to
        ("var", "f4", ["a.n + b.n", "a.q + b.q", "a.s + b.s"]),  # about one pivot
        (
            "minmax",
            "f4",
            ["maximum(a.most, b.most)", "maximum(a.top, b.top)", "minimum(a.least, b.least)"],
        ),
    ],
)
def test_states_are_joined_by_the_ops_of_their_steps(monoid: str, dtype: str, by: list[str]):
    assert joined(state_of(monoid, dtype)) == by


@pytest.mark.parametrize(
    "parts",
    [
        {"start": {"t": 0, "few": 1}},
        {"step": lambda s, x: {"t": s.t, "few": x}},
        {"step": lambda s, x: {"t": s.t, "few": s.few + s.few * x}},
        {"step": lambda s, x: {"t": s.t, "few": s.few + s.t}},
        {"step": lambda s, x: {"t": s.t + x, "few": s.few + x}},
        {"step": lambda s, x: {"t": s.t, "few": np.maximum(s.few, x)}},
        {"carry": lambda s: {"t": s.t + s.few * s.few, "few": 0}},
        {"carry": lambda s: {"t": np.maximum(s.t, s.few), "few": 0}},
        {"carry": lambda s: {"t": s.t + s.few, "few": s.few - s.few}},
    ],
)
def test_what_a_step_does_otherwise_is_not_joined(parts: dict[str, Any]):
    assert joined(state_of(kept(), "i4")) == ["a.few + b.few", "a.t + b.t"]
    assert joins(state_of(kept(**parts), "i4")) == {}


def test_sums_that_tell_what_they_lost_are_not_joined():
    assert joins(state_of("logsumexp", "f4")) == {}
