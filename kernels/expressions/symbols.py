"""Symbols: the arguments of a reduction's functions, which compute with them as with numbers.

A symbol is an element, an index or a field. Python's operators and NumPy's functions on it
make a tree of nodes, with NumPy's meaning and NumPy's dtypes (NEP 50). Python's `if`, `and`
and `min()`, which need a value, are refused, with a remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from chunkfold.kernels.expressions import functions, operations
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.refused import INSTEAD

SymbolOperand = Any
"""A symbol, a number of Python's, or a scalar of NumPy's."""


class Symbol:
    """One element, its index, or a field, in a reduction's functions.

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
        return Symbol(operations.cast(self.node, np.dtype(dtype)))

    @property
    def real(self) -> Symbol:
        """The value itself, which is no complex number."""
        return self

    @property
    def imag(self) -> Symbol:
        """Zero: the value is no complex number."""
        return Symbol(operations.as_node(0, self.node))

    def __getattr__(self, name: str) -> NoReturn:
        hint = f": write np.{name}(x)" if name in functions.BY_NAME else ""
        raise AttributeError(f"a symbol has no {name!r}{hint}")

    def __repr__(self) -> str:
        from chunkfold.kernels.expressions.infix import infix

        return infix(self.node)

    def __hash__(self) -> int:
        return id(self.node)

    def __eq__(self, other: object) -> Symbol:  # type: ignore[override]
        return _compared("equal", self, other)

    def __ne__(self, other: object) -> Symbol:  # type: ignore[override]
        return _compared("not_equal", self, other)

    def __add__(self, other: SymbolOperand) -> Symbol:
        return _binary("add", self, other)

    def __radd__(self, other: SymbolOperand) -> Symbol:
        return _binary("add", other, self)

    def __sub__(self, other: SymbolOperand) -> Symbol:
        return _binary("subtract", self, other)

    def __rsub__(self, other: SymbolOperand) -> Symbol:
        return _binary("subtract", other, self)

    def __mul__(self, other: SymbolOperand) -> Symbol:
        return _binary("multiply", self, other)

    def __rmul__(self, other: SymbolOperand) -> Symbol:
        return _binary("multiply", other, self)

    def __truediv__(self, other: SymbolOperand) -> Symbol:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: SymbolOperand) -> Symbol:
        return _binary("divide", other, self)

    def __floordiv__(self, other: SymbolOperand) -> Symbol:
        return _binary("floor_divide", self, other)

    def __rfloordiv__(self, other: SymbolOperand) -> Symbol:
        return _binary("floor_divide", other, self)

    def __mod__(self, other: SymbolOperand) -> Symbol:
        return _binary("remainder", self, other)

    def __rmod__(self, other: SymbolOperand) -> Symbol:
        return _binary("remainder", other, self)

    def __pow__(self, other: SymbolOperand) -> Symbol:
        return _binary("power", self, other)

    def __rpow__(self, other: SymbolOperand) -> Symbol:
        return _binary("power", other, self)

    def __lshift__(self, other: SymbolOperand) -> Symbol:
        return _binary("left_shift", self, other)

    def __rlshift__(self, other: SymbolOperand) -> Symbol:
        return _binary("left_shift", other, self)

    def __rshift__(self, other: SymbolOperand) -> Symbol:
        return _binary("right_shift", self, other)

    def __rrshift__(self, other: SymbolOperand) -> Symbol:
        return _binary("right_shift", other, self)

    def __and__(self, other: SymbolOperand) -> Symbol:
        return _binary("bitwise_and", self, other)

    def __rand__(self, other: SymbolOperand) -> Symbol:
        return _binary("bitwise_and", other, self)

    def __or__(self, other: SymbolOperand) -> Symbol:
        return _binary("bitwise_or", self, other)

    def __ror__(self, other: SymbolOperand) -> Symbol:
        return _binary("bitwise_or", other, self)

    def __xor__(self, other: SymbolOperand) -> Symbol:
        return _binary("bitwise_xor", self, other)

    def __rxor__(self, other: SymbolOperand) -> Symbol:
        return _binary("bitwise_xor", other, self)

    def __lt__(self, other: SymbolOperand) -> Symbol:
        return _binary("less", self, other)

    def __le__(self, other: SymbolOperand) -> Symbol:
        return _binary("less_equal", self, other)

    def __gt__(self, other: SymbolOperand) -> Symbol:
        return _binary("greater", self, other)

    def __ge__(self, other: SymbolOperand) -> Symbol:
        return _binary("greater_equal", self, other)

    def __neg__(self) -> Symbol:
        return applied("negative", self)

    def __pos__(self) -> Symbol:
        return applied("positive", self)

    def __abs__(self) -> Symbol:
        return applied("absolute", self)

    def __invert__(self) -> Symbol:
        return applied("invert", self)

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
            "a symbol is not an array: docs/monoids.md lists the NumPy functions that take it"
        )


def applied(name: str, *given: Any) -> Symbol:
    """Apply a function of NumPy's name to symbols and numbers.

    Raises
    ------
    TypeError
        If no function has that name, or it has no meaning for the dtypes.
    """
    function = functions.BY_NAME.get(name)
    if function is None:
        known = ", ".join(sorted(functions.BY_NAME))
        raise TypeError(f"np.{name} has no meaning for symbols; use one of: {known}")
    if any(isinstance(one, ComplexSymbol) for one in given):
        raise TypeError(f"np.{name} has no meaning for complex symbols: write x.real and x.imag")
    takes = function.__code__.co_argcount  # 0: as many as it says itself
    if takes not in (0, len(given)):
        raise TypeError(f"np.{name} does not take {len(given)} operands")
    return Symbol(function(*map(_operand, given)))


def _operand(one: object) -> object:
    """Return a symbol's node; of an array without axes, as NumPy hands scalars over, the scalar."""
    if isinstance(one, Symbol):
        return one.node
    return one[()] if isinstance(one, np.ndarray) and one.ndim == 0 else one


_OPERANDS = (Symbol, bool, int, float, np.generic)


def _binary(name: str, a: object, b: object) -> Symbol:
    if not isinstance(a, _OPERANDS) or not isinstance(b, _OPERANDS):
        return NotImplemented  # type: ignore[no-any-return]
    return applied(name, a, b)


def _compared(name: str, a: Symbol, b: object) -> Symbol:
    """Compare, where Python would say False of what it does not know."""
    if not isinstance(b, _OPERANDS):
        raise TypeError(f"a symbol is compared with symbols and numbers, not with {b!r}")
    return applied(name, a, b)


def _refuse(of: type, name: str, instead: str) -> None:
    """Give a type a method that raises TypeError with the remedy."""

    def refuse(self: object, *_: object) -> NoReturn:
        del self
        raise TypeError(instead)

    refuse.__name__ = name
    setattr(of, name, refuse)


for _name, _instead in INSTEAD.items():
    _refuse(Symbol, _name, _instead)


class ComplexSymbol:
    """A complex element: two symbols, `real` and `imag`."""

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


_PARTS = "a complex symbol has no arithmetic: compute with x.real and x.imag"
_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or",
    "xor",
)  # fmt: skip
for _name in (
    *(prefix + name for name in _ARITHMETIC for prefix in ("", "r")),
    *("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert", "bool"),
):
    _refuse(ComplexSymbol, f"__{_name}__", _PARTS)
