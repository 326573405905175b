"""Test how leaves become blocks."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.planning.blocks import cut_blocks

GIB = 1 << 30


@pytest.mark.parametrize(("rounded", "tiles"), [(True, [1] * 4), (False, [2, 2])])
def test_a_tile_that_devices_round_is_a_block_of_its_own(rounded: bool, tiles: list[int]):
    """Results of one leave while the next is read; partials, of which few are wanted, do not."""
    costs = np.full((4, 8), GIB / 4)
    blocks = cut_blocks(costs, costs < 0, 1, GIB, rounded=rounded)
    assert [last - first for first, last in (block.tiles for block in blocks)] == tiles
    assert all(block.parts == (0, 8) for block in blocks)


def test_a_tile_that_is_larger_than_any_block_is_shared():
    costs = np.full((2, 80), GIB / 4)
    blocks = cut_blocks(costs, costs < 0, 1, GIB, rounded=True)
    tiles = [(tile, tile + 1) for tile in (0, 1) for _ in range(5)]
    assert [block.tiles for block in blocks] == tiles
