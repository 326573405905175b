"""Describe a kernel's tuning: a printable value, and its compiler options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chunkfold.kernels.geometry import BY_KEY, CHOOSE, FOLDS, Box

VARIANTS = ("tree", "work_group", "sub_group")
"""How a work-group's items are reduced; the position is CHF_STAGE in kernels/cl/group.clh."""

KEYED = ("keyed/local.cl", "keyed/global.cl", "keyed/private.cl", "keyed/columns.cl")
"""Kernel files that fold by key; work-groups of the first two share tables."""


@dataclass(frozen=True)
class Loads:
    """The way in which the work-items of a kernel load elements."""

    local_size: int
    """Work-items of a work-group; a power of two for `tree`."""
    lanes: int
    """Elements of a vector that is folded."""
    width: int
    """Elements of one load; a multiple of `lanes`."""
    unroll: int
    """Loads in flight."""
    why: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Reasons for some of these, by their names."""

    def because(self, **why: str) -> Loads:
        """Return the same with other reasons."""
        return replace(self, why={**self.why, **why})


_LANES_OF_RUNS = "each of 8 lanes has its own run, so that no lanes are combined at the end"
STREAMS = "a CPU's work-item streams by itself, like a thread"
TURNED = Loads(local_size=1, lanes=8, width=8, unroll=4).because(
    local_size=STREAMS,
    lanes=_LANES_OF_RUNS,
    unroll="blocks of runs are turned in registers as they come",
)
"""Short runs in blocks that are turned: what kernels/cl/blocks.clh is written for."""
TURNED_LAST = Loads(local_size=1, lanes=8, width=8, unroll=1).because(
    local_size=STREAMS,
    lanes=_LANES_OF_RUNS,
    unroll="runs are so long that their partials are turned, not their elements",
)
"""Short runs by vectors of their own; what they are folded to is transposed at the end."""


@dataclass(frozen=True)
class Tuning:
    """Everything that shapes the kernels of a reduction beside the reduction itself."""

    variant: str
    groups: int
    """Work-groups of a full-size launch, and so accumulators kept on the device."""
    flat: Loads
    rows: Loads
    """Also for passes, whose work-groups are as large."""
    columns: Loads
    """Where each work-item has outputs of its own. Elements of a load, which is folded whole, are
    neighbouring outputs; loads in flight are rows."""
    short_rows: Loads | None
    """Where each lane, or else work-item, has outputs of its own with short runs; None if `rows`
    folds them too."""
    strip: bool
    """Each work-item reads a contiguous strip (CPU), or all stride over the grid (GPU)."""
    aligned: bool
    """Loads stand at multiples of their size."""
    tile: int
    """Loads side by side that a work-item of `fold_columns` folds."""
    height: int
    """Rows that it folds of one of them before the next; all, if there is no other."""
    local_tables: bool
    """Work-groups that fold a run count in local memory."""
    shared_by: int | None = None
    """Work-items of a group that share tables by key; None: as many as of `rows`."""
    team_elements: int = 128
    """Elements of a run that each work-item of a team folds at least: to merge what they have
    takes as long as dozens of elements."""
    strided: bool = False
    """Inputs behind the first have strides of their own."""
    long_run: int | None = None
    """Elements of a short run from which on it is `TURNED_LAST`."""
    why: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Reasons for some of these, by their names."""

    def because(self, **why: str) -> Tuning:
        """Return the same with other reasons."""
        return replace(self, why={**self.why, **why})

    def options(self, kernel_file: str) -> tuple[str, ...]:
        """Compiler options that set kernels/cl/tuning.clh for a kernel file.

        Tunings with the same options are one to it: what does not matter there is left out.
        """
        passes = kernel_file == "passes.cl"  # which load no elements
        # Where no work-group reduces what its items have.
        alone = kernel_file in ("columns.cl", "short_rows.cl", *KEYED)
        columns, keyed = kernel_file.endswith("columns.cl"), kernel_file in KEYED
        loads = {
            "rows.cl": self.rows,
            "columns.cl": replace(self.columns, local_size=1),
            "short_rows.cl": self.short_rows or TURNED,
            "passes.cl": Loads(self.rows.local_size, lanes=1, width=1, unroll=1),
            **{file: Loads(self.sharing, lanes=1, width=1, unroll=1) for file in KEYED},
            "keyed/columns.cl": replace(self.columns, width=self.columns.lanes, local_size=1),
        }.get(kernel_file, self.flat)
        values = {
            "STAGE": 0 if alone else VARIANTS.index(self.variant),
            "LOCAL": loads.local_size,
            "LANES": loads.lanes,
            "WIDTH": loads.width,
            "UNROLL": loads.unroll,
            "STRIP": int(self.strip),
            "ALIGNED": int(self.aligned and not passes and not keyed),
            "TILE": self.tile if columns else 1,
            "HEIGHT": self.height if columns and self.tile > 1 else 1,
            "COLUMN_LOCAL": self.columns.local_size if columns or passes or keyed else 1,
            "TABLE_LOCAL": int(self.local_tables and kernel_file == "flat.cl"),
            "TABLE_SHARED": int(loads.local_size > 1 or kernel_file in KEYED[:2]),
            "STRIDED": int(self.strided and not passes),
            "SUB_GROUPS": int(self.variant == "sub_group" and not alone),
        }
        return tuple(f"-DCHF_{name}={value}" for name, value in values.items())

    @property
    def sharing(self) -> int:
        """Work-items of a group that share tables by key."""
        return self.rows.local_size if self.shared_by is None else self.shared_by

    def fold(self, kernel: str) -> str:
        """Return which of `kernels.geometry.FOLDS` folds boxes that are for `kernel`."""
        as_rows = self.short_rows is None or self.strided
        return "rows" if kernel == "short_rows" and as_rows else kernel

    def folds(self, kernels: Collection[str]) -> tuple[str, ...]:
        """Return those that fold boxes that are for any of `kernels`, in the order of `FOLDS`.

        Behind them those of `BY_KEY`, and `CHOOSE`.
        """
        used = {self.fold(kernel) for kernel in kernels}
        return tuple(kernel for kernel in (*FOLDS, *BY_KEY, CHOOSE) if kernel in used)

    def for_box(self, box: Box) -> Tuning:
        """Return the tuning for a box, whose inputs may have strides of their own."""
        return replace(self, strided=True) if box.other_offsets and not self.strided else self

    def narrow(self) -> Tuning:
        """Return the tuning for columns that are no neighbours in memory."""
        columns = replace(self.columns, lanes=1, width=1).because(
            lanes="columns are not neighbours in memory, or not where loads need them"
        )
        return replace(self, columns=columns, tile=1)

    def for_runs(self, size: int) -> Tuning:
        """Return the tuning for short runs of so many elements."""
        if self.short_rows != TURNED or self.long_run is None or size < self.long_run:
            return self
        return replace(self, short_rows=TURNED_LAST)

    def plain(self) -> Tuning:
        """Return the tuning without vectors, for compilers that do not survive them."""
        plainest = "without vectors, for compilers that do not survive them"
        one_by_one = self._each(
            lambda loads: replace(loads, lanes=1, width=1, unroll=1).because(
                lanes=plainest, unroll=plainest
            )
        )
        changed = replace(one_by_one, tile=1, aligned=False, short_rows=None)
        return changed.because(short_rows=plainest)

    def in_order(self) -> Tuning:
        """Return the tuning by which one work-item folds an output's elements, one by one."""
        why = "one work-item folds the elements of an output in their order"

        def alone(loads: Loads) -> Loads:
            one = replace(loads, local_size=1, lanes=1, width=1, unroll=1)
            return one.because(local_size=why, lanes=why, unroll=why)

        made = replace(self, flat=alone(self.flat), rows=alone(self.rows), short_rows=None, tile=1)
        return made.because(short_rows=why)

    def at_most(self, work_items: int) -> Tuning:
        """Return the tuning with no work-group larger than `work_items`."""
        limit = f"built kernels allow {work_items} at most"
        fewer = self._each(
            lambda loads: (
                replace(loads, local_size=work_items).because(local_size=limit)
                if loads.local_size > work_items
                else loads
            )
        )
        fewer = replace(fewer, shared_by=self.shared_by and min(self.shared_by, work_items))
        if self.short_rows is None or self.short_rows.local_size <= work_items:
            return fewer
        return replace(fewer, short_rows=None).because(short_rows=limit)

    def _each(self, changed: Callable[[Loads], Loads]) -> Tuning:
        return replace(
            self,
            flat=changed(self.flat),
            rows=changed(self.rows),
            columns=changed(self.columns),
        )

    def __str__(self) -> str:
        order = "strips" if self.strip else "grid stride"
        return (
            f"{self.variant}, {self.groups} x {self.flat.local_size} work-items, {order}, "
            f"{self.flat.unroll} x {self.flat.width} elements a load, {self.flat.lanes} lanes"
        )


def distinct(tunings: Sequence[Tuning], kernel_files: Sequence[str]) -> tuple[Tuning, ...]:
    """Return those of some tunings that differ in any of these kernel files; the first of likes."""
    found: dict[object, Tuning] = {}
    for tuning in tunings:
        found.setdefault(tuple(tuning.options(file) for file in kernel_files), tuning)
    return tuple(found.values())
