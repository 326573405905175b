"""Statistics of all elements that a run keeps in its ledger, beside what was asked of it."""

from __future__ import annotations

from dataclasses import replace

from chunkfold.errors import PlanError
from chunkfold.kernels import as_monoid, is_defined
from chunkfold.planning.request import Request

STATISTICS = ("count", "min", "max", "mean", "std", "histogram")
"""Statistics that describe an array: of its dtype those that are defined; NaN and NaT ignored."""
NAME = ".statistics"
"""The name of the question; those of users do not begin with a dot."""


def defined_statistics(request: Request) -> tuple[str, ...]:
    """Return the statistics that are defined for the elements of a reduction."""
    dtypes = [source.dtype for source in request.sources]
    return tuple(
        op for op in STATISTICS if is_defined(as_monoid(op), dtypes, list(request.packings))
    )


def statistics_of(request: Request) -> Request:
    """Return the question of the statistics of all elements that another one reads.

    Raises
    ------
    PlanError
        If it reads several arrays, or windows cut its blocks.
    """
    if len(request.sources) > 1:
        raise PlanError(
            f"ledger_statistics take one array, but {request.name} are {len(request.sources)}: "
            "omit them"
        )
    if any(axis.window for axis in request.chosen):
        raise PlanError(
            "ledger_statistics need whole chunks, but coarsen cuts them into its windows: omit "
            "one of them"
        )
    asked = of_all_elements(request, *defined_statistics(request), skipna=True)
    return replace(asked, question=NAME, questions=request.questions)


def of_all_elements(request: Request, *ops: str, skipna: bool) -> Request:
    """Return the question of some reductions of all elements of a selection, asked alone."""
    options = replace(
        request.options,
        op=ops,
        axis=None,
        keepdims=False,
        coarsen=None,
        boundary="exact",
        ddof=0,
        where=None,
        weights=None,
        skipna=skipna,
        min_count=0,
        initial=None,
    )
    return replace(
        request,
        options=options,
        reduced=tuple(range(len(request.chosen))),
        grouping=None,
        broadcast=(),
        streamed=None,
        keeping=False,
        questions=(),
        question="",
        secondary=(),
    )
