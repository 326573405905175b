"""Counters of what this process folded, which distributed's own endpoint for Prometheus shows.

Every worker serves them at `/metrics` of its dashboard's port, beside Dask's, where the package
prometheus_client is installed.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from chunkfold.worker.block_report import BlockTimes

_COUNTED = {
    "blocks": "Blocks folded",
    "bytes": "Decoded bytes folded, of chunks that are stored",
    "prepare_seconds": "Seconds until kernels were chosen",
    "read_seconds": "Seconds of reading, over all threads",
    "decode_seconds": "Seconds of decoding, over all threads",
    "upload_seconds": "Seconds of copying to the device, by its clock",
    "fold_seconds": "Seconds of kernels, by the device's clock",
    "skipped_elements": "Elements of chunks that could not be read and were left out",
}


def count_block(device: str, times: BlockTimes, skipped: int) -> None:
    """Count a block that is done; `device` is the UUID of the one that folded it."""
    amounts = {
        "blocks": 1,
        "bytes": times.nbytes,
        "prepare_seconds": times.prepare_s,
        "read_seconds": times.read_s,
        "decode_seconds": times.decode_s,
        "upload_seconds": times.upload_s,
        "fold_seconds": times.fold_s,
        "skipped_elements": skipped,
    }
    with _making:
        counters = _counters()
    for name, counter in counters.items():
        counter.labels(device).inc(max(0.0, amounts[name]))


_making = threading.Lock()
"""Two blocks may end at once, and a counter can be made once only."""


@cache
def _counters() -> dict[str, Any]:
    try:
        from prometheus_client import Counter
    except ImportError:
        return {}
    return {
        name: Counter(f"chunkfold_{name}", f"{meaning}.", ["device"])
        for name, meaning in _COUNTED.items()
    }
