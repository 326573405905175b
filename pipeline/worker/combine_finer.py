"""Combine a block's partials of a finer question to those of a question that is made of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from chunkfold.boxes import Slices
from chunkfold.kernels import Partial
from chunkfold.kernels.accumulator.sums import in_form_of
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.leaf_boxes import Inputs
from chunkfold.planning.rows import Rows
from chunkfold.planning.tiles import Combine
from chunkfold.planning.work import Work


def combined_finer(
    work: Work, finer: Work, finer_partials: Mapping[int, Partial], combine: Combine
) -> Mapping[int, Partial]:
    """Return the partials of a question, by its tiles; of those that finer partials reach.

    `finer_partials` are by the tiles of the finer question; none of their exact sums is lost.
    """
    roll_up, keys = work.roll_up, work.keys
    assert roll_up is not None
    assert keys is None or isinstance(keys, Keys)
    rows = Rows.of(work.layout, roll_up.extra_axes, Inputs())
    by_tile = defaultdict[int, list[tuple[Slices, Partial]]](list)
    for finer_tile, partial in finer_partials.items():
        # All parts of a finer tile are in one tile: it keeps all axes that this question keeps.
        tile, _ = work.layout.tile_and_part(finer.layout.numbers(finer_tile, 0))
        by_tile[tile].append((finer.layout.tile_region(finer_tile), roll_up.of(partial)))
    made = {}
    for tile, several in by_tile.items():
        outputs = work.layout.tile_outputs(tile)
        whole = rows.grouped(roll_up.form, keys, several, outputs, combine)
        made[tile] = in_form_of(work.accumulator, whole)
    return made
