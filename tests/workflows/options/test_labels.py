"""Labels of groups as people write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chunkfold.errors import PlanError
from chunkfold.workflows.options.labels import labels_asked, parse_groups, parse_resample
from chunkfold.workflows.options.parsing import wheres


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


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("-90,-60,0,60,90", [-90, -60, 0, 60, 90]),
        ("-60,-30", [-60, -30]),
        ("0:1:2", [0, 0.5, 1]),
        ("1e-3,1", [1e-3, 1]),
        ("2001-01-01,2001-06-01", np.array(["2001-01-01", "2001-06-01"], "M8")),
        ("1999-12,2001-06", np.array(["1999-12", "2001-06"], "M8")),
    ],
)
def test_edges_are_numbers_wherever_they_may_be_else_dates(text: str, edges: Any):
    found = labels_asked(["lat"], [text])["by"].edges
    np.testing.assert_array_equal(found, np.asarray(edges))
    assert found.dtype.kind == np.asarray(edges).dtype.kind or found.dtype.kind == "f"


def test_edges_that_are_neither_are_refused():
    for text in ("a-b,c", "5", "2001"):
        with pytest.raises(PlanError, match="not numbers"):
            labels_asked(["lat"], [text])


def test_what_is_empty_is_no_less_given():
    """A variable of the shell that is not set asks for nothing else than what was meant."""
    assert wheres("", None) == ("",)
    assert wheres(None, None) is None
    assert wheres(None, "") != wheres(None, None)
    assert labels_asked(["lat"], groups=[[]])["groups"] == []
    assert labels_asked(["lat"])["groups"] is None
    assert labels_asked(["lat", "lon"], groups=[[], parse_groups("1,2")])["groups"] == [
        None,
        [1, 2],
    ]
