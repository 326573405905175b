"""Trees as people read them: infix, with names of fields and NumPy's functions."""

from __future__ import annotations

from chunkfold.kernels.expressions.nodes import BOOL, Node, constant_value

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<", "right_shift": ">>", "equal": "==",
    "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "quotient": "//",
}  # fmt: skip


def shown(one: Node) -> str:
    """Return an expression of a tree.

    >>> from chunkfold.kernels.expressions.nodes import input_node
    >>> from chunkfold.kernels.expressions.symbols import Symbol
    >>> import numpy as np
    >>> shown((Symbol(input_node(0, np.dtype("f4"))) * 2 + 1).node)
    'x * 2.0 + 1.0'
    """
    return _shown(one, outer=True)


def _shown(one: Node, *, outer: bool = False) -> str:
    if one.op == "constant":
        return repr(constant_value(one).item())
    if one.op == "input":
        number, part = one.arg
        named = "x" if number == 0 else f"x{number}"
        return f"{named}.{ {'re': 'real', 'im': 'imag'}[part] }" if part else named
    if one.op == "index":
        return "i"
    if one.op == "field":
        return ".".join(one.arg)
    parts = [_shown(source) for source in one.sources]
    if one.op in _SIGNS:
        first, second = one.sources
        left = _shown(first, outer=first.op == "multiply" and one.op in ("add", "subtract"))
        right = _shown(second, outer=second.op == "multiply" and one.op == "add")
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
