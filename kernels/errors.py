"""The exceptions of the device layer; `chunkfold.errors` draws the whole tree.

ChunkfoldError
+-- DeviceError         a device is missing, refused, or failed while working
|   +-- BuildError      a kernel did not build; carries the compiler's log
|   +-- DeviceMemoryError a device has no memory left
+-- MonoidError         a reduction is not defined well
+-- RangeError          a result does not fit its dtype
"""

from __future__ import annotations


class ChunkfoldError(Exception):
    """Base of every error that chunkfold raises on purpose."""

    def __str__(self) -> str:
        """Return the message, without what else an error carries."""
        return str(self.args[0]) if self.args else ""


class DeviceError(ChunkfoldError):
    """An OpenCL device is missing, cannot do what is asked, or failed while working."""

    worker = ""
    """Address of the worker that has the device; empty in the calling process."""


class BuildError(DeviceError):
    """A kernel did not build on a device; the compiler's log is part of the message."""


class DeviceMemoryError(DeviceError):
    """A device has no memory left: others may use it, too."""


class MonoidError(ChunkfoldError, ValueError):
    """A monoid's declaration is inconsistent or refused."""


class RangeError(ChunkfoldError, OverflowError):
    """A result does not fit its dtype; it is never wrapped."""
