"""Bind monoids to dtypes: one accumulator for several statistics, shared where they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from chunkfold.kernels.accumulator.accumulator import COUNTS, Accumulator, Slot
from chunkfold.kernels.accumulator.component import (
    ELEMENTS,
    Component,
)
from chunkfold.kernels.accumulator.packing import Packing
from chunkfold.kernels.binding.components import components_of, shared
from chunkfold.kernels.binding.input_dtypes import (
    check_cast,
    check_weights,
    common_dtype,
    common_of_pair,
)
from chunkfold.kernels.binding.statistic import Statistic, refuse_unheld
from chunkfold.kernels.catalogue.catalogue import CATALOGUE
from chunkfold.kernels.catalogue.extremes import FLOAT_ENDS
from chunkfold.kernels.catalogue.finish_functions import position
from chunkfold.kernels.catalogue.mixed_dtypes import are_mixed
from chunkfold.kernels.catalogue.named import is_known
from chunkfold.kernels.dtypes import (
    kind_of,
    stored_name,
)
from chunkfold.kernels.errors import DeviceError, MonoidError
from chunkfold.kernels.expressions.meanings import MEANINGS
from chunkfold.kernels.expressions.nodes import Node, walk
from chunkfold.kernels.monoid.monoid import Monoid


@dataclass(frozen=True)
class Bound:
    """Monoids bound to dtypes: what devices fold, and how each result is read off it."""

    accumulator: Accumulator
    statistics: tuple[Statistic, ...]


def bind(
    monoids: Sequence[Monoid],
    dtypes: Sequence[np.dtype],
    *,
    dtype: np.dtype | None = None,
    fp64: bool = True,
    ddof: float = 0,
    exact: bool = False,
    packings: Sequence[Packing | None] = (),
    keyed: bool = False,
    initial: Any = None,
    outputs: int = 1,
    keeping: bool = False,
) -> Bound:
    """Decide every dtype and lay several monoids over one accumulator.

    Parameters
    ----------
    monoids
        Reductions of the same inputs, folded in one pass.
    dtypes
        Element dtype of each input.
    dtype
        Cast elements to this first, and results at the end, as NumPy's `dtype=` does. `object`
        leaves elements as they are, and makes Python's integers of what is one of any size.
    fp64
        Whether every device of the run has float64.
    ddof
        Delta degrees of freedom of variances.
    exact
        Whether sums of floats are exact and rounded once.
    packings
        For each input how values are made of its elements; none: they are the values.
    keyed
        Whether elements are folded by key: then accumulators count their own.
    initial
        What results begin with, as in NumPy; None: with nothing.
    outputs
        How many results there will be, of all groups.
    keeping
        Whether there is memory for all elements of an output, of which some may be chosen.

    Monoids that are `masked` all are; the last dtype is then the mask's, or that of the numbers
    which conditions compare with.

    Raises
    ------
    MonoidError
        If the number of inputs, or an element's kind, differs from what a monoid takes; or packed
        values are to be anything but floats.
    DeviceError
        If a dtype is not supported.
    """
    whole = dtype is not None and dtype.kind == "O"
    masked = any(one.masked for one in monoids)
    packings = tuple(packings) or (None,) * len(dtypes)
    if masked:  # which has no part in what elements are cast to
        *dtypes, mask = dtypes
        packings = packings[: len(dtypes)]
    pairs = list(zip(dtypes, packings, strict=True))
    dtypes = [packing.stored_dtype(given) if packing else given for given, packing in pairs]
    unpacked = [packing.value_dtype(given) if packing else given for given, packing in pairs]
    native = [given.newbyteorder("=") for given in unpacked]
    check_weights(monoids, native)
    apart = (dtype is None or whole) and are_mixed(native) and any(one.has_mixed for one in monoids)
    common = common_of_pair if apart else common_dtype
    value = dtype.newbyteorder("=") if dtype is not None and not whole else common(native)
    alike = [] if dtype is None or whole else [value] * len(native)
    values = native if apart else [value] * len(native)
    packings = tuple(packing if packing and packing.makes_floats else None for packing in packings)
    for given, packing, wanted in zip(dtypes, packings, values, strict=True):
        check_cast(given, packing, wanted)
    split = []
    for named in monoids:
        if named.inputs != len(dtypes):
            raise MonoidError(
                f"{named.quoted} reduces {_counted(named.inputs)}, but {len(dtypes)} given: name "
                f"as many sources, or one of {', '.join(_of_inputs(len(dtypes)))}"
            )
        one = named.for_mixed(native) if apart else named
        monoid = one.for_dtype(
            value, exact=exact, outputs=outputs, keeping=keeping, inputs=alike or native
        )
        if whole and not (monoid.unbounded and kind_of(value) in "biu"):
            raise MonoidError(
                f"dtype=object is for sums, products and differences of integers, not for "
                f"{named.quoted} of {value}"
            )
        inputs = native if apart else [value] * len(native)
        inputs += [mask] if masked else []
        counts = _counts_present(monoid, value, keyed=keyed, begins=initial is not None)
        parts = components_of(
            monoid, inputs, fp64, known=is_known(named), keyed=keyed, counts=counts
        )
        split.append((monoid, parts, counts))
    every = [part for _, parts, _ in split for part in parts]
    components, numbers = shared(every, _together(value, fp64))
    statistics = []
    for monoid, parts, counts in split:
        own_parts = parts[:-1] if counts else parts
        fields = [field for part in own_parts for field in part.fields]
        own, numbers = numbers[: len(parts)], numbers[len(parts) :]
        slots, digits = _slots_of(own_parts, own)
        limbs = {field.name: field.limbs for field in fields if field.limbs}
        counted = tuple(name for name in monoid.fields if name not in {**slots, **digits})
        result = dtype if monoid.casts or whole else None
        rounds = any(_rounds(part, fp64=fp64) for part in own_parts)
        present = Slot(own[-1], ELEMENTS).name if counts else None
        statistics.append(
            Statistic(
                monoid, slots, limbs, counted, value, result, ddof, rounds, present, tuple(native),
                initial, digits,
            )
        )  # fmt: skip
    if masked:
        if mask != _MASK and any(one.where is None for one in monoids):
            raise MonoidError(
                f"a mask has dtype bool, true where an element is present, not {mask}"
            )
        dtypes, values, packings = [*dtypes, mask], [*values, mask], (*packings, None)
    accumulator = Accumulator(
        stored=tuple(stored_name(given) for given in dtypes),
        value=tuple(map(stored_name, values)),
        # Kernels fold something, and say how many elements they saw.
        components=components or COUNTS.components,
        swapped=tuple(not given.isnative for given in dtypes),
        packings=packings,
    )
    if initial is not None or any(one.min_count for one in monoids):
        refuse_unheld(statistics, accumulator)
    return Bound(accumulator, tuple(statistics))


def is_defined(
    monoid: Monoid, dtypes: Sequence[np.dtype], packings: Sequence[Packing | None] = ()
) -> bool:
    """Return whether a monoid reduces inputs of these dtypes, or the values packed in them."""
    try:
        bind([monoid], dtypes, packings=packings)
    except (MonoidError, DeviceError):
        return False
    return True


def _slots_of(
    parts: Sequence[Component], numbers: Sequence[int]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the slots of fields, and those of the digits of exact sums of integers."""
    slots: dict[str, str] = {}
    digits: dict[str, tuple[str, ...]] = {}
    for number, part in zip(numbers, parts, strict=False):
        names = {field.name: Slot(number, field).name for field in part.fields}
        if part.digits_of:
            digits[part.digits_of] = tuple(names.values())
        else:
            slots |= names
    return slots, digits


