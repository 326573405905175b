"""Cut an axis whose elements are reduced window by window: pure integer functions."""

from __future__ import annotations

import numpy as np


def whole_windows(positions: np.ndarray, window: int) -> np.ndarray:
    """Move where cells meet to where windows do.

    `positions` ascend from 0 to the elements selected.

    >>> whole_windows(np.array([0, 5, 10, 11]), 2).tolist()
    [0, 6, 10, 11]
    """
    return np.unique(np.minimum(-(-positions // window) * window, positions[-1]))


def split_windows(positions: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut windows where cells meet, each into as many pieces: the last ones may be empty.

    Returns
    -------
    Where each piece begins, and how long it is: int64, (windows, pieces of each).

    >>> [n.tolist() for n in split_windows(np.array([0, 4, 8, 10]), 6)]
    [[[0, 4], [6, 8]], [[4, 2], [2, 2]]]
    >>> [n.tolist() for n in split_windows(np.array([0, 4, 8, 12, 14]), 6)]
    [[[0, 4], [6, 8], [12, 14]], [[4, 2], [2, 4], [2, 0]]]
    """
    length = int(positions[-1])
    ends = np.minimum(np.arange(window, length + window, window, dtype=np.int64), length)
    edges = np.unique(np.concatenate([positions, ends]))[:-1]
    of = edges // window
    counts = np.bincount(of, minlength=len(ends))
    pieces = int(counts.max(initial=1))
    starts = np.repeat(ends[:, None], pieces, axis=1)
    starts[of, np.arange(len(edges)) - np.repeat(np.cumsum(counts) - counts, counts)] = edges
    return starts, np.diff(starts, append=ends[:, None])
