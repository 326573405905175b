"""A cluster for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client

import chunkfold as cf
from chunkfold.planning import blocks, planner
from tests.conftest import DEVICES


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Return a client of two workers, which come again; nothing takes it unless it is named."""
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster, set_as_default=False) as connected:
        yield connected


@pytest.fixture
def a_row_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a block of every row of 500 numbers."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 4000)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4000, 4000))
