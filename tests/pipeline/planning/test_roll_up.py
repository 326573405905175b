"""Questions that are made of what another has folded: which are, and that they keep their bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.planning import blocks, planner, roll_up, rules, workers
from chunkfold.planning.folding import RolledUp
from chunkfold.planning.questions import Question
from chunkfold.planning.work import Work
from tests.conftest import DEVICES
from tests.pipeline.test_questions import alone, same
from tests.pipeline.test_skipping import damaged

pytestmark = pytest.mark.unoptimised
SHAPE, CHUNKS = (24, 9, 10), (5, 4, 6)
RNG = np.random.default_rng(3)
NARROW = RNG.normal(size=SHAPE).astype("f4")
WIDE = (RNG.normal(size=SHAPE) * 10.0 ** RNG.integers(-30, 30, SHAPE)).astype("f4")
HOLES = np.where(RNG.random(SHAPE) < 0.2, np.nan, NARROW).astype("f4")
WHOLE = RNG.integers(-(2**50), 2**50, SHAPE)
ARRAYS = {"narrow": NARROW, "wide": WIDE, "holes": HOLES, "integers": WHOLE}
ZONES, MONTHS = RNG.integers(-1, 4, SHAPE[1:]), np.arange(SHAPE[0]) % 3
STATISTICS = ["mean", "sum", "min", "max", "count", "var"]
FINER: Mapping[str, Mapping[str, Any]] = {
    "map": {"axis": 0},
    "rows": {"axis": 2},
    "months": {"axis": 0, "by": MONTHS},
}
COARSER: Mapping[str, Mapping[str, Any]] = {
    "everything": {},
    "kept": {"axis": (0, 2), "keepdims": True},
    "zones": {"by": ZONES},
    "zones of rows": {"axis": (0, 2), "by": np.arange(10) // 4, "by_axis": 2},
    "times": {"axis": (1, 2)},
}


@pytest.fixture(autouse=True)
def few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it pay for few elements, on every device; leaves and blocks are several."""
    monkeypatch.setattr(workers, "SLOW_BY_KEY", frozenset({"cpu", "gpu"}))
    monkeypatch.setattr(roll_up, "LEAST_GROUPED", 0)
    monkeypatch.setattr(planner, "LEAF_BYTES", 512)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1024, 2048))
    monkeypatch.setattr(blocks, "BLOCK_PER_PARTIAL", 0)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores")
    for name, values in ARRAYS.items():
        made = zarr.create_array(
            path / name, shape=SHAPE, chunks=CHUNKS, dtype=values.dtype, fill_value=2
        )
        made[:20] = values[:20]  # of the last chunks along the first axis all is fill
    return path


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster, set_as_default=False) as connected:
        yield connected


def made_of(source: Any, questions: Mapping[str, Question], **common: Any) -> dict[str, str]:
    """Return which questions are made of which others."""
    plan = cf.plan(source, questions, **common)
    names = [one.request.question for one in plan.all_plans]
    each = zip(names, plan.questions, strict=True)
    return {name: names[one.roll_up.finer] for name, one in each if isinstance(one, RolledUp)}


@pytest.mark.parametrize("name", [*ARRAYS])
@settings(max_examples=6)
@given(
    finer=st.sampled_from([*FINER]),
    coarser=st.lists(st.sampled_from([*COARSER]), min_size=1, max_size=3, unique=True),
    ops=st.lists(st.sampled_from(STATISTICS), min_size=1, max_size=3, unique=True),
    more=st.lists(st.sampled_from([*STATISTICS, "argmax", "any"]), max_size=2),
    common=st.sampled_from(
        [{}, {"skipna": True}, {"where": "x > 0"}, {"selection": (slice(None, None, -2),)}]
    ),
)
def test_each_has_the_bits_that_it_has_alone(
    name: str,
    finer: str,
    coarser: list[str],
    ops: list[str],
    more: list[str],
    common: dict[str, Any],
    stores: Path,
):
    if name == "integers" and "skipna" in common:
        common = {}
    given = FINER[finer] if "selection" not in common or finer != "months" else FINER["map"]
    questions = {
        "finer": cf.ask(list(dict.fromkeys([*ops, *more])), **given),
        **{one: cf.ask(ops, **COARSER[one]) for one in coarser},
    }
    found = cf.reduce(stores / name, questions, **common)
    for one, question in questions.items():
        same(found[one], alone(stores / name, question, **common))


def test_none_is_made_of_another_without_the_rule(stores: Path, monkeypatch: pytest.MonkeyPatch):
    questions = {"map": cf.ask("sum", axis=0), "whole": cf.ask("sum")}
    assert made_of(stores / "narrow", questions) == {"whole": "map"}
    found = cf.reduce(stores / "narrow", questions)
    monkeypatch.setenv(rules.VARIABLE, "roll_up")
    assert made_of(stores / "narrow", questions) == {}
    for name, one in cf.reduce(stores / "narrow", questions).items():
        same(one, found[name])


