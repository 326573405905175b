"""Exact numbers that a finish computes with: one for each output, rounded once in the end."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from chunkfold.kernels.accumulator.exact_tree import (
    MOST_POWER,
    SHAPES,
    ExactNode,
    Leaf,
    Operation,
    exactly,
    leaf_of,
    order,
    rounded,
    twice_of,
)
from chunkfold.kernels.accumulator.sums import ExactSums
from chunkfold.kernels.exact.limbs import FORMATS
from chunkfold.kernels.exact.rationals import Real


class ExactArray:
    """Exact numbers, one for each output of a reduction: what `finish` gets for "exact" fields.

    `+ - * /` and powers, with each other and with numbers and arrays of numbers, do not round, and
    floats are the exact numbers that they are; infinities and NaN, and division by 0, are as
    IEEE 754 has them. Comparisons give arrays of truths. `rounded` rounds once, to nearest, ties to
    even; so does a run with what `finish` returns. A square root is the last operation, or
    multiplied or divided after it.
    """

    __slots__ = ("_node", "_outputs", "_rooted")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, sums: ExactSums) -> None:
        assert not sums.lost.any(), "of sums that were lost"
        self._node: ExactNode = Leaf(sums)
        self._outputs, self._rooted = sums.outputs, False

    @classmethod
    def _of(cls, node: ExactNode, outputs: int, *, rooted: bool = False) -> ExactArray:
        made = cls.__new__(cls)
        made._node, made._outputs, made._rooted = node, outputs, rooted
        return made

    @property
    def sums(self) -> ExactSums:
        """The sums that a field is, before anything is made of them."""
        assert isinstance(self._node, Leaf)
        assert isinstance(self._node.held, ExactSums)
        return self._node.held

    @property
    def shape(self) -> tuple[int]:
        """The number of outputs."""
        return (self._outputs,)

    def __len__(self) -> int:
        return self._outputs

    def __repr__(self) -> str:
        return f"ExactArray({self.rounded(np.float64)})"

    def rounded(self, dtype: Any = np.float64) -> np.ndarray:
        """Round to floats, once: to nearest, ties to even; NaN and infinities stay.

        Raises
        ------
        TypeError
            If the dtype is not float16, float32, float64 or bfloat16.
        """
        wanted = np.dtype(dtype)
        if wanted.name not in FORMATS:
            raise TypeError(f"exact numbers are rounded to {', '.join(FORMATS)}, not to {wanted}")
        return rounded(self._node, self._outputs, wanted, rooted=self._rooted)

    def numbers(self, at: np.ndarray) -> list[Real]:
        """Return the exact numbers of some outputs; of square roots that is a TypeError."""
        if self._rooted:
            raise TypeError(_ROOT.format("a number"))
        return exactly(self._node, at)

    def sqrt(self) -> ExactArray:
        """Return square roots, of what is below 0 NaN.

        Raises
        ------
        TypeError
            If these are roots already.
        """
        if self._rooted:
            raise TypeError(_ROOT.format("a square root"))
        return self._of(Operation("unless_negative", (self._node,)), self._outputs, rooted=True)

    def _with(self, name: str, *others: Any, turned: bool = False) -> Any:
        """Return what an operation gives; a root is that of a square, with its sign."""
        given = [self]
        for one in others:
            taken = self._taken(one)
            if taken is None:
                return NotImplemented
            given.append(taken)
        rooted = any(one._rooted for one in given)
        if rooted and name == "add":
            raise TypeError(_ROOT.format("a sum"))
        nodes = [one._squared() if rooted else one._node for one in given]
        nodes = nodes[::-1] if turned else nodes
        return self._of(Operation(name, tuple(nodes)), self._outputs, rooted=rooted)

    def _squared(self) -> ExactNode:
        """Return the signed square of what it stands for."""
        if self._rooted:
            return self._node
        size = Operation("magnitude", (self._node,))
        return Operation("multiply", (self._node, size))

    def _taken(self, other: Any) -> ExactArray | None:
        """Return an operand as exact numbers; None if it is none.

        Raises
        ------
        ValueError
            If it has another shape.
        TypeError
            If it is NumPy's, but of numbers of another kind.
        """
        if isinstance(other, ExactArray):
            if other.shape != self.shape:
                raise ValueError(SHAPES.format(self.shape, other.shape))
            return other
        leaf = leaf_of(other, self._outputs)
        return None if leaf is None else self._of(leaf, self._outputs)

    def __add__(self, other: Any) -> Any:
        return self._with("add", other)

    __radd__ = __add__

    def __neg__(self) -> ExactArray:
        return self._of(Operation("negative", (self._node,)), self._outputs, rooted=self._rooted)

    def __pos__(self) -> ExactArray:
        return self

    def __abs__(self) -> ExactArray:
        return self._of(Operation("magnitude", (self._node,)), self._outputs, rooted=self._rooted)

    def __sub__(self, other: Any) -> Any:
        taken = self._taken(other)
        return NotImplemented if taken is None else self._with("add", -taken)

    def __rsub__(self, other: Any) -> Any:
        taken = self._taken(other)
        return NotImplemented if taken is None else taken._with("add", -self)

    def __mul__(self, other: Any) -> Any:
        return self._with("multiply", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with("divide", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with("divide", other, turned=True)

    def __pow__(self, power: Any) -> Any:
        twice = twice_of(power)
        if twice is None:
            raise TypeError(
                f"exact numbers can be raised to integers or half-integers up to {MOST_POWER}, "
                f"not to {power!r}"
            )
        if twice < 0:
            return 1 / self ** (-twice / 2 if twice % 2 else -twice // 2)
        if twice % 2:
            return self.sqrt() * self ** (twice // 2)
        made, base, left = self._taken(1), self, twice // 2
        assert made is not None
        while left:
            made = made * base if left % 2 else made
            base, left = (base * base if left > 1 else base), left // 2
        return made

    def _order(self, other: Any) -> np.ndarray | None:
        """Return -1, 0 or 1 as numbers are less than, equal to or greater than others, or NaN."""
        taken = self._taken(other)
        if taken is None:
            return None
        sides = [self, taken]
        if any(one._rooted for one in sides):
            sides = [self._of(one._squared(), self._outputs) for one in sides]
        one, two = sides
        return order(one._node, two._node, self._outputs)

    def _compared(self, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
        order = self._order(other)
        return NotImplemented if order is None else compare(order, 0)

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge)

    def __eq__(self, other: object) -> Any:
        return self._compared(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compared(other, operator.ne)

    def __bool__(self) -> NoReturn:
        raise TypeError("exact numbers have no truth value: compare them, and use .all()")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("exact numbers are not an array of floats yet: write .rounded(dtype) first")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        function = _UFUNCS.get(ufunc.__name__)
        if function is None or method != "__call__" or options:
            raise TypeError(
                f"np.{ufunc.__name__} has no exact value; use one of {', '.join(_UFUNCS)}, or "
                "round first, as x.rounded('float64')"
            )
        first, *others = given
        if not isinstance(first, ExactArray):  # else Python would ask NumPy once more
            first = next(one for one in others if isinstance(one, ExactArray))._taken(first)
            if first is None:
                return NotImplemented
        return function(first, *others)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, given: Any, options: Mapping[str, Any]
    ) -> Any:
        del types
        if function is np.where and len(given) == 3 and not options:
            return _where(*given)
        raise TypeError(
            f"np.{function.__name__} has no exact value: round first, as x.rounded('float64')"
        )


_ROOT = (
    "{} of square roots may be irrational in another way: make sqrt the last operation before "
    "rounded, or only multiply or divide its result"
)


def _where(condition: Any, yes: Any, no: Any) -> ExactArray:
    """Choose by a condition, output by output."""
    some = yes if isinstance(yes, ExactArray) else no
    if isinstance(condition, ExactArray) or not isinstance(some, ExactArray):
        raise TypeError("np.where needs an array of bools: compare exact numbers first")
    one, other = some._taken(yes), some._taken(no)
    if one is None or other is None:
        raise TypeError(f"np.where of exact numbers and {no if one is not None else yes!r}")
    rooted = one._rooted or other._rooted
    nodes = tuple(side._squared() if rooted else side._node for side in (one, other))
    truths = np.broadcast_to(np.asarray(condition, bool), some.shape)
    return some._of(Operation("choose", nodes, truths), len(some), rooted=rooted)


_UFUNCS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "negative": operator.neg,
    "positive": operator.pos,
    "absolute": abs,
    "square": lambda x: x * x,
    "power": operator.pow,
    "float_power": operator.pow,
    "sqrt": ExactArray.sqrt,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
"""What NumPy's functions of these names give."""
