"""The k greatest and the k least elements, sorted, and their positions: nothing rounds.

An accumulator is a sorted list of k slots. A stream of elements inserts each into its own; two
lists become one by Batcher's bitonic merge ("Sorting networks and their applications", 1968), of
which the half that is dropped is never sorted. Ties of positions go to the first, so that the order
is total and results are the same for any chunks, devices and workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.finish_functions import position
from chunkfold.kernels.dtypes import from_order, kind_of
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import (
    order_high,
    rank_high,
    time_order_high,
    where,
)
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import Accumulate, Expressions, SymbolFunction
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.kernels.monoid.specialise import FoldedElements

MOST = 16
"""Slots: each work-item holds them all in its registers."""
RANK = "rank"
"""Name of the results' last axis: 1 is the greatest, or the least, element."""
TopEntry = tuple[Any, ...]
"""A key, and of positions its index: symbols, or numbers."""


def topk(k: int) -> Monoid:
    """Return the reduction that gives the k greatest elements, the greatest first.

    They are `np.sort(x)[::-1][:k]`, along a last axis of the results: NaN and NaT come first,
    unless they are skipped. Where groups, masks or gaps leave fewer, NaN or NaT stands behind them.

    Parameters
    ----------
    k
        From 1 to 16.

    Raises
    ------
    MonoidError
        If it is not.
    """
    return TopK(_checked("topk", k), greatest=True, positions=False).declared()


def bottomk(k: int) -> Monoid:
    """Return the reduction that gives the k least elements, the least first; `k` as in `topk`.

    They are `np.sort(x)[:k]`, along a last axis of the results: NaN and NaT come last.
    """
    return TopK(_checked("bottomk", k), greatest=False, positions=False).declared()


def argtopk(k: int) -> Monoid:
    """Return the reduction that gives the positions of the k greatest elements; `k` as in `topk`.

    Equal elements come in the order of their positions, which are those of `argmax`: over several
    axes, in C order among them. Groups, masks or gaps may leave fewer elements: the rest is -1.
    """
    return TopK(_checked("argtopk", k), greatest=True, positions=True).declared()


def argbottomk(k: int) -> Monoid:
    """Return the reduction that gives the positions of the k least elements; as `argtopk` does.

    They are `np.argsort(x, stable=True)[:k]`.
    """
    return TopK(_checked("argbottomk", k), greatest=False, positions=True).declared()


def _checked(function: str, k: Any) -> int:
    whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
    if not whole or not 1 <= k <= MOST:
        raise MonoidError(
            f"k of {function} is {k!r}; give an integer from 1 to {MOST}: cf.quantile gives "
            "elements of any rank"
        )
    return int(k)


