"""Rules of planning: each makes a reduction faster, and none changes a bit of its result.

`CHUNKFOLD_WITHOUT_RULES=roll_up,some_groups` switches rules off in a process, to find out what a
fault depends on; "all" switches all of them off. Workers read their own environment.
"""

from __future__ import annotations

import os
from enum import StrEnum

from chunkfold.errors import PlanError

VARIABLE = "CHUNKFOLD_WITHOUT_RULES"


class PlanRule(StrEnum):
    """A rule, with the module that applies it."""

    LARGER_LEAVES = "larger_leaves"
    """Fold several chunks at once where accumulators are large (leaves)."""
    LABELLED_ROWS = "labelled_rows"
    """Fold rows of elements that have one label, then group them (preaggregation)."""
    FACTORED_WEIGHTS = "factored_weights"
    """Fold rows of elements that have one weight, then weigh them (preaggregation)."""
    ROLL_UP = "roll_up"
    """Make the answer to a question from a finer one that shares its read (roll_up)."""
    KEPT_ELEMENTS = "kept_elements"
    """Keep the elements of each output for quantiles, in place of several reads (in_memory)."""
    DEVICE_LEVELS = "device_levels"
    """Make the levels of a pyramid on the device (tile_finishing)."""
    DEVICE_ROUNDING = "device_rounding"
    """Round exact results on the device (tile_finishing)."""
    SOME_GROUPS = "some_groups"
    """Keep only accumulators of groups that a block meets (folding)."""
    FOLD_WHERE_READ = "fold_where_read"
    """Fold pieces in the threads that read them (worker/per_thread)."""


def applies(rule: PlanRule) -> bool:
    """Return whether a rule is switched on in this process.

    Raises
    ------
    PlanError
        If `CHUNKFOLD_WITHOUT_RULES` names a rule that does not exist.
    """
    given = os.environ.get(VARIABLE, "")
    if not given:
        return True
    names = {name.strip() for name in given.split(",")} - {""}
    known = {one.value for one in PlanRule}
    if unknown := names - known - {"all"}:
        raise PlanError(
            f"{VARIABLE} names {', '.join(sorted(unknown))}, which is not a rule: name some of "
            f"{', '.join(sorted(known))}, or all"
        )
    return not names & {rule.value, "all"}
