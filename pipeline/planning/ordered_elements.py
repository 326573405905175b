"""Reductions that take elements in their order along an axis: what would disturb it is refused."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfold.errors import PlanError
from chunkfold.planning.request import Request
from chunkfold.sources.axis_names import axis_names


def refuse_disorder(requests: Sequence[Request]) -> None:
    """Refuse what leaves elements out, or takes them in another order, of what minds that.

    Raises
    ------
    PlanError
        If there is anything like that, with what to do instead.
    """
    for request in requests:
        named = next((one.quoted for one in request.options.monoids if one.in_order), None)
        if named is not None and (why := _disorder(request, len(requests) > 1)):
            raise PlanError(
                f"{request.name}: {named} takes elements in their order along one axis, but {why}"
            )


def _disorder(request: Request, together: bool) -> str:
    """Say what disturbs the order, and the remedy; "" if nothing does."""
    options, chosen = request.options, request.chosen
    along = [n for n in request.reduced if not chosen[n].dropped]
    if len(along) > 1:
        names = axis_names(request.sources[0], along) or along
        return f"{', '.join(map(repr, names))} are reduced: name one of them in axis="
    if request.grouping is not None:
        return "groups separate them: reduce each group separately, as with sel={'time.year': 2001}"
    if any(axis.window for axis in chosen):
        return "windows separate them: reduce each window separately, as with sel= or selection="
    if options.where is not None:
        return "where= omits some, which would join those around them: write it into its own"
    if options.skips:
        return "chunks may be skipped, which would join those around them: give on_bad_chunk='stop'"
    if options.ledger is not None:
        return "a ledger combines partials in any order: omit ledger="
    return "other questions share the read, in another order: compute it separately" * together
