"""What runs on Dask workers."""

from __future__ import annotations

from distributed import get_worker

from chunkfold.block import Folded, combine, fold_block
from chunkfold.blocks import Block
from chunkfold.events import reporter, to_message
from chunkfold.work import Watch, Work
from chunkfold.worker import device_of

_cancelled_runs: set[str] = set()


def cancel_run(run: str) -> None:
    """Make this process's blocks of a run end at their next leaf. Runs on workers."""
    _cancelled_runs.add(run)


def block_task(work: Work, block: Block) -> Folded:
    """Fold a block on the worker's device. Runs on workers."""
    worker, topic = get_worker(), f"chunkfold-{work.run}"
    owned, address = device_of(worker), worker.address
    report = reporter(
        work.run,
        block.number,
        address,
        owned.device.uuid,
        lambda event: worker.log_event(topic, to_message(event)),  # type: ignore[arg-type]
    )
    return fold_block(
        owned, address, work, block, Watch(report, lambda: work.run in _cancelled_runs)
    )


def combine_task(work: Work, *parts: Folded) -> Folded:
    """Combine partials on the worker's device. Runs on workers."""
    worker = get_worker()
    return combine(device_of(worker), worker.address, work, parts)
