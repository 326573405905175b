"""What is asked of a reduction: one place that refuses, whatever the source; nothing is told."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from distributed.protocol.pickle import dumps

import chunkfold as cf
from chunkfold.kernels import CATALOGUE, as_monoid
from chunkfold.planning.options import Options


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"keepdims": "no"}, "keepdims is 'no'; give True or False"),
        ({"skipna": 1}, "skipna is 1; give True or False"),
        ({"mask_and_scale": None}, "mask_and_scale is None; give True or False"),
        ({"mode": "best"}, "mode is 'best'; there are: 'exact', 'fast'"),
        ({"mode": ["fast"]}, r"mode is \['fast'\]; there are"),
        ({"on_bad_chunk": "fill"}, "on_bad_chunk is 'fill'; there are: 'stop', 'skip'"),
        ({"variant": "trees"}, "variant is 'trees'; there are: 'tree', 'work_group', 'sub_group'"),
        ({"variant": 3}, "variant is 3; there are"),
        ({"memory": "2 parsecs"}, "memory is '2 parsecs'; give a size with its unit"),
        ({"storage_options": "anon"}, "storage_options is a mapping of names, not str"),
        ({"by_axis": 0}, "by_axis is 0, but there are no labels: give them with by="),
        ({"groups": [1]}, r"groups is \[1\], but there are no labels"),
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
