"""Take the factors of an input that many elements share, as weights are, out of exact sums.

A sum of products with them is a sum of sums: sum(w * x) over rows of the same w is sum(w * sum(x)).
So elements are added up without the input, row by row, and each row's sum is multiplied once. That
is exact: these sums do not round (Yan and Larson, "Eager aggregation and lazy aggregation", 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator, Slot
from chunkfold.kernels.accumulator.component import ELEMENTS, BoundField, Component, exact_field
from chunkfold.kernels.accumulator.partial import Partial, zero_partial
from chunkfold.kernels.accumulator.sums import exact_sums, rewritten
from chunkfold.kernels.exact.limbs import SPECIALS, Limbs, integers, limb_tables, specials
from chunkfold.kernels.exact.polynomials import Monomial
from chunkfold.kernels.expressions.evaluate import tree_values
from chunkfold.kernels.expressions.nodes import Node, input_node, node, walk
from chunkfold.kernels.expressions.operations import build, cast

_WIDE = np.dtype(np.float64)


@dataclass(frozen=True)
class _Product:
    """The addend of a row to a sum: a number times shared factors times the row's sum."""

    monomial: Monomial
    """The number."""
    shared: tuple[Node, ...]
    """Factors that read only the shared input."""
    row: str | None
    """Slot of the row's sum of all else; None for the number of its elements."""


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of some rows, and what is the same for all elements of each."""

    partial: Partial
    """Of `Factoring.rows`, with limbs."""
    shared: np.ndarray
    """The input's element of each row, (rows,): finite numbers."""
    outputs: np.ndarray
    """The output that each belongs to, int64, (rows,)."""


@dataclass(frozen=True)
class Factoring:
    """An accumulator that is computed from others that do not read one input."""

    whole: Accumulator
    rows: Accumulator
    """Accumulator of each row, with limbs so that nothing is lost."""
    number: int
    """Number of the input that is not read."""
    _sums: Mapping[str, tuple[_Product, ...]]
    """Addends by the names of the whole's sums."""
    _counts: Mapping[str, str]
    """Slots of counts, and those of rows."""

    def joined(self, rows: Sequence[RowSums], outputs: int) -> Partial:
        """Return the partial of some outputs, of all of their rows."""
        found = zero_partial(self.whole, outputs)
        for name, field in self.whole.sums.items():
            assert field.limbs is not None
            found = self._with_sum(found, name, field.limbs, rows)
        for name, row in self._counts.items():
            for one in rows:
                np.add.at(found.arrays[name], one.outputs, one.partial.arrays[row])
        counts = np.zeros(outputs, np.int64)
        for one in rows:
            np.add.at(counts, one.outputs, np.int64(one.partial.count))
        return replace(found, count=counts)

    def _with_sum(
        self, partial: Partial, name: str, limbs: Limbs, rows: Sequence[RowSums]
    ) -> Partial:
        """Put a sum of every output in its place."""
        totals = [0] * partial.outputs
        odd = np.zeros((partial.outputs, SPECIALS), np.int64)
        for one in rows:
            for product in self._sums[name]:
                self._multiply(product, one, limbs.low, totals, odd)
        tables = limb_tables(totals, odd, limbs)
        if name in partial.arrays:
            return replace(partial, arrays={**partial.arrays, name: tables})
        return rewritten(partial, name, limbs, np.arange(partial.outputs), tables)

    def _multiply(
        self, product: _Product, rows: RowSums, low: int, totals: list[int], odd: np.ndarray
    ) -> None:
        """Add rows times what they share to the outputs' totals, in units of 2**low."""
        times, exponents = self._shared(product, rows.shared)
        if product.row is None:
            counts = np.broadcast_to(np.int64(rows.partial.count), len(rows.shared))
            sums, own = counts.tolist(), 0
        elif (field := self.rows.sums.get(product.row)) is None:
            sums, own = rows.partial.arrays[product.row].tolist(), 0
        else:
            assert field.limbs is not None
            tables = exact_sums(rows.partial, product.row, field.limbs).wide.tables
            sums, own = integers(tables), field.limbs.low
            self._note_odd(specials(tables), times, rows.outputs, odd)
        shift = own + product.monomial.exponent - low
        for output, total, number, exponent in zip(
            rows.outputs.tolist(), sums, times, exponents, strict=True
        ):
            value, by = total * number, shift + exponent
            totals[output] += value << by if by >= 0 else value >> -by  # of which no bit is set

    def _shared(self, product: _Product, given: np.ndarray) -> tuple[list[int], list[int]]:
        """Return the product of a row's shared factors: odd integers, and powers of two."""
        times = [product.monomial.digits] * len(given)
        exponents = np.zeros(len(given), np.int64)
        leaves = {one: given.astype(one.dtype) for one in _inputs(product.shared)}
        for values in tree_values(product.shared, leaves) if product.shared else ():
            each = np.broadcast_to(values, len(given))
            if each.dtype.kind == "f":
                fractions, powers = np.frexp(each.astype(_WIDE))
                whole = np.ldexp(fractions, 53).astype(np.int64)
                zeros = _trailing_zeros(whole)
                exponents += powers - 53 + zeros
                each = whole >> zeros
            times = [a * b for a, b in zip(times, each.tolist(), strict=True)]
        return times, exponents.tolist()

    @staticmethod
    def _note_odd(
        found: np.ndarray, times: Sequence[int], outputs: np.ndarray, odd: np.ndarray
    ) -> None:
        """Note of which outputs some rows are NaN or infinite, as IEEE 754 multiplies these."""
        with np.errstate(invalid="ignore"):
            products = found * np.sign(np.array([float(min(max(n, -1), 1)) for n in times]))
        for number, there in enumerate(
            (np.isnan(products), products == np.inf, products == -np.inf)
        ):
            np.add.at(odd[:, number], outputs, there & (found != 0))


