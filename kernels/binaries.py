"""Programs that were built, kept as the driver's binaries: entries of this process's slot.

pyopencl's own cache unpickles what it finds, and takes whatever binary lies there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyopencl as cl
from pyopencl.characterize import has_src_build_cache

from chunkfold.kernels.entries import drop, read_entry, write_entry


def built(
    context: cl.Context, handle: cl.Device, source: str, options: Sequence[str], folder: Path
) -> cl.Program:
    """Build a program for a device, from the binary kept in a folder if there is one.

    Raises
    ------
    pyopencl.RuntimeError
        If it does not build.
    """
    if has_src_build_cache(handle):  # the driver keeps what it built itself
        return _from_source(context, handle, source, options)
    path = folder / _key(handle, source, options)
    binary = read_entry(path)
    if binary is not None:
        try:
            return cl.Program(context, [handle], [binary]).build(list(options), devices=[handle])
        except cl.Error:
            drop(path, "is not taken by the driver")
    program = _from_source(context, handle, source, options)
    (binary,) = program.get_info(cl.program_info.BINARIES)
    if binary:
        write_entry(path, binary)
    return program


def _from_source(
    context: cl.Context, handle: cl.Device, source: str, options: Sequence[str]
) -> cl.Program:
    # False: not in pyopencl's own cache.
    return cl.Program(context, source).build(list(options), devices=[handle], cache_dir=False)


def _key(handle: cl.Device, source: str, options: Sequence[str]) -> str:
    """Digest of all that decides what is built."""
    platform = handle.platform
    parts = [
        (platform.vendor, platform.name, platform.version),
        (handle.vendor, handle.name, handle.version, handle.driver_version),
        cl.VERSION,
        list(options),
        source,
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
