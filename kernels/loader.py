"""Make every installed OpenCL driver visible to the loader, those from Python packages too.

The loader inside pyopencl's wheel is ocl-icd: it reads one folder of .icd files, named by
OCL_ICD_VENDORS, before the first call of clGetPlatformIDs. Intel's CPU runtime from the package
registry ships an .icd that names a folder of another machine, so a folder of merged .icd files is
written to the cache and shown to the loader instead.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pyopencl as cl

from chunkfold.kernels.caches import cache_in_slot
from chunkfold.kernels.folders import cache_folder, write_atomically

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


def merged_vendors(vendors: Path, drivers: list[Path]) -> Path:
    """Write a folder that names the system's drivers and `drivers`; return it."""
    entries = system_drivers(vendors)
    known = set(entries.values())
    entries |= {
        f"chunkfold-{path.stem}.icd": str(path) for path in drivers if str(path) not in known
    }
    digest = hashlib.sha256(repr(sorted(entries.items())).encode()).hexdigest()[:16]
    folder = cache_folder("vendors", digest)
    for name, text in entries.items():
        if not (folder / name).exists():
            write_atomically(folder / name, text + "\n")
    return folder


@cache
def platforms() -> tuple[cl.Platform, ...]:
    """Return every OpenCL platform of this host; empty if there is none.

    A vendors setting of the user's (OCL_ICD_VENDORS) is left as it is.
    """
    os.environ.setdefault("POCL_CACHE_DIR", str(cache_in_slot("pocl")))
    drivers = packaged_drivers()
    if drivers and not os.environ.get("OCL_ICD_VENDORS"):
        os.environ["OCL_ICD_VENDORS"] = str(merged_vendors(SYSTEM_VENDORS, drivers))
    try:
        return tuple(cl.get_platforms())
    except cl.Error:  # clGetPlatformIDs fails where there is no driver at all
        return ()


@cache
def entry_point(name: str, *takes: Any) -> Any:
    """Return a C function of the loader: pyopencl lacks some, and in others holds Python's lock.

    `takes`: the types of its arguments. It returns an OpenCL status.
    """
    function = getattr(ctypes.CDLL(cl._cl.__file__), name)
    function.argtypes, function.restype = takes, ctypes.c_int
    return function
