"""The package as a whole: folders, layers, public names, no stubs, a wheel that works."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import chunkfold as cf
from chunkfold import kernels
from tests.wheels import ROOT, build, install, run_job

pytestmark = pytest.mark.short
"""What holds the layers is in the short form, however long it takes."""

FOLDERS = {
    "kernels": "chunkfold.kernels",
    "pipeline": "chunkfold",
    "workflows": "chunkfold.workflows",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def layer(module: str) -> str:
    for name in ("kernels", "workflows"):
        if module.startswith(f"chunkfold.{name}"):
            return name
    return "pipeline" if module == "chunkfold" or module.startswith("chunkfold.") else ""


def modules_with_examples() -> list[str]:
    """Modules with doctests, by name."""
    return [
        ".".join([FOLDERS[folder], *path.relative_to(ROOT / folder).with_suffix("").parts])
        for folder in FOLDERS
        for path in sources(folder)
        if ">>> " in path.read_text()
    ]


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_in_docstrings_hold(module: str):
    found = doctest.testmod(importlib.import_module(module), extraglobs={"np": np})
    assert found.attempted
    assert not found.failed


def test_the_packages_listed_are_those_in_the_tree():
    found = {
        ".".join([FOLDERS[folder], *path.parent.relative_to(ROOT / folder).parts])
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found
    for folder in FOLDERS:
        for path in sources(folder):
            assert (path.parent / "__init__.py").exists(), path


@pytest.mark.parametrize(
    ("folder", "allowed", "never"),
    [
        ("kernels", {"kernels"}, {"dask", "distributed", "zarr", "click", "rich"}),
        ("pipeline", {"kernels", "pipeline"}, {"click", "rich"}),
        ("workflows", {"kernels", "pipeline", "workflows"}, {"pyopencl"}),
    ],
)
def test_imports_point_down_only(folder: str, allowed: set[str], never: set[str]):
    for path in sources(folder):
        for module in imported(path):
            assert layer(module) in {*allowed, ""}, f"{path.name} imports {module}"
            assert module.split(".")[0] not in never, f"{path.name} imports {module}"
            assert module.split(".")[0] not in FOLDERS, f"{path.name} imports {module}"


ROOMS = {
    "kernels": (
        "expressions", "cache", "listing", "exact", "monoid", "accumulator", "catalogue", "binding",
        "device", "opencl", "kinds", "program", "fold", "decode", "feed", "tuning", "ladder",
        "bench",
    ),
    "pipeline": (
        "stores", "ledger", "decoding", "sources", "planning", "outputs", "results", "reading",
        "worker", "cluster", "running", "graphs",
    ),
    "workflows": (
        "options", "regionwise", "images", "checks", "comparisons", "files", "transforms",
        "terminal", "report", "job", "cli",
    ),
}  # fmt: skip
"""Folders of a layer: each imports those before it alone."""
FRONT = ("__init__.py", "acceleration.py", "api.py", "covariances.py", "datasets.py", "xarray.py")
"""Modules of a layer's own folder that import rooms; its others are what all rooms stand on."""
UPWARDS = {
    ("monoid", "accumulator"): "a result of one exact field is rounded where it is declared",
    ("monoid", "binding"): "Monoid.evaluate",
    ("planning", "worker"): "Plan.source and Plan.explain, which open devices as plans need not",
}
"""Imports inside functions that go up, and what for."""


def room(module: str, layer: str) -> str:
    """Return the room of a layer that a module is in, or ''."""
    package = FOLDERS[layer]
    name = module.removeprefix(package).lstrip(".").partition(".")[0]
    return name if module.startswith(package + ".") and name in ROOMS[layer] else ""


def test_rooms_import_one_way():
    found = set()
    for layer, rooms in ROOMS.items():
        for path in sources(layer):
            own, *_ = path.relative_to(ROOT / layer).parts
            at_top = {
                node.module
                for node in ast.parse(path.read_text()).body
                if isinstance(node, ast.ImportFrom) and node.module
            }
            for module in imported(path):
                other = room(module, layer)
                if not other or own in FRONT:
                    continue
                assert own in rooms, f"{path.name} stands in no room, but imports {module}"
                if rooms.index(other) > rooms.index(own):
                    assert module not in at_top, f"{own}/{path.name} imports {module}"
                    found.add((own, other))
        folders = {path.name for path in (ROOT / layer).iterdir() if path.is_dir()}
        assert folders - {"__pycache__", "cl"} == set(rooms)
    assert found == UPWARDS.keys()


