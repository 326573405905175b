"""Source trees beside each other on one device: GB/s of every case of benchmarks/cases.py.

A process for each tree; case by case they take turns, so that noise meets all of them. Rates are
by the device's clock, medians of all turns. Ratios are to the first tree: name it twice to see
what noise makes of nothing. Where tables hold several tunings for equals the first is taken, as
CHUNKFOLD_TIES=table has it, unless that is set.

python benchmarks/compare.py [--device SPEC] [--mib 256] [--rounds 5] [--only PATTERN]
                             [--json FILE] [NAME=]TREE [NAME=]TREE ...
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import selectors
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEADLINE_S = 180.0
"""Longest time for one answer, in seconds."""
TURN_S = 0.03
"""How long a tree folds when its turn comes, in seconds, at least six times."""
SLOWER = 0.95
"""Ratios below this are listed."""


@dataclass
class Tree:
    """One source tree, and the process that folds with it."""

    name: str
    path: Path
    """Folder from which `chunkfold` is imported."""
    arguments: Sequence[str]
    """The program, which is the tree's own since names inside change, and what it is given."""
    child: subprocess.Popen[bytes] | None = None
    rates: dict[str, float] = field(default_factory=dict)
    """GB/s by case, of those that did not fail."""

    def start(self) -> None:
        """Start the process."""
        defaults = {"CHUNKFOLD_TIES": "table"}
        folders = filter(None, [str(self.path), os.environ.get("PYTHONPATH", "")])
        self.child = subprocess.Popen(
            [sys.executable, *self.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=defaults | os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        )

    def send(self, *request: Any) -> None:
        """Ask for something; `answer` brings what came of it."""
        if self.child is None:
            self.start()
        assert self.child is not None
        assert self.child.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer is its end
            self.child.stdin.write(json.dumps(request).encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        """Wait for the answer; `error` stands for a process that died or hung, which is dropped."""
        assert self.child is not None
        assert self.child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ)
            in_time = bool(selector.select(DEADLINE_S))
        line = self.child.stdout.readline() if in_time else b""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        if not in_time:
            self.child.kill()
        code = self.child.wait()
        self.child = None
        return {"error": f"ended with exit code {code}" if in_time else "took too long"}

    def ask(self, *request: Any) -> dict[str, Any]:
        """Send and wait."""
        self.send(*request)
        return self.answer()

    def stop(self) -> None:
        """Let the process end."""
        if self.child is not None and self.child.stdin is not None:
            self.child.stdin.close()
            self.child.wait()


def linked(folder: Path, tree: Path) -> Path:
    """Lay a tree out as the package that it is installed as; return where to import it from."""
    package = folder / "chunkfold"
    package.mkdir(parents=True)
    for source in (tree / "pipeline").iterdir():
        (package / source.name).symlink_to(source.resolve())
    for layer in ("kernels", "workflows"):
        (package / layer).symlink_to((tree / layer).resolve())
    return folder


def compared(trees: Sequence[Tree], case: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Fold a case with all trees in turn; return what each did, by name."""
    for tree in trees:
        tree.send("prepare", case)
    rows: dict[str, dict[str, Any]] = {tree.name: tree.answer() for tree in trees}
    turns: dict[str, list[dict[str, Any]]] = {tree.name: [] for tree in trees}
    for number in range(rounds):
        start = number % len(trees)
        for tree in [*trees[start:], *trees[:start]]:
            if "error" not in rows[tree.name]:
                turn = tree.ask("time", case, TURN_S)
                turns[tree.name].append(turn)
                rows[tree.name] |= {"error": turn["error"]} if "error" in turn else {}
    for tree in trees:
        row = rows[tree.name]
        if "error" in row:
            continue
        for clock in ("device", "wall"):
            each = [turn[clock] for turn in turns[tree.name]]
            row[clock] = turns[tree.name][0]["nbytes"] / statistics.median(each) / 1e9
            row[f"{clock}_turns"] = each
        tree.rates[case] = row["device"]
    return rows


def shown(trees: Sequence[Tree], case: str, rows: dict[str, dict[str, Any]]) -> str:
    """Return a line of the table: each tree's rate, and its ratio to the first's."""
    first, cells = rows[trees[0].name].get("device"), []
    for tree in trees:
        rate = rows[tree.name].get("device")
        ratio = f"{rate / first:7.3f}" if rate and first and tree is not trees[0] else ""
        cells.append(f"{rate:9.1f}{ratio:>7}" if rate else f"{'failed':>9}{'':7}")
    errors = [f"\n    {name}: {row['error']}" for name, row in rows.items() if "error" in row]
    return f"{case:48}{''.join(cells)}{''.join(errors)}"


def summary(first: Tree, other: Tree) -> str:
    """Return the median and least ratio of a tree, and the cases in which it is slower."""
    both = first.rates.keys() & other.rates.keys()
    ratios = sorted((other.rates[case] / first.rates[case], case) for case in both)
    if not ratios:
        return f"{other.name} / {first.name}: nothing to compare"
    slower = [one for one in ratios if one[0] < SLOWER]
    faster = sum(ratio > 1 / SLOWER for ratio, _ in ratios)
    middle = statistics.median(ratio for ratio, _ in ratios)
    told = (
        f"{other.name} / {first.name}: median {middle:.3f}, least {ratios[0][0]:.3f}, most "
        f"{ratios[-1][0]:.3f}; of {len(ratios)} cases {len(slower)} are below {SLOWER}, {faster} "
        f"above {1 / SLOWER:.2f}"
    )
    lines = [told, *(f"    {ratio:.3f}  {case}" for ratio, case in slower)]
    lines += [f"    failed {case}" for case in sorted(first.rates.keys() - both)]
    return "\n".join(lines)


def main() -> None:
    """Print the table and a summary for each tree."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trees", nargs="+", metavar="[NAME=]TREE")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="a regular expression that names match")
    parser.add_argument("--json", type=Path, help="append a line for each case to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chunkfold-trees-") as folder:
        trees = []
        for given in options.trees:
            name, _, path = given.rpartition("=")
            name = name or Path(path).name
            program = str(Path(path, "benchmarks", "compare_child.py").resolve())
            arguments = (program, options.device, str(options.mib << 20))
            trees.append(Tree(name, linked(Path(folder, name), Path(path)), arguments))
        try:
            compare(trees, options)
        finally:
            for tree in trees:
                tree.stop()


def compare(trees: Sequence[Tree], options: argparse.Namespace) -> None:
    """Go through all cases."""
    told = [tree.ask("list") for tree in trees]
    for tree, one in zip(trees, told, strict=True):
        if not one.get("from", "").startswith(str(tree.path)):
            raise SystemExit(f"{tree.name}: {one.get('error') or 'imports ' + one['from']}")
    print(f"GB/s of {told[0]['device']}, and ratios to {trees[0].name}")
    print(f"{'':48}{''.join(f'{tree.name:>9.9}       ' for tree in trees)}")
    for case in told[0]["names"]:
        if not re.search(options.only, case):
            continue
        rows = compared(trees, case, options.rounds)
        print(shown(trees, case, rows), flush=True)
        if options.json:
            row = {"device": told[0]["device"], "case": case, "trees": rows}
            with options.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
    for tree in trees[1:]:
        print(f"\n{summary(trees[0], tree)}")


if __name__ == "__main__":
    main()