def test_questions_are_made_of_the_coarsest_that_has_all_they_need(stores: Path):
    questions = {
        "whole": cf.ask(["mean", "max"]),
        "zones": cf.ask(["mean", "max", "count"], by=np.maximum(ZONES, 0)),
        "some": cf.ask("mean", by=ZONES),
        "map": cf.ask(["sum", "max", "std"], axis=0),
        "lat": cf.ask("mean", axis=(0, 2)),
        "other": cf.ask("min"),
        "where": cf.ask("argmax"),
    }
    found = made_of(stores / "narrow", questions)
    assert found == {"zones": "map", "some": "map", "lat": "map", "whole": "zones"}
    work = Work.of("run", cf.plan(stores / "narrow", questions))
    assert len(work.folded_secondary) == 2
    told = str(cf.plan(stores / "narrow", questions))
    assert "made of   the partials of each result of zones: no pass over the data" in told


def test_monoids_of_users_are_tried_with_their_masks_where_one_is_made_of_another(stores: Path):
    above = cf.Monoid(
        "above", fields={"n": "int64"}, zero=0, lift=lambda x: x > 0, op=lambda a, b: b.n + a.n
    )
    mask = ZONES > 0
    questions = {"map": cf.ask(above, axis=0, where=mask), "all": cf.ask(above, where=mask)}
    assert made_of(stores / "narrow", questions) == {"all": "map"}
    found = cf.reduce(stores / "narrow", questions)
    for name, question in questions.items():
        same(found[name], alone(stores / "narrow", question))


@pytest.mark.parametrize(
    ("finer", "own"),
    [
        (cf.ask("mean", axis=0), cf.ask("max")),
        (cf.ask("mean", axis=0), cf.ask("mean", axis=1)),
        (cf.ask("mean", axis=0), cf.ask("mean", where="x > 0")),
        (cf.ask("mean", axis=0), cf.ask("mean", skipna=True)),
        (cf.ask("mean", axis=0), cf.ask("mean", weights=np.arange(10))),
        (cf.ask("mean", axis=0), cf.ask("mean", by=MONTHS, by_axis=0)),
        (cf.ask("mean", axis=0), cf.ask("mean", by=cf.bins([-1, 0, 1]))),
        (cf.ask("mean", axis=0), cf.ask("mean", mode="fast")),
        (cf.ask("mean", axis=0), cf.ask("mean", dtype="f8")),
        (cf.ask("mean", axis=0), cf.ask("median")),
        (cf.ask("mean", axis=0, by=MONTHS - 1), cf.ask("mean")),
        (cf.ask("sum", mode="fast", axis=0), cf.ask("sum", mode="fast")),
        (cf.ask("argmax", axis=0), cf.ask("argmax")),
        (cf.ask("mean", coarsen={0: 3}, boundary="pad"), cf.ask("mean")),
    ],
)
def test_a_question_that_lacks_something_folds_elements(finer: Question, own: Question):
    assert not made_of(NARROW, {"finer": finer, "own": own})


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (workers, "SLOW_BY_KEY", frozenset()),
        (roll_up, "LEAST_GROUPED", 25),
        (roll_up, "MOST_BYTES", 99),
    ],
)
def test_a_question_folds_elements_where_that_is_no_more_work(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, value: Any
):
    questions = {"finer": cf.ask("mean", axis=0), "own": cf.ask("mean")}
    assert made_of(NARROW, questions) == {"own": "finer"}
    monkeypatch.setattr(module, name, value)
    assert not made_of(NARROW, questions)


@pytest.mark.parametrize("name", ["narrow", "wide"])
def test_weights_and_masks_that_are_the_same_are_no_hindrance(name: str, stores: Path):
    common = {"weights": np.linspace(0, 2, 9)[:, None], "where": ZONES > 0}
    questions = {
        "map": cf.ask(["mean", "sum"], axis=0, **common),
        "zones": cf.ask("mean", by=ZONES, **common),
        "other": cf.ask("mean", weights=np.linspace(0, 1, 9)[:, None], where=ZONES > 0),
    }
    assert made_of(stores / name, questions) == {"zones": "map"}
    found = cf.reduce(stores / name, questions)
    for one, question in questions.items():
        same(found[one], alone(stores / name, question))


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_chunks_that_cannot_be_read_are_left_out_of_each(tmp_path: Path, share: float):
    grid = [-(-n // c) for n, c in zip(SHAPE, CHUNKS, strict=True)]
    damaged(tmp_path / "a", WIDE, RNG.random(grid) < share, chunks=CHUNKS)
    questions = {
        "map": cf.ask(["sum", "count"], axis=0),
        "zones": cf.ask("sum", by=ZONES),
        "times": cf.ask("count"),
    }
    assert set(made_of(tmp_path / "a", questions)) == {"zones", "times"}
    found = cf.reduce(tmp_path / "a", questions, on_bad_chunk="skip")
    for one, question in questions.items():
        same(found[one], alone(tmp_path / "a", question, on_bad_chunk="skip"))


def test_workers_have_parts_of_each(stores: Path, client: Client):
    questions = {
        "map": cf.ask(["sum", "max"], axis=0),
        "zones": cf.ask("sum", by=ZONES),
        "whole": cf.ask("max"),
    }
    found = cf.reduce(stores / "wide", questions, client=client)
    for one, question in questions.items():
        same(found[one], alone(stores / "wide", question))
