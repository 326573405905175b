"""Monoid: a reduction declared as data, from lift to finish."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np

from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.monoid import checks
from chunkfold.kernels.monoid.accumulate import Accumulate, Number, SymbolFunction
from chunkfold.kernels.monoid.finish_context import Choice, Finish, NextPassOf, record
from chunkfold.kernels.monoid.specialise import (
    FoldedElements,
    ForMixedInputs,
    Specialised,
    for_each_dtype,
    specialise,
)
from chunkfold.kernels.monoid.tracing import first_kind, traced
from chunkfold.kernels.monoid.trees import shown_fields


@dataclass(frozen=True)
class Monoid:
    """A commutative monoid over accumulators, and how elements enter and results leave it.

    An accumulator is a set of named typed scalars (`fields`). `lift` makes one from an element,
    `op` combines two, `zero` is op's identity, `finish` turns the root into the result.
    `op` must be associative and commutative: elements are combined in any order.

    With a single field, `zero`, `lift` and `op` may be given bare instead of as a mapping.

    Raises
    ------
    MonoidError
        If the parts do not agree, or a function has no meaning for the first of `kinds`.
    """

    name: str
    """Name in results, and in messages unless `written`; an identifier."""
    fields: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({"s": "float64"}), kw_only=True
    )
    """Dtype of each field: int32, uint32, int64, uint64, float32, float64, or the rules "sum",
    "mean", "real", "order", which depend on the elements' dtype; or "count", of elements that were
    not skipped; or a table, whose zero is 0 and whose op is "add": "int64[n]", n counters, or
    "exact", the exact sum of a polynomial that `lift` gives (docs/monoids.md)."""
    inputs: int = field(default=1, kw_only=True)
    """Number of aligned input arrays."""
    zero: Mapping[str, Number | str] | Number | str = field(kw_only=True)
    """The identity of `op`: numbers, or "lowest" or "highest" of the field's dtype."""
    lift: SymbolFunction | Mapping[str, SymbolFunction | Number] | Number = field(kw_only=True)
    """From an element to an accumulator: a function of symbols that returns an expression for each
    field, or one for each. It has a parameter for each input, and may have one more, the element's
    index in C order. For a table it gives the number of the counter that is added to; a number
    out of range adds nothing."""
    op: SymbolFunction | Mapping[str, SymbolFunction | str] | str = field(kw_only=True)
    """From two accumulators to one: "add", "min" or "max" for a field, or a function of symbols `a`
    and `b`, whose fields are read as `a.name`; one for all fields, or one for each."""
    accumulate: Accumulate | tuple[Accumulate, ...] = field(default=(), kw_only=True)
    """Replaces `op(acc, lift(x))` inside a kernel; several have ends in different fields."""
    finish: Finish = field(default=record, kw_only=True)
    """From the root's fields to the results."""
    rtol: float = field(default=0.0, kw_only=True)
    """Relative tolerance within which `op` is associative on float fields."""
    kinds: str = field(default="biuf", kw_only=True)
    """NumPy's kinds of elements it is defined for."""
    on_empty: Literal["finish", "error"] = field(default="finish", kw_only=True)
    """Result of no elements: `zero`, finished, or an error."""
    least: int = field(default=0, kw_only=True)
    """Fewest elements of a result: fewer are refused before anything is read, unless `min_count`
    or labels allow them."""
    weights: int = field(default=0, kw_only=True)
    """Number of inputs that are weights, the last ones. A weight that is NaN is not skipped: the
    result is NaN."""
    weighing: Callable[[], Monoid] | None = field(default=None, kw_only=True)
    """Returns the weighted form, which has one more input; None if it has none."""
    slots: int = field(default=0, kw_only=True)
    """Number of inputs, the last ones, that hold one element for each output, found by an earlier
    read. `where` has no parameter for them, and their NaN is not skipped."""
    masked: bool = field(default=False, kw_only=True)
    """True: one more input follows, and elements where it is False are skipped; or it has numbers,
    of which `where` has one more parameter."""
    skipna: bool = field(default=False, kw_only=True)
    """True: elements that are NaN or NaT are skipped."""
    where: SymbolFunction | None = field(default=None, kw_only=True)
    """A condition of the elements: those for which it is False are skipped."""
    min_count: int = field(default=0, kw_only=True)
    """Results of fewer elements, without those skipped, are NaN or NaT."""
    initial: bool = field(default=False, kw_only=True)
    """True: `finish` uses `Context.initial` as one more element."""
    casts: bool = field(default=True, kw_only=True)
    """True: a `dtype` that elements are cast to is the result's dtype too, as for sums."""
    unbounded: bool = field(default=False, kw_only=True)
    """True: `finish` returns Python's integers, of integers where `Context.result` is object."""
    instead: Mapping[str, Monoid] = field(
        default_factory=lambda: MappingProxyType({}), kw_only=True
    )
    """Monoids that are folded instead for other kinds of elements, by NumPy's letters."""
    specialised: Specialised | None = field(default=None, kw_only=True)
    """Returns the monoid that is folded instead, given the elements and the number of outputs."""
    choice: Choice | None = field(default=None, kw_only=True)
    """Elements of each output, by rank, that `finish` needs besides the fields."""
    reads: int = field(default=1, kw_only=True)
    """Reads of the data, at most."""
    in_order: bool = field(default=False, kw_only=True)
    """True: `op` does not commute; elements of the one axis that is reduced come in its order."""
    last_axis: str | None = field(default=None, kw_only=True)
    """Name of the results' last axis, where each result has several values."""
    labels: tuple[float, ...] = field(default=(), kw_only=True)
    """Coordinate of that axis."""
    next_pass: NextPassOf | None = field(default=None, kw_only=True)
    """Returns the next read of the data that the root's fields ask for; None: call `finish`."""
    exact: Monoid | None = field(default=None, kw_only=True)
    """The monoid that is folded instead where results are to be exact, for its own kinds."""
    written: str = field(default="", kw_only=True)
    """Name in messages, as the caller wrote it; empty: `name`."""

    def __post_init__(self) -> None:
        checks.check_outline(self)
        object.__setattr__(self, "lift", checks.as_plain(self.lift))
        given = checks.per_field(self.name, "zero", checks.as_plain(self.zero), self.fields)
        object.__setattr__(self, "zero", given)
        checks.check_numbers(self.name, "zero", given)
        checks.check_parts(self.name, self.lift, self.op, self.fields)
        ways = self.accumulate if isinstance(self.accumulate, tuple) else (self.accumulate,)
        object.__setattr__(self, "accumulate", ways)
        checks.check_accumulates(self.name, self.accumulates)
        checks.check_declared(self)

    def __str__(self) -> str:
        """Show what the functions made, for the likeliest of its kinds of elements."""
        dtype = first_kind(self)
        fields = shown_fields(traced(self, [dtype] * self.inputs), cast("Any", self.zero))
        return "\n".join([f"{self.name} of {dtype}:", *(f"  {one}" for one in fields)])

    @property
    def quoted(self) -> str:
        """Return its name in messages, as it was written, with quotes.

        >>> from chunkfold.kernels import as_monoid, quantile
        >>> as_monoid("median").quoted, as_monoid("p99.9").quoted, quantile(0.999).quoted
        ("'median'", "'p99.9'", 'quantile(0.999)')
        """
        return self.as_written if "(" in self.as_written else repr(self.as_written)

    @property
    def as_written(self) -> str:
        """Return its name as it was written, without quotes."""
        return self.written or self.name

    @property
    def accumulates(self) -> tuple[Accumulate, ...]:
        """Return `accumulate` as a tuple."""
        return cast("tuple[Accumulate, ...]", self.accumulate)

    def for_dtype(
        self,
        dtype: np.dtype,
        *,
        exact: bool = False,
        outputs: int = 1,
        keeping: bool = False,
        inputs: Sequence[np.dtype] = (),
    ) -> Monoid:
        """Return the monoid that reduces elements of a dtype, which may be another one.

        `exact`: the one without rounding, where there is one; `outputs`: how many results there
        will be; `keeping`: all elements of an output can be kept; `inputs`: the dtypes that inputs
        had before they were made alike.

        Raises
        ------
        MonoidError
            If there is none.
        """
        each = tuple(inputs) or (dtype,) * self.inputs
        found = specialise(self, FoldedElements(dtype, each, outputs, keeping), exact=exact)
        return self if found is self else found.alike(self)

    @property
    def has_mixed(self) -> bool:
        """Return True if it can reduce two inputs that no dtype holds."""
        return isinstance(self.specialised, ForMixedInputs)

    def for_mixed(self, dtypes: Sequence[np.dtype]) -> Monoid:
        """Return the monoid that reduces two inputs which no dtype holds, under the same name.

        Raises
        ------
        MonoidError
            If there is none.
        """
        if not isinstance(self.specialised, ForMixedInputs):
            raise MonoidError(
                f"{self.quoted} reduces elements of one dtype, but no dtype holds both "
                f"{' and '.join(map(str, dtypes))}: reduce it separately, or cast one of them "
                "first"
            )
        return self.specialised.make(dtypes).alike(self)

    def alike(self, other: Monoid) -> Monoid:
        """Return this one with another's name, skipping the elements that the other skips."""
        return _copied(
            self,
            name=other.name,
            written=other.written,
            skipna=other.skipna,
            where=other.where,
            masked=other.masked,
            min_count=other.min_count,
        )

    @property
    def all_kinds(self) -> str:
        """Return the kinds of elements that it, or a monoid folded instead, is defined for."""
        return "".join([self.kinds, *self.instead])

    def evaluate(
        self,
        *arrays: np.ndarray,
        axis: int | tuple[int, ...] | None = None,
        dtype: str | np.dtype | None = None,
        ddof: float = 0,
        exact: bool = True,
        initial: Any = None,
    ) -> np.ndarray:
        """Return what the reduction of arrays in memory gives, by NumPy alone.

        It is for tests, and to see what a declaration means: no kernel and no device is used.
        Integers and exact sums have the bits that devices give. Sums that round may differ by the
        order of additions, and functions by the error that devices may have.

        Parameters
        ----------
        arrays
            One for each input; they broadcast as NumPy's do.
        axis
            What to reduce over; None: all axes.
        dtype, ddof, initial
            As in `chunkfold.reduce`.
        exact
            Whether sums of floats are exact and rounded once, as they are by default.

        Raises
        ------
        MonoidError
            If it is not defined for the arrays' dtypes, or for no elements and there are none.
        """
        from chunkfold.kernels.binding.evaluation import evaluate

        wanted = None if dtype is None else np.dtype(dtype)
        given = [np.asarray(array) for array in arrays]
        return evaluate(self, given, axis, dtype=wanted, ddof=ddof, exact=exact, initial=initial)

    def among(self, where: SymbolFunction) -> Monoid:
        """Return the form that skips elements for which a condition is False.

        `where` is a function of symbols, as `lift` is, with a parameter for each input.
        """
        return _copied(self, where=where)

    def by_dtype(self, make: Callable[[np.dtype], Monoid]) -> Monoid:
        """Return the form that is specialised by `make` for the dtype of elements."""
        return _copied(self, specialised=for_each_dtype(make))

    def among_input(self) -> Monoid:
        """Return the form that skips elements where one more input, of bools, is False."""
        return _copied(self, masked=True)

    def at_least(self, count: int) -> Monoid:
        """Return the form whose results of fewer elements than that are NaN or NaT."""
        return _copied(self, min_count=count)

    def called(self, name: str) -> Monoid:
        """Return it under another name."""
        return _copied(self, name=name, written="")

    def skipping(self, name: str | None = None) -> Monoid:
        """Return the form that skips NaN and NaT, with the same name or another."""
        if self.in_order:  # what is left out would join those on both of its sides
            return self
        written = "" if name else self.written
        return replace(self, skipna=True, name=name or self.name, written=written)


def _copied(monoid: Monoid, **others: object) -> Monoid:
    """Return a copy with some parts replaced that its functions do not depend on.

    Unlike `dataclasses.replace` it does not check the declaration again.
    """
    made = copy.copy(monoid)
    for name, value in others.items():
        object.__setattr__(made, name, value)
    return made
