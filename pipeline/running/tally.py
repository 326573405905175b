"""Adds up a run's events: bytes by device, blocks, retries."""

from __future__ import annotations

from dataclasses import dataclass, field

from chunkfold.events import BlockProgress, Event, RunStarted, WorkerRetired


@dataclass
class Tally:
    """The state of a run, as its events tell it."""

    run: RunStarted | None = None
    nbytes: int = 0
    """Decoded bytes folded, of chunks that are stored."""
    blocks: int = 0
    """Blocks that are done."""
    again: int = 0
    """Blocks that were begun more than once: a worker died."""
    retired: list[WorkerRetired] = field(default_factory=list)
    """Workers that could not use their devices."""
    of_devices: dict[str, int] = field(default_factory=dict)
    """Decoded bytes folded on each device, of chunks that are stored, by identity."""
    _blocks: dict[tuple[str, int], BlockProgress] = field(default_factory=dict)
    """Progress by read and number: a further read of the data is not a retry."""

    @property
    def retries(self) -> int:
        """Blocks and tasks that ran again elsewhere."""
        return self.again + len(self.retired)

    def hear(self, event: Event) -> None:
        """Take an event in."""
        if isinstance(event, RunStarted):
            self.run = event
        elif isinstance(event, WorkerRetired):
            self.retired.append(event)
        elif isinstance(event, BlockProgress):
            self._progress(event)

    def _progress(self, event: BlockProgress) -> None:
        block = event.run, event.block
        before = self._blocks.get(block)
        if before is None:
            more = event.nbytes
        else:
            self.again += event.seconds < before.seconds or event.worker != before.worker
            # What is folded again is no progress until it is past what there was.
            more = max(0, event.nbytes - before.nbytes)
            if more == 0:
                event = BlockProgress(**{**vars(event), "nbytes": before.nbytes})
        self.blocks += event.done and (before is None or not before.done)
        self._blocks[block] = event
        self.nbytes += more
        self.of_devices[event.device] = self.of_devices.get(event.device, 0) + more
