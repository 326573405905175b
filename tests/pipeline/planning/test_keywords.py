"""Functions show each option, its default and its meaning; types, values and texts agree."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import get_type_hints

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.planning import option_table
from chunkfold.planning.option_table import OPTION_TYPES, Keywords, meanings
from chunkfold.planning.options import Options
from chunkfold.workflows.project import project

FUNCTIONS = [cf.reduce, cf.submit, cf.plan, project]
OPTIONS = {one.name: one for one in fields(Options)}


def test_those_who_check_types_see_the_same_options():
    """As the table declares them, row by row."""
    declared = [(name, of) for name, of in OPTION_TYPES.items() if name != "op"]
    assert [*get_type_hints(Keywords, vars(option_table)).items()] == declared


def test_each_option_has_a_meaning():
    assert meanings().keys() == OPTIONS.keys()
    assert all(text.endswith(".") for text in meanings().values())


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_help_shows_every_option_with_its_meaning(function: Callable):
    shown = inspect.signature(function).parameters
    assert {name: shown[name].default for name in OPTIONS} == {
        name: one.default for name, one in OPTIONS.items()
    }
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in shown.values())
    assert (shown["op"].kind, shown["axis"].kind) == (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    lines = inspect.getdoc(function).splitlines()
    for name, text in meanings().items():
        at = lines.index(name)
        said = [f"    {line}" if line else "" for line in text.splitlines()]
        assert lines[at + 1 : at + 1 + len(said)] == said


@pytest.mark.parametrize("function", [cf.reduce, cf.plan])
def test_an_option_that_there_is_not_is_named(function: Callable):
    with pytest.raises(TypeError, match="there is no option 'axes'; there are: axis, keepdims"):
        function(zarr.create_array({}, shape=(3,), dtype="f4"), axes=0)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("dim", "axis"),
        ("skip_na", "skipna"),
        ("axes", "axis"),
        ("groupby", "by"),
        ("Dtype", "dtype"),
    ],
)
def test_a_mistyped_option_suggests_the_one_that_is_meant(given: str, meant: str):
    for ask in (cf.ask, lambda op, **more: cf.reduce(np.arange(3), op, **more)):
        with pytest.raises(TypeError, match=rf"{given!r}; .*; did you mean {meant!r}\?$"):
            ask("sum", **{given: 0})
    with pytest.raises(TypeError, match=r"allow_targets$"):
        cf.reduce(np.arange(3), colour=0)
