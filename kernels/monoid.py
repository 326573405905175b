"""Monoid: a reduction declared as data, from lift to finish."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, cast

import numpy as np

from chunkfold.kernels.context import Context, Fields, Finish
from chunkfold.kernels.dtypes import EXACT, FIELD, RULES, is_table, kind_of
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.texts import refused

Number = int | float


KINDS = {
    "b": "bool",
    "i": "signed integers",
    "u": "unsigned integers",
    "f": "floats",
    "c": "complex numbers",
    "m": "timedeltas",
    "M": "datetimes",
}
"""NumPy's kinds of elements."""
COLLECTIVES = ("add", "min", "max")
"""Ops that may be named instead of written out; devices may have built-ins for them."""
_EXACT_LIFTS = ("x", "magnitude(x)", "re(x)", "im(x)")
"""What is in the range of the elements' dtype, for which limbs are made."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TAKEN = {"x", "i", "v", "l", "s", "a", "b", "r", "state", "counter"}
"""What kernels name where texts stand."""


@dataclass(frozen=True)
class Accumulate:
    """A monoid's own way to take in elements, with state that lives inside a kernel.

    `step` is OpenCL C that updates `s.<state field>` from `x` (`x0`, `x1`, ... of several
    inputs) and the index `i`: statements, or an expression per state field, assigned in the order
    given. `end` gives each field of the monoid as an expression of `s`.
    """

    state: Mapping[str, str]
    """Dtype (or rule) of each state field."""
    start: Mapping[str, Number | str]
    """Initial value of each state field."""
    step: str | Mapping[str, str]
    """Run once per element."""
    end: Mapping[str, str]
    """Accumulator fields as expressions of the state; those with named ops may be left out, and
    are folded from `lift` by themselves."""


def _single_field(fields: Fields, _context: Context) -> np.ndarray:
    if len(fields) == 1:
        return next(iter(fields.values()))
    dtype = np.dtype([(name, array.dtype, array.shape[1:]) for name, array in fields.items()])
    record = np.empty(len(next(iter(fields.values()))), dtype)
    for name, array in fields.items():
        record[name] = array
    return record


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
        If the parts do not agree, or a source text is refused.
    """

    name: str
    """What messages and results call it; an identifier."""
    fields: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({"s": "float64"}), kw_only=True
    )
    """Dtype of each field: int32, uint32, int64, uint64, float32, float64, or the rules "sum",
    "mean", "real", "order", which depend on the elements' dtype; or a table, whose zero is 0 and
    whose op is "add": "int64[n]", n counters, or "exact" or "exact_squares", the exact sum of
    floats or of their squares, of which `lift` gives "x", "magnitude(x)", "re(x)" or "im(x)"."""
    inputs: int = field(default=1, kw_only=True)
    """Number of aligned input arrays."""
    zero: Mapping[str, Number | str] | Number | str = field(kw_only=True)
    """The identity of `op`: numbers, or "lowest" or "highest" of the field's dtype."""
    lift: Mapping[str, str] | str = field(kw_only=True)
    """Per field an OpenCL C expression of `x` (or `x0`, `x1`, ...) and the C-order index `i`; for
    a table the number of the counter that it adds 1 to, and none if there is none of that number.
    """
    op: Mapping[str, str] | str = field(kw_only=True)
    """Per field "add", "min" or "max", or an OpenCL C expression of `a.<field>`, `b.<field>`."""
    accumulate: Accumulate | None = field(default=None, kw_only=True)
    """Replaces `op(acc, lift(x))` inside a kernel."""
    finish: Finish = field(default=_single_field, kw_only=True)
    """From the root's fields to the results."""
    rtol: float = field(default=0.0, kw_only=True)
    """Relative tolerance within which `op` is associative on float fields."""
    kinds: str = field(default="biuf", kw_only=True)
    """NumPy's kinds of elements it is defined for."""
    on_empty: Literal["finish", "error"] = field(default="finish", kw_only=True)
    """Whether a reduction of nothing has a value (`zero`, finished) or is an error."""
    skipna: bool = field(default=False, kw_only=True)
    """Whether elements that are NaN or NaT count as absent."""
    casts: bool = field(default=True, kw_only=True)
    """Whether a `dtype` that elements are cast to is the result's too, as it is a sum's."""
    unbounded: bool = field(default=False, kw_only=True)
    """Whether `finish` gives Python's integers where `Context.result` is object."""
    constants: Mapping[str, np.ndarray] = field(
        default_factory=lambda: MappingProxyType({}), kw_only=True
    )
    """Arrays of numbers that the texts may read by name, of the dtypes that fields may have."""
    instead: Mapping[str, Monoid] = field(
        default_factory=lambda: MappingProxyType({}), kw_only=True
    )
    """What to fold in its place where elements are of other kinds, by their letters."""
    adapt: Callable[[np.dtype], Monoid] | None = field(default=None, kw_only=True)
    """Makes what to fold in its place from the elements' dtype, where texts depend on it."""
    exact: Monoid | None = field(default=None, kw_only=True)
    """What to fold in its place where results are to be exact, for elements of its kinds."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _IDENTIFIER.fullmatch(self.name):
            raise MonoidError(f"monoid name {self.name!r} is not an identifier")
        if not isinstance(self.inputs, int) or self.inputs < 1:
            raise MonoidError(
                f"monoid {self.name!r} has {self.inputs!r} inputs; it needs at least 1"
            )
        if self.on_empty not in ("finish", "error"):
            raise MonoidError(
                f"on_empty of monoid {self.name!r} is {self.on_empty!r}; use 'finish' or 'error'"
            )
        if not isinstance(self.fields, Mapping) or not self.fields:
            raise MonoidError(f"monoid {self.name!r} has no fields; it needs at least one")
        self._check_types("field", self.fields)
        self._check_constants()
        for part in ("zero", "lift", "op"):
            object.__setattr__(self, part, self._per_field(part, getattr(self, part)))
        self._check_numbers("zero", cast("Mapping[str, object]", self.zero))
        self._check_ops()
        for part in ("lift", "op"):
            for name, text in getattr(self, part).items():
                self._check_source(f"{part}[{name!r}]", text)
        self._check_tables()
        if self.exact is not None and (
            not isinstance(self.exact, Monoid) or self.exact.inputs != self.inputs
        ):
            raise MonoidError(f"exact of monoid {self.name!r} is no Monoid of as many inputs")
        if self.accumulate is not None:
            self._check_accumulate(self.accumulate)

    def for_dtype(self, dtype: np.dtype, *, exact: bool = False) -> Monoid:
        """Return the monoid that reduces elements of a dtype, which may be another one.

        `exact` asks for the one without rounding, where there is one.

        Raises
        ------
        MonoidError
            If there is none.
        """
        kind = kind_of(dtype)
        for kinds, other in self.instead.items():
            if kind in kinds:
                found = other.for_dtype(dtype, exact=exact)
                return replace(found, name=self.name, skipna=self.skipna)
        if exact and self.exact is not None and kind in self.exact.kinds:
            return replace(self.exact, name=self.name, skipna=self.skipna)
        if kind in self.kinds:
            return self if self.adapt is None else replace(self.adapt(dtype), skipna=self.skipna)
        able = "".join([self.kinds, *self.instead])
        names = ", ".join(name for letters, name in KINDS.items() if set(letters) & set(able))
        raise MonoidError(f"{self.name!r} is not defined for {dtype}, only for {names}")

    def skipping(self, name: str | None = None) -> Monoid:
        """Return the form that takes NaN and NaT for absent, under the same name or another."""
        return replace(self, skipna=True, name=name or self.name)

    def _per_field(self, part: str, given: object) -> Mapping[str, object]:
        if not isinstance(given, Mapping):
            if len(self.fields) != 1:
                raise MonoidError(
                    f"{part} of monoid {self.name!r} is {given!r}, but there are "
                    f"{len(self.fields)} fields; give a mapping with {', '.join(self.fields)}"
                )
            return MappingProxyType({next(iter(self.fields)): given})
        self._check_keys(part, given, self.fields)
        return MappingProxyType(dict(given))

    def _check_keys(
        self, part: str, given: Mapping[str, object], wanted: Mapping[str, object]
    ) -> None:
        if set(given) != set(wanted):
            raise MonoidError(
                f"{part} of monoid {self.name!r} names {sorted(given)}, "
                f"but should name {sorted(wanted)}"
            )

    def _check_types(self, what: str, types: Mapping[str, str]) -> None:
        for name, dtype in types.items():
            if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
                raise MonoidError(
                    f"{what} name {name!r} of monoid {self.name!r} is not an identifier"
                )
            table = what == "field" and isinstance(dtype, str) and is_table(dtype)
            if not table and dtype not in FIELD and dtype not in RULES:
                raise MonoidError(
                    f"{what} {name!r} of monoid {self.name!r} has dtype {dtype!r}; "
                    f"use one of {', '.join([*FIELD, *RULES, *EXACT])}, or int64[n] for a table of "
                    "1 to 999999 counters"
                )

    def _check_numbers(self, part: str, numbers: Mapping[str, object]) -> None:
        for name, number in numbers.items():
            plain = isinstance(number, (int, float)) and not isinstance(number, bool)
            if not plain and number not in ("lowest", "highest"):
                raise MonoidError(
                    f"{part} of field {name!r} of monoid {self.name!r} is {number!r}; "
                    "give a number, 'lowest' or 'highest'"
                )
            try:
                float(cast("float", number)) if plain else None
            except OverflowError:
                raise MonoidError(
                    f"{part} of field {name!r} of monoid {self.name!r} is beyond float64's range"
                ) from None

    def _check_ops(self) -> None:
        for name, text in cast("Mapping[str, object]", self.op).items():
            word = isinstance(text, str) and _IDENTIFIER.fullmatch(text)
            if word and text not in COLLECTIVES:
                raise MonoidError(
                    f"op[{name!r}] of monoid {self.name!r} is {text!r}; use 'add', 'min', 'max', "
                    f"or an expression of a.{name} and b.{name}"
                )

    def _check_tables(self) -> None:
        assert isinstance(self.zero, Mapping)
        assert isinstance(self.op, Mapping)
        assert isinstance(self.lift, Mapping)
        for name, dtype in self.fields.items():
            if dtype in EXACT and self.lift[name] not in _EXACT_LIFTS:
                raise MonoidError(
                    f"lift[{name!r}] of monoid {self.name!r} is {self.lift[name]!r}, but exact "
                    f"sums are of elements as they are; use one of {', '.join(_EXACT_LIFTS)}"
                )
            if is_table(dtype) and (self.zero[name], self.op[name]) != (0, "add"):
                raise MonoidError(
                    f"field {name!r} of monoid {self.name!r} is a table, whose zero "
                    f"is 0 and whose op is 'add', not {self.zero[name]!r} and {self.op[name]!r}"
                )

    def _check_constants(self) -> None:
        for name, array in self.constants.items():
            if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
                raise MonoidError(
                    f"constant name {name!r} of monoid {self.name!r} is not an identifier"
                )
            if name in _TAKEN or re.fullmatch(r"x\d+", name):
                raise MonoidError(
                    f"constant {name!r} of monoid {self.name!r} has a name that kernels use; "
                    "choose another"
                )
            if not isinstance(array, np.ndarray) or array.ndim != 1 or not array.size:
                raise MonoidError(
                    f"constant {name!r} of monoid {self.name!r} is no array of one axis"
                )
            if array.dtype.name not in FIELD:
                raise MonoidError(
                    f"constant {name!r} of monoid {self.name!r} has dtype {array.dtype}; "
                    f"use one of {', '.join(FIELD)}"
                )
            if (array != array).any():
                raise MonoidError(f"constant {name!r} of monoid {self.name!r} has NaN in it")

    def _check_accumulate(self, accumulate: Accumulate) -> None:
        if not isinstance(accumulate, Accumulate):
            raise MonoidError(f"accumulate of monoid {self.name!r} is no cf.Accumulate")
        self._check_types("state field", accumulate.state)
        self._check_keys("accumulate.start", accumulate.start, accumulate.state)
        assert isinstance(self.op, Mapping)
        apart = [name for name, op in self.op.items() if op in COLLECTIVES]
        ended = {
            name
            for name, dtype in self.fields.items()
            if not is_table(dtype) and (name not in apart or name in accumulate.end)
        }
        if not accumulate.end:
            raise MonoidError(f"accumulate of monoid {self.name!r} ends in no field")
        self._check_keys("accumulate.end", accumulate.end, dict.fromkeys(ended))
        self._check_numbers("accumulate.start", accumulate.start)
        step = accumulate.step
        if isinstance(step, Mapping):
            self._check_keys("accumulate.step", step, accumulate.state)
        for text in step.values() if isinstance(step, Mapping) else (step,):
            self._check_source("accumulate.step", text)
        for name, text in accumulate.end.items():
            self._check_source(f"accumulate.end[{name!r}]", text)

    def _check_source(self, what: str, text: str) -> None:
        """Refuse what could reach outside the expression's own braces.

        A directive could include a file, which the compiler would print into its log.
        """
        refusal = refused(text)
        if refusal:
            raise MonoidError(f"{what} of monoid {self.name!r} {refusal}: {text!r}")
