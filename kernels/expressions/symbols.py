"""Symbols: what a reduction's functions are given, and compute with as if they were numbers.

A symbol stands for an element, an index or a field. Python's operators and NumPy's functions on it
make a tree of nodes, with NumPy's meaning and NumPy's dtypes (NEP 50). What Python would decide at
once, as `if`, `and` and `min()` do, is refused, with what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from chunkfold.kernels.expressions import functions
from chunkfold.kernels.expressions.nodes import Node

_INSTEAD = {
    "__bool__": "a symbol has no truth of its own: write cf.where(condition, a, b) for `if`, "
    "&, | and ~ for `and`, `or` and `not`, (0 < x) & (x < 1) for 0 < x < 1, np.minimum and "
    "np.maximum for min() and max()",
    "__int__": "a symbol is no number yet: write x.astype('int64') for int(x)",
    "__float__": "a symbol is no number yet: write x.astype('float64') for float(x), and np.exp and "
    "the like for math.exp",
    "__complex__": "a symbol is no number yet: give real and imaginary parts fields of their own",
    "__index__": "a symbol is no number yet: write cf.lookup(table, x, default) for table[x]",
    "__len__": "a symbol stands for one element and has no length",
    "__iter__": "a symbol stands for one element: there is nothing to iterate over",
    "__getitem__": "a symbol stands for one element: fields are read as a.name, parts of complex "
    "numbers as x.real and x.imag",
    "__contains__": "a symbol stands for one element: write (x == 1) | (x == 2) for x in (1, 2)",
    "__round__": "write np.rint(x) for round(x)",
    "__floor__": "write np.floor(x) for math.floor(x)",
    "__ceil__": "write np.ceil(x) for math.ceil(x)",
    "__trunc__": "write np.trunc(x) for math.trunc(x)",
    "__divmod__": "write x // y and x % y for divmod(x, y)",
    "__rdivmod__": "write x // y and x % y for divmod(x, y)",
    "__matmul__": "a symbol stands for one element: write x * y",
    "__rmatmul__": "a symbol stands for one element: write x * y",
    "__setitem__": "a symbol cannot be changed: make another",
    "__format__": "",
}
"""What Python asks of a value that is there, and what to write."""


class Symbol:
    """Stands for one element, its index, or a field, in a reduction's functions.

    `dtype` is NumPy's. Arithmetic, comparisons and NumPy's functions give other symbols.
    """

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the value; float16 and bfloat16 are float32 from where they are loaded on."""
        return self.node.dtype

    def astype(self, dtype: Any) -> Symbol:
        """Convert: integers wrap, floats to integers saturate and NaN gives 0.

        Raises
        ------
        TypeError
            If kernels have no such dtype.
        """
        return Symbol(functions.cast(self.node, np.dtype(dtype)))

    @property
    def real(self) -> Symbol:
        """The value itself, which is no complex number."""
        return self

    @property
    def imag(self) -> Symbol:
        """Zero: the value is no complex number."""
        return Symbol(functions.as_node(0, self.node))

    def __repr__(self) -> str:
        from chunkfold.kernels.expressions.shown import shown

        return shown(self.node)

    def __hash__(self) -> int:
        return id(self.node)

    def __eq__(self, other: object) -> Any:
        return _compared("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return _compared("not_equal", self, other)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            how = f".{method}" if method != "__call__" else f" with {', '.join(options)}"
            raise TypeError(f"np.{ufunc.__name__}{how} has no meaning for symbols")
        return applied(ufunc.__name__, *given)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, given: Any, options: Mapping[str, Any]
    ) -> Any:
        del types
        if options:
            raise TypeError(f"np.{function.__name__} takes no {', '.join(options)} of symbols")
        return applied(function.__name__, *given)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "a symbol is no array: NumPy's functions on it are those of docs/monoids.md"
        )


def applied(name: str, *given: Any) -> Symbol:
    """Apply a function of NumPy's name to symbols and numbers.

    Raises
    ------
    TypeError
        If there is none of that name, or it has no meaning for the dtypes.
    """
    function = functions.BY_NAME.get(name)
    if function is None:
        known = ", ".join(sorted(functions.BY_NAME))
        raise TypeError(f"np.{name} has no meaning for symbols; there are: {known}")
    return Symbol(function(*map(_operand, given)))


def _operand(one: object) -> object:
    """Return a symbol's node; of an array without axes, as NumPy hands scalars over, the scalar."""
    if isinstance(one, Symbol):
        return one.node
    return one[()] if isinstance(one, np.ndarray) and one.ndim == 0 else one


def _binary(name: str, a: object, b: object) -> Any:
    if not isinstance(a, _OPERANDS) or not isinstance(b, _OPERANDS):
        return NotImplemented
    return applied(name, a, b)


def _compared(name: str, a: object, b: object) -> Any:
    """Compare, where Python would say False of what it does not know."""
    if not isinstance(b, _OPERANDS):
        raise TypeError(f"a symbol is compared with symbols and numbers, not with {b!r}")
    return applied(name, a, b)


_OPERANDS = (Symbol, bool, int, float, np.generic)
_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "lshift": "left_shift",
    "rshift": "right_shift", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _refusing(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: Symbol, *_: object) -> NoReturn:
        del self
        raise TypeError(instead)

    refuse.__name__ = name
    return refuse


def _attach() -> None:
    """Give symbols Python's operators."""

    def binary(name: str) -> Callable[[Symbol, object], Any]:
        return lambda self, other: _binary(name, self, other)

    def reflected(name: str) -> Callable[[Symbol, object], Any]:
        return lambda self, other: _binary(name, other, self)

    def unary(name: str) -> Callable[[Symbol], Symbol]:
        return lambda self: applied(name, self)

    for operator, name in (_OPERATORS | _COMPARISONS).items():
        setattr(Symbol, f"__{operator}__", binary(name))
    for operator, name in _OPERATORS.items():
        setattr(Symbol, f"__r{operator}__", reflected(name))
    for operator, name in _UNARY.items():
        setattr(Symbol, f"__{operator}__", unary(name))
    for name, instead in _INSTEAD.items():
        if instead:
            setattr(Symbol, name, _refusing(name, instead))


_attach()


class ComplexSymbol:
    """Stands for a complex element: two symbols, `real` and `imag`."""

    __slots__ = ("imag", "real")

    def __init__(self, real: Symbol, imag: Symbol) -> None:
        self.real, self.imag = real, imag

    @property
    def dtype(self) -> np.dtype:
        """complex64 or complex128."""
        return np.dtype(f"c{2 * self.real.dtype.itemsize}")

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a complex symbol has real, imag and dtype, but no {name}")

    def __array_ufunc__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(_PARTS)


_PARTS = "a complex symbol has no arithmetic of its own: compute with x.real and x.imag"


def _refuse_arithmetic() -> None:
    """Let complex symbols say what to write, where Python would compare them by identity."""
    both = [prefix + name for name in _OPERATORS for prefix in ("", "r")]
    for name in (*both, *_COMPARISONS, *_UNARY, "eq", "ne", "bool"):
        setattr(ComplexSymbol, f"__{name}__", _refusing(f"__{name}__", _PARTS))


_refuse_arithmetic()
