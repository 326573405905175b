"""Names of results in a Zarr or a NetCDF, each of which is unique there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from chunkfold.errors import PlanError
from chunkfold.outputs.outputs import format_of
from chunkfold.planning.request import Request
from chunkfold.results.companions import Companions
from chunkfold.results.coordinates import Auxiliary, Kept
from chunkfold.results.last_axes import last_axes
from chunkfold.results.results import Results
from chunkfold.workflows.files.groups import refuse_unwritable


def _fields(op: str, *, weighed: bool) -> tuple[str, ...]:
    """Return the arrays of a reduction: of records each field is one."""
    return ("left", "right", "weight" if weighed else "count") if op == "histogram" else (op,)


def refuse_taken_names(out: str | Path, request: Request) -> None:
    """Find out before the work starts whether results in a Zarr or a NetCDF have free names.

    Raises
    ------
    PlanError
        If one is called as an axis, or as an array that comes along, such as a coordinate.
    """
    if format_of(out) not in (".zarr", ".nc"):
        return
    kept, options = Kept.of(request), request.options
    alive = [n for n, one in enumerate(kept.axes) if not one.dropped]
    left = list(alive if options.keepdims else kept.kept)
    if request.grouping is not None:  # groups stand in the place of one
        left = [n for n in left if n != request.grouping.first]
    axes = [name for n in left if (name := kept.names[n])]
    if request.grouping is not None:
        refuse_unwritable(request.grouping, axes)
        axes += request.grouping.axes
    arrays = {name: _fields(name, weighed=options.weights is not None) for name in options.names}
    along = Companions(kept, read=False).all
    refuse_taken(request.sources[0].name, arrays, axes, along, last_axes(options.monoids))


def refuse_taken_results(results: Results) -> None:
    """Refuse results of which one has the name of something that comes along.

    Raises
    ------
    PlanError
        If there is one.
    """
    parts = {op: list(one.parts) or [op] for op, one in results.items()}
    names = {op: [name.rpartition("/")[2] for name in each] for op, each in parts.items()}
    axes = [name for name in results.dims or [] if name]
    along, own = results.stored.along.all, last_axes(results.plan.options.monoids)
    refuse_taken(results.source.name, names, axes, along, own)


def refuse_taken(
    source: str,
    arrays: Mapping[str, Sequence[str]],
    axes: Sequence[str],
    along: Sequence[Auxiliary],
    own: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse results that would take the place of an axis's coordinate, or of another array.

    Parameters
    ----------
    source
        What messages call the array that is reduced.
    arrays
        For each op the names of its arrays.
    axes
        The names of axes that results have of the source.
    along
        What comes along with them.
    own
        What ops call the last axes of their results, which the source has not.

    Raises
    ------
    PlanError
        If there is one.
    """
    taken = {one.name: "array" for one in along}
    taken |= dict.fromkeys((*axes, *(name for one in along for name in one.axes)), "axis")
    for op, names in arrays.items():
        for name in dict.fromkeys((op, *names)):
            _refuse(source, f"the result of {op!r}", name, taken)
        if op in own:
            _refuse(source, f"an axis of the result of {op!r}", own[op], taken)


def _refuse(source: str, what: str, name: str, taken: Mapping[str, str]) -> None:
    if name in taken:
        raise PlanError(
            f"{source}: {what} would be called {name!r} in a Zarr or a NetCDF, and so replace "
            f"its {taken[name]} {name!r}: rename that {taken[name]}, or write "
            "the result by reduce --out as .json or a table"
        )
