"""What can become of a file in a cache, without and with root."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes() or b"0")
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"chunkfold-cache 1 ", b"chunkfold-cache 9 ", 1))


def _link(path: Path) -> None:
    """As others would: to a whole copy."""
    elsewhere = path.parent.parent / f"copy of {path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _link_of_another(path: Path) -> None:
    _link(path)
    os.chown(path, 65534, 65534, follow_symlinks=False)


def _replaced(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "within").write_text("something")


FAULTS: Mapping[str, Callable[[Path], None]] = {
    "cut": _cut,
    "flipped": _flip,
    "empty": lambda path: os.truncate(path, 0),
    "grown": lambda path: path.open("ab").write(b"x") and None,
    "huge": lambda path: os.truncate(path, 1 << 40),
    "of another version": _version,
    "writable by all": lambda path: path.chmod(0o666),
    "a link": _link,
    "a dangling link": _replaced(lambda path: path.symlink_to("/nowhere/at/all")),
    "a link to a folder": _replaced(lambda path: path.symlink_to("/tmp")),
    "a FIFO": _replaced(os.mkfifo),
    "a folder": _replaced(_folder),
    "an empty folder": _replaced(Path.mkdir),
    "another format": _replaced(lambda path: path.write_text('{"usable": true}') and None),
}
"""By what the file then is."""
WITH_ROOT: Mapping[str, Callable[[Path], None]] = {
    "another user's": lambda path: os.chown(path, 65534, 65534),
    "another user's link": _link_of_another,
}
