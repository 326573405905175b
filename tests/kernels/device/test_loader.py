"""Drivers from packages and from the system, shown to the loader together."""

from __future__ import annotations

import os
from pathlib import Path

from chunkfold.kernels.device import loader


def test_system_and_packaged_drivers_are_merged_while_they_are_read(tmp_path: Path):
    (tmp_path / "pocl.icd").write_text("/usr/lib/libpocl.so\n")
    driver = tmp_path / "libintelocl.so"
    with loader.merged_vendors(tmp_path, [driver]) as merged:
        texts = {path.read_text().strip() for path in merged.glob("*.icd")}
        assert texts == {"/usr/lib/libpocl.so", str(driver)}
        assert merged.stat().st_mode & 0o777 == 0o700
    assert not merged.exists()


def test_a_driver_that_the_system_knows_is_named_once(tmp_path: Path):
    driver = tmp_path / "libintelocl.so"
    (tmp_path / "intel.icd").write_text(str(driver))
    with loader.merged_vendors(tmp_path, [driver]) as merged:
        assert [path.name for path in merged.glob("*.icd")] == ["intel.icd"]


def test_what_drivers_are_shown_is_not_for_children(device):
    """Each process has caches of its own: two that shared PoCL's have raced."""
    assert device.platform
    assert not {"OCL_ICD_VENDORS", "POCL_CACHE_DIR"} & os.environ.keys()


def test_a_system_without_vendors_is_fine(tmp_path: Path):
    assert loader.system_drivers(tmp_path / "nothing") == {}


def test_the_cpu_runtime_from_the_registry_is_found():
    assert [path.name for path in loader.packaged_drivers()] != []
    assert all(path.exists() for path in loader.packaged_drivers())
