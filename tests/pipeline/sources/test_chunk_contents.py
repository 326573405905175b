"""With `ledger_verify="content"` chunks are told apart by their bytes, whatever a store says."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import LedgerError
from chunkfold.running.run import Run
from chunkfold.sources import chunk_contents
from tests.ledgers import THEN, asked, small_blocks, stored
from tests.web import Sent, Web, served

VALUES = np.random.default_rng(0).normal(size=(40, 12, 12)).astype("f4")
OTHER = VALUES + 1
CONTENT = {"ledger_verify": "content"}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks of few leaves."""
    small_blocks(monkeypatch, 3000, (6000, 12000))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    stored(tmp_path / "a", VALUES, (4, 12, 12), compressors=None)
    return tmp_path / "a"


def replaced(source: Path) -> Path:
    """Replace a chunk by one of the same size and time; return its file."""
    file = source / "c" / "5" / "0" / "0"
    file.write_bytes(OTHER[20:24].tobytes())
    os.utime(file, (THEN, THEN))
    return file


def test_a_chunk_of_the_same_size_and_time_with_other_contents_is_noticed(
    source: Path, tmp_path: Path
):
    both = [{}, CONTENT]
    for number, how in enumerate(both):
        first = cf.submit(source, "sum", ledger=tmp_path / f"{number}", **how)
        assert first.result() == np.float32(VALUES.sum(dtype="f8"))
        assert first.ledger.kept == len(first.plan.blocks) > 4
    replaced(source)
    runs = [
        cf.submit(source, "sum", ledger=tmp_path / f"{number}", **how)
        for number, how in enumerate(both)
    ]
    found, again = (run.result() for run in runs)
    assert found == np.float32(VALUES.sum(dtype="f8"))  # a listing cannot tell it
    assert again == cf.reduce(source, "sum") != found
    known, kept = len(first.plan.blocks) - 1, 1
    assert (runs[1].ledger.known, runs[1].ledger.kept, runs[1].ledger.damaged) == (known, kept, 0)


def test_a_copy_with_other_times_is_known(source: Path, tmp_path: Path):
    first = asked(source, ["mean", "max"], tmp_path / "l", axis=0, **CONTENT)
    for file in (source / "c").rglob("*"):
        os.utime(file, (THEN + 9, THEN + 9))
    again = asked(source, ["mean", "max"], tmp_path / "l", axis=0, **CONTENT)
    assert again.ledger.known == len(first.plan.blocks)
    assert again.plan.scan.nbytes == 0


def _untimed(sent: Sent) -> None:
    sent.headers.pop("Last-Modified", None)


def _asked(web: Web, ledger: Path, **options) -> Run:
    web.asked.clear()
    return asked(f"{web.url}/a", "mean", ledger, **CONTENT, **options)


def test_plain_http_without_times_can_have_a_ledger(source: Path, tmp_path: Path):
    (source / "c" / "8" / "0" / "0").unlink()  # fill
    with served(tmp_path, changing=_untimed) as web:
        said = r"a plain web server does not say when .*, or give ledger_verify='content'"
        with pytest.raises(LedgerError, match=said):
            cf.reduce(f"{web.url}/a", "mean", ledger=tmp_path / "l")
        first = _asked(web, tmp_path / "l")
        assert first.ledger.kept == len(first.plan.blocks) > 4
        assert _asked(web, tmp_path / "l").ledger.known == len(first.plan.blocks)
        replaced(source)
        changed = _asked(web, tmp_path / "l")
        assert (changed.ledger.known, changed.ledger.kept) == (len(first.plan.blocks) - 1, 1)
        (source / "c" / "8" / "0" / "0").write_bytes(OTHER[32:36].tobytes())
        assert _asked(web, tmp_path / "l").ledger.kept == 1


def test_only_chunks_that_are_selected_are_read_for_it(source: Path, tmp_path: Path):
    with served(tmp_path, changing=_untimed) as web:
        run = cf.submit(
            f"{web.url}/a", "mean", selection=slice(9, 14), ledger=tmp_path / "l", **CONTENT
        )
        assert run.result() == cf.reduce(source, "mean", selection=slice(9, 14))
        assert {path for path in web.asked if "/c/" in path} == {f"/a/c/{n}/0/0" for n in (2, 3)}


def test_several_as_one_are_hashed_part_by_part(source: Path, tmp_path: Path):
    stored(tmp_path / "b", OTHER[:20], (4, 12, 12), compressors=None)
    whole = cf.concatenate([source, tmp_path / "b"], axis=0)
    first = asked(whole, "sum", tmp_path / "l", **CONTENT)
    replaced(source)
    again = asked(whole, "sum", tmp_path / "l", **CONTENT)
    assert again.ledger.known == len(first.plan.blocks) - 1


@pytest.mark.parametrize("piece", [100, 1000, 1 << 20])
@pytest.mark.parametrize("remote", [False, True])
def test_hashes_are_of_all_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, remote: bool
):
    made = stored(tmp_path / "a", VALUES, (2, 12, 12), shards=(8, 12, 12))
    monkeypatch.setattr(chunk_contents, "_PIECE_BYTES", piece)
    with served(tmp_path) as web:
        asking = f"{web.url}/a" if remote else tmp_path / "a"
        plan = cf.plan(asking, "sum", ledger=tmp_path / "l", **CONTENT)
        (listing,) = plan.scan.listings
    files = [tmp_path / "a" / made.metadata.encode_chunk_key((n, 0, 0)) for n in range(5)]
    hashes = [hashlib.blake2b(file.read_bytes(), digest_size=16).digest() for file in files]
    assert [one.tobytes() for one in listing.contents.reshape(-1)] == hashes
    assert listing.sizes.reshape(-1).tolist() == [file.stat().st_size for file in files]


def test_what_cannot_be_read_for_it_is_named(source: Path, tmp_path: Path):
    file = source / "c" / "3" / "0" / "0"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(LedgerError, match=r"'c/3/0/0' cannot be read for its hash .*omit"):
        cf.reduce(source, "sum", ledger=tmp_path / "l", **CONTENT)


def test_arrays_in_memory_have_no_ledger_either_way(tmp_path: Path):
    for given in (VALUES, zarr.array(VALUES)):
        with pytest.raises(LedgerError, match=r"omit the ledger$"):
            cf.reduce(given, "sum", ledger=tmp_path / "l", **CONTENT)
