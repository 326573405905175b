"""Sizes and times of many files: natively and by Python."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chunkfold.kernels.feed import native as module
from chunkfold.kernels.feed.native import NONE, file_states


@pytest.fixture(params=["native", "python"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(module, "native_library", lambda: None)


def test_files_have_their_sizes_and_times_and_all_else_has_none(tmp_path: Path):
    names = [str(tmp_path / f"\u00e9{n}") for n in range(500)]
    for n in range(0, 500, 3):
        Path(names[n]).write_bytes(bytes(n))
        os.utime(names[n], ns=(0, 10**18 + n))
    Path(names[1]).mkdir()
    Path(names[2]).symlink_to(names[3])
    Path(names[4]).symlink_to(names[5])
    found = file_states(names).tolist()
    wanted = [[NONE, NONE] if n % 3 else [n, 10**18 + n] for n in range(500)]
    wanted[2] = [3, 10**18 + 3]
    assert found == wanted
    assert file_states([f"{names[0]}/within"]).tolist() == [[NONE, NONE]]
    assert file_states([]).shape == (0, 2)


def test_what_cannot_be_looked_at_is_an_error(tmp_path: Path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        file_states([str(tmp_path / "a"), str(loop)])
