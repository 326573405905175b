"""What devices did is kept apart by device, wherever it is."""

from __future__ import annotations

from dataclasses import replace

from chunkfold.worker.block_report import DeviceReport, Report, merge, told_apart
from tests.conftest import DEVICES


def test_devices_of_two_hosts_are_two_and_the_same_device_is_one():
    mine = replace(DEVICES[0], host="a", boot="0")
    theirs = replace(mine, host="b")
    parts = [
        Report(1, {device.identity: DeviceReport(device, "tree", "", (worker,), 1, 8)})
        for device, worker in ((mine, "w0"), (theirs, "w1"), (mine, "w2"))
    ]
    found = merge(parts).devices
    assert [(entry.workers, entry.blocks) for entry in found.values()] == [
        (("w0", "w2"), 2), (("w1",), 1),
    ]  # fmt: skip
    assert list(told_apart([mine, theirs, mine]).values()) == [
        f"{mine.spec} on a", f"{mine.spec} on b",
    ]  # fmt: skip
    assert told_apart([mine, mine]) == {mine.identity: mine.spec}
