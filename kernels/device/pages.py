"""Memory at the start of a page, where devices that share it use it as it is."""

from __future__ import annotations

import numpy as np

PAGE = 4096
"""Bytes; Intel's runtime copies what starts elsewhere."""


def page_aligned(nbytes: int) -> np.ndarray:
    """Allocate bytes, uninitialised, at the start of a page."""
    raw = np.empty(nbytes + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    return np.asarray(raw[start : start + nbytes])
