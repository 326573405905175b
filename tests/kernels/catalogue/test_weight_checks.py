"""Weights below zero are refused in the read, by each reduction that divides by their sum."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.kernels import CATALOGUE, MonoidError, as_monoid
from chunkfold.kernels.catalogue.named import checking_weights, divides_by_weights, is_known
from chunkfold.kernels.catalogue.weight_checks import are_negative
from chunkfold.kernels.program.device_context import DeviceContext
from tests.kernels.catalogue.test_quantiles import found

CHECKED = [name for name, one in CATALOGUE.items() if divides_by_weights(one)]


def test_all_that_divide_by_weights_are_checked():
    signed = {name for name, one in CATALOGUE.items() if one.weights} - {*CHECKED}
    assert signed == {"weighted_sum", "sum_of_weights"}
    for name in signed:
        assert checking_weights(as_monoid(name)) is as_monoid(name)


@pytest.mark.parametrize("name", CHECKED)
def test_weights_that_are_zero_by_rounding_count_as_zero(opened: DeviceContext, name: str):
    monoid = checking_weights(as_monoid(name))
    assert is_known(monoid)
    rng = np.random.default_rng(0)
    *arrays, w = rng.random((monoid.inputs, 30, 7))
    w[3], w[4, 2] = -4e-8, 1
    clipped = w.clip(0)
    got = found_of(opened, name, [*arrays, w])
    np.testing.assert_array_equal(got, found_of(opened, name, [*arrays, clipped]))
    np.testing.assert_allclose(got, as_monoid(name).evaluate(*arrays, clipped), rtol=1e-12)
    w[5, 6], w[9, 0] = -0.5, -3
    with pytest.raises(MonoidError, match=rf"'{name}' has weights .* least is -3; .* zero or more"):
        found_of(opened, name, [*arrays, w])


def found_of(opened: DeviceContext, name: str, arrays: list[np.ndarray]) -> np.ndarray:
    """Return a result of all elements of some arrays and their weights, the last one."""
    one, *others = arrays
    monoid = checking_weights(as_monoid(name))
    return found(opened, monoid, one, (0, 1), "tree", others)[0]


@pytest.mark.parametrize(
    ("least", "most", "refused"),
    [(0.0, 1.0, False), (-1e-7, 1.0, False), (-1e-5, 1.0, True), (-1e-5, 100.0, False),
     (-1e-8, 1e-9, True), (-4e-8, -4e-8, False), (-1.0, -1.0, True), (-np.inf, 1.0, True)],
)  # fmt: skip
def test_rounding_is_a_share_of_the_largest(least: float, most: float, refused: bool):
    assert are_negative(np.array([least]), np.array([most])).tolist() == [refused]
