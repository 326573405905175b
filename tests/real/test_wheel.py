"""The wheel in a clean environment, with its own dependencies from the package registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wheels import build, install, run_job

pytestmark = pytest.mark.real


def test_the_wheel_and_the_cpu_runtime_are_all_it_takes(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path / "cache"))
    python = install(tmp_path / "env", f"{build(tmp_path)}[cpu]")
    run_job(python, tmp_path)
