"""Who decodes faster, a device or its host: measured in a child process, once, and kept on disk.

So it is once for each device, driver, codec, kind and number of the host's cores, and version of
the kernels. `CHUNKFOLD_TIES=table` measures nothing.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import numcodecs

from chunkfold.kernels.cache.entries import read_entry, write_entry
from chunkfold.kernels.cache.folders import cache_folder
from chunkfold.kernels.decode.decode_rates import DecodeRates, measured_rates
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.opencl.opencl_code import library
from chunkfold.kernels.program.build_options import build_options
from chunkfold.kernels.program.device_context import DeviceContext
from chunkfold.kernels.tuning.trial import answer_to, digest, processes, why_ended
from chunkfold.kernels.tuning.trial_process import ChildEndedError

_FOLDERS = ("blosc", "lz4", "zstd")
"""Folders of the kernels that decode."""
_SHARED = ("bytes.clh", "shuffled.clh")
"""Files that kernels of several of these folders use."""


@dataclass(frozen=True)
class DecodeRequest:
    """A codec whose chunks a device may decode."""

    device: Device
    codec: str

    @property
    def path(self) -> Path:
        """File in which its rates are cached."""
        device, cores = self.device, os.cpu_count()  # workers may keep to some of them
        key = [
            (device.platform, device.name, device.driver, device.version, device.compute_units),
            (self.codec, _sources(), build_options(device)),
            (_processor(), cores, numcodecs.__version__),
        ]
        return cache_folder("decoding") / digest(key)

    def answered(self, opened: DeviceContext) -> DecodeRates | None:
        """Measure it, in the child."""
        return measured_rates(opened, self.codec)


def decode_rates(device: Device, codecs: Collection[str]) -> tuple[DecodeRates, ...]:
    """Return the rates of codecs on a device with memory of its own, as far as they can be known.

    They are measured if they are not known yet.
    """
    if device.unified_memory or device.lacks("device_decode"):
        return ()
    if os.environ.get("CHUNKFOLD_TIES") == "table":
        return ()
    found = (known_rates(device, codec) or _measured(device, codec) for codec in codecs)
    return tuple(one for one in found if one is not None)


def known_rates(device: Device, codec: str) -> DecodeRates | None:
    """Return the rates that were measured before; None if none were, or what is kept is damaged."""
    content = read_entry(DecodeRequest(device, codec).path)
    try:
        return None if content is None else DecodeRates(**json.loads(content))
    except (ValueError, TypeError):
        return None


def _measured(device: Device, codec: str) -> DecodeRates | None:
    request = DecodeRequest(device, codec)
    try:
        answer = answer_to(request)
    except ChildEndedError as ended:
        reason, lasting = why_ended(ended)
        if not lasting:
            return None
        answer = asdict(DecodeRates(codec, failure=reason))
    if answer is None:
        return None
    if answer["failure"]:
        processes.stop()  # such kernels may have written anywhere
    write_entry(request.path, json.dumps(answer).encode())
    return DecodeRates(**answer)


@cache
def _sources() -> str:
    """Return a digest of the kernels that decode."""
    files = resources.files("chunkfold.kernels").joinpath("cl")
    names = [
        f"{folder}/{file.name}" for folder in _FOLDERS for file in files.joinpath(folder).iterdir()
    ]
    return digest([library(name) for name in sorted([*names, *_SHARED])])


@cache
def _processor() -> str:
    """Return the model of this host's cores."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line
    return platform.machine()
