"""Who will do the work of a run, as far as planning needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chunkfold.kernels import Device
from chunkfold.settings import most_requests


@dataclass(frozen=True)
class Workers:
    """Who will do the work."""

    devices: tuple[Device, ...]
    """Device of each worker."""
    threads: int
    """Blocks that one worker runs at once."""
    readers: int
    """Threads that read for them, of the worker that has most."""
    memory_limit: int | None
    """Bytes that the smallest worker may use."""
    neighbours: int = 1
    """Workers of the machine that has most: they share the requests that one may make."""

    @property
    def terms(self) -> dict[str, Any]:
        """What plans depend on, by the names that `make_plan` has for it."""
        return {
            "workers": len(self.devices),
            "threads": self.threads,
            "readers": self.readers,
            "requests": max(1, most_requests() // self.neighbours),
            "memory_limit": self.memory_limit,
        }