@lru_cache
def _together(value: np.dtype, fp64: bool) -> tuple[list[Component], ...]:
    """Return the components of what takes in elements for several at once.

    Not the ends of halves that may be ignored: a GPU was slower so.
    """
    if kind_of(value) != "f":
        return ()
    skipping = [FLOAT_ENDS.skipping()] if value.itemsize > 2 else []
    return tuple(components_of(one, [value], fp64) for one in (FLOAT_ENDS, *skipping))


_MASK = np.dtype(bool)


def _counts_present(monoid: Monoid, value: np.dtype, *, keyed: bool, begins: bool) -> bool:
    """Return whether present elements are counted in a slot next to a monoid's own fields.

    They are where results of too few elements have no value; or where a condition or keys may
    leave no element and no result says so: floats have NaN, times NaT, and positions -1.
    """
    chosen = keyed or monoid.where is not None or monoid.masked
    if monoid.min_count:
        return chosen or monoid.skipna
    needs = monoid.on_empty == "error" and monoid.finish is not position and not begins
    return chosen and needs and kind_of(value) in "biu"


def _rounds(part: Component, *, fp64: bool) -> bool:
    if part.limbs or part.digits_of:
        factors = (factor for field in part.fields for factor in (field.factors or [field.lift]))
        return any(_is_inexact(one, fp64=fp64) for one in walk(factors))
    return any(
        field.dtype.startswith("float") and field.op not in ("min", "max") for field in part.fields
    )


def _is_inexact(one: Node, *, fp64: bool) -> bool:
    """Return whether devices may differ in an operation's last bits."""
    meaning = MEANINGS.get(one.op)
    return meaning is not None and meaning.error(one.dtype, fp64=fp64) > 0


def _of_inputs(inputs: int) -> list[str]:
    """Return the names of reductions of so many arrays; of one array there are too many."""
    names = [name for name, monoid in CATALOGUE.items() if monoid.inputs == inputs]
    return names if inputs > 1 else ["those of one array"]


def _counted(inputs: int) -> str:
    return "one array" if inputs == 1 else f"{inputs} arrays together"
