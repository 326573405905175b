"""Polynomials of elements, which exact sums add up: trees multiplied out in real arithmetic.

A *factor* is an input, a part of one, or the rounded value of any other node. `+`, `-`, `*` and
whole powers of factors make a sum of monomials: numbers times factors.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce

import numpy as np

from chunkfold.kernels.exact.limbs import FORMATS, Format, Limbs, limbs_between, part_of
from chunkfold.kernels.expressions.infix import infix
from chunkfold.kernels.expressions.library import lower, upper
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant, constant_value, flat
from chunkfold.kernels.expressions.operations import build, cast
from chunkfold.kernels.expressions.symbols import Symbol

MOST_FACTORS = 4
"""The highest degree of a monomial."""
_MOST_DIGITS = 53
"""Bits of a number that is multiplied by, without zeros at its end: it is a double."""
_LARGEST = 2000
"""Powers of two that coefficients may be above 1, or below."""


class PolynomialError(Exception):
    """A tree is no polynomial that sums can be kept of; the text says why, after "but"."""


@dataclass(frozen=True)
class Monomial:
    """A number times factors."""

    number: Fraction
    """Not 0: an odd integer of 53 bits at most times a power of two."""
    factors: tuple[Node, ...]
    """Each as often as its power; in one order for all monomials of the same."""

    @cached_property
    def digits(self) -> int:
        """The odd integer."""
        whole = self.number.numerator
        return whole // (whole & -whole)

    @cached_property
    def exponent(self) -> int:
        """The power of two next to it."""
        whole, parts = self.number.numerator, self.number.denominator
        return (whole & -whole).bit_length() - parts.bit_length()


Polynomial = tuple[Monomial, ...]
"""A sum of monomials, of which no two have the same factors."""
_Terms = dict[tuple[Node, ...], Fraction]


@lru_cache(maxsize=1024)
def polynomial(tree: Node) -> Polynomial:
    """Multiply a tree out.

    Raises
    ------
    PolynomialError
        If its degree is above 4, or a number in it has too many digits.
    """
    terms: _Terms = {}
    expanded = _expanded(tree)
    gone = _factors(tree).difference(*expanded)
    if gone:
        names = ", ".join(sorted(infix(one) for one in gone))
        raise PolynomialError(
            f"all terms with {names} cancel: omit them (where these are NaN or infinite, floats "
            "would not give 0)"
        )
    for factors, number in expanded.items():
        for halves, times in _halved(factors):
            terms[halves] = terms.get(halves, Fraction(0)) + number * times
    monomials = [Monomial(number, factors) for factors, number in terms.items() if number]
    for one in monomials:
        if abs(one.digits).bit_length() > _MOST_DIGITS:
            raise PolynomialError(
                f"its coefficient {one.number} is not a float64; divide by it, or a part of it, "
                "in finish"
            )
    return tuple(sorted(monomials, key=lambda one: [_key(factor) for factor in one.factors]))


@lru_cache(maxsize=1024)
def _key(factor: Node) -> str:
    """Return what orders factors, in every process alike."""
    return repr(flat([factor]))


def arithmetic(tree: Node) -> tuple[str, Node, tuple[Node, ...]]:
    """Return what a tree is in real arithmetic: an operation, its node, and its operands.

    The operation is add, subtract, multiply of any number, negative, constant, or factor.
    """
    op, sources = tree.op, tree.sources
    if op == "constant":
        return op, tree, ()
    if tree.dtype != BOOL:
        if op in ("add", "subtract", "multiply", "negative"):
            return op, tree, sources
        if op == "invert" and tree.dtype.kind == "i":  # as -1 - x is written
            return "subtract", tree, (constant(-1, tree.dtype), *sources)
        if op == "power" and (times := _whole_power(sources[1])) is not None:
            return "multiply", tree, (sources[0],) * times
        if op == "cast" and _keeps(sources[0].dtype, tree.dtype):
            return arithmetic(sources[0])
    return "factor", tree, ()


def _expanded(tree: Node) -> _Terms:
    """Return the number that stands before each product of factors."""
    op, inner, sources = arithmetic(tree)
    if op == "constant":
        return _of_constant(inner)
    if op == "factor":
        return {(inner,): Fraction(1)}
    terms = [_expanded(one) for one in sources]
    if op == "multiply":
        return reduce(_times, terms, {(): Fraction(1)})
    if op in ("subtract", "negative"):
        terms[-1] = _times(terms[-1], {(): -1})
    return _sum(terms)


def _factors(tree: Node) -> set[Node]:
    """Return what a tree multiplies out to products of, also of those that cancel."""
    op, inner, sources = arithmetic(tree)
    return {inner} if op == "factor" else set().union(*map(_factors, sources))


def _of_constant(tree: Node) -> _Terms:
    value = constant_value(tree).item()
    if not np.isfinite(value):
        raise PolynomialError(f"{value} is not a number that can be summed")
    return {(): Fraction(value)} if value else {}


def _whole_power(tree: Node) -> int | None:
    value = constant_value(tree).item() if tree.op == "constant" else -1
    return int(value) if value in range(64) else None


def _keeps(given: np.dtype, wanted: np.dtype) -> bool:
    """Return True for a conversion that keeps every number."""
    return given == BOOL or (
        np.can_cast(given, wanted, "safe")
        and not (given.kind in "iu" and wanted.kind == "f" and given.itemsize > 4)
    )


def _sum(parts: Sequence[Mapping[tuple[Node, ...], Fraction]]) -> _Terms:
    terms: _Terms = {}
    for factors, number in itertools.chain.from_iterable(part.items() for part in parts):
        terms[factors] = terms.get(factors, Fraction(0)) + number
    return {factors: number for factors, number in terms.items() if number}


def _times(
    one: Mapping[tuple[Node, ...], Fraction], other: Mapping[tuple[Node, ...], Fraction | int]
) -> _Terms:
    products: list[_Terms] = []
    for (a, m), (b, n) in itertools.product(one.items(), other.items()):
        if len(a) + len(b) > MOST_FACTORS:
            raise PolynomialError(
                f"its degree is {len(a) + len(b)}, above {MOST_FACTORS}; for a higher degree, sum "
                "rounded powers in a float64 field"
            )
        products.append({tuple(sorted((*a, *b), key=_key)): m * n})
    return _sum(products)


def _halved(factors: tuple[Node, ...]) -> list[tuple[tuple[Node, ...], Fraction]]:
    """Write integers of 64 bits as two of 32, which are doubles: high * 2**32 + low."""
    ways = [_halves(one) for one in factors]
    return [
        (
            tuple(sorted((part for part, _ in way), key=_key)),
            reduce(lambda product, number: product * number, (n for _, n in way), Fraction(1)),
        )
        for way in itertools.product(*ways)
    ]


def _halves(factor: Node) -> list[tuple[Node, Fraction]]:
    if factor.dtype.kind not in "iu" or factor.dtype.itemsize < 8:
        return [(factor, Fraction(1))]
    high = upper(Symbol(factor)).astype("int32" if factor.dtype.kind == "i" else "uint32")
    low = lower(Symbol(factor)).astype("uint32")
    return [(high.node, Fraction(1 << 32)), (low.node, Fraction(1))]


def computed_in(tree: Node, dtype: np.dtype) -> Node:
    """Return a tree computed in a dtype, of the same factors.

    As IEEE 754 computes it in a wide float it tells what a sum is of where one of them is infinite
    or NaN.
    """
    op, inner, sources = arithmetic(tree)
    if op in ("constant", "factor"):
        return cast(inner, dtype)
    each = [computed_in(one, dtype) for one in sources]
    if op == "multiply":
        return reduce(lambda a, b: build(op, dtype, a, b), each or [constant(1, dtype)])
    return build(op, dtype, *each)


def power_of(of: Polynomial) -> int:
    """Return 1 or 2 if a polynomial is one factor, or the square of a float; else 0."""
    if len(of) != 1 or of[0].number != 1 or len(set(of[0].factors)) != 1:
        return 0
    power, kind = len(of[0].factors), of[0].factors[0].dtype.kind
    return power if power == 1 or (power == 2 and kind == "f") else 0


def limbs_for(of: Polynomial, values: Sequence[np.dtype], *, fp64: bool = True) -> Limbs:
    """Return how sums of a polynomial are kept, of inputs whose values have some dtypes.

    Raises
    ------
    PolynomialError
        If a coefficient is too far from 1.
    """
    power, low, top, digits = power_of(of), 0, 1, 1
    if not fp64 and power and of[0].factors[0].dtype.kind != "f":
        power = 0
    for number, one in enumerate(of):
        forms = [format_of(factor, values) for factor in one.factors]
        least = one.exponent + sum(form.least for form in forms)
        most = one.exponent + abs(one.digits).bit_length() + sum(form.top for form in forms)
        most -= abs(one.digits) == 1
        low, top = (least, most) if not number else (min(low, least), max(top, most))
        digits = max(digits, significant(one) + sum(form.precision for form in forms))
        if abs(one.exponent) > _LARGEST:
            raise PolynomialError(
                f"it has a coefficient of about 2**{one.exponent}, too far from 1; multiply in "
                "finish"
            )
    return limbs_between(low, top, digits if fp64 else 0, power)


def significant(one: Monomial) -> int:
    """Return how many digits a monomial's number adds to what it multiplies."""
    return abs(one.digits).bit_length() if abs(one.digits) > 1 else 0


def format_of(factor: Node, values: Sequence[np.dtype]) -> Format:
    """Return the format of a factor's numbers: that of its input, also where kernels widen it."""
    inner = factor.sources[0] if factor.op == "absolute" else factor
    if factor.dtype.kind == "f":
        own = part_of(values[inner.arg[0]]).name if inner.op == "input" else factor.dtype.name
        return FORMATS[own]
    bits = 1 if factor.dtype == BOOL else 8 * factor.dtype.itemsize
    return Format(bits, bits, whole=True)
