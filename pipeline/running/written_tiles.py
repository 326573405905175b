"""Tiles that are written to an output, as the arrays of an entry: what a ledger has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chunkfold.ledger.segments import DamagedError
from chunkfold.planning.blocks import Block
from chunkfold.planning.plan import Plan
from chunkfold.planning.tile_finishing import FinishedTile

_NAN = (False, True, None)
"""Values of `FinishedTile.nan`, by their numbers in an entry."""


def tile_arrays(tiles: Sequence[FinishedTile]) -> dict[str, np.ndarray]:
    """Return what is to be known of some tiles beside their results."""
    found = {"nothing": np.array([one.nothing for one in tiles], np.int64)}
    for name in tiles[0].nan:
        found[f"nan.{name}"] = np.array([_NAN.index(one.nan[name]) for one in tiles], np.uint8)
    return found


def tiles_in(
    entries: Sequence[Mapping[str, np.ndarray]], block: Block, plan: Plan
) -> tuple[FinishedTile, ...]:
    """Return the tiles of a block, without results, from its entry; none without one.

    Raises
    ------
    DamagedError
        If it has none of them.
    """
    if not entries:
        return ()
    found, count = entries[0], block.tiles[1] - block.tiles[0]
    expected = {"nothing": np.int64, **{f"nan.{name}": np.uint8 for name in plan.ops}}
    for name, dtype in expected.items():
        array = found.get(name)
        if array is None or array.dtype != dtype or array.shape != (count,):
            raise DamagedError(f"array {name} is not one of {count:,} tiles")
        if array.max() >= len(_NAN) and name != "nothing":
            raise DamagedError(f"array {name} has {array.max()}")
    return tuple(
        FinishedTile(
            tile,
            (),
            {name: _NAN[found[f"nan.{name}"][number]] for name in plan.ops},
            int(found["nothing"][number]),
        )
        for number, tile in enumerate(range(*block.tiles))
    )