HOST_SIDE = {
    "distributed.protocol.pickle": "a plan is packed as Dask packs tasks",
    "distributed.system": "the memory that the host has for a process",
}
"""What planning/ takes of `distributed`, which reaches no cluster, and what for."""
DESCRIPTIONS = {
    "DecodeRates",
    "Device",
    "Levels",
    "OPS",
    "decode_bytes",
    "selection_bytes",
    "split",
}
"""What planning/ takes of modules that import pyopencl: descriptions and sizes, no buffers."""


def _taken(path: Path) -> list[tuple[str, str]]:
    """Return what a module takes from others when it is imported: module, name."""
    return [
        (node.module, alias.name)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    ]


def _of_pyopencl(module: str, name: str) -> bool:
    """Whether a name of kernels/ comes from a module that imports pyopencl."""
    found = getattr(importlib.import_module(module), name)
    home = getattr(found, "__module__", None) or module
    if not home.startswith("chunkfold.kernels"):
        home = module
    return "pyopencl" in imported(Path(importlib.import_module(home).__file__ or ""))


def test_planning_touches_no_device_and_no_cluster():
    used, taken = set(), set()
    for path in (ROOT / "pipeline" / "planning").glob("*.py"):
        for module in imported(path):
            if module.removeprefix("dask.").partition(".")[0] == "distributed":
                assert module in HOST_SIDE, f"{path.name} imports {module}"
                used.add(module)
        for module, name in _taken(path):
            if layer(module) == "kernels" and _of_pyopencl(module, name):
                taken.add(name)
    assert used == HOST_SIDE.keys()
    assert taken == DESCRIPTIONS
    for path in sources("pipeline"):
        if "pyopencl" in imported(path):
            assert path.parent.name == "worker", f"{path.name} imports pyopencl"


@pytest.mark.parametrize("layer", ROOMS)
def test_rooms_are_in_the_page_for_developers(layer: str):
    text = (ROOT / "docs" / "for-developers.md").read_text()
    listed = re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)
    rooms = [name for name in ROOMS[layer] if name not in ("ladder", "bench")]
    assert [name for name in listed if name in rooms] == rooms


LONGEST = 300
"""Lines of a module, so that a reader can keep all of it in mind."""


def test_modules_are_short_enough_to_read():
    for folder in FOLDERS:
        for path in sources(folder):
            lines = len(path.read_text().splitlines())
            assert lines <= LONGEST, f"{path.relative_to(ROOT)} has {lines} lines: split it"


def types_of(path: Path) -> set[str]:
    """Return the classes and the names of types that a module defines for others."""
    named = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            named.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.add(node.targets[0].id)
    return {name for name in named if name[0].isupper() and not name.isupper()}


def test_a_type_is_called_what_no_other_is():
    homes: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for path in sources(folder):
            for name in types_of(path):
                homes.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}


COMMANDS = ROOT / "workflows" / "cli"
"""A command may be called what the module is that it runs."""


@pytest.mark.parametrize("layer", FOLDERS)
def test_a_module_is_called_what_no_other_of_its_layer_is(layer: str):
    paths = [path for path in sources(layer) if path.stem != "__init__" and path.parent != COMMANDS]
    names = [path.stem for path in paths if path.parent.name not in (path.stem, "keyed")]
    assert not {name for name in names if names.count(name) > 1}


WRITERS = {
    "as_zarr.py", "changed_parts.py", "chunk_writers.py", "comparing.py", "groups.py",
    "normalize.py", "pyramid.py", "sample.py", "staged_objects.py", "transform.py", "zarr_tiles.py",
}  # fmt: skip
"""Modules of workflows/ that write Zarr, and so know zarr-python."""
PEERS = {"demo_command.py"}
"""Those that read as people do without chunkfold, to compare."""


