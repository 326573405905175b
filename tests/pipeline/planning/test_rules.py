"""Rules are switched off by name, and none is that is not named."""

from __future__ import annotations

import pytest

from chunkfold.errors import PlanError
from chunkfold.planning.rules import VARIABLE, PlanRule, applies


@pytest.mark.parametrize("given", ["", "roll_up", "roll_up, some_groups", "all"])
def test_rules_that_are_named_do_not_apply(given: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, given)
    named = {name.strip() for name in given.split(",")}
    for rule in PlanRule:
        assert applies(rule) == (rule.value not in named and "all" not in named)


def test_a_name_that_is_no_rule_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "roll_up,rollup")
    with pytest.raises(PlanError, match=r"names rollup, which is no rule: name some of .*roll_up"):
        applies(PlanRule.ROLL_UP)
