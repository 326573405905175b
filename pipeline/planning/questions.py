"""Several questions about the same elements, which one read of the data answers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Unpack

from chunkfold.errors import PlanError
from chunkfold.kernels.errors import MonoidError
from chunkfold.planning.in_memory import keepable
from chunkfold.planning.layout import Layout
from chunkfold.planning.option_table import SECTIONS, Keywords, Op
from chunkfold.planning.option_values import Section
from chunkfold.planning.options import DEFAULT, Options, options_of, refuse_unknown, with_options
from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms

_NAME = re.compile(r"(?!zarr\.json$)[^./\0][^/\0]*")
COMMON = tuple(
    name
    for name, section in SECTIONS.items()
    if section in (Section.SOURCE, Section.SELECTION, Section.RUNNING)
)
"""Options that all questions of a read have in common: what is read, and how."""


@dataclass(frozen=True, eq=False)
class Question:
    """A question next to others; `ask` makes it."""

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
        The rows of `chunkfold.planning.option_table.OptionTable`; but those that say what is read,
        and how (`sel`, `memory`, ...), which are given to `reduce`.

    Raises
    ------
    PlanError
        If one of those is given.

    Examples
    --------
    >>> import numpy as np
    >>> import chunkfold as cf
    >>> asked = {"all": cf.ask("mean"), "rows": cf.ask("max", axis=1)}
    >>> cf.reduce(np.array([[1.0, 2.0], [3.0, 4.0]]), asked)
    {'all': np.float64(2.5), 'rows': array([2., 4.])}
    """
    for name in COMMON:
        if name in options:
            raise PlanError(
                f"{name} applies to what all questions read: give it once, outside them, as in "
                f"reduce(source, questions, {name}=...)"
            )
    refuse_unknown(options)
    return Question(op, dict(options))


def options_of_each(questions: Questions, common: Keywords) -> dict[str, Options]:
    """Return the options of each question: its own, and else those that all were given.

    Raises
    ------
    PlanError
        If one of them cannot be answered beside others.
    """
    each = {}
    for name, question in questions.items():
        refuse_other(name, question)
        with of_question(name):
            each[name] = options_of(question.op, {**common, **question.given})  # type: ignore[typeddict-item]
    return each


def refuse_other(name: str, question: object) -> None:
    """Refuse what is no question.

    Raises
    ------
    PlanError
        If it is none.
    """
    if not isinstance(question, Question):
        raise PlanError(
            f"{name!r} is not a question, but a {type(question).__name__}: give one, as in "
            f"{{{name!r}: chunkfold.ask('mean', axis=0)}}"
        )


@contextmanager
def of_question(name: str) -> Iterator[None]:
    """Say of which question something is wrong."""
    try:
        yield
    except (PlanError, MonoidError) as error:
        raise type(error)(f"{name}: {error}") from error


def check_questions(each: Mapping[str, object]) -> None:
    """Refuse what no read answers together.

    Raises
    ------
    PlanError
        If no question is asked, or one has no good name.
    """
    if not each:
        raise PlanError("no question is given: give at least one, as {'mean': ask('mean')}")
    for name in each:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PlanError(
                f"a question is called {name!r}, which also names its results in files: give a "
                "text that has no '/', does not begin with a dot, and is not the name of a Zarr "
                "metadata file"
            )


def first_of(
    request: Request, terms: Terms, layouts: Callable[[Request], Iterator[Layout]]
) -> Request:
    """Return questions with the one first whose tiles, one after another, leaves are read for.

    It is the one whose results leave as they come, or one that has windows, for leaves end where
    they do; else one that keeps elements to choose some, for blocks have whole tiles of it alone.
    Else the one that has most accumulators: of others a block has those of all tiles that it meets.
    """
    if not request.secondary:
        return request

    def weight(one: Request) -> tuple[bool, bool, bool, int]:
        keeping = replace(one, keeping=True)
        keeps = one.reads_again(fp64=terms.fp64) and keepable(keeping, next(layouts(one)), terms)
        size = one.accumulator(terms).nbytes * one.groups * one.outputs
        return one.streamed is not None, any(_windows(one)), keeps, size

    alone = [replace(one, secondary=()) for one in request.all_requests]
    first = max((one for one in alone if not one.unasked), key=weight)
    others = tuple(one for one in alone if one is not first)
    return replace(first, secondary=others)


def refuse_other_windows(requests: Sequence[Request]) -> None:
    """See that leaves which end where windows do suit all questions.

    Raises
    ------
    PlanError
        If two have different windows, or windows leave elements out that others have.
    """
    windowed = [one for one in requests if any(_windows(one))]
    for one in windowed[1:]:
        if _windows(one) != _windows(windowed[0]):
            raise PlanError(
                f"{one.question}: its windows are {_told(one)}, but those of "
                f"{windowed[0].question} are {_told(windowed[0])}: leaves end where windows end, "
                "so give all questions the same windows, or compute them in separate runs"
            )
    for one, other in itertools.product(windowed, requests):
        if [axis.length for axis in one.chosen] != [axis.length for axis in other.chosen]:
            raise PlanError(
                f"{one.question}: its last windows are trimmed, but {other.question} needs their "
                "elements: give boundary='pad', or compute it in a separate run"
            )


def _windows(request: Request) -> tuple[int, ...]:
    return tuple(axis.window for axis in request.chosen)


def _told(request: Request) -> str:
    return ", ".join(f"{size:,} along {n}" for n, size in enumerate(_windows(request)) if size)
