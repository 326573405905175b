"""What components make of the index: which need that of the first of equal elements alone."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.expressions.library import first
from chunkfold.kernels.expressions.nodes import INDEX, Node, field_node, walk
from chunkfold.kernels.expressions.symbols import Symbol


def reads_index(part: Component) -> bool:
    """Whether any tree of a component reads the index."""
    return _reads_index(*part.of_elements)


def _reads_index(*trees: Node) -> bool:
    return INDEX in walk(trees)


def is_position(part: Component) -> bool:
    """Whether a component is the first position of an extreme, of keys that are integers."""
    if part.state is not None or len(part.fields) != 2:
        return False
    extreme, index = part.fields
    sides = {"min": "ab", "max": "ba"}.get(str(extreme.op))
    if sides is None or "int" not in extreme.dtype or _reads_index(extreme.lift):
        return False
    one, other = (_field(side, extreme.name, extreme.dtype) for side in sides)
    here, there = (_field(side, index.name, index.dtype) for side in "ab")
    return index.lift is INDEX and index.op is first(one, other, here, there).node


def _field(side: str, name: str, dtype: str) -> Symbol:
    return Symbol(field_node(side, name, np.dtype(dtype)))


def takes_first(part: Component) -> bool:
    """Whether equal elements leave what the one of the least index does by itself.

    Positions of extremes do; so does the least of what rises with the index, chosen by a condition
    of the element.
    """
    if not reads_index(part) or is_position(part):
        return True
    if part.state is not None or len(part.fields) != 1:
        return False
    (field,) = part.fields
    return field.op == "min" and field.dtype in ("int64", "uint64") and _rises(field.lift)


def _rises(tree: Node) -> bool:
    """Whether a tree is the index or a constant, chosen by what does not read the index."""
    if tree.op == "select":
        condition, yes, no = tree.sources
        return not _reads_index(condition) and _rises(yes) and _rises(no)
    if tree.op == "cast":
        whole = tree.dtype.kind in "iu" and tree.dtype.itemsize == 8  # narrower ones wrap
        return whole and _rises(tree.sources[0])
    return tree is INDEX or tree.op == "constant"
