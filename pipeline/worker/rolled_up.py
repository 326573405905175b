"""Make a block's partials of a question of those that another question has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from chunkfold.boxes import Slices
from chunkfold.kernels import Partial
from chunkfold.kernels.accumulator.sums import in_limbs
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.leaf_boxes import Inputs
from chunkfold.planning.rows import Rows
from chunkfold.planning.tiles import Combine
from chunkfold.planning.work import Work


def rolled_up(
    work: Work, finer: Work, found: Mapping[int, Partial], combine: Combine
) -> Mapping[int, Partial]:
    """Return the partial of each tile that partials of another question's tiles have a part of.

    `found` are those, by their tiles' numbers; nothing of them is lost.
    """
    roll_up, keys = work.roll_up, work.keys
    assert roll_up is not None
    assert keys is None or isinstance(keys, Keys)
    rows = Rows.of(work.layout, roll_up.apart, Inputs())
    done = defaultdict[int, list[tuple[Slices, Partial]]](list)
    for tile, partial in found.items():
        number, _ = work.layout.tile_and_part(finer.layout.numbers(tile, 0))
        done[number].append((finer.layout.tile_region(tile), roll_up.of(partial)))
    made = {}
    for number, several in done.items():
        outputs = work.layout.tile_outputs(number)
        whole = rows.grouped(roll_up.folded, keys, several, outputs, combine)
        made[number] = in_limbs(whole, work.accumulator)
    return made
