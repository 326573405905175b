"""Checks of options: they refuse a value that is wrong whatever the source is."""

from __future__ import annotations

import functools
import operator
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import numpy as np

from chunkfold.errors import DeviceError, PlanError
from chunkfold.kernels import CATALOGUE, Monoid
from chunkfold.kernels.catalogue.sums_of_two import TENDENCIES
from chunkfold.kernels.dtypes import SUPPORTED, stored_name
from chunkfold.redaction import shown_address
from chunkfold.units import is_number, size_bytes

SelMethod = Literal["nearest", "pad", "ffill", "backfill", "bfill"]
Mode = Literal["exact", "fast"]
OnBadChunk = Literal["stop", "skip"]
OnMissingChunk = Literal["fill", "stop"]
DecodeOn = Literal["auto", "host", "device"]
LedgerVerify = Literal["listing", "content"]
VariantName = Literal["tree", "work_group", "sub_group"]
Check = Callable[[str, Any], Any]
"""Takes an option's name and value; returns the value to keep, or raises."""


class Section(StrEnum):
    """Sections of options, as help shows them."""

    SOURCE = "Source"
    SELECTION = "Selection"
    OPERATION = "Operation"
    GROUPS = "Groups"
    OUTPUT = "Output"
    RUNNING = "Running"


_WITH_DDOF = (
    "var", "std", "nanvar", "nanstd", "weighted_var", "weighted_std", "covariance",
    "weighted_covariance", "cov", "weighted_cov",
)  # fmt: skip
"""Reductions of the catalogue that ddof changes."""


def choices(of: Any) -> tuple[str, ...]:
    """Return the words that a type has, perhaps besides None; none if it has other values.

    >>> choices(Literal["exact", "fast"] | None), choices(bool)
    (('exact', 'fast'), ())
    """
    if get_origin(of) is Literal:
        return get_args(of)
    first, *others = get_args(of) or [None]
    return choices(first) if others == [NoneType] else ()


def is_flag(of: Any) -> bool:
    """Return True for a type of True and False, perhaps with None."""
    return of in (bool, bool | None)


def check_by_type(of: Any) -> Check | None:
    """Return the check of values that a type alone decides on: flags and words."""
    if is_flag(of):
        return _check_flag
    words = choices(of)
    return partial(_check_one_of, allowed=words) if words else None


def as_given(read: Callable[[Any], Any]) -> Check:
    """Return the check of what can be read: it stays as it was given."""

    def check(_name: str, given: Any) -> Any:
        read(given)
        return given

    return check


def _check_flag(name: str, given: Any) -> Any:
    if not isinstance(given, (bool, np.bool_)):
        raise PlanError(f"{name} is {given!r}; give True or False")
    return given


def _check_one_of(name: str, given: Any, allowed: Sequence[str]) -> Any:
    if not isinstance(given, str) or given not in allowed:
        raise PlanError(f"{name} is {given!r}; use one of: {', '.join(map(repr, allowed))}")
    return given


def check_mapping(name: str, given: Any) -> Any:
    """Refuse what is no mapping, but None."""
    if given is not None and not isinstance(given, Mapping):
        raise PlanError(f"{name} is a mapping of names, not {type(given).__name__}")
    return given


def step(name: str, given: Any) -> Any:
    """Return an axis and a distance along it, (axis, int), of an axis or a mapping of one."""
    if given is None:
        return None
    whole = {given: 1} if isinstance(given, (str, int)) else given
    whole = dict([whole]) if isinstance(whole, tuple) else whole
    if isinstance(whole, Mapping) and len(whole) == 1:
        ((axis, distance),) = whole.items()
        if isinstance(axis, (str, int)) and isinstance(distance, int) and distance > 0:
            return axis, distance
    raise PlanError(f"{name} is {given!r}; give one axis, or its distance too, as {{'time': 4}}")


def tendency_monoid(op: str | Monoid) -> Monoid:
    """Return a reduction of the change between two inputs, by its name.

    Raises
    ------
    PlanError
        If it is none of those there are.
    """
    if not isinstance(op, str) or op not in TENDENCIES:
        raise PlanError(f"tendency is given, but op is {op!r}; it takes {', '.join(TENDENCIES)}")
    return TENDENCIES[op]


def ledger_place(name: str, given: Any) -> Any:
    """Refuse what is no path or URL; return it as text."""
    if given is None:
        return None
    if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
        raise PlanError(f"{name} is {given!r}; give the path of a folder, or a URL")
    return str(os.fspath(given))


def check_sel(sel: Any, method: Any, tolerance: Any) -> None:
    """Refuse coordinates without names, and what belongs to `sel` without it."""
    check_mapping("sel", sel)
    unnamed = next((dim for dim in sel or () if not isinstance(dim, str)), None)
    if unnamed is not None:
        raise PlanError(f"sel has {unnamed!r} for an axis; give its name, as in {{'lat': 30}}")
    for name, given in (("sel_method", method), ("sel_tolerance", tolerance)):
        if given is not None and not sel:
            raise PlanError(f"{name} is {given!r}, but no values are named: give them with sel=")
    if tolerance is not None and method is None:
        raise PlanError(f"sel_tolerance is {tolerance!r}; it needs a sel_method, as 'nearest'")


