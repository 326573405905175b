"""Finish a monoid's results from a root partial: from its own fields of a shared accumulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.chooser import Chooser
from chunkfold.kernels.accumulator.exact_array import ExactArray
from chunkfold.kernels.accumulator.exact_integers import nearest_integers
from chunkfold.kernels.accumulator.partial import Partial, zero_partial
from chunkfold.kernels.accumulator.sums import IntegerSums, Rounding, exact_sums
from chunkfold.kernels.catalogue.exact_sums import formula_of
from chunkfold.kernels.dtypes import COUNT, kind_of
from chunkfold.kernels.errors import MonoidError, RangeError
from chunkfold.kernels.exact.limbs import FORMATS, Limbs
from chunkfold.kernels.monoid.finish_context import Context, NextPass
from chunkfold.kernels.monoid.monoid import Monoid


@dataclass(frozen=True)
class Statistic:
    """One monoid's view of a shared accumulator."""

    monoid: Monoid
    slots: Mapping[str, str]
    """Slot that holds each of the monoid's fields; those of an expansion begin with the name."""
    limbs: Mapping[str, Limbs]
    """Layout of the limbs of fields that are exact sums."""
    counted: tuple[str, ...]
    """Fields that count elements and have no slot, as no element is skipped."""
    value: np.dtype
    """Dtype of the values that were lifted."""
    result: np.dtype | None
    """Dtype the caller asked for, if any."""
    ddof: float
    rounds: bool
    """Whether folding rounds: any field is a float that is not a minimum or a maximum."""
    present: str | None = None
    """Slot that counts present elements, where there may be few and no result says so."""
    inputs: tuple[np.dtype, ...] = ()
    """Dtype of each input, in the machine's byte order."""
    initial: Any = None
    """Value that results begin with; None for no value."""
    digits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Slots of the digits of fields that are exact sums of integers, the lowest first."""

    @property
    def name(self) -> str:
        """Name of the statistic in results."""
        return self.monoid.name

    def finish(
        self,
        partial: Partial,
        shape: tuple[int, ...] = (),
        axes: tuple[int, ...] = (),
        integers: np.dtype | None = None,
    ) -> np.ndarray:
        """Finish the root partial into one result per output.

        `shape` and `axes` are what was reduced (see `Context`). If a dtype of `integers` is given,
        results have it: floats are rounded to the nearest, exact numbers once.

        Raises
        ------
        MonoidError
            If the monoid's finish fails, or does not give one result per output.
        RangeError
            If a result does not fit its dtype.
        """
        if not self.monoid.min_count:
            self._check_present(partial)
        context = replace(self._context(shape, axes), integers=integers)
        try:
            found = self.monoid.finish(self._fields(partial), context)
            if integers is not None and (isinstance(found, ExactArray) or found.dtype.kind == "f"):
                found = nearest_integers(found, integers)
            elif isinstance(found, ExactArray):
                found = found.rounded(context.floats)
            done = np.asarray(found)
        except (MonoidError, RangeError):
            raise
        except Exception as error:
            raise MonoidError(
                f"finish of {self.name!r} raised {type(error).__name__}: {error}"
            ) from error
        if done.shape[:1] != (partial.outputs,):
            raise MonoidError(
                f"finish of {self.name!r} made shape {done.shape} of fields of "
                f"{partial.outputs} outputs"
            )
        wanted = integers or self.result
        return self._of_enough(partial, done if wanted is None else done.astype(wanted), integers)

    def rounding(self, accumulator: Accumulator) -> Rounding | None:
        """Return how devices round its results as `finish` does; None if they cannot."""
        formula, dtype = formula_of(self.monoid.finish), self.value.name
        plain = self.initial is None and not self.monoid.min_count and self.present is None
        if (
            formula is None
            or not plain
            or dtype not in FORMATS
            or not float(self.ddof).is_integer()
        ):
            return None
        names = [self.slots[one] for one in (formula.sum, formula.squares) if one is not None]
        if self.result not in (None, self.value) or not all(
            accumulator.sums[name].terms for name in names
        ):
            return None
        squares = self.slots[formula.squares] if formula.squares else None
        count = self.slots.get("n") if formula.divided else None
        return Rounding(
            self.name, dtype, names[0], squares, count, formula.divided, formula.root, self.ddof
        )

    @property
    def needs_elements(self) -> bool:
        """True if no elements give no result at all, not even NaN."""
        begins = self.initial is not None or self.monoid.min_count > 0
        return self.monoid.on_empty == "error" and not begins

    def _of_enough(
        self, partial: Partial, done: np.ndarray, integers: np.dtype | None
    ) -> np.ndarray:
        """Make NaN or NaT of results of fewer elements than are asked for: 0 among `integers`."""
        least = self.monoid.min_count
        if not least or (integers is None and not self._has_nan(done.dtype)):
            return done
        there = partial.count if self.present is None else partial.arrays[self.present]
        few = np.broadcast_to(there, partial.outputs) < least
        if few.any():
            done = done.copy()
            nan = "NaT" if done.dtype.kind in "mM" else np.nan
            done[few] = nan if integers is None else 0
        return done

    def _has_nan(self, dtype: np.dtype) -> bool:
        return kind_of(dtype) in "fcmM"

    def refuse_unheld(self, accumulator: Accumulator) -> bool:
        """Refuse what results cannot begin with, or cannot be where there are too few elements.

        Returns
        -------
        Whether results can be NaN or NaT. Those that `dtype=` does not name, such as counts and
        positions, need not: they have values of their own of no elements.

        Raises
        ------
        MonoidError
            In a sentence that says of what.
        """
        if self.monoid.slots > 0:
            return True  # the first read was asked
        if self.initial is None:
            dtype = self._counted_once(accumulator).dtype
        else:
            nothing = zero_partial(accumulator, 1)
            dtype = replace(self, present=None).finish(nothing).dtype
        if self._has_nan(dtype) or not self.monoid.min_count:
            return self._has_nan(dtype)
        if self.monoid.casts:
            raise MonoidError(
                f"min_count is {self.monoid.min_count}, but {self.monoid.quoted} of {self.value} "
                f"is {dtype}, which has no NaN: omit it, or give dtype='float64'"
            )
        return False

    def like(self, accumulator: Accumulator) -> np.ndarray:
        """Return the result of one output as it would be, but for its values.

        Raises
        ------
        MonoidError
            If that depends on what is folded.
        """
        once, something = (
            self._counted_once(accumulator),
            self._counted_once(accumulator, every=True),
        )
        if (once.shape, once.dtype) != (something.shape, something.dtype):
            raise MonoidError(
                f"the number of values in a result of {self.monoid.quoted} depends on the data"
                + "; give it edges" * ("histogram" in self.name or "density" in self.name)
            )
        return something

    def _counted_once(self, accumulator: Accumulator, *, every: bool = False) -> np.ndarray:
        """Return the result of one output, as if tables had counted their first value, or all."""
        arrays = dict(zero_partial(accumulator, 1).arrays)
        counters = [one.name for one in accumulator.tables if one.field.limbs is None]
        counts = [name for name, rule in self.monoid.fields.items() if rule == COUNT]
        present = [self.slots[name] for name in counts if name in self.slots]
        present += [] if self.present is None else [self.present]
        enough = max(1, self.monoid.least)
        for name in counters:
            arrays[name] = np.zeros_like(arrays[name])
            arrays[name][:, slice(None) if every else 0] = 1
        arrays |= {name: np.full_like(arrays[name], enough) for name in present if name in arrays}
        part = Partial(arrays, count=enough)
        if (chooser := self.chooser) is not None and self.monoid.choice is not None:
            keys = arrays[self.slots[self.monoid.choice.key]]
            found = np.zeros((*chooser.wanted(part).shape, 2), keys.dtype)
            part = replace(part, chosen={self.name: found})
        with np.errstate(all="ignore"):
            return self.finish(part)

    def next_pass(
        self, partial: Partial, shape: tuple[int, ...] = (), axes: tuple[int, ...] = ()
    ) -> NextPass | None:
        """Return what is to be read once more before there is a result; parameters as `finish`."""
        if self.monoid.next_pass is None:
            return None
        return self.monoid.next_pass(self._fields(partial), self._context(shape, axes))

    @property
    def chooser(self) -> Chooser | None:
        """Choice of kept elements, if results are computed from them, else None."""
        choice = self.monoid.choice
        if choice is None:
            return None
        key = self.slots[choice.key]
        count = self.slots.get(choice.count)
        return Chooser(self.name, int(key[1:].partition("_")[0]), count, choice.ranks)

    def _fields(self, partial: Partial) -> dict[str, Any]:
        fields: dict[str, Any] = {
            name: ExactArray(exact_sums(partial, slot, self.limbs[name]))
            if name in self.limbs
            else partial.arrays[slot]
            for name, slot in self.slots.items()
        }
        for name, slots in self.digits.items():
            fields[name] = ExactArray(IntegerSums(*(partial.arrays[slot] for slot in slots)))
        counts = np.broadcast_to(np.int64(partial.count), partial.outputs)
        fields |= dict.fromkeys(self.counted, counts)
        if self.monoid.choice is not None:
            fields["chosen"] = partial.chosen[self.name]
        return fields

    def _context(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Context:
        return Context(
            self.value,
            shape,
            axes,
            self.ddof,
            self.result,
            self.inputs,
            self.initial,
            self.monoid.quoted,
        )

    def _check_present(self, partial: Partial) -> None:
        """See that a condition left something of every output, unless there were no elements."""
        if self.present is None:
            return
        none = np.flatnonzero(partial.arrays[self.present] == 0)
        if none.size:
            many = partial.outputs > 1
            of = f", as in {none.size:,} of {partial.outputs:,} outputs" if many else ""
            asked = self.monoid.where is not None or self.monoid.masked
            why = "its condition leaves" if asked else "a group has"
            floats = "; dtype='float64' gives NaN there" if "f" in self.monoid.kinds else ""
            raise MonoidError(
                f"{self.monoid.quoted} of {self.value} has no value where {why} no element{of}"
                f"{floats}"
            )


def refuse_unheld(statistics: Sequence[Statistic], accumulator: Accumulator) -> None:
    """See that results can begin, and be missing, as is asked: by those of nothing.

    Raises
    ------
    MonoidError
        If one cannot, or none can be missing.
    """
    able = [one.refuse_unheld(accumulator.with_limbs()) for one in statistics]
    least = max(one.monoid.min_count for one in statistics)
    if least and not any(able):
        names = ", ".join(one.name for one in statistics)
        raise MonoidError(
            f"min_count is {least}, but {names} has no NaN; sums, means and extremes of floats "
            "and times have one: omit it"
        )
