"""Drivers from packages and from the system, shown to the loader together."""

from __future__ import annotations

from pathlib import Path

from chunkfold.kernels import loader


def test_system_and_packaged_drivers_are_merged(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path / "cache"))
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (vendors / "pocl.icd").write_text("/usr/lib/libpocl.so\n")
    driver = tmp_path / "libintelocl.so"
    merged = loader.merged_vendors(vendors, [driver])
    texts = {path.read_text().strip() for path in merged.glob("*.icd")}
    assert texts == {"/usr/lib/libpocl.so", str(driver)}
    assert loader.merged_vendors(vendors, [driver]) == merged


def test_a_driver_that_the_system_knows_is_named_once(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path / "cache"))
    driver = tmp_path / "libintelocl.so"
    (tmp_path / "intel.icd").write_text(str(driver))
    merged = loader.merged_vendors(tmp_path, [driver])
    assert [path.name for path in merged.glob("*.icd")] == ["intel.icd"]


def test_a_system_without_vendors_is_fine(tmp_path: Path):
    assert loader.system_drivers(tmp_path / "nothing") == {}


def test_the_cpu_runtime_from_the_registry_is_found():
    assert [path.name for path in loader.packaged_drivers()] != []
    assert all(path.exists() for path in loader.packaged_drivers())
