"""Monoid: a reduction declared as data, from lift to finish."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, cast

import numpy as np

from chunkfold.kernels.dtypes import FIELD, RULES
from chunkfold.kernels.errors import MonoidError

Fields = Mapping[str, np.ndarray]
"""A finished partial as `finish` sees it: one array per field, over the outputs."""
Finish = Callable[[Fields, np.dtype], np.ndarray]
"""Takes the fields and the dtype of the values; returns one result per output."""
Number = int | float

COLLECTIVES = ("add", "min", "max")
"""Ops that may be named instead of written out; devices may have built-ins for them."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Accumulate:
    """A monoid's own way to take in elements, with state that lives inside a kernel.

    `step` is OpenCL C that updates `s.<state field>` from `x` (`x0`, `x1`, ... of several
    inputs) and the index `i`. `end` gives each field of the monoid as an expression of `s`.
    """

    state: Mapping[str, str]
    """Dtype (or rule) of each state field."""
    start: Mapping[str, Number | str]
    """Initial value of each state field."""
    step: str
    """Statements run once per element."""
    end: Mapping[str, str]
    """Each accumulator field, as an expression of the state."""


def _single_field(fields: Fields, _value: np.dtype) -> np.ndarray:
    if len(fields) == 1:
        return next(iter(fields.values()))
    dtype = np.dtype([(name, array.dtype) for name, array in fields.items()])
    record = np.empty(next(iter(fields.values())).shape, dtype)
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
    "mean", "order", which depend on the elements' dtype."""
    inputs: int = field(default=1, kw_only=True)
    """Number of aligned input arrays."""
    zero: Mapping[str, Number | str] | Number | str = field(kw_only=True)
    """The identity of `op`: numbers, or "lowest" or "highest" of the field's dtype."""
    lift: Mapping[str, str] | str = field(kw_only=True)
    """Per field an OpenCL C expression of `x` (or `x0`, `x1`, ...) and the C-order index `i`."""
    op: Mapping[str, str] | str = field(kw_only=True)
    """Per field "add", "min" or "max", or an OpenCL C expression of `a.<field>`, `b.<field>`."""
    accumulate: Accumulate | None = field(default=None, kw_only=True)
    """Replaces `op(acc, lift(x))` inside a kernel."""
    finish: Finish = field(default=_single_field, kw_only=True)
    """From the root's fields and the values' dtype to the results."""
    rtol: float = field(default=0.0, kw_only=True)
    """Relative tolerance within which `op` is associative on float fields."""
    kinds: str = field(default="biuf", kw_only=True)
    """NumPy's kinds of elements it is defined for."""
    on_empty: Literal["finish", "error"] = field(default="finish", kw_only=True)
    """Whether a reduction of nothing has a value (`zero`, finished) or is an error."""

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
        for part in ("zero", "lift", "op"):
            object.__setattr__(self, part, self._per_field(part, getattr(self, part)))
        self._check_numbers("zero", cast("Mapping[str, object]", self.zero))
        for part in ("lift", "op"):
            for name, text in getattr(self, part).items():
                self._check_source(f"{part}[{name!r}]", text)
        if self.accumulate is not None:
            self._check_accumulate(self.accumulate)

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
            if not isinstance(dtype, str) or (dtype not in FIELD and dtype not in RULES):
                raise MonoidError(
                    f"{what} {name!r} of monoid {self.name!r} has dtype {dtype!r}; "
                    f"use one of {', '.join([*FIELD, *RULES])}"
                )

    def _check_numbers(self, part: str, numbers: Mapping[str, object]) -> None:
        for name, number in numbers.items():
            plain = isinstance(number, (int, float)) and not isinstance(number, bool)
            if not plain and number not in ("lowest", "highest"):
                raise MonoidError(
                    f"{part} of field {name!r} of monoid {self.name!r} is {number!r}; "
                    "give a number, 'lowest' or 'highest'"
                )

    def _check_accumulate(self, accumulate: Accumulate) -> None:
        if not isinstance(accumulate, Accumulate):
            raise MonoidError(f"accumulate of monoid {self.name!r} is no cf.Accumulate")
        self._check_types("state field", accumulate.state)
        self._check_keys("accumulate.start", accumulate.start, accumulate.state)
        self._check_keys("accumulate.end", accumulate.end, self.fields)
        self._check_numbers("accumulate.start", accumulate.start)
        self._check_source("accumulate.step", accumulate.step)
        for name, text in accumulate.end.items():
            self._check_source(f"accumulate.end[{name!r}]", text)

    def _check_source(self, what: str, text: str) -> None:
        """Refuse what could reach outside the expression's own braces.

        A directive could include a file, which the compiler would print into its log.
        """
        refusal = refused(text)
        if refusal:
            raise MonoidError(f"{what} of monoid {self.name!r} {refusal}: {text!r}")


def refused(text: str) -> str | None:
    """Say why a source text is refused, or None if it is not.

    >>> refused("a.s + b.s")
    >>> refused("1) } __kernel void f() {")
    'has unbalanced brackets'
    """
    if not isinstance(text, str) or not text.strip():
        return "is no text"
    if not text.isascii():
        return "has characters beyond ASCII"
    for token in ("#", "%:", "??", "//", "/*", "\\", '"', "'", "__asm", "asm("):
        if token in text:
            return f"contains {token!r}, which is not allowed"
    open_brackets: list[str] = []
    for character in text:
        if character in "([{":
            open_brackets.append(character)
        elif character in _PAIRS and (
            not open_brackets or open_brackets.pop() != _PAIRS[character]
        ):
            return "has unbalanced brackets"
    return "has unbalanced brackets" if open_brackets else None
