"""How a block talks to whoever started it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Watch:
    """How a block talks to whoever started it."""

    progress: Callable[[int, bool], None]
    """Told the bytes folded so far, and whether the block is done."""
    cancelled: Callable[[], bool]
