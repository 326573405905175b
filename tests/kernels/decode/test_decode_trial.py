"""Devices decode nothing before they have decoded right what is known."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import Device, DeviceContext
from chunkfold.kernels.decode import decode_trial
from chunkfold.kernels.decode.blosc import Blosc
from chunkfold.kernels.decode.codec_chain import FILTERS, Filter
from chunkfold.kernels.decode.decode_trial import tried
from chunkfold.kernels.decode.filter_kernel import FilterKernel
from chunkfold.kernels.decode.lz4 import Lz4
from chunkfold.kernels.decode.workspace import StageInput, Workspace
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


FILTERED = {
    "shuffle": Filter("shuffle", np.dtype("V4"), np.dtype("V4")),
    "delta": Filter("delta", np.dtype("<i4"), np.dtype(">i2")),
    "fixedscaleoffset": Filter("fixedscaleoffset", np.dtype("f8"), np.dtype("i2"), 0.3, 7),
}


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_is_undone_right(fresh: DeviceContext, name: str):
    one = FILTERED[name]
    assert tried(fresh, one, partial(FilterKernel, fresh, one), Workspace(fresh))


def test_a_device_without_float64_divides_nothing(device: Device):
    lacking = DeviceContext(replace(device, without=frozenset({"fp64"})))
    for name, one in FILTERED.items():
        found = tried(lacking, one, partial(FilterKernel, lacking, one), Workspace(lacking))
        assert (found is None) == (name == "fixedscaleoffset")


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_that_is_undone_wrong_is_left_to_the_host(fresh: DeviceContext, name: str):
    """Of another filter, which makes other bits."""
    one = FILTERED[name]
    other = {
        "shuffle": one._replace(decoded=np.dtype("V2")),
        "delta": one._replace(encoded=np.dtype("<i2")),
        "fixedscaleoffset": one._replace(scale=0.30000000000000004),
    }[name]
    assert tried(fresh, one, partial(FilterKernel, fresh, other), Workspace(fresh)) is None


def test_a_device_that_decodes_wrong_is_not_asked_again(fresh: DeviceContext):
    class Wrong(Zstd):
        def decode(self, workspace: Workspace, given: StageInput) -> bool:
            done = super().decode(workspace, given)
            cl.enqueue_fill_buffer(workspace.queue, given.decoded, np.uint8(1), 70, 1)
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
