"""Several questions about the same elements, which one read of the data answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Unpack

from chunkfold.errors import PlanError
from chunkfold.planning.keywords import DEFAULT, Keywords, options_of, with_options
from chunkfold.planning.options import Op, Options

OF_ALL = (
    "selection",
    "sel",
    "sel_method",
    "sel_tolerance",
    "variant",
    "memory",
    "on_bad_chunk",
    "on_missing_chunk",
    "storage_options",
)
"""Options that all questions of a read have in common: what is read, and how."""


@dataclass(frozen=True)
class Question:
    """What is asked beside other questions; made by `ask`."""

    op: Op | Sequence[Op]
    given: Mapping[str, Any]
    """Options, by their names."""


Questions = Mapping[str, Question]
"""By the names that their results go by."""


@with_options
def ask(op: Op | Sequence[Op] = DEFAULT, **options: Unpack[Keywords]) -> Question:
    """Ask something beside other questions: `reduce` answers all of them in one read.

    Parameters
    ----------
    op, options
        The fields of `chunkfold.planning.options.Options`; but those that say what is read, and
        how (`sel`, `memory`, ...), which are given to `reduce`.

    Raises
    ------
    PlanError
        If one of those is given, or two do not go together.

    Examples
    --------
    >>> import numpy as np
    >>> import chunkfold as cf
    >>> asked = {"all": cf.ask("mean"), "rows": cf.ask("max", axis=1)}
    >>> cf.reduce(np.array([[1.0, 2.0], [3.0, 4.0]]), asked)
    {'all': np.float64(2.5), 'rows': array([2., 4.])}
    """
    for name in OF_ALL:
        if name in options:
            raise PlanError(
                f"{name} says what all questions read: give it once, beside them, as in "
                f"reduce(source, questions, {name}=...)"
            )
    options_of(op, options)  # which sees that they are sound
    return Question(op, MappingProxyType(dict(options)))


def options_of_each(questions: Questions, common: Keywords) -> dict[str, Options]:
    """Return the options of each question: its own, and else those that all were given.

    Raises
    ------
    PlanError
        If one of them cannot be answered beside others.
    """
    each = {}
    for name, question in questions.items():
        if not isinstance(question, Question):
            raise PlanError(
                f"{name!r} is no question, but {type(question).__name__}: ask one, as in "
                f"{{{name!r}: chunkfold.ask('mean', axis=0)}}"
            )
        each[name] = options_of(question.op, {**common, **question.given})  # type: ignore[typeddict-item]
    return each


def check_questions(each: Mapping[str, Options]) -> None:
    """Refuse what no read answers together.

    Raises
    ------
    PlanError
        If no question is asked, or one has no good name, or must be asked by itself.
    """
    if not each:
        raise PlanError("no question is asked: give one at least, as {'mean': ask('mean')}")
    for name, options in each.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise PlanError(f"a question is called {name!r}: names are texts without '/'")
        if options.coarsen is not None:
            raise PlanError(
                f"{name}: windows (coarsen) are asked for by themselves, in a read alone"
            )
        if options.skips:
            raise PlanError(
                f"{name}: on_bad_chunk='skip' does not go with several questions: ask them one by "
                "one"
            )
