"""Measure how the code is divided: sizes, names, words, and what a reduction passes through.

.venv/bin/python -m tests.house [--trace]
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType

import numpy as np
import zarr

ROOT = Path(__file__).parents[1].resolve()
LAYERS = ("kernels", "pipeline", "workflows")
ASIDE = ("/bench/", "/ladder/")
FEATURES = {
    "absence": r"\bignored\b|skipna|\bmasked\b|among_input|wants_mask|min_count",
    "groups": r"\bkeyed\b|Keyed[A-Z]|\b[Gg]rouping\b|group_labels",
    "several reads": r"\b[Ff]urther\b|reads_again|next_pass|NextPass|\bAgain\b",
    "windows": r"coarsen|\bwindow\b|windowed",
    "levels": r"\blevels\b|LevelsFold|LevelFold|level_kernels",
}
"""Words of each feature's own fields and types; they follow renames."""
VALUES = ("Request", "Plan", "Work")
"""Values that a reduction is planned and carried out by."""
DIALECT = re.compile(r"(What|Whether|Of|How|Where|Which|Those|Let|That) ")


def sources(*suffixes: str) -> dict[str, str]:
    """Return the text of each file of the layers, by its path."""
    found = {}
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*")):
            name = str(path.relative_to(ROOT))
            if name.endswith(suffixes) and not any(one in name for one in ASIDE):
                found[name] = path.read_text()
    return found


def measured() -> dict[str, int]:
    """Return the figures that need no run, by their names."""
    python, texts = sources(".py"), sources(".py", ".cl", ".clh")
    modules = [name for name in python if not name.endswith("__init__.py")]
    stems = Counter(Path(name).stem for name in modules)
    public: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    dialect = values = 0
    for name, text in python.items():
        tree = ast.parse(text)
        for one in tree.body:
            if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
                public[name.split("/")[0], one.name].add(name)
            if isinstance(one, ast.ClassDef) and one.name in VALUES and "/planning/" in name:
                values += sum(isinstance(line, ast.AnnAssign) for line in one.body)
        for one in ast.walk(tree):
            if isinstance(one, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                dialect += bool(DIALECT.match(ast.get_docstring(one) or ""))
    knowing = {
        f"files that know {feature}": sum(bool(re.search(words, t)) for t in texts.values())
        for feature, words in FEATURES.items()
    }
    return {
        "modules": len(modules),
        "lines": sum(text.count("\n") for text in texts.values()),
        "module names that stand twice": sum(count > 1 for count in stems.values()),
        "functions in two modules": sum(len(homes) > 1 for homes in public.values()),
        "docstrings in dialect": dialect,
        "fields of Request, Plan and Work": values,
        **knowing,
    }


def entered() -> dict[str, int]:
    """Return how many modules a warm reduction enters, in this process."""
    import chunkfold as cf

    found = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.zarr"
        values = np.random.default_rng(0).normal(size=(64, 64, 64)).astype("f4")
        zarr.create_array(path, data=values, chunks=(32, 64, 64))
        cf.reduce(path, "mean", axis=0)

        def seen(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                name = os.path.realpath(frame.f_code.co_filename)
                if name.startswith(f"{ROOT}/") and ".venv" not in name:
                    found[name.removeprefix(f"{ROOT}/")] += 1

        threading.setprofile(seen)
        sys.setprofile(seen)
        try:
            cf.reduce(path, "mean", axis=0)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return {
        "modules entered": len(found),
        "modules of planning entered": sum("/planning/" in name for name in found),
    }


def entered_elsewhere() -> dict[str, int]:
    """Return `entered` of a process of its own: a profile slows whatever runs with it."""
    run = [sys.executable, "-m", "tests.house", "--trace", "--json"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    figures = entered() if "--trace" in sys.argv else measured()
    print(json.dumps(figures) if "--json" in sys.argv else figures)
