"""Options of a reduction as one value, from the caller to the blocks, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels import CATALOGUE, Monoid, as_monoid
from chunkfold.kernels.catalogue.named import checking_weights
from chunkfold.kernels.expressions.parsed import parsed
from chunkfold.planning.broadcast_inputs import weighted
from chunkfold.planning.coarsening import check_windows
from chunkfold.planning.option_table import Op, OptionTable
from chunkfold.planning.option_values import (
    all_of,
    cast_dtype,
    check_names,
    check_sel,
    is_condition,
    is_default,
    memory_bytes,
    refuse_ddof,
    refuse_initial,
    refuse_windows,
    shown_value,
)
from chunkfold.settings import StorageOptions, with_targets


class _Read(Enum):
    """Stands for an array that was read."""

    READ = "read"


READ = _Read.READ


@dataclass(frozen=True)
class Options(OptionTable):
    """The options of a reduction, checked also against each other.

    Raises
    ------
    ChunkfoldError
        If a value is none that there is, or two do not go together, whatever the source.
    """

    @property
    def opening(self) -> StorageOptions:
        """Options by which sources are opened."""
        return with_targets(self.storage_options, self.allow_targets)

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = isinstance(self.boundary, str) and self.boundary == "exact"
        if self.coarsen is not None or not plain:
            check_windows(self.coarsen, self.boundary)
        labels = next((name for name in ("by", "resample") if getattr(self, name) is not None), "")
        refuse_windows(self.coarsen, labels)
        check_sel(self.sel, self.sel_method, self.sel_tolerance)
        for name in ("by_axis", "groups") if self.by is None else ():
            if (value := getattr(self, name)) is not None:
                raise PlanError(f"{name} is {value!r}, but there are no labels: give them with by=")
        if sum(not is_condition(one) for one in self._wheres) > 1:
            raise PlanError("where has several masks: give one, as where=land & near")
        check_names(self.names)
        refuse_ddof(self.ddof, self.monoids)
        if self.ledger is not None and not self.exact:
            raise PlanError(
                "mode is 'fast', whose partials depend on the device, but a ledger keeps exact "
                "ones: leave the ledger out, or give mode='exact'"
            )
        if self.initial is not None:
            refuse_initial(self.initial, self.monoids)

    @property
    def single(self) -> bool:
        """True for one reduction that is named by itself: its result is no mapping."""
        return isinstance(self.op, (str, Monoid))

    @property
    def skips(self) -> bool:
        """True if chunks that cannot be read are left out; they end the run otherwise."""
        return self.on_bad_chunk == "skip"

    @property
    def wants_all(self) -> bool:
        """True if chunks that are not stored end the run."""
        return self.on_missing_chunk == "stop"

    @property
    def mask(self) -> Any:
        """The array that says which elements count; None without one."""
        return next((one for one in self._wheres if not is_condition(one)), None)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of `where` as texts."""
        said = (one for one in self._wheres if is_condition(one))
        return tuple(one if isinstance(one, str) else "a function" for one in said)

    @property
    def _wheres(self) -> tuple[Any, ...]:
        each = self.where if isinstance(self.where, tuple) else (self.where,)
        return tuple(one for one in each if one is not None)

    @property
    def exact(self) -> bool:
        """True if sums of floats are exact and rounded once."""
        return self.mode == "exact"

    @cached_property
    def monoids(self) -> tuple[Monoid, ...]:
        """The reductions, which ignore the elements that the options say."""
        monoids = [as_monoid(one) for one in self.ops]
        weighs = checking_weights if self.weights is None else weighted
        monoids = [weighs(monoid) for monoid in monoids]
        if self.skipna:
            monoids = [monoid.skipping() for monoid in monoids]
        if conditions := [one for one in self._wheres if is_condition(one)]:
            condition = all_of([parsed(one) if isinstance(one, str) else one for one in conditions])
            monoids = [monoid.among(condition) for monoid in monoids]
        if self.mask is not None:
            monoids = [monoid.among_input() for monoid in monoids]
        if self.min_count:
            monoids = [monoid.at_least(self.min_count) for monoid in monoids]
        return tuple(monoids)

    def alone(self) -> Options:
        """Return the options without their arrays, once these are read."""
        where = tuple(one if is_condition(one) else READ for one in self._wheres) or None
        unlabelled = replace(self, by=None, by_axis=None, groups=None, resample=None)
        return replace(unlabelled, weights=None if self.weights is None else READ, where=where)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the results."""
        return tuple(monoid.name for monoid in self.monoids)

    @property
    def memory_bytes(self) -> int | None:
        """`memory` in bytes."""
        return None if self.memory is None else memory_bytes(self.memory)

    @property
    def cast(self) -> np.dtype | None:
        """`dtype` as NumPy has it."""
        return None if self.dtype is None else cast_dtype(self.dtype)

    def __repr__(self) -> str:
        """Name what differs from the defaults, without data and secrets of stores."""
        shown = (
            f"{one.name}={shown_value(one.name, getattr(self, one.name))}"
            for one in fields(self)
            if one.name == "op" or not is_default(getattr(self, one.name), one.default)
        )
        return f"Options({', '.join(shown)})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave what follows from fields out, and name the catalogue's reductions."""
        ops = tuple(
            op.name if isinstance(op, Monoid) and CATALOGUE.get(op.name) is op else op
            for op in self.ops
        )
        kept = {one.name: getattr(self, one.name) for one in fields(self)}
        return kept | {"op": ops[0] if self.single else ops}

    @property
    def ops(self) -> tuple[Op, ...]:
        """The reductions as they were given."""
        return self.op if isinstance(self.op, tuple) else (self.op,)