def check_names(names: Sequence[str]) -> None:
    """Refuse no names, and names that stand twice."""
    if not names:
        raise PlanError("no reduction was named; give one, as in op='sum', or several in a list")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(
            f"results are named after reductions, but {', '.join(twice)} is named more than once"
        )


def memory_bytes(memory: Any) -> int:
    """Return what `memory` is in bytes."""
    plain = isinstance(memory, (int, float, np.integer)) and not isinstance(memory, bool)
    if isinstance(memory, str) and is_number(memory):
        raise PlanError(
            f"memory is {memory!r}, a number without a unit: write the unit, as in '2 GiB'"
        )
    try:
        nbytes = int(memory) if plain else size_bytes(memory) if isinstance(memory, str) else 0
    except (ValueError, OverflowError):
        nbytes = 0
    if nbytes <= 0:
        raise PlanError(f"memory is {memory!r}; give a size with its unit, such as '2 GiB'")
    return nbytes


def cast_dtype(given: Any) -> np.dtype:
    """Return what `dtype` is as NumPy has it."""
    try:
        cast: np.dtype = np.dtype(given)
        if cast.kind != "O":
            stored_name(cast)
    except TypeError as error:
        raise PlanError(f"dtype={given!r}: {error}; supported are {SUPPORTED}") from None
    except (ValueError, SyntaxError, DeviceError) as error:
        raise PlanError(f"dtype={reprlib.repr(given)}: {error}") from None
    return cast


def several_ops(_name: str, given: Any) -> Any:
    """Return several reductions as a tuple."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        return given
    try:
        return tuple(given)
    except TypeError:  # an array without axes
        return given


def ddof_number(_name: str, ddof: Any) -> float:
    """Return `ddof` as a number of Python's."""
    plain = isinstance(ddof, Real) and not isinstance(ddof, bool)
    if not plain or not -(2**63) <= ddof < 2**63:  # nor is NaN
        raise PlanError(f"ddof is {reprlib.repr(ddof)}; give a finite number of 64 bits at most")
    return int(ddof) if isinstance(ddof, Integral) else float(ddof)


def min_count_number(_name: str, given: Any) -> int:
    """Return `min_count` as an integer; None is 0."""
    if given is None:
        return 0
    whole = int(given) if isinstance(given, Integral) and given is not True else -1
    if given is False or not 0 <= whole < 2**63:
        raise PlanError(f"min_count is {reprlib.repr(given)}; give how many elements, 0 or more")
    return whole


def refuse_initial(initial: Any, monoids: Sequence[Monoid]) -> None:
    """Refuse it where a reduction begins with nothing."""
    if others := [monoid.as_written for monoid in monoids if not monoid.initial]:
        weighed = ", not where elements are weighed" if any(m.weights for m in monoids) else ""
        raise PlanError(
            f"initial is {reprlib.repr(initial)}, but {', '.join(others)} has none; sum, prod, "
            f"min, max and minmax do{weighed}: omit it"
        )


def refuse_ddof(ddof: float, monoids: Sequence[Monoid]) -> None:
    """Refuse it where no reduction takes it, as far as is known."""
    if ddof and all(m.name in CATALOGUE and m.name not in _WITH_DDOF for m in monoids):
        named = ", ".join(monoid.as_written for monoid in monoids)
        raise PlanError(f"ddof is {ddof}, but {named} has none; var and std do: omit it")


def refuse_windows(windows: Any, labels: str) -> None:
    """Refuse windows beside labels, which an option names."""
    if windows is not None and labels:
        raise PlanError(
            f"coarsen= and {labels}= cannot be combined: groups by labels can be windows, as in "
            f"by=np.arange(n) // 2; or coarsen the result of {labels}="
        )


def is_default(value: Any, default: Any) -> bool:
    """Return True if a value, which may be an array, is the default."""
    return value is default or (isinstance(value, (str, float, int)) and value == default)


def shown_value(name: str, value: Any) -> str:
    """Return an option's value as `repr` shows it, without data and secrets of stores."""
    if name == "storage_options":
        return f"<{', '.join(value)}>"
    if name == "op":
        alone = isinstance(value, (str, Monoid))
        ops = [value] if alone else value
        names = [one.name if isinstance(one, Monoid) else one for one in ops]
        return repr(names[0] if alone else names)
    return repr(shown_address(value)) if isinstance(value, str) else reprlib.repr(value)


Where = Any
"""A condition of elements: a function of symbols, or its text; or a mask, an array of bools; or a
tuple of these."""


def is_condition(where: Any) -> bool:
    """Tell if it is a condition, rather than a mask."""
    return isinstance(where, str) or callable(where)


def all_of(conditions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a condition that holds where all of these do."""
    if len(conditions) == 1:
        return conditions[0]
    return lambda *elements: functools.reduce(operator.and_, (one(*elements) for one in conditions))
