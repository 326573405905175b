"""A buffer of a device with memory of its own: fed by files, or filled by the thread that reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode.decode_batch import DecodeBatch
from chunkfold.kernels.decode.device_decoder import DeviceDecoders
from chunkfold.kernels.feed.commands import Contents, NotFed, Runs
from chunkfold.kernels.feed.feeder import Feeder
from chunkfold.kernels.fold.staging import StagedInputs, pinned
from chunkfold.kernels.fold.waiting import wait
from chunkfold.kernels.program.device_context import DeviceContext, device_errors


class FedBuffer:
    """A buffer for the input of one read at a time, used again as `fold.staging.StagingBuffer`.

    Parameters
    ----------
    feeder
        Returns what feeds the device from files.
    decoders
        Decoders that threads borrow.
    """

    def __init__(
        self,
        opened: DeviceContext,
        nbytes: int,
        feeder: Callable[[], Feeder],
        decoders: DeviceDecoders,
    ) -> None:
        self.nbytes = nbytes
        self._opened, self._feeder, self._decoders = opened, feeder, decoders
        self._queue = opened.queue()
        self._memory: np.ndarray | None = None
        """Pinned memory; None until `begin` is called first."""
        self._upload: cl.Event | None = None
        self._until: cl.Event | None = None
        """The fold that reads it."""
        self._uploaded_s = 0.0
        with device_errors(opened.device, f"allocating {nbytes} bytes"):
            self._buffer = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, nbytes)

    def ready(self) -> None:
        """Do nothing: uploads wait for the last fold, on the device."""

    def feed_from_files(self, runs: Runs) -> bool:
        """Bring runs of files into the buffer; False if they are not as they were planned.

        Raises
        ------
        DeviceError
            If the device fails.
        """
        feeder = self._feeder()
        try:
            feeder.feed(runs, self._buffer, self._before())
        except NotFed:
            return False
        self._drain_upload()  # complete, since pieces waited for it
        self._uploaded_s += feeder.uploaded_s()
        return True

    def decode(self, stored: Runs | Contents, chunks: DecodeBatch) -> bool:
        """Decode chunks into the buffer; return False if the host is to do it.

        The host decodes files that are not as they were planned, and chunks that the device
        refuses.

        Parameters
        ----------
        stored
            Where chunks are in files; or a generator that brings them, as `DeviceDecoder.bring`.

        Raises
        ------
        DeviceError
            If the device fails.
        """
        try:
            with self._decoders.borrowed() as decoder:
                if isinstance(stored, Runs):
                    feeder = self._feeder()
                    feeder.feed(stored, decoder.stored_buffer(chunks))
                    self._uploaded_s += feeder.uploaded_s()
                else:
                    with closing(stored):
                        chunks = decoder.bring(stored, chunks)
                    self._uploaded_s += decoder.uploaded_s()
                done = decoder.decode(chunks, self._buffer, self._before())
        except NotFed:
            return False
        if done:
            self._drain_upload()  # complete, since the kernels waited for it
        return done

    def begin(self) -> np.ndarray:
        """Wait for the last upload; return memory, uint8, to be filled.

        It raises as `feed_from_files`.
        """
        if self._memory is None:
            with device_errors(self._opened.device, f"allocating {self.nbytes} bytes"):
                self._memory = pinned(self._opened, self._queue, self.nbytes)
        self._drain_upload()
        return self._memory

    def upload(self, nbytes: int) -> None:
        """Upload the first bytes of that memory; raises as `feed_from_files`."""
        assert self._memory is not None
        with device_errors(self._opened.device, f"uploading {nbytes} bytes"):
            self._upload = cl.enqueue_copy(
                self._queue,
                self._buffer,
                self._memory[:nbytes],
                is_blocking=False,
                wait_for=self._before(),
            )
            self._queue.flush()

    def commit(self, nbytes: int) -> StagedInputs:  # noqa: ARG002 # kernels are told how many
        """Return the buffer, and the upload that a fold must wait for, if there is one."""
        return StagedInputs(self._buffer, () if self._upload is None else (self._upload,))

    def busy_until(self, event: cl.Event | None) -> None:
        """Note the fold that reads the buffer: uploads wait for it."""
        self._until = event

    def drain(self) -> None:
        """Wait for the last upload and the last fold."""
        self._drain_upload()
        if self._until is not None:
            wait(self._opened.device, self._until, "the fold of a staging buffer")
            self._until = None

    def uploaded_s(self) -> float:
        """Return the seconds that uploads took by the device's clock since this was last asked."""
        seconds, self._uploaded_s = self._uploaded_s, 0.0
        return seconds

    def _drain_upload(self) -> None:
        if self._upload is not None:
            wait(self._opened.device, self._upload, "an upload")
            times = self._upload.profile
            self._uploaded_s += (times.end - times.start) / 1e9
            self._upload = None

    def _before(self) -> list[cl.Event]:
        return [event for event in (self._until, self._upload) if event is not None]
