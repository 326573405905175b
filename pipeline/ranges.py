"""Read byte ranges of files, whole or not at all."""

from __future__ import annotations

import os

import numpy as np


def read_range(descriptor: int, memory: np.ndarray, offset: int) -> None:
    """Fill memory, uint8, with what a file has from an offset on.

    Raises
    ------
    ValueError
        If the file ends before that.
    """
    done = 0  # one call reads 2 GiB at most
    while done < memory.nbytes:
        count = os.preadv(descriptor, [memory[done:].data], offset + done)
        if not count:
            raise ValueError(f"it ends after {done:,} of {memory.nbytes:,} bytes: it was cut")
        done += count
