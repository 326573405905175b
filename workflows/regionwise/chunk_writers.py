"""Threads that encode and write chunks of Zarr arrays: several at once, of which few wait."""

from __future__ import annotations

from collections.abc import Hashable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import zarr

from chunkfold.planning.workers import host_cores


class ChunkWriters:
    """Writes chunks in threads, one for each core. For use by one thread at a time.

    Parameters
    ----------
    most_bytes
        Of chunks that are being written, unless it is one.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._most = max(2, host_cores())
        self._threads = ThreadPoolExecutor(self._most, "chunkfold-encode")
        self._underway: dict[Future[None], tuple[Hashable, int]] = {}
        """Which chunk each writes, and its bytes."""

    def put(
        self, key: Hashable, array: zarr.Array[Any], place: tuple[slice, ...], values: np.ndarray
    ) -> None:
        """Begin to write a chunk, once there is a thread for it.

        Raises
        ------
        Exception
            Whatever kept an earlier one from being written.
        """
        while len(self._underway) >= self._most or self._too_large(values.nbytes):
            self._settle(wait(self._underway, return_when=FIRST_COMPLETED).done)
        future = self._threads.submit(_write, array, place, values)
        self._underway[future] = key, values.nbytes

    def settle(self, key: Hashable = None) -> None:
        """Wait until a chunk is written, or all are; raises as `put`."""
        some = [one for one, (own, _) in self._underway.items() if key in (None, own)]
        self._settle(wait(some).done)

    def stop(self) -> None:
        """Begin no other, and wait for those that are being written."""
        self._threads.shutdown(cancel_futures=True)

    def _too_large(self, nbytes: int) -> bool:
        before = sum(size for _, size in self._underway.values())
        return bool(self._underway) and before + nbytes > self._most_bytes

    def _settle(self, done: set[Future[None]]) -> None:
        for one in done:
            del self._underway[one]
        for one in done:
            one.result()


def _write(array: zarr.Array[Any], place: tuple[slice, ...], values: np.ndarray) -> None:
    if values.flat[0].tobytes() != np.asarray(array.fill_value, values.dtype).tobytes():
        # Zarr compares each chunk with fill values, byte by byte: of this one it is known.
        array = array.with_config({"write_empty_chunks": True})
    array[place] = values