def test_arrays_of_zarr_are_touched_by_sources_alone():
    rooms = ROOMS["pipeline"]
    behind = [ROOT / "pipeline" / one for one in rooms[rooms.index("sources") + 1 :]]
    own = [path for folder in behind for path in sorted(folder.rglob("*.py"))]
    own += (path for path in (ROOT / "pipeline").glob("*.py"))
    for path in [*own, *sources("workflows")]:
        if path.name in PEERS:
            continue
        if any(module.partition(".")[0] == "zarr" for module in imported(path)):
            assert path.name in WRITERS, f"{path.name} imports zarr"
        for node in ast.walk(ast.parse(path.read_text())):
            named = node.names if isinstance(node, ast.ImportFrom) else ()
            assert "AnyArray" not in {one.name for one in named}, path
            if isinstance(node, ast.Attribute) and node.attr == "array":
                # NumPy's function, Dask's module, and the name of an array in what is told of it.
                holder = node.value.id if isinstance(node.value, ast.Name) else ""
                told = holder in ("np", "chunk") or (holder, path.name) == ("self", "bad_chunks.py")
                assert told, f"{path.name}:{node.lineno} takes {ast.unparse(node)}"


def test_neighbours_of_a_source_are_opened_in_one_place():
    opens = {
        path.name
        for folder in FOLDERS
        for path in sources(folder)
        if re.search(r"(?<!def )\bopen_neighbour\(", path.read_text())
    }
    assert opens == {"neighbours.py"}


def test_the_public_names_are_these():
    assert sorted(cf.__all__) == [
        "Accumulate", "AlignmentWarning", "BuildError", "BusyError", "CancelledError", "ChunkError",
        "ChunkfoldError", "ClusterError", "Device", "DeviceError", "EmptyWarning", "ExactArray",
        "IncompleteError", "JobError", "LawsWarning", "LocalOpenCLCluster", "MissingWarning",
        "Monoid", "MonoidError", "NaNWarning", "PackedWarning", "PlaceWarning", "Plan", "PlanError",
        "RangeError", "RemarkWarning", "Result", "Results", "Run", "ServerWarning",
        "ShortMemoryWarning", "SkippedWarning", "SourceError", "TimeLimitError", "UnreachableError",
        "UnstoredWarning",
        "accelerate", "approx_nunique", "argbottomk", "argtopk", "ask", "bins", "bits", "bottomk",
        "concatenate", "corrcoef", "cov", "devices", "first", "fma", "gap", "histogram",
        "longest_run", "lookup", "lower",
        "magnitude", "nonzero", "order_high", "order_low", "plan", "quantile", "rank_high",
        "rank_low", "ratio", "real", "reduce", "submit", "topk", "upper", "where", "wide",
    ]  # fmt: skip
    for name in cf.__all__:
        assert getattr(cf, name).__doc__
    # Submodules that share no name with what is public: the value can never be hidden.
    modules = {path.stem for path in (ROOT / "pipeline").glob("*.py")} | {"kernels", "workflows"}
    assert not modules & set(cf.__all__)
    modules = {path.stem for path in (ROOT / "kernels").iterdir()}
    assert not modules & set(kernels.__all__)
    assert all(getattr(kernels, name) is not None for name in kernels.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = cf.nothing


def test_every_public_error_is_in_the_tree_drawn():
    from chunkfold import errors

    for name in errors.__all__:
        assert issubclass(getattr(errors, name), cf.ChunkfoldError)
        assert re.search(rf"^[|+ -]*{name}\b", errors.__doc__, re.MULTILINE), name


def test_nothing_is_a_stub():
    pattern = re.compile(r"TODO|FIXME|XXX|NotImplementedError|# *stub|placeholder", re.IGNORECASE)
    for folder in (*FOLDERS, "benchmarks", "deploy"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".cl", ".clh", ".md", ".service"):
                assert not pattern.search(path.read_text()), path


def test_the_engine_never_prints():
    for folder in ("kernels", "pipeline"):
        for path in sources(folder):
            assert not re.search(r"^\s*print\(", path.read_text(), re.MULTILINE), path


def test_the_wheel_reduces_from_another_folder(tmp_path: Path):
    """With this environment's dependencies; tests/real has the wheel with its own."""
    python = install(tmp_path / "env", "--no-deps", str(build(tmp_path)))
    site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    own = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    # Behind the wheel's own folder, and without this checkout's editable install.
    (site / "dependencies.pth").write_text(f"import sys; sys.path.append({str(own)!r})\n")
    run_job(python, tmp_path)
