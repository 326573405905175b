"""Folders that others could change are not trusted, wherever on the path that is."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from chunkfold.kernels.cache.trusted import UntrustedError, private_folder


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o775, 0o702, 0o720])
@pytest.mark.parametrize("below", ["", "new", "a/b"])
def test_a_folder_that_others_may_write_is_refused_with_all_below_it(
    tmp_path: Path, mode: int, below: str
):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(mode)
    with pytest.raises(UntrustedError, match=re.escape(f"others may write to {open_to_all} (")):
        private_folder(open_to_all / below)
    assert list(open_to_all.iterdir()) == []


def test_a_folder_may_lie_in_one_where_only_owners_remove(tmp_path: Path):
    tmp_path.chmod(0o1777)
    assert private_folder(tmp_path / "mine") == tmp_path / "mine"
    with pytest.raises(UntrustedError, match="others may write"):
        private_folder(tmp_path)


def test_what_is_made_is_private(tmp_path: Path):
    before = os.umask(0)
    try:
        made = private_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (made.parent, made)] == [0o700, 0o700]


def test_own_links_are_followed_to_a_path_that_is_looked_at_too(tmp_path: Path):
    (tmp_path / "real").mkdir(mode=0o700)
    for target in (tmp_path / "real", "real", "../" + tmp_path.name + "/./real"):
        (tmp_path / "link").symlink_to(target)
        assert private_folder(tmp_path / "link" / "below") == tmp_path / "real" / "below"
        (tmp_path / "link").unlink()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    with pytest.raises(UntrustedError, match=str(tmp_path / "open")):
        private_folder(tmp_path / "link" / "below")


def test_links_in_a_ring_end(tmp_path: Path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="too many links"):
        private_folder(tmp_path / "a")


@pytest.mark.real
@pytest.mark.parametrize("what", ["itself", "above", "link"])
def test_what_belongs_to_another_is_refused(tmp_path: Path, what: str):
    (tmp_path / "theirs" / "below").mkdir(parents=True)
    if what == "link":
        (tmp_path / "link").symlink_to(tmp_path / "theirs")
        os.chown(tmp_path / "link", 65534, 65534, follow_symlinks=False)
        asked = tmp_path / "link" / "below"
    else:
        os.chown(tmp_path / "theirs", 65534, 65534)
        asked = tmp_path / "theirs" / ("below" if what == "above" else "")
    with pytest.raises(UntrustedError, match="belongs to nobody"):
        private_folder(asked)
