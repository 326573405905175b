"""Devices decode nothing before they have decoded right what is known."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import Device, DeviceContext
from chunkfold.kernels.decode import decode_trial
from chunkfold.kernels.decode.blosc import Blosc
from chunkfold.kernels.decode.decode_trial import tried
from chunkfold.kernels.decode.lz4 import Lz4
from chunkfold.kernels.decode.workspace import Workspace
from chunkfold.kernels.decode.zstd import Zstd
from chunkfold.kernels.errors import BuildError

KERNELS = {"zstd": Zstd, "blosc": Blosc, "lz4": Lz4}


@pytest.fixture
def fresh(device: Device) -> DeviceContext:
    return DeviceContext(device)


@pytest.mark.parametrize("name", KERNELS)
def test_every_codec_decodes_right(fresh: DeviceContext, name: str):
    make = partial(KERNELS[name], fresh)
    assert isinstance(tried(fresh, name, make, Workspace(fresh)), KERNELS[name])


def test_a_device_that_decodes_wrong_is_not_asked_again(fresh: DeviceContext):
    class Wrong(Zstd):
        def decode(self, workspace: Workspace, *given: Any) -> bool:
            done, decoded = super().decode(workspace, *given), given[3]
            cl.enqueue_fill_buffer(workspace.queue, decoded, np.uint8(1), 70, 1)
            return done

    assert tried(fresh, "zstd", partial(Wrong, fresh), Workspace(fresh)) is None
    assert tried(fresh, "zstd", partial(Zstd, fresh), Workspace(fresh)) is None


def test_kernels_that_do_not_build_are_not_used(fresh: DeviceContext):
    made = []

    def broken():
        made.append(1)
        raise BuildError("no such thing")

    assert tried(fresh, "lz4", broken, Workspace(fresh)) is None
    assert tried(fresh, "lz4", broken, Workspace(fresh)) is None
    assert len(made) == 1
    assert decode_trial._known[fresh] == {"lz4": False}
