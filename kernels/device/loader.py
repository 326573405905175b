"""Make every installed OpenCL driver visible to the loader, those from Python packages too.

The loader inside pyopencl's wheel is ocl-icd: it reads one folder of .icd files, named by
OCL_ICD_VENDORS, before the first call of clGetPlatformIDs. Intel's CPU runtime from the package
registry ships an .icd that names a folder of another machine, so a folder of merged .icd files is
shown to the loader instead, for as long as it reads: what it names is loaded as code.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pyopencl as cl

from chunkfold.kernels.cache.caches import cache_in_slot, sealed_in_slot

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
_PACKAGED = {"intel-opencl-rt": "libintelocl.so"}
"""Packages that hold a driver, and the driver's file."""


def packaged_drivers() -> list[Path]:
    """Return the OpenCL drivers that Python packages of this environment hold."""
    found = []
    for package, library in _PACKAGED.items():
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        paths = [Path(str(file.locate())).resolve() for file in files if file.name == library]
        found += [path for path in paths if path.exists()]
    return found


def system_drivers(vendors: Path) -> dict[str, str]:
    """Return the text of each .icd file in a vendors folder, by file name."""
    if not vendors.is_dir():
        return {}
    return {path.name: path.read_text().strip() for path in sorted(vendors.glob("*.icd"))}


@contextmanager
def merged_vendors(vendors: Path, drivers: list[Path]) -> Iterator[Path]:
    """Yield a folder that names the system's drivers and `drivers`; it goes afterwards.

    Raises
    ------
    OSError
        If there is no place where it can be written.
    """
    entries = system_drivers(vendors)
    known = set(entries.values())
    entries |= {
        f"chunkfold-{path.stem}.icd": str(path) for path in drivers if str(path) not in known
    }
    with ExitStack() as stack:
        try:
            folder = _written(entries, stack, None)
        except OSError:  # there is no temporary folder, or no room in it
            folder = _written(entries, stack, cache_in_slot("vendors"))
        yield folder


def _written(entries: Mapping[str, str], stack: ExitStack, place: Path | None) -> Path:
    made = tempfile.TemporaryDirectory(prefix="chunkfold-vendors-", dir=place)
    folder = Path(stack.enter_context(made))
    for name, text in entries.items():
        (folder / name).write_text(text + "\n")
    return folder


@cache
def platforms() -> tuple[cl.Platform, ...]:
    """Return every OpenCL platform of this host.

    Settings of the user's (OCL_ICD_VENDORS, POCL_CACHE_DIR) are left as they are.
    """
    drivers = packaged_drivers()
    with ExitStack() as stack:
        shown = {}
        if not os.environ.get("POCL_CACHE_DIR"):
            shown["POCL_CACHE_DIR"] = str(sealed_in_slot("pocl"))
        if drivers and not os.environ.get("OCL_ICD_VENDORS"):
            merged = stack.enter_context(merged_vendors(SYSTEM_VENDORS, drivers))
            shown["OCL_ICD_VENDORS"] = str(merged)
        stack.enter_context(_environment(shown))
        try:
            found = tuple(cl.get_platforms())
        except cl.Error:  # clGetPlatformIDs fails where there is no driver at all
            return ()
        for platform in found:  # drivers read their settings when they are asked for devices
            with suppress(cl.Error):
                platform.get_devices()
        return found


@contextmanager
def _environment(shown: Mapping[str, str]) -> Iterator[None]:
    """Show the loader and drivers some variables, which are not for this process's children."""
    before = {name: os.environ.get(name) for name in shown}
    os.environ.update(shown)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def entry_point(name: str, *takes: Any) -> Any:
    """Return a C function of the loader: pyopencl lacks some, and in others holds Python's lock.

    `takes`: the types of its arguments. It returns an OpenCL status.
    """
    function = getattr(ctypes.CDLL(cl._cl.__file__), name)
    function.argtypes, function.restype = takes, ctypes.c_int
    return function
