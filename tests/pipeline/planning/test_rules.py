"""Rules are switched off by name, and none is that is not named."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import chunkfold
from chunkfold.errors import PlanError
from chunkfold.planning.rules import VARIABLE, PlanRule, applies

DOCSTRING = re.compile(r'^    (\w+) = .*\n    """.*\((.+)\)\."""$', re.MULTILINE)
SAID = DOCSTRING.findall(inspect.getsource(PlanRule))


def test_each_rule_says_a_module_that_asks_for_it():
    folder = Path(chunkfold.__file__).parent
    assert [name for name, _ in SAID] == list(PlanRule.__members__)
    for name, module in SAID:
        path = folder / f"{module if '/' in module else f'planning/{module}'}.py"
        assert f"applies(PlanRule.{name})" in path.read_text(), (name, module)


def test_the_page_for_developers_names_each_rule():
    page = (Path(__file__).parents[3] / "docs" / "for-developers.md").read_text()
    (named,) = re.findall(r"^The rules of planning are ([^(]+) \(", page, re.MULTILINE)
    assert re.findall(r"`(\w+)`", named) == [rule.value for rule in PlanRule]


@pytest.mark.parametrize("given", ["", "roll_up", "roll_up, some_groups", "all"])
def test_rules_that_are_named_do_not_apply(given: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, given)
    named = {name.strip() for name in given.split(",")}
    for rule in PlanRule:
        assert applies(rule) == (rule.value not in named and "all" not in named)


def test_a_name_that_is_no_rule_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "roll_up,rollup")
    with pytest.raises(
        PlanError, match=r"names rollup, which is not a rule: name some of .*roll_up"
    ):
        applies(PlanRule.ROLL_UP)
