"""The package as a whole: folders, layers, public names, no stubs, a wheel that works."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import chunkfold as cf

ROOT = Path(__file__).parent.parent
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


def test_the_public_names_are_these():
    assert sorted(cf.__all__) == [
        "Accumulate", "BuildError", "CancelledError", "ChunkError", "ChunkfoldError",
        "ClusterError", "Device", "DeviceError", "IncompleteError", "LocalOpenCLCluster",
        "Monoid", "MonoidError", "Plan", "PlanError", "Run", "SourceError", "devices", "plan",
        "reduce", "submit",
    ]  # fmt: skip
    for name in cf.__all__:
        assert getattr(cf, name).__doc__
    # Submodules that share no name with what is public: the value can never be hidden.
    modules = {path.stem for path in (ROOT / "pipeline").glob("*.py")} | {"kernels", "workflows"}
    assert not modules & set(cf.__all__)
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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel in an environment of its own; its dependencies are this one's."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(build, check=True, timeout=200, capture_output=True)
    (wheel,) = folder.glob("chunkfold-*.whl")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", wheel]
    subprocess.run(install, check=True, timeout=200, capture_output=True)
    site = next((folder / "env" / "lib").glob("python*/site-packages"))
    own = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    # Behind the wheel's own folder, and without this checkout's editable install.
    (site / "dependencies.pth").write_text(f"import sys; sys.path.append({str(own)!r})\n")
    return python


def test_the_wheel_reduces_from_another_folder(installed: Path, tmp_path: Path):
    code = (
        "import numpy as np, zarr, chunkfold as cf, chunkfold.kernels\n"
        "from pathlib import Path\n"
        "if __name__ == '__main__':\n"
        "    print(Path(cf.__file__).parent)\n"
        "    z = zarr.create_array('a.zarr', shape=(99, 7), chunks=(10, 7), dtype='i4')\n"
        "    z[...] = np.arange(693).reshape(99, 7)\n"
        "    with cf.LocalOpenCLCluster(dashboard_address=None) as c:\n"
        "        with c.get_client() as client:\n"
        "            print(cf.reduce('a.zarr', ['sum', 'max'], client=client))\n"
    )
    (tmp_path / "job.py").write_text(code)
    done = subprocess.run(
        [installed, "job.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, answer = done.stdout.strip().split("\n")
    assert str(installed.parent.parent) in where
    assert "239778" in answer
    assert "692" in answer
