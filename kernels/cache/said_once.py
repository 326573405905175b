"""What is said of caches: one sentence of each kind, by this process and those that it starts."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

_SAID = "CHUNKFOLD_CACHE_SAID"
"""Names the kinds; in the environment, since each worker meets the same cache."""
_LOG = logging.getLogger("chunkfold")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def say_once(kind: str, sentence: str) -> None:
    """Log a warning, unless one of its kind was logged."""
    said = os.environ.get(_SAID, "").split()
    if kind not in said:
        os.environ[_SAID] = " ".join([*said, kind])
        _LOG.warning("%s", sentence)


def say_unkept(place: Path, error: OSError) -> None:
    """Say that a cache cannot be written, and what that means."""
    remedy = "make room there" if error.errno in _FULL else "see to that"
    say_once(
        "unkept",
        f"the cache in {place} cannot be written ({error.strerror or error}): what is compiled is "
        f"not kept for the next run; {remedy}, or let CHUNKFOLD_CACHE name another folder",
    )


def is_full(error: OSError) -> bool:
    """Whether something could not be written for want of room."""
    return error.errno in _FULL
