"""Keys are equal for the same elements and question alone."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.kernels import bind
from chunkfold.planning.ledger_span_keys import canonical, component_ids, hashed
from chunkfold.planning.options import Options


def ids(*ops, dtype="f4", **given) -> tuple[str, ...]:
    """Return the names of the components of reductions."""
    monoids = Options(op=list(ops), **given).monoids
    return component_ids(bind(monoids, [np.dtype(dtype)]).accumulator)


def test_components_are_the_same_next_to_others():
    together = ids("mean", "std", "min", "max", "count")
    for op in ("mean", "std", "min", "max", "sum"):
        assert {*ids(op)} <= {*together}, op


@pytest.mark.parametrize(
    "other",
    [
        lambda: ids("sum", dtype="f8"),
        lambda: ids("max"),
        lambda: ids("nansum"),
        lambda: ids("sumsq"),
        lambda: ids("sum", where="x > 1"),
        lambda: ids("sum", where=lambda x: x > 1),
    ],
)
def test_other_reductions_have_other_components(other):
    assert not {*other()} & {*ids("sum")}


def test_conditions_are_told_apart():
    assert ids("sum", where="x > 1") == ids("sum", where=lambda x: x > 1)
    assert ids("sum", where="x > 1") != ids("sum", where="x > 2")


def test_no_part_of_a_hash_stands_for_another():
    assert hashed(b"ab", b"c") != hashed(b"a", b"bc")
    assert hashed(b"", b"a") != hashed(b"a", b"")
    assert hashed(b"a") != hashed(b"a", b"")


def test_texts_tell_arrays_and_numbers_apart():
    values = [np.zeros(2), np.zeros(2, "f4"), np.zeros((2, 1)), np.array([0.0, -0.0]), 0, 0.0, -0.0]
    assert len({canonical(one) for one in values}) == len(values)
