"""What is asked of a reduction: one place that refuses, whatever the source; nothing is told."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from dataclasses import fields
from typing import get_type_hints

import numpy as np
import pytest
import zarr
from distributed.protocol.pickle import dumps

import chunkfold as cf
from chunkfold.kernels import CATALOGUE, as_monoid
from chunkfold.planning import option_table
from chunkfold.planning.option_table import OPTION_TYPES, Keywords, meanings
from chunkfold.planning.options import Options
from chunkfold.workflows.transforms.project import project


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"keepdims": "no"}, "keepdims is 'no'; give True or False"),
        ({"skipna": 1}, "skipna is 1; give True or False"),
        ({"mask_and_scale": None}, "mask_and_scale is None; give True or False"),
        ({"mode": "best"}, "mode is 'best'; use one of: 'exact', 'fast'"),
        ({"mode": ["fast"]}, r"mode is \['fast'\]; use one of"),
        ({"on_bad_chunk": "fill"}, "on_bad_chunk is 'fill'; use one of: 'stop', 'skip'"),
        ({"variant": "trees"}, "variant is 'trees'; use one of: 'tree', 'work_group', 'sub_group'"),
        ({"variant": 3}, "variant is 3; use one of"),
        ({"memory": "2 parsecs"}, "memory is '2 parsecs'; give a size with its unit"),
        ({"storage_options": "anon"}, "storage_options is a mapping of names, not str"),
        ({"by_axis": 0}, "by_axis is 0, but no labels are given: give them with by="),
        ({"groups": [1]}, r"groups is \[1\], but no labels are given"),
        ({"dtype": "sandwich"}, "dtype='sandwich'"),
        ({"ddof": float("nan")}, "ddof is nan; give a finite number"),
        ({"ddof": 1}, "ddof is 1, but sum has none; var and std do"),
        ({"op": []}, "no reduction was named"),
        ({"op": ["max", "max"]}, "max is named more than once"),
    ],
)
def test_what_is_none_is_refused_without_a_source(given: dict, told: str):
    with pytest.raises(cf.PlanError, match=told):
        Options(**given)


def test_what_was_given_stays_as_it_was():
    given = (name for name in ("var", "mean"))
    options = Options(given, ddof=np.float64(1), memory="1 KiB", dtype="f4", where="x > 3")
    assert options.op == ("var", "mean") == options.names
    assert (options.ddof, options.memory_bytes, options.cast) == (1.0, 1024, np.dtype("f4"))
    assert all(monoid.where is not None for monoid in options.monoids)
    assert [options.single, Options("var").single] == [False, True]
    with pytest.raises(AttributeError):
        options.axis = 1  # type: ignore[misc]


def test_it_says_what_is_not_usual_and_no_secret():
    assert repr(Options()) == "Options(op='sum')"
    told = repr(
        Options(
            [as_monoid("var"), "max"],
            axis="t",
            skipna=True,
            by="https://me:hush@host/labels?token=hush",
            storage_options={"secret_access_key": "hush"},
        )
    )
    assert told.startswith("Options(op=['var', 'max'], axis='t', skipna=True, by='https://host/lab")
    assert "hush" not in told
    assert "secret_access_key" in told


@pytest.mark.parametrize("name", CATALOGUE)
def test_reductions_of_the_catalogue_are_themselves_where_they_arrive(name: str):
    """Also those that no pickle holds, since their functions have no names."""
    options = Options([as_monoid(name)], skipna=True)
    assert options.monoids
    arrived = pickle.loads(dumps(options))
    assert as_monoid(arrived.op[0]) is CATALOGUE[name]
    assert arrived.skipna


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
    with pytest.raises(TypeError, match="no option is called 'axes'; use one of: axis, keepdims"):
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
        cf.reduce(np.arange(3), colour=0)  # type: ignore[call-arg]
