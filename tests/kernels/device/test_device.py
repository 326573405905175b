"""PCI addresses are read as drivers tell them, each in its own way."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace
from typing import Any

import pyopencl as cl
import pytest

from chunkfold.kernels import Device
from chunkfold.kernels.device import device as described
from chunkfold.kernels.device.device import _hardware, _pci


def handle(extensions: str = "", **told: object) -> Any:
    """A driver's answers: there is none of these drivers on most hosts."""
    return SimpleNamespace(extensions=extensions, int_ptr=1, **told)


def _answers(monkeypatch: pytest.MonkeyPatch, failed: int, *numbers: int) -> None:
    def ask(device: int, query: int, size: int, place: Any, _: None) -> int:
        assert (device, query, size) == (1, 0x410F, 16)
        ctypes.memmove(place, struct.pack("4I", *numbers), size)
        return failed

    monkeypatch.setattr(described, "entry_point", lambda *_: ask)


def test_the_standard_query_comes_first(monkeypatch):
    _answers(monkeypatch, 0, 1, 0xC1, 0, 2)
    assert _pci(handle("cl_khr_pci_bus_info", pci_bus_id_nv=3)) == "0001:c1:00.2"
    _answers(monkeypatch, cl.status_code.INVALID_VALUE, 1, 0xC1, 0, 2)
    assert _pci(handle("cl_khr_pci_bus_info", pci_bus_id_nv=3)) == "0000:03:00.0"


def test_vendors_have_queries_of_their_own():
    nvidia = handle(pci_bus_id_nv=0x1B, pci_slot_id_nv=0x12, pci_domain_id_nv=0x10000)
    assert _pci(nvidia) == "10000:1b:02.2"
    # pyopencl reads a bus above 127 as a negative number.
    amd = handle(topology_amd=SimpleNamespace(bus=-63, device=0, function=1))
    assert _pci(amd) == "0000:c1:00.1"


def test_without_any_hardware_has_another_name(device: Device):
    assert _pci(handle()) == _hardware("gpu", "") == ""
    assert _hardware("gpu", "0000:1b:00.0") == "pci 0000:1b:00.0"
    if device.kind == "cpu":
        assert (device.pci, device.hardware) == ("", f"cpu of {device.host}")
