"""Values of trees of exact numbers: mostly floats with a bound of their error tell them.

Where they do not, the few outputs that are left are computed as fractions: the filter of Shewchuk,
"Adaptive precision floating-point arithmetic and fast robust geometric predicates", 1997.
"""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.accumulator.exact_tree import ExactNode, Operation, exactly, near
from chunkfold.kernels.exact import rationals
from chunkfold.kernels.exact.pieces import OutputsAt, pieces_of, slabs_of, unsure_of
from chunkfold.kernels.exact.rounding import nearest


def rounded(tree: ExactNode, outputs: int, wanted: np.dtype, *, rooted: bool) -> np.ndarray:
    """Round the numbers of all outputs to floats, once: shape (outputs,), dtype `wanted`.

    `rooted`: the signed square roots of what the tree is.
    """
    out = np.empty(outputs, wanted)

    def try_near(at: OutputsAt) -> np.ndarray:
        found = near(tree, at)
        known = abs(found).root if rooted else found.estimate
        done, certain = known.rounded(wanted)
        if rooted:
            certain = (certain | found.none) & found.signed
            done = np.where(found.high < 0, -done, done)
        odd = found.odd.astype(wanted)
        out[at] = np.where(found.odd == 0, done, odd)
        return np.where(found.odd == 0, certain, found.certain)

    for few in pieces_of(unsure_of(try_near, slabs_of(outputs))):
        out[few] = [nearest(one, wanted, rooted=rooted) for one in exactly(tree, few)]
    return out


def order(one: ExactNode, two: ExactNode, outputs: int) -> np.ndarray:
    """Return -1, 0 or 1 as numbers are less than, equal to or greater than others, or NaN.

    Float64 of shape (outputs,).
    """
    away = Operation("add", (one, Operation("negative", (two,))))
    out = np.empty(outputs)

    def try_near(at: OutputsAt) -> np.ndarray:
        found = near(away, at)
        out[at] = np.sign(found.high)
        signed: np.ndarray = found.signed & (found.odd == 0)
        return signed

    for few in pieces_of(unsure_of(try_near, slabs_of(outputs))):
        rows = zip(exactly(one, few), exactly(two, few), strict=True)
        out[few] = [rationals.compared(*row) for row in rows]
    return out
