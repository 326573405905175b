"""What the page on adding to chunkfold shows applies to the tree as it is, and works."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "adding.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
LISTS = ("A kind of component or state", "A backend")
"""Sections that have lists of files, and no patch."""
PATCHED = [name for name in SECTIONS if name not in LISTS]
NAMED = re.compile(r"`((?:kernels|pipeline|workflows|tests)/[\w/.]+)`")


def blocks(section: str, language: str) -> list[str]:
    """Return what a section shows in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)


def package(tree: Path, into: Path) -> Path:
    """Make the package of a tree: three folders are one, as in an installed one."""
    package = into / "chunkfold"
    package.mkdir(parents=True)
    for path in [*(tree / "pipeline").iterdir(), tree / "kernels", tree / "workflows"]:
        (package / path.name).symlink_to(path)
    return into


def run(words: list[str], folder: Path, **variables: str) -> None:
    done = subprocess.run(
        words,
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def apply(section: str, tree: Path, folder: Path, *options: str) -> None:
    (patch,) = blocks(section, "diff")
    (folder / "patch").write_text(patch)
    above = str(tree.parent)
    run(["git", "apply", *options, str(folder / "patch")], tree, GIT_CEILING_DIRECTORIES=above)


@pytest.mark.short
@pytest.mark.parametrize("section", LISTS)
def test_the_files_of_a_list_are_in_the_tree(section: str):
    found = NAMED.findall(SECTIONS[section])
    assert len(found) > 4
    assert [name for name in found if not (ROOT / name).exists()] == []


@pytest.mark.short
@pytest.mark.parametrize("section", PATCHED)
def test_the_patch_of_a_section_is_of_the_tree_as_it_is(section: str, tmp_path: Path):
    apply(section, ROOT, tmp_path, "--check")


@pytest.mark.parametrize("section", PATCHED)
def test_what_a_section_adds_works(section: str, tmp_path: Path):
    tree, folder = tmp_path / "tree", tmp_path / "folder"
    folder.mkdir()
    unlike = shutil.ignore_patterns("__pycache__")
    for name in ("kernels", "pipeline", "workflows", "tests", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=unlike)
    shutil.copy(ROOT / "pyproject.toml", tree)
    apply(section, tree, tmp_path)
    path = {"PYTHONPATH": str(package(tree, tmp_path / "path"))}
    (shown,) = blocks(section, "python")
    run([sys.executable, "-c", f"{shown}\nassert cf.__file__.startswith({str(tmp_path)!r})"],
        folder, **path)  # fmt: skip
    for command in re.findall(r"^    (pytest .+)$", SECTIONS[section], re.MULTILINE):
        run([sys.executable, "-m", *shlex.split(command), "-n0"], tree, **path)
