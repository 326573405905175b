"""What shapes a kernel beside the reduction: a printable value, and its compiler options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

VARIANTS = ("tree", "work_group", "sub_group")
"""How a work-group's items are reduced; the position is CHF_STAGE in kernels/group.clh."""
_ROW_LANES = 8
"""With runs of 64 and 1,440 elements, 16 were up to 40% slower, 4 seldom faster."""


@dataclass(frozen=True)
class Tuning:
    """Everything that shapes a kernel beside the reduction itself."""

    variant: str
    local_size: int
    """Work-items of a work-group; a power of two for `tree`."""
    groups: int
    """Work-groups of a full-size launch, and so accumulators kept on the device."""
    lanes: int
    """Elements of a vector that is folded."""
    width: int
    """Elements of one load; a multiple of `lanes`."""
    unroll: int
    """Loads in flight."""
    strip: bool
    """Each work-item reads a contiguous strip (CPU), or all stride over the grid (GPU)."""
    aligned: bool
    """Loads stand at multiples of their size."""
    column_size: int
    """Work-items of a work-group in kernels where each has outputs of its own."""
    column_lanes: int
    """Elements of a load in `fold_columns`, neighbouring outputs."""
    column_unroll: int
    """Rows in flight in `fold_columns`."""
    tile: int
    """Loads side by side that a work-item of `fold_columns` folds."""
    local_tables: bool
    """Work-groups that fold a run count in local memory."""

    def options(self, kernel_file: str) -> tuple[str, ...]:
        """Compiler options that set kernels/tuning.clh for a kernel file."""
        columns = kernel_file == "columns.cl"
        values = {
            "STAGE": VARIANTS.index(self.variant),
            "LOCAL": self.local_size,
            "LANES": self.column_lanes if columns else self.lanes,
            "WIDTH": self.column_lanes if columns else self.width,
            "UNROLL": self.column_unroll if columns else self.unroll,
            "STRIP": int(self.strip),
            "ALIGNED": int(self.aligned),
            "TILE": self.tile,
            "COLUMN_LOCAL": self.column_size,
            "TABLE_LOCAL": int(self.local_tables and kernel_file == "flat.cl"),
            "TABLE_SHARED": int(self.local_size > 1 and not columns),
            "SUB_GROUPS": int(self.variant == "sub_group"),
        }
        return tuple(f"-DCHF_{name}={value}" for name, value in values.items())

    def for_file(self, kernel_file: str) -> Tuning:
        """Return the tuning for a kernel file: what does not matter there is the same for all.

        A CPU's lanes are gathered at the end of each run, so those of rows, which may be short, are
        few. In columns no work-item has to do with another. Passes load no elements.
        """
        if kernel_file == "rows.cl" and self.strip and self.lanes > _ROW_LANES:
            return replace(self, lanes=_ROW_LANES, width=_ROW_LANES)
        if kernel_file == "columns.cl":
            return replace(self, variant="tree", local_size=1, lanes=1, width=1, unroll=1)
        if kernel_file == "passes.cl":
            return replace(self, lanes=1, width=1, unroll=1, aligned=False, tile=1)
        return self

    def narrow(self) -> Tuning:
        """Return the tuning for columns that are no neighbours in memory."""
        return replace(self, column_lanes=1, tile=1)

    def plain(self) -> Tuning:
        """Return the tuning without vectors, for compilers that do not survive them."""
        return replace(self.narrow(), lanes=1, width=1, unroll=1, column_unroll=1, aligned=False)

    def __str__(self) -> str:
        order = "strips" if self.strip else "grid stride"
        return (
            f"{self.variant}, {self.groups} x {self.local_size} work-items, {order}, "
            f"{self.unroll} x {self.width} elements a load, {self.lanes} lanes"
        )


def distinct(tunings: Sequence[Tuning], kernel_files: Sequence[str]) -> tuple[Tuning, ...]:
    """Return those of some tunings that differ in any of these kernel files; the first of likes."""
    found: dict[object, Tuning] = {}
    for tuning in tunings:
        found.setdefault(tuple(tuning.for_file(file) for file in kernel_files), tuning)
    return tuple(found.values())
