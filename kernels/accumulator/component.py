"""The smallest part of an accumulator that folds by itself: fields, and how elements get there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.kernels.exact.limbs import Limbs
from chunkfold.kernels.exact.polynomials import Polynomial, computed_in, limbs_for, polynomial
from chunkfold.kernels.expressions.nodes import Node, constant
from chunkfold.kernels.monoid.trees import op_tree

NamedTrees = tuple[tuple[str, Node], ...]
"""Fields, and the tree of each."""


@dataclass(frozen=True)
class BoundField:
    """A field with its dtype decided."""

    name: str
    dtype: str
    zero: str
    """As `number_text` writes it: 0.0 and -0.0 are two."""
    lift: Node
    """The value of an element, in the field's dtype. A table: the number of the counter that it
    adds to. An exact sum of powers: the number whose power is added. Another exact sum: the addend
    in floats, which is used where a factor is NaN or infinite."""
    op: str | Node
    """One of COLLECTIVES, or a tree of fields of a and b."""
    entries: int | None = None
    """Of a table of counters, to one of which `lift` adds 1; None for a scalar."""
    limbs: Limbs | None = None
    """Of an exact sum of what `lift` gives: the table is theirs, if there is one."""
    terms: int = 0
    """Doubles whose sum is the exact one, of an exact sum that has no table."""
    polynomial: Polynomial = ()
    """Of an exact sum what is added."""
    adds: tuple[tuple[Node, Node], ...] = ()
    """Of a table to which elements add integers: counters' numbers, and what is added to them."""

    @property
    def factors(self) -> tuple[Node, ...]:
        """Factors of an exact sum's polynomial, each once."""
        return tuple(dict.fromkeys(one for part in self.polynomial for one in part.factors))

    @property
    def op_tree(self) -> Node:
        """Its op as a tree of fields of a and b, also where it is named."""
        return op_tree(self.name, self.dtype, self.op)

    @property
    def deposits(self) -> int:
        """Numbers below 2**33 that an element may add to each limb of an exact sum, at most."""
        if self.limbs is None or self.limbs.power:
            return 1
        doubles = (1 << len(one.factors) for one in self.polynomial)
        return max(1, sum(doubles) // 2)

    def with_terms(self) -> BoundField:
        """Return an exact sum as an expansion; others as they are."""
        if self.limbs is None or not self.limbs.terms:
            return self
        return replace(self, dtype="float64", entries=None, terms=self.limbs.kept)

    def with_limbs(self) -> BoundField:
        """Return an exact sum as a table of limbs; others as they are."""
        if self.limbs is None:
            return self
        return replace(self, dtype="int64", entries=self.limbs.entries, terms=0)


ELEMENTS = BoundField("n", "int64", "0", constant(1, np.dtype(np.int64)), "add")
"""Counts elements, as the rule "count" does."""


def exact_field(
    name: str, tree: Node, values: Sequence[np.dtype], *, fp64: bool = True
) -> BoundField:
    """Return the field of an exact sum of a polynomial, of inputs whose values have some dtypes.

    Raises
    ------
    PolynomialError
        If the tree is none that sums can be kept of.
    """
    found = polynomial(tree)
    limbs = limbs_for(found, values, fp64=fp64)
    wide = np.dtype(np.float64 if fp64 else np.float32)
    lift = found[0].factors[0] if limbs.power else computed_in(tree, wide)
    return BoundField(name, "int64", "0", lift, "add", limbs.entries, limbs, polynomial=found)


@dataclass(frozen=True)
class BoundState:
    """An `Accumulate` as trees, with its dtypes decided."""

    fields: tuple[tuple[str, str, str], ...]
    """Name, dtype and start of each state field."""
    step: NamedTrees
    """Each state field but those of `first`, of the state s and an element."""
    end: NamedTrees
    """Each field of the accumulator, of the state s."""
    first: NamedTrees = ()
    """State fields that the first element sets, before its `step`."""
    carry: NamedTrees = ()
    """State fields, now and then after `step`."""

    @property
    def dtypes(self) -> Mapping[str, str]:
        """Dtype of each state field."""
        return {name: dtype for name, dtype, _ in self.fields}

    @property
    def of_elements(self) -> tuple[Node, ...]:
        """The trees of what takes in elements."""
        return tuple(tree for _, tree in (*self.first, *self.step, *self.carry))


@dataclass(frozen=True)
class Component:
    """The smallest part of an accumulator that folds by itself."""

    origin: str
    """The monoid it came from, for messages."""
    fields: tuple[BoundField, ...]
    state: BoundState | None = None
    ignored: Node | None = None
    """Condition under which an element is ignored; None if none is."""
    rtol: float | None = None
    """Tolerance within which its laws must hold; None if they are known to."""
    digits_of: str = ""
    """Field of the monoid that is an exact sum of integers, of which these are the digits."""
    in_order: bool = False
    """True: elements are folded in their order, for `op` does not commute."""

    @property
    def identity(self) -> object:
        """Key that is equal for two components that fold the same."""
        return (self.fields, self.state, self.ignored)

    @property
    def stream(self) -> object:
        """Key that is equal for components that can share one state; None if it has no state."""
        if self.state is None:
            return None
        return (replace(self.state, end=()), self.ignored)

    @property
    def trees(self) -> tuple[Node, ...]:
        """Every tree that it is made of."""
        trees = [tree for f in self.fields for tree in (f.lift, f.op) if isinstance(tree, Node)]
        trees += [factor for field in self.fields for factor in field.factors]
        trees += [tree for field in self.fields for pair in field.adds for tree in pair]
        trees += [] if self.ignored is None else [self.ignored]
        if self.state is not None:
            trees += [*self.state.of_elements, *(tree for _, tree in self.state.end)]
        return tuple(trees)

    @property
    def of_elements(self) -> tuple[Node, ...]:
        """The trees of what takes in elements: `lift`, and a state's."""
        lifts = tuple(tree for field in self.fields for tree in (field.lift, *field.factors))
        masks = () if self.ignored is None else (self.ignored,)
        lifts += tuple(tree for field in self.fields for pair in field.adds for tree in pair)
        return (*lifts, *masks, *(self.state.of_elements if self.state else ()))

    @property
    def limbs(self) -> Limbs | None:
        """Layout of its limbs if it is an exact sum, else None."""
        return self.fields[0].limbs

    @property
    def table(self) -> BoundField | None:
        """The table that it is, of counters or of limbs, if it is one."""
        return self.fields[0] if self.fields[0].entries is not None else None
