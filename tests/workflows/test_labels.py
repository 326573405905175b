"""Labels of groups as people write them."""

from __future__ import annotations

import pytest

from chunkfold.errors import PlanError
from chunkfold.workflows.labels import parse_resample


def test_each_axis_of_times_has_its_span():
    assert parse_resample(["time=1MS", "run = 6h"]) == {"time": "1MS", "run": "6h"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["time"], "'time': name an axis and a span"),
        (["=1MS"], "'=1MS': name an axis and a span"),
        (["time=1MS", "time=1D"], "names axis 'time' twice: give it one span"),
        (["time=1MS", " time=1MS"], "names axis 'time' twice: give it one span"),
    ],
)
def test_what_names_no_axis_and_span_or_an_axis_twice_is_told(given: list[str], told: str):
    with pytest.raises(PlanError, match=told):
        parse_resample(given)
