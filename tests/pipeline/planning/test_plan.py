"""A plan travels and is shown: carried out elsewhere it gives the same, and no name is markup."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).normal(0, 9, (6, 50)).round()


@pytest.fixture
def array(tmp_path: Path) -> str:
    zarr.create_array(str(tmp_path / "a.zarr"), data=VALUES, chunks=(2, 50))
    return str(tmp_path / "a.zarr")


def mine() -> cf.Monoid:
    return cf.Monoid(
        "doubled",
        fields={"s": "float64"},
        zero=0,
        lift=lambda x: 2 * x,
        op="add",
        finish=lambda fields, _: fields["s"] + 1,
    )


@pytest.mark.parametrize(
    ("op", "given"),
    [
        ("var", {"ddof": 1, "axis": 0, "keepdims": True}),
        (["mean", "histogram"], {"selection": (slice(1, 5), ...), "mode": "fast"}),
        (lambda: [mine(), "max"], {"where": lambda x: x > 0, "axis": 1}),
        ("sum", {"by": np.arange(6) % 2, "axis": 0}),
        ("mean", {"weights": np.arange(50.0), "where": np.arange(50) % 3 > 0}),
    ],
)
def test_a_plan_that_was_pickled_gives_the_same(array: str, op, given: dict):
    plan = cf.plan(array, op() if callable(op) else op, **given)
    arrived = pickle.loads(pickle.dumps(plan))
    assert str(arrived) == str(plan)
    assert repr(arrived.options) == repr(plan.options) or "where" in given
    want = cf.reduce(array, op() if callable(op) else op, **given)
    for found in (cf.reduce(arrived), cf.reduce(plan)):
        if isinstance(want, cf.Result):
            np.testing.assert_equal(found.values, want.values)
        else:
            np.testing.assert_equal(found, want)


def test_another_process_carries_it_out(array: str, tmp_path: Path):
    """Functions travel by value: nothing of this module is there."""
    plan = cf.plan(array, [mine(), "max"], where=lambda x: x > 0, axis=1)
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    code = "import pickle, chunkfold; print(chunkfold.reduce(pickle.load(open('plan', 'rb'))))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    there = np.where(VALUES > 0, VALUES, 0)
    assert done.stdout == f"{ {'doubled': 2 * there.sum(axis=1) + 1, 'max': there.max(axis=1)} }\n"


def test_a_notebook_shows_the_same_lines_and_runs_nothing(tmp_path: Path):
    path = tmp_path / "<script>alert('x')&<b>.zarr"
    zarr.create_array(str(path), data=VALUES, dimension_names=("<i>t</i>", "x"))
    html, lines = cf.plan(path)._repr_html_(), str(cf.plan(path)).splitlines()
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&amp;&lt;b&gt;" in html
    tags = {part.split(">")[0].split(" ")[0] for part in html.split("<")[1:]}
    assert tags == {"table", "tr", "th", "td", "/table", "/tr", "/th", "/td"}
    assert html.count("<tr>") == len(lines)
    assert ">memory</th>" in html
