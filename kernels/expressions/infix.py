"""Trees as text for people: infix, with names of fields and NumPy's functions.

Long expressions that are used more than once have a name, and follow the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from chunkfold.kernels.expressions.meanings import LEAVES
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant_value, walk

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<", "right_shift": ">>", "equal": "==",
    "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "quotient": "//",
}  # fmt: skip


def infix(one: Node) -> str:
    """Return an expression of a tree.

    >>> from chunkfold.kernels.expressions.nodes import input_node
    >>> from chunkfold.kernels.expressions.symbols import Symbol
    >>> import numpy as np
    >>> infix((Symbol(input_node(0, np.dtype("f4"))) * 2 + 1).node)
    'x * 2.0 + 1.0'
    """
    names = _named(one)
    text = _shown(one, {n: name for n, name in names.items() if n is not one}, outer=True)
    lets = []
    for shared, name in names.items():
        others = {n: other for n, other in names.items() if n is not shared}
        lets.append(f"{name} = {_shown(shared, others, outer=True)}")
    return f"{text}, with {', '.join(lets)}" if lets else text


_SHORT = 16
"""Characters of what is written out wherever it is used."""


def _named(root: Node) -> dict[Node, str]:
    """Name what is used more than once, and not short."""
    uses = Counter(source for one in walk([root]) for source in one.sources)
    often = [one for one in walk([root]) if uses[one] > 1 and one.sources]
    names: dict[Node, str] = {}
    for one in often:
        if len(_shown(one, names)) > _SHORT:
            names[one] = f"t{len(names)}"
    return names


def _leaf(one: Node) -> str:
    if one.op == "constant":
        return repr(constant_value(one).item())
    if one.op == "input":
        number, part = one.arg
        named = "x" if number == 0 else f"x{number}"
        return f"{named}.{ {'re': 'real', 'im': 'imag'}[part] }" if part else named
    return "i" if one.op == "index" else ".".join(one.arg)


def _shown(one: Node, names: Mapping[Node, str], *, outer: bool = False) -> str:
    if one in names:
        return names[one]
    if one.op in LEAVES:
        return _leaf(one)
    if one.op == "opaque":
        return _shown(one.sources[0], names, outer=outer)
    parts = [_shown(source, names) for source in one.sources]
    if one.op in _SIGNS:
        first, second = one.sources
        left = _shown(first, names, outer=first.op == "multiply" and one.op in ("add", "subtract"))
        right = _shown(second, names, outer=second.op == "multiply" and one.op == "add")
        text = f"{left} {_SIGNS[one.op]} {right}"
        return text if outer else f"({text})"
    if one.op == "negative":
        return f"-{parts[0]}"
    if one.op == "invert":
        return f"~{parts[0]}"
    if one.op == "cast":
        return f"{one.dtype if one.dtype != BOOL else 'bool'}({parts[0]})"
    if one.op == "bitcast":
        return f"{parts[0]}.view({one.dtype})"
    name = {"select": "where"}.get(one.op, one.op)
    return f"{name}({', '.join(parts)})"