@lru_cache(maxsize=256)
def factoring(accumulator: Accumulator, number: int) -> Factoring | None:
    """Return how an accumulator does without an input; None if it does not, or is as well with it.

    It does if it has exact sums alone, beside counts, and each factor of them reads either that
    input, or others.
    """
    made_of = _Rows(accumulator, number)
    sums: dict[str, tuple[_Product, ...]] = {}
    counts: dict[str, str] = {}
    for place, part in enumerate(accumulator.components):
        if part.state is not None or len(part.fields) != 1:
            return None
        (field,) = part.fields
        if part.ignored is not None and _reads(part.ignored, number):
            return None
        name = Slot(place, field).name
        if field.limbs is not None:
            products = [made_of.product(part, one) for one in field.polynomial]
            if None in products or not field.limbs.terms:
                return None
            sums[name] = tuple(one for one in products if one is not None)
        elif field == ELEMENTS:
            counts[name] = made_of.count(part.ignored)
        else:
            return None
    shares = any(one.shared for products in sums.values() for one in products)
    rows = made_of.accumulator() if shares else None
    return None if rows is None else Factoring(accumulator, rows, number, sums, counts)


class _Rows:
    """Makes the accumulator of rows: what is left of an accumulator without an input."""

    def __init__(self, of: Accumulator, number: int) -> None:
        self._of, self._number = of, number
        self._value = [
            # What widens alone is added up as it is stored: fewer bits are quicker.
            "float32" if (stored, value) == ("float32", "float64") and packing is None else value
            for stored, value, packing in zip(of.stored, of.value, of.packings, strict=True)
        ]
        self._parts: dict[Component, str] = {}

    def product(self, part: Component, monomial: Monomial) -> _Product | None:
        """Part a monomial; None if a factor reads the input and others."""
        shared, own = list[Node](), list[Node]()
        for factor in monomial.factors:
            reads = {one.arg[0] for one in _inputs([factor])}
            if reads == {self._number}:
                shared.append(factor)
            elif self._number in reads:
                return None
            else:
                own.append(self._without(factor))
        row = None
        if own:
            row = self._slot(part.origin, self._sum(own), part.ignored)
        elif part.ignored is not None:
            row = self.count(part.ignored)
        return _Product(replace(monomial, factors=()), tuple(shared), row)

    def count(self, ignored: Node | None) -> str:
        """Return the slot that counts a row's elements."""
        return self._slot("count", ELEMENTS, ignored)

    def accumulator(self) -> Accumulator | None:
        """Return it; None if nothing but counts is left."""
        if not any(part.limbs for part in self._parts):
            return None
        of, others = self._of, [n for n in range(len(self._of.stored)) if n != self._number]
        return Accumulator(
            stored=tuple(of.stored[n] for n in others),
            value=tuple(self._value[n] for n in others),
            components=tuple(self._parts),
            swapped=tuple(of.swapped[n] for n in others),
            packings=tuple(of.packings[n] for n in others),
        ).with_limbs()

    def _slot(self, origin: str, field: BoundField, ignored: Node | None) -> str:
        condition = None if ignored is None else self._without(ignored)
        part = Component(origin, (field,), ignored=condition)
        same = next((one for one in self._parts if one.identity == part.identity), None)
        if same is None:
            self._parts[part] = Slot(len(self._parts), field).name
        return self._parts[same or part]

    def _sum(self, factors: Sequence[Node]) -> BoundField:
        """Return the field of the exact sum of a product."""
        each = (cast(one, _WIDE) for one in factors)
        tree = reduce(lambda a, b: build("multiply", _WIDE, a, b), each)
        values = [np.dtype(one) for n, one in enumerate(self._value) if n != self._number]
        return exact_field("s", tree, values)

    def _without(self, tree: Node) -> Node:
        """Return a tree in which the inputs behind this one have other numbers."""

        def moved(one: Node) -> Node:
            number, part = one.arg
            found = input_node(number - (number > self._number), one.dtype, part)
            if one.dtype == _WIDE and self._value[number] == "float32":
                found = cast(input_node(found.arg[0], np.dtype(np.float32), part), _WIDE)
            return found

        return _replaced(tree, moved)


def _replaced(tree: Node, moved: Callable[[Node], Node]) -> Node:
    """Return a tree with others in the place of its inputs."""
    done: dict[Node, Node] = {}
    for one in walk([tree]):
        if one.op == "input":
            done[one] = moved(one)
        else:
            sources = (done[source] for source in one.sources)
            done[one] = node(one.op, one.dtype, *sources, arg=one.arg)
    return done[tree]


def _inputs(trees: Sequence[Node]) -> list[Node]:
    return [one for one in walk(trees) if one.op == "input"]


def _reads(tree: Node, number: int) -> bool:
    return any(one.arg[0] == number for one in _inputs([tree]))


def _trailing_zeros(values: np.ndarray) -> np.ndarray:
    """Return how many zeros integers end in, int64; 0 of 0."""
    lowest = values & -values
    return np.where(values == 0, 0, np.frexp(lowest.astype(_WIDE))[1] - 1).astype(np.int64)
