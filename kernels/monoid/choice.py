"""Which elements of an output a result is made of: those of some ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Choice:
    """Elements by their ranks among those of an output that are there."""

    key: str
    """The field that folds the least key of elements: an integer that sorts like them."""
    count: str
    """The field that counts those that are there."""
    ranks: Callable[[np.ndarray], np.ndarray]
    """Of so many elements, int64 (outputs,), the ranks that are wanted, int64 (outputs, ranks).
    `finish` finds the keys of each of these and of the next one in the field "chosen": (outputs,
    ranks, 2)."""
