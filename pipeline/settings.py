"""What Dask's configuration says of chunkfold: `dask.config.set`, its files, variables.

A variable is called after its setting: `DASK_CHUNKFOLD__REMOTE__ABSENT_STATUS=403`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import dask

from chunkfold.errors import PlanError
from chunkfold.refusals import ABSENT

ABSENT_STATUS = "chunkfold.remote.absent-status"
StorageOptions = Mapping[str, Any]
"""`absent_status`, of `ABSENT`; all else is obstore's, such as `skip_signature` or `region`."""


def absent_statuses(options: StorageOptions) -> Collection[int]:
    """Return statuses that mean that an object is not stored, as options or settings have them.

    Raises
    ------
    PlanError
        If one of them cannot mean that.
    """
    given = options.get("absent_status", dask.config.get(ABSENT_STATUS, ()))
    statuses = given if isinstance(given, (list, tuple, set, frozenset)) else (given,)
    for status in statuses:
        if isinstance(status, bool) or status not in ABSENT:
            raise PlanError(
                f"absent_status is {status!r}; of what they do not have servers may answer "
                f"{' or '.join(map(str, ABSENT))}, beside 404"
            )
    return statuses
