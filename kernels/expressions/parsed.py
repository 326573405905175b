"""Conditions as text, such as `0 < x <= 300 and not isnan(x)`: parsed to what functions make.

Python's grammar is used, of which a part is taken; nothing is evaluated by Python.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions import functions
from chunkfold.kernels.expressions.symbols import ComplexSymbol, Symbol, applied

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_NUMBERS = {"nan": np.nan, "inf": np.inf, "pi": np.pi}
_NAME = re.compile(r"x\d?")
_MOST_BITS = 1024
"""Exponent up to which powers of integers are integers."""
_LONGEST = 1000
"""Characters of a condition."""


def parsed(text: str) -> Callable[..., Symbol]:
    """Return the function of a condition, such as "x > 300".

    It may have `x` (`x0`, `x1` of two inputs), numbers, comparisons, which may be chained, `and`,
    `or`, `not`, `&`, `|`, `~`, arithmetic, and NumPy's functions by name, as `abs(x) < 1`. `y` is
    what the function is called with last, the number of a map beside the elements.

    Raises
    ------
    MonoidError
        If it is anything else.
    """
    if len(text) > _LONGEST:
        raise MonoidError(f"a condition has {len(text):,} characters; give {_LONGEST:,} at most")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = getattr(error, "msg", None) or str(error)
        raise MonoidError(
            f"{text!r} is not a condition ({said}); give one such as 'x > 300'"
        ) from None
    reading = _Reading(text)
    reading.check(body)

    def condition(*elements: Symbol) -> Symbol:
        return reading.of(body, elements)

    condition.__name__ = text.strip()
    return condition


def reads_map(text: str) -> bool:
    """Tell whether a condition compares elements with a map beside them.

    >>> reads_map("x > y"), reads_map("x > 300")
    (True, False)
    """
    return re.search(r"\by\b", text) is not None


class _Reading:
    """Reads the condition of one text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def check(self, body: ast.expr) -> None:
        """See that a text is made of what may be in one, and says something of the elements."""
        names = [one.id for one in ast.walk(body) if isinstance(one, ast.Name)]
        if not any(name == "y" or _NAME.fullmatch(name) for name in names):
            raise self._error("does not contain x")
        try:
            self._walk(body)
        except RecursionError:
            raise self._error("is nested too deep") from None

    def of(self, body: ast.expr, elements: tuple[Symbol, ...]) -> Symbol:
        """Return what the text is of some elements."""
        try:
            found = self.value(body, elements)
        except (ArithmeticError, ValueError) as error:
            raise self._error(f"has numbers out of range ({error.args[-1]})") from None
        assert isinstance(found, Symbol)
        return found

    def _walk(self, one: ast.AST) -> None:
        known = (ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)
        attribute = isinstance(one, ast.Attribute) and one.attr in ("real", "imag")
        if isinstance(one, ast.expr) and not isinstance(one, known) and not attribute:
            raise self._error(f"has {ast.unparse(one)!r}, which is not supported")
        known_name = isinstance(one, ast.Name) and (one.id == "y" or one.id in _NUMBERS)
        if isinstance(one, ast.Name) and not known_name and not _NAME.fullmatch(one.id):
            raise self._error(f"has {one.id!r}; elements are called x, or x0 and x1, and a map y")
        if isinstance(one, ast.Constant) and not isinstance(one.value, (bool, int, float)):
            raise self._error(f"has {one.value!r}, which is not a number")
        parts = list(ast.iter_child_nodes(one))
        if isinstance(one, ast.Call):
            parts = list(one.args)
            self._function(one)
        for part in parts:
            self._walk(part)
        compares = isinstance(one, ast.cmpop)
        if compares and type(one) not in _OPERATORS:
            raise self._error("compares by `in` or `is`, which is not supported")

    def _function(self, call: ast.Call) -> str:
        name = call.func.id if isinstance(call.func, ast.Name) else ast.unparse(call.func)
        name = name.removeprefix("np.").removeprefix("numpy.")
        if call.keywords or name not in functions.BY_NAME:
            known = ", ".join(sorted(functions.BY_NAME))
            raise self._error(f"calls {name!r}; functions are {known}")
        return name

    def _error(self, problem: str) -> MonoidError:
        remedy = "give one as 'x > 300'"
        if self._text.strip().isidentifier():
            remedy += ", or a mask as an array (in the shell: --mask)"
        return MonoidError(f"the condition {self._text!r} {problem}; {remedy}")

    def value(self, one: ast.AST, elements: tuple[Any, ...]) -> Any:
        """Return what a part of the text is of some elements."""
        if isinstance(one, ast.Constant):
            return one.value
        if isinstance(one, ast.Name):
            return self._named(one.id, elements)
        if isinstance(one, ast.Attribute):
            return getattr(self.value(one.value, elements), one.attr)
        if isinstance(one, ast.Call):
            given = (self.value(part, elements) for part in one.args)
            return applied(self._function(one), *given)
        if isinstance(one, ast.BinOp):
            left, right = (self.value(part, elements) for part in (one.left, one.right))
            numbers = not isinstance(left, Symbol) and not isinstance(right, Symbol)
            grows = numbers and isinstance(one.op, (ast.Pow, ast.LShift))
            if grows and abs(right) > _MOST_BITS:
                raise self._error(f"has the exponent {right}, which is out of range")
            return _OPERATORS[type(one.op)](left, right)
        if isinstance(one, ast.UnaryOp):
            held = self.value(one.operand, elements)
            return _not(held) if isinstance(one.op, ast.Not) else _OPERATORS[type(one.op)](held)
        if isinstance(one, ast.BoolOp):
            joined = "logical_and" if isinstance(one.op, ast.And) else "logical_or"
            parts = [self.value(part, elements) for part in one.values]
            return functools.reduce(lambda a, b: applied(joined, a, b), parts)
        assert isinstance(one, ast.Compare)
        sides = [self.value(part, elements) for part in (one.left, *one.comparators)]
        found = [
            _OPERATORS[type(op)](a, b)
            for op, a, b in zip(one.ops, sides[:-1], sides[1:], strict=True)
        ]
        return functools.reduce(lambda a, b: applied("logical_and", a, b), found)

    def _named(self, name: str, elements: tuple[Any, ...]) -> Symbol | ComplexSymbol | float:
        if name in _NUMBERS:
            return _NUMBERS[name]
        number = len(elements) - 1 if name == "y" else int(name[1:] or 0)
        if number >= len(elements):
            raise self._error(f"reads {name}, but the reduction has {len(elements)} inputs")
        found: Symbol | ComplexSymbol = elements[number]
        return found


def _not(held: Any) -> Any:
    return applied("logical_not", held)
