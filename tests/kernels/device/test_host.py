"""Devices of this host: listing, choosing, splitting, finding again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chunkfold.kernels import Device, DeviceContext, DeviceError, default_devices, devices
from chunkfold.kernels.device import host
from chunkfold.kernels.device.host import handle_of, split
from tests.conftest import DEVICES


def test_a_spec_finds_its_device(device: Device):
    assert devices(device.spec) == [device]
    assert devices(device.uuid) == [device]
    assert {d.hardware for d in devices(device.kind)} >= {device.hardware}
    assert len(devices(device.kind)) == len({d.hardware for d in devices(device.kind)})
    assert device in devices(f"{device.platform}::")
    assert device in devices("all")


def test_parts_are_devices_of_their_own(device: Device):
    if device.kind != "cpu":
        with pytest.raises(DeviceError, match="cannot be split in 2: it is a"):
            devices(f"{device.spec}/2")
        return
    parts = devices(f"{device.spec}/2")
    assert [part.part for part in parts] == [(0, 2), (1, 2)]
    assert len({part.uuid for part in parts} | {device.uuid}) == 3
    assert devices(f"{device.spec}/2#1") == [parts[1]]
    assert sum(part.compute_units for part in parts) == device.compute_units
    for part in parts:
        assert handle_of(part).max_compute_units == part.compute_units
        assert DeviceContext(part).device.spec == part.spec


def test_a_device_is_told_from_those_of_other_hosts_and_boots(device: Device):
    """Whatever the driver says; a host's name and machine id may be another's too."""
    assert (device.host, device.boot) == (
        socket.gethostname(),
        Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    )
    others = [replace(device, **{name: "other"}) for name in ("host", "boot", "platform")]
    assert len({one.identity for one in (device, *others)}) == 4
    assert replace(device, index=7).identity == device.identity  # which variables may change
    assert devices(device.uuid) == [device]


def test_a_part_is_found_beside_devices_that_cannot_be_split(monkeypatch):
    (part, _) = devices(f"{DEVICES[0].spec}/2")
    gpu = replace(DEVICES[0], kind="gpu", platform="NVIDIA CUDA", uuid="g")
    one_unit = replace(DEVICES[0], uuid="other", platform="Another", most_parts=1)
    listed = host._listed()
    monkeypatch.setattr(host, "_listed", lambda: ((gpu, None), (one_unit, None), *listed))
    assert handle_of(part).max_compute_units == part.compute_units


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("quantum", r"no OpenCL device matches 'quantum'; use one of: "),
        ("9:9:gpu", "no OpenCL device matches '9:9:gpu'"),
        ("all/x", r"should end in /n or /n#k"),
        ("all/²", r"should end in /n or /n#k"),
        ("all/2#٢", r"should end in /n or /n#k"),
        ("all/1000", "cannot be split in 1000"),
        ("all/0", "cannot be split in 0"),
        ("cpu/2#5", "names part 5 of 2|no OpenCL device matches"),
    ],
)
def test_a_spec_that_matches_nothing_lists_what_there_is(spec: str, match: str):
    with pytest.raises(DeviceError, match=match):
        devices(spec)


def test_one_cpu_device_by_default_and_the_rest_is_accounted_for(monkeypatch):
    chosen, left_out = default_devices()
    assert {*chosen, *left_out} == set(DEVICES)
    assert len(chosen) == 1  # the CPU counts once, whatever shows it
    assert all("same hardware" in reason for reason in left_out.values())


def test_gpus_win_and_hardware_counts_once(monkeypatch):
    base = DEVICES[0]
    cpu = replace(base, kind="cpu", uuid="c", hardware="cpu")
    one = replace(base, kind="gpu", uuid="g1", hardware="pci 0:1:0", version=(3, 0))
    again = replace(one, uuid="g1-other-driver", version=(1, 2))
    two = replace(one, uuid="g2", hardware="pci 0:2:0")
    monkeypatch.setattr(host, "all_devices", lambda: (cpu, again, one, two))
    chosen, left_out = default_devices()
    assert chosen == [one, two]
    assert set(left_out) == {cpu, again}


def test_a_name_is_a_platform_s_before_it_is_a_device_s(monkeypatch):
    """PoCL calls its device by the processor: Intel's."""
    base = DEVICES[0]
    own = replace(base, platform="Intel(R) OpenCL", name="Intel(R) Xeon(R)", uuid="i")
    other = replace(base, platform="Portable Computing Language", name="cpu-Intel(R)", uuid="p")
    monkeypatch.setattr(host, "all_devices", lambda: (own, other))
    assert devices("intel") == [own]
    assert devices("cpu-intel") == [other]
    assert devices("all") == [own, other]
    assert devices(":intel") == [own, other]


def test_no_device_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr(host, "all_devices", lambda: ())
    with pytest.raises(DeviceError, match=r"no OpenCL device .* pip install intel-opencl-rt"):
        default_devices()
    with pytest.raises(DeviceError, match=r"this host has no OpenCL device"):
        devices("gpu")


def test_a_device_that_is_gone_is_an_error():
    with pytest.raises(DeviceError, match="is gone"):
        handle_of(replace(DEVICES[0], uuid="00000000-0000-0000-0000-000000000000"))
    with pytest.raises(DeviceError, match="cannot be split"):
        split(replace(DEVICES[0], kind="gpu"), 2)


def test_no_driver_at_all_is_no_crash(tmp_path):
    """A host without any .icd file, in a process of its own."""
    code = (
        "from chunkfold.kernels import all_devices, default_devices\n"
        "assert all_devices() == ()\n"
        "try: default_devices()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"OCL_ICD_VENDORS": str(tmp_path), "CHUNKFOLD_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("DeviceError no OpenCL device was found; install")


def test_the_device_layer_needs_neither_dask_nor_zarr():
    code = (
        "import sys, chunkfold.kernels\n"
        "print(sorted({'dask', 'distributed', 'zarr'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
