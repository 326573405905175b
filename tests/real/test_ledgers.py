"""Ledgers in a real S3 server (Ceph), of arrays in it and beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import obstore
import pytest
import zarr
from zarr.storage import ObjectStore

import chunkfold as cf
from chunkfold.errors import LedgerError
from chunkfold.planning import spans
from tests.ledgers import asked, small_blocks, stored
from tests.real.servers import Ceph, ceph
from tests.workflows.test_cli import chunkfold

pytestmark = pytest.mark.real
VALUES = np.random.default_rng(0).normal(size=(64, 50, 50)).astype("f4")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceph]:
    with ceph(tmp_path_factory.mktemp("ceph")) as made:
        store = ObjectStore(made.bucket("data"))
        array = zarr.create_array(
            store, name="a", shape=VALUES.shape, chunks=(2, 50, 50), dtype="f4"
        )
        array[...] = VALUES
        made.bucket("kept")
        yield made


@pytest.fixture(autouse=True)
def _environment(s3: Ceph, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    small_blocks(monkeypatch, 1 << 15, (1 << 16, 1 << 17))
    monkeypatch.setattr(spans, "SETTLED_NS", (0, 0))  # chunks were written a moment ago


def test_a_ledger_in_s3_is_found_by_others(s3: Ceph, tmp_path: Path):
    for source in ("s3://data/a", tmp_path / "a.zarr"):
        if isinstance(source, Path):
            stored(source, VALUES, (2, 50, 50))
        place = f"s3://kept/{'disk' if isinstance(source, Path) else 's3'}"
        first = asked(source, ["mean", "max"], place, axis=0)
        assert first.ledger.kept == len(first.plan.blocks) > 1
        assert asked(source, ["mean", "max"], place, axis=0).plan.scan.nbytes == 0
        told = json.loads(chunkfold("ledger", "show", place, "--json").stdout)
        assert told["segments"] >= 1
        assert told["damaged"] == []


def test_chunks_in_s3_are_told_apart_by_their_bytes(s3: Ceph):
    given = {"ledger_verify": "content"}
    first = asked("s3://data/a", "sum", "s3://kept/content", **given)
    store = ObjectStore(s3.store("data"))
    zarr.open_array(store, path="a")[...] = VALUES  # written anew, and the same
    again = asked("s3://data/a", "sum", "s3://kept/content", **given)
    assert again.ledger.known == first.ledger.kept == len(first.plan.blocks)


def test_a_damaged_object_is_computed_anew(s3: Ceph):
    place = "s3://kept/damaged"
    asked("s3://data/a", "sum", place)
    store = s3.store("kept")
    for page in obstore.list(store, "damaged"):
        for one in page:
            content = bytearray(bytes(obstore.get(store, one["path"]).bytes()))
            content[-3] ^= 1
            obstore.put(store, one["path"], bytes(content))
    assert "damaged" in chunkfold("ledger", "verify", place, code=1).stdout
    run = asked("s3://data/a", "sum", place)
    assert run.ledger.damaged > 0
    assert "removed" in chunkfold("ledger", "prune", place).stdout
    assert asked("s3://data/a", "sum", place).ledger.damaged == 0


def test_a_bucket_that_is_missing_is_named(s3: Ceph):
    with pytest.raises(LedgerError, match=r"s3://none/l cannot be listed"):
        cf.reduce("s3://data/a", "sum", ledger="s3://none/l")
