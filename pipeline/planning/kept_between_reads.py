"""What workers hold of each output while the data are read again."""

from __future__ import annotations

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.planning.broadcast_inputs import MOST_BYTES
from chunkfold.planning.request import Request
from chunkfold.units import size_text


def refuse_much_between_reads(request: Request) -> None:
    """Refuse what is read several times and has more to hold of each output than workers do.

    Raises
    ------
    PlanError
        If it has.
    """
    several = [one.monoid.as_written for one in request.bound().statistics if one.monoid.reads > 1]
    if not several:
        return
    along = [n for n in range(len(request.chosen)) if n not in request.reduced]
    if request.grouping is not None:
        along = sorted({*along, *request.grouping.keys.axes})
    value = np.dtype(np.result_type(*(source.dtype for source in request.sources)))
    nbytes = value.itemsize
    for axis in along:
        nbytes *= request.chosen[axis].length
    if nbytes > MOST_BYTES:
        raise PlanError(
            f"{', '.join(several)} of {request.name} is read several times, and workers hold "
            f"{size_text(nbytes)} of what a read has found, beyond {size_text(MOST_BYTES)}: "
            "select less at a time"
        )
