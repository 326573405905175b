"""Damage that is planted in chunks, of which nothing but a ledger's statistics tell."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import LedgerError
from chunkfold.workflows.checks.check import check
from chunkfold.workflows.checks.finding_kinds import FindingKind
from chunkfold.workflows.checks.findings import Soundness
from tests.ledgers import small_blocks, stored

PLANE = 50 * 40
BLOCK = 4
"""Chunks of a block."""


@pytest.fixture(autouse=True)
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    params = getattr(request.node, "callspec", None)
    nbytes = PLANE * np.dtype((params.params if params else {}).get("dtype", "f4")).itemsize
    small_blocks(monkeypatch, nbytes, (1, BLOCK * nbytes))


def known(tmp_path: Path, dtype: str = "f4", seed: int = 0, **given: Any) -> tuple[Path, Path]:
    """Store an array of 64 chunks, uncompressed, and keep its statistics; return both places."""
    values = (np.random.default_rng(seed).normal(size=(64, 50, 40)) * 1000).astype(dtype)
    path, ledger = tmp_path / "a.zarr", tmp_path / "l"
    stored(path, values, (1, 50, 40), compressors=None, **given)
    cf.reduce(path, "mean", axis=0, ledger=ledger, ledger_statistics=True)
    return path, ledger


def flip(path: Path, chunk: int, byte: int, mask: int = 1) -> None:
    """Flip bits of a stored byte, and put back the time when the chunk was written."""
    file = path / "c" / str(chunk) / "0" / "0"
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[byte] ^= mask
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def chunks(found: Soundness, kind: str) -> set[int]:
    """Return the numbers of the chunks with a finding."""
    (array,) = found.arrays
    assert array.states is not None
    place = 1 + list(FindingKind).index(FindingKind(kind))
    return set(np.flatnonzero(array.states.ravel() == place).tolist())


def blocks_of(flipped: set[int]) -> set[int]:
    return {n // BLOCK * BLOCK + k for n in flipped for k in range(BLOCK)}


def test_an_array_as_the_ledger_has_it_is_sound(tmp_path: Path):
    path, ledger = known(tmp_path)
    found = check(path, ledger=ledger)
    assert found.findings == ()
    assert found.arrays[0].compared == 64
    assert "64 compared with the ledger" in found.summary
    assert "compared" not in check(path).summary


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u8"])
def test_bits_that_flipped_are_found(tmp_path: Path, dtype: str):
    """Also the last bit of a float64: sums are exact."""
    path, ledger = known(tmp_path, dtype)
    rng = np.random.default_rng(3)
    flipped = set(rng.choice(64, 5, replace=False).tolist())
    for chunk in flipped:
        flip(path, chunk, int(rng.integers(PLANE)) * np.dtype(dtype).itemsize)
    found = check(path, ledger=ledger)
    assert [one.kind for one in found.findings] == [FindingKind.DAMAGED]
    assert found.findings[0].chunks == len(blocks_of(flipped))
    assert found.findings[0].error
    assert chunks(found, "damaged") == blocks_of(flipped)
    assert check(path).ok


@pytest.mark.parametrize("unpacked", [False, True], ids=["numbers", "values"])
@pytest.mark.parametrize("dtype", ["i2"])
def test_packed_numbers_are_compared_as_the_ledger_knew_them(
    tmp_path: Path, dtype: str, unpacked: bool
):
    attributes = {"scale_factor": 0.1, "add_offset": 3.0, "_FillValue": 7}
    values = np.random.default_rng(0).integers(0, 99, (64, 50, 40)).astype(dtype)
    path, ledger = tmp_path / "a.zarr", tmp_path / "l"
    stored(path, values, (1, 50, 40), compressors=None, attributes=attributes)
    cf.reduce(path, "mean", mask_and_scale=unpacked, skipna=True, ledger=ledger,
              ledger_statistics=True)  # fmt: skip
    found = check(path, ledger=ledger)
    assert found.findings == ()
    assert found.arrays[0].compared == 64
    flip(path, 33, 100)
    assert chunks(check(path, ledger=ledger), "damaged") == blocks_of({33})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_found(tmp_path: Path, value: float):
    path, ledger = known(tmp_path)
    file = path / "c" / "9" / "0" / "0"
    times, content = file.stat(), bytearray(file.read_bytes())
    content[:4] = np.float32(value).tobytes()
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = check(path, ledger=ledger)
    assert chunks(found, "damaged") == blocks_of({9})


def test_arrays_with_nan_and_infinities_are_compared(tmp_path: Path):
    path, ledger = known(tmp_path)
    array: Any = zarr.open_array(str(path))
    array[3, :] = np.nan
    array[8:12] = np.nan
    array[20, 0, 0], array[21, 0, 0] = np.inf, -np.inf
    for file in path.rglob("*"):
        os.utime(file, (1.6e9, 1.6e9))
    cf.reduce(path, "max", skipna=True, ledger=ledger, ledger_statistics=True)
    assert "damaged" not in {one.kind for one in check(path, ledger=ledger).findings}
    flip(path, 22, 0)
    flip(path, 2, 0)
    # The sum of the sixth block was no number, and is none.
    assert chunks(check(path, ledger=ledger), "damaged") == blocks_of({2})


def test_sums_of_numbers_that_are_far_apart_are_no_damage(tmp_path: Path):
    """Doubles that hold the sum of a block drop bits which those of its chunks have."""
    values = np.zeros((64, 50, 40), "f4")
    values[:, 0, 0] = np.resize([1e38, 1e10, 1e-10, 1e-37, 1e-44], 64)
    path, ledger = tmp_path / "a.zarr", tmp_path / "l"
    stored(path, values, (1, 50, 40), compressors=None)
    cf.reduce(path, "mean", axis=0, ledger=ledger, ledger_statistics=True)
    found = check(path, ledger=ledger)
    assert found.findings == ()
    assert found.arrays[0].compared == 64
    flip(path, 0, 3, 64)  # the greatest number
    assert chunks(check(path, ledger=ledger), "damaged") == blocks_of({0})


@pytest.mark.parametrize("how", ["of another", "damaged"])
def test_a_ledger_that_tells_nothing_is_a_remark(tmp_path: Path, how: str):
    path, ledger = known(tmp_path)
    if how == "damaged":
        for file in ledger.rglob("*.safetensors"):
            file.write_bytes(file.read_bytes()[:20])
    else:
        path = tmp_path / "b.zarr"
        stored(path, np.ones((8, 50, 40), "f4") * np.arange(2000).reshape(50, 40), (1, 50, 40))
    found = check(path, ledger=ledger)
    assert found.ok
    assert [one.kind for one in found.findings] == [FindingKind.UNCHECKED]
    assert "the ledger has no statistics of its blocks" in found.findings[0].message
    assert ("damaged segment" in found.findings[0].message) == (how == "damaged")
    assert not check(path, ledger=ledger, fail_on=["unchecked"]).ok


def test_a_ledger_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, ledger = known(tmp_path)

    def fails(_: object) -> None:
        raise LedgerError("the ledger cannot be listed: it broke")

    monkeypatch.setattr("chunkfold.ledger.ledger.Ledger.refresh", fails)
    with pytest.raises(LedgerError, match="it broke"):
        check(path, ledger=ledger)


def test_chunks_that_were_written_since_are_told_apart(tmp_path: Path):
    path, ledger = known(tmp_path)
    zarr.open_array(str(path))[17:19] = 5.5
    flip(path, 40, 2)
    found = check(path, ledger=ledger, ignore=["constant"])
    assert {one.kind: one.chunks for one in found.findings} == {"damaged": 4, "changed": 2}
    assert [one.error for one in found.findings] == [True, False]
    assert chunks(found, "changed") == {17, 18}
    assert found.arrays[0].compared == 64 - len(blocks_of({17, 18}))
    assert not check(path, ledger=ledger, ignore=["damaged"], fail_on=["changed"]).ok


def test_a_ledger_that_learned_of_the_change_has_no_finding(tmp_path: Path):
    path, ledger = known(tmp_path)
    zarr.open_array(str(path))[17:19] += 5.5
    for chunk in (17, 18):
        os.utime(path / "c" / str(chunk) / "0" / "0", (1.75e9, 1.75e9))
    cf.reduce(path, "max", ledger=ledger, ledger_statistics=True)
    found = check(path, ledger=ledger)
    assert found.findings == ()
    assert found.arrays[0].compared == 64


def test_an_array_that_grew_is_compared_as_far_as_it_was_known(tmp_path: Path):
    path, ledger = known(tmp_path)
    array = zarr.open_array(str(path))
    array.resize((80, 50, 40))
    array[64:] = np.random.default_rng(9).normal(size=(16, 50, 40))
    found = check(path, ledger=ledger)
    assert found.findings == ()
    assert found.arrays[0].compared == 64


def test_statistics_of_a_selection_are_of_its_elements(tmp_path: Path):
    path, ledger = known(tmp_path)
    other = tmp_path / "other"
    cf.reduce(path, "mean", selection=slice(32, 64), ledger=other, ledger_statistics=True)
    zarr.open_array(str(path))[[1, 33]] = 5.5
    found = check(path, ledger=other, ignore=["constant"])
    assert chunks(found, "changed") == {33}
    assert ledger.exists()


def test_the_command_tells_of_damage(tmp_path: Path, command: Callable):
    values = np.random.default_rng(0).normal(size=(64, 50, 40)).astype("f4")
    path, ledger = tmp_path / "a.zarr", tmp_path / "l"
    stored(path, values, (1, 50, 40), compressors=None)
    command("reduce", path, "--op", "mean", "--ledger", ledger, "--ledger-statistics", "-q")
    assert "64 compared" in command("check", path, "--ledger", ledger).stdout
    flip(path, 5, 1)
    told = command("check", path, "--ledger", ledger, code=1).stdout
    assert "damaged" in told
    assert "D damaged" in told
    found = json.loads(command("check", path, "--ledger", ledger, "--json", code=1).stdout)
    assert found["arrays"][0]["chunks_compared"] == 64
    assert [one["kind"] for one in found["findings"]] == ["damaged"]
    told = command("check", path, "--ledger", tmp_path / "none", code=2).stderr
    assert "is not a ledger: the folder does not exist" in told


def test_what_no_ledger_can_have_is_not_compared(tmp_path: Path):
    _, ledger = known(tmp_path)
    array = zarr.create_array({}, data=np.arange(9.0), chunks=(3,))
    found = check(array, ledger=ledger)
    assert found.ok
    assert found.arrays[0].compared is None
    with pytest.raises(LedgerError, match="the folder does not exist"):
        check(array, ledger=tmp_path / "none")
