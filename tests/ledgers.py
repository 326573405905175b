"""Stored arrays for tests of ledgers: their chunks are old enough to be trusted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.planning import blocks, ledger_spans, planner
from chunkfold.running.run import Run

THEN = 1.7e9
"""A time when chunks were written, in seconds since 1970."""


def aged(folder: Path, then: float = THEN) -> None:
    """Let all files look as if they were written at a time."""
    for file in folder.rglob("*"):
        if file.is_file():
            os.utime(file, (then, then))


def files(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    found = (one for one in folder.rglob("*") if one.is_file())
    return {str(one.relative_to(folder)): one.read_bytes() for one in found}


def stored(path: Path, values: np.ndarray, chunks: tuple[int, ...], **given: Any) -> zarr.Array:
    """Store an array, whose chunks are old."""
    made = zarr.create_array(path, shape=values.shape, chunks=chunks, dtype=values.dtype, **given)
    made[...] = values
    aged(path)
    return made


def small_blocks(patch: pytest.MonkeyPatch, leaf: int, block: tuple[int, int]) -> None:
    """Cut leaves of so many bytes at most, and blocks of at least and at most so many."""
    patch.setattr(planner, "LEAF_BYTES", leaf)
    for module in (blocks, ledger_spans):
        patch.setattr(module, "BLOCK_BYTES", block)
    patch.setattr(ledger_spans, "BLOCK_PER_PARTIAL", 1)


def asked(source: Any, op: Any, ledger: Path, **options: Any) -> Run:
    """Reduce with a ledger, compare with what is found without one, and return the run."""
    run = cf.submit(source, op, ledger=ledger, **options)
    plain = {name: given for name, given in options.items() if not name.startswith("ledger")}
    found, alone = run.result(200), cf.reduce(source, op, **plain)
    assert_same(found, alone)
    return run


def assert_same(found: Any, expected: Any) -> None:
    """See that results are the same bits."""
    if isinstance(expected, Mapping):
        assert list(found) == list(expected)
        for name, one in expected.items():
            assert_same(found[name], one)
        return
    one, other = (np.asarray(getattr(each, "values", each)) for each in (found, expected))
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.tobytes() == other.tobytes()
