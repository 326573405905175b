"""Programs that were built, kept as the driver's binaries: entries that all processes share.

pyopencl's own cache unpickles what it finds, and takes whatever binary lies there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyopencl as cl
from pyopencl.characterize import has_src_build_cache

from chunkfold.kernels.cache.entries import drop, read_entry, write_entry
from chunkfold.kernels.program.assemble import nameless


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
            kept: cl.Program = cl.Program(context, [handle], [binary])
            return _built(kept, handle, options)
        except cl.Error:
            drop(path, "is not taken by the driver")
    program = _from_source(context, handle, source, options)
    binaries: Any = program.get_info(cl.program_info.BINARIES)
    (binary,) = binaries
    if binary:
        write_entry(path, binary)
    return program


def _from_source(
    context: cl.Context, handle: cl.Device, source: str, options: Sequence[str]
) -> cl.Program:
    return _built(cl.Program(context, source), handle, options)


def _built(program: Any, handle: cl.Device, options: Sequence[str]) -> cl.Program:
    # False: not in pyopencl's own cache, which its annotations forget.
    made: cl.Program = program.build(list(options), devices=[handle], cache_dir=False)
    return made


def _key(handle: cl.Device, source: str, options: Sequence[str]) -> str:
    """Digest of all that decides what is built."""
    platform = handle.platform
    parts = [
        (platform.vendor, platform.name, platform.version),
        (handle.vendor, handle.name, handle.version, handle.driver_version),
        cl.VERSION,
        list(options),
        nameless(source),
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