@dataclass(frozen=True)
class TopK:
    """Makes the monoid of the k greatest or least elements, for a dtype."""

    k: int
    greatest: bool
    positions: bool
    """True: results are positions, rather than elements."""

    @property
    def name(self) -> str:
        """Return the name in results."""
        return f"{'arg' * self.positions}{'top' if self.greatest else 'bottom'}{self.k}"

    def declared(self) -> Monoid:
        """Return the reduction for elements of any dtype."""
        return replace(self(FoldedElements(np.dtype(np.float32))), specialised=self, kinds="biufmM")

    def __call__(self, elements: FoldedElements) -> Monoid:
        """Return the monoid."""
        keys = {f"m{n}": "order" for n in range(self.k)}
        indices = {f"i{n}": "int64" for n in range(self.k)} if self.positions else {}
        counts = {} if self.positions else {"n": "count"}
        slots, times = keys | indices, elements.dtype.kind in "mM"
        empty: dict[str, int | str] = dict.fromkeys(keys, "lowest" if self.greatest else "highest")
        empty |= dict.fromkeys(indices, "highest")
        return Monoid(
            self.name,
            fields=slots | counts,
            zero=empty | dict.fromkeys(counts, 0),
            lift=self._lift(times),
            op=self._op(slots),
            accumulate=Accumulate(
                state=slots,
                start=empty,
                step=self._step(times),
                end=lambda s: {name: getattr(s, name) for name in slots},
            ),
            kinds="mM" if times else "biuf",
            casts=not self.positions,
            least=self.k,
            last_axis=RANK,
            labels=tuple(range(1, self.k + 1)),
            finish=self._positions if self.positions else self._elements,
        )

    def _lift(self, times: bool) -> SymbolFunction:
        if self.positions:
            return lambda x, i: self._alone((self._key(times, x), i))
        return lambda x: {**self._alone((self._key(times, x),)), "n": 1}

    def _step(self, times: bool) -> SymbolFunction:
        if self.positions:
            return lambda s, x, i: self._inserted(s, (self._key(times, x), i))
        return lambda s, x: self._inserted(s, (self._key(times, x),))

    def _op(self, slots: Iterable[str]) -> Any:
        """Return the merge of all fields, or of each where one of them is a count, which adds."""
        if self.positions:
            return self._merged
        return {name: partial(self._field_merged, name) for name in slots} | {"n": "add"}

    def _key(self, times: bool, x: Symbol) -> Symbol:
        """Return an integer that sorts like an element; of positions zeros are equal."""
        if times:
            return time_order_high(x)
        return rank_high(x) if self.positions else order_high(x)

    def _slots(self, held: Any) -> list[TopEntry]:
        """Return the slots of an accumulator, or of a state."""
        letters = "mi" if self.positions else "m"
        return [tuple(getattr(held, f"{c}{n}") for c in letters) for n in range(self.k)]

    def _named(self, slots: Sequence[TopEntry]) -> Expressions:
        """Return the fields of slots."""
        return {
            f"{c}{n}": part
            for n, slot in enumerate(slots)
            for c, part in zip("mi", slot, strict=False)
        }

    def _alone(self, first: TopEntry) -> Expressions:
        """Return a list of one element."""
        limits = np.iinfo(first[0].dtype)
        none = (limits.min if self.greatest else limits.max, np.iinfo(np.int64).max)
        return self._named([first, *[none[: len(first)]] * (self.k - 1)])

    def _in_order(self, a: TopEntry, b: TopEntry) -> tuple[TopEntry, TopEntry]:
        """Return two slots in the results' order; equal keys stay in theirs."""
        if not self.positions:
            low, high = (np.minimum(a[0], b[0]),), (np.maximum(a[0], b[0]),)
            return (high, low) if self.greatest else (low, high)
        nearer = a[0] > b[0] if self.greatest else a[0] < b[0]
        ordered = nearer | ((a[0] == b[0]) & (a[1] < b[1]))
        pairs = list(zip(a, b, strict=True))
        return (
            tuple(where(ordered, one, other) for one, other in pairs),
            tuple(where(ordered, other, one) for one, other in pairs),
        )

    def _inserted(self, state: Any, one: TopEntry) -> Expressions:
        """Insert an element in its place, and move the others on."""
        found = []
        for slot in self._slots(state):
            kept, one = self._in_order(slot, one)
            found.append(kept)
        return self._named(found)

    def _field_merged(self, name: str, a: Any, b: Any) -> Any:
        return self._merged(a, b)[name]

    def _merged(self, a: Any, b: Any) -> Expressions:
        """Return the first k of two sorted lists."""
        pairs = zip(self._slots(a), reversed(self._slots(b)), strict=True)
        slots = [self._in_order(*pair)[0] for pair in pairs]
        # They fall, then rise. The network sorts a power of two: slots that are missing would stand
        # in front of all, where nothing takes their place.
        size = 1 << (self.k - 1).bit_length()
        missing, distance = size - self.k, size // 2
        while distance:
            for n in range(self.k):
                if not (n + missing) & distance:
                    slots[n], slots[n + distance] = self._in_order(slots[n], slots[n + distance])
            distance //= 2
        return self._named(slots)

    def _held(self, letter: str, fields: Fields) -> np.ndarray:
        """Return keys or indices, (outputs, k)."""
        return np.stack([fields[f"{letter}{n}"] for n in range(self.k)], axis=1)

    def _positions(self, fields: Fields, context: Context) -> np.ndarray:
        return position({"i": self._held("i", fields)}, context)

    def _elements(self, fields: Fields, context: Context) -> np.ndarray:
        """Turn keys back into elements; NaN or NaT stands in what is empty.

        Raises
        ------
        MonoidError
            If any is, and the elements' dtype has neither.
        """
        values = from_order(self._held("m", fields), context.dtype, high=True)
        empty = np.arange(self.k) >= fields["n"][:, None]
        if not empty.any():
            return values
        if kind_of(context.dtype) not in "fmM":
            few = int(empty.any(axis=1).sum())
            raise MonoidError(
                f"{self.name!r} of {context.dtype} has no value where fewer than {self.k} "
                f"elements remain, as in {few:,} of {len(empty):,} output(s); dtype='float64' "
                "gives NaN there"
            )
        values[empty] = "NaT" if values.dtype.kind in "mM" else np.nan
        return values
