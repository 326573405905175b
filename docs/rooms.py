"""Draw the rooms and their imports, as the code has them: rooms.svg.

python docs/rooms.py           writes it
python docs/rooms.py --check   fails if it is not the drawing of the code

Rooms and their order are those of the tables in for-developers.md.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PACKAGES = {
    "kernels": "chunkfold.kernels",
    "pipeline": "chunkfold",
    "workflows": "chunkfold.workflows",
}
ASIDE = {("kernels", "ladder"), ("kernels", "bench")}
"""Rooms that nothing else uses."""
FRONT = {"__init__", "acceleration", "api", "covariances", "datasets", "xarray"}
"""Modules of a layer's own folder that import its rooms: what other layers and users see."""
STEP, LINE, LEFT, TOP = 11, 17, 12, 46
STYLE = """\
rect.page{fill:#ffffff}text{fill:#1c2330}.dim{fill:#5b6472}.rule{stroke:#c9d0da}
.kernels{fill:#1d8655}.pipeline{fill:#2f6fde}.workflows{fill:#7a5ad0}
@media(prefers-color-scheme:dark){rect.page{fill:#14181f}text{fill:#e6eaf0}.dim{fill:#a3adba}
.rule{stroke:#39424f}.kernels{fill:#41c48a}.pipeline{fill:#74a5ff}.workflows{fill:#ae94f5}}"""

Room = tuple[str, str]
"""The layer and the folder; "." is the layer's own folder, "public" the names that it offers."""


def rooms() -> list[Room]:
    """Return all rooms, from those that import nothing to those that all is for."""
    page = (DOCS / "for-developers.md").read_text()
    found = []
    for layer in PACKAGES:
        table = page.partition(f"| room of `{layer}/` |")[2].partition("\n\n")[0]
        named = re.findall(r"^\| `(\w+)/` \|", table, re.MULTILINE)
        found += [(layer, name) for name in (".", *named)]
        found += [(layer, "public")] if layer != "workflows" else []
    return found


def home(module: str, name: str = "") -> Room | None:
    """Return the room of a module of ours, or of a name that is imported from one; else None."""
    first, *rest = module.split(".")
    if first != "chunkfold":
        return None
    layer = rest.pop(0) if rest and rest[0] in ("kernels", "workflows") else "pipeline"
    folder = ROOT / layer
    if not rest and ((folder / name).is_dir() or (folder / f"{name}.py").exists()):
        rest = [name]
    if rest and (folder / rest[0]).is_dir():
        return layer, rest[0]
    if layer == "workflows":
        return layer, "."
    return layer, "public" if not rest or rest[0] in FRONT else "."


def imports(path: Path) -> set[tuple[Room, bool]]:
    """Return the rooms that a module imports, and whether it does so as it is imported itself."""
    tree = ast.parse(path.read_text())
    for_types = {
        one
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for one in node.body
    }
    if path.stem == "__init__":  # which imports the same names when they are first used
        tree.body += for_types
        for_types = set()
    found = set()
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            rooms = {home(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms = {home(alias.name) for alias in node.names}
        else:
            continue
        found |= {(room, node in tree.body) for room in rooms if room}
    return found


def uses() -> tuple[Counter[tuple[Room, Room]], set[tuple[Room, Room]]]:
    """Return how many modules of a room import another; and what functions alone import."""
    modules: Counter[tuple[Room, Room]] = Counter()
    later = set()
    for layer, package in PACKAGES.items():
        for path in sorted((ROOT / layer).rglob("*.py")):
            within = path.relative_to(ROOT / layer).with_suffix("").parts
            own = home(".".join((package, *within[:-1], within[-1])))
            if own is None or own in ASIDE:
                continue
            for room, at_once in imports(path):
                if room != own and room not in ASIDE:
                    (modules.update([(own, room)]) if at_once else later.add((own, room)))
    return modules, {pair for pair in later if pair not in modules}


def label(room: Room) -> str:
    """Return what the drawing calls a room."""
    layer, name = room
    return {".": f"{layer}/*.py", "public": "public names"}.get(name, name)


def drawn() -> str:
    """Return the drawing."""
    order = rooms()
    modules, later = uses()
    at = {room: (LEFT + n * STEP, TOP + n * LINE) for n, room in enumerate(order)}
    upwards = sorted((own, other) for own, other in later if order.index(other) > order.index(own))
    width = max(x + 14 + 7.4 * len(label(room)) for room, (x, _) in at.items())
    height = TOP + len(order) * LINE + 20 + 17 * len(upwards)
    parts = [
        f'<svg viewBox="0 0 {width:.0f} {height}" width="{width * 1.4:.0f}" role="img"',
        ' xmlns="http://www.w3.org/2000/svg" font-family="system-ui, sans-serif" font-size="13">',
        "<title>The rooms, and which of them import which</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{width:.0f}" height="{height}"/>',
        '<text x="8" y="18">A room imports those whose squares stand above its dots.</text>',
        '<text class="dim" x="8" y="34">Larger dots: more of its modules do.</text>',
    ]
    for room, (x, y) in at.items():
        if room[1] == "." and y > TOP:
            parts.append(f'<path class="rule" d="M8 {y - LINE / 2}H{width - 8:.0f}"/>')
        parts.append(
            f'<path class="rule" d="M{x} {y + 5}V{TOP + (len(order) - 1) * LINE}" '
            'stroke-dasharray="1 4"/>'
        )
        parts.append(f'<rect class="{room[0]}" x="{x - 4}" y="{y - 4}" width="8" height="8"/>')
        parts.append(f'<text x="{x + 9}" y="{y + 4.5}">{escape(label(room))}</text>')
    for (own, other), count in sorted(modules.items()):
        size = 1.6 if count == 1 else 2.8 if count < 6 else 4
        parts.append(
            f'<circle class="{other[0]}" cx="{at[other][0]}" cy="{at[own][1]}" r="{size}">'
            f"<title>{escape(label(own))} imports {escape(label(other))} in {count} of its "
            "modules</title></circle>"
        )
    for n, (own, other) in enumerate(upwards):
        parts.append(
            f'<text class="dim" x="8" y="{TOP + len(order) * LINE + 10 + 17 * n}">'
            f"In functions only: {label(own)} imports {label(other)}.</text>"
        )
    return "\n".join((*parts, "</svg>", ""))


if __name__ == "__main__":
    file = DOCS / "rooms.svg"
    if "--check" not in sys.argv:
        file.write_text(drawn())
    elif not file.exists() or file.read_text() != drawn():
        sys.exit("docs/rooms.svg is not the drawing of the code: run python docs/rooms.py")
