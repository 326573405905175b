"""The report of each device is its own, wherever it is; workers count what they fold."""

from __future__ import annotations

import re
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import prometheus_client
import zarr

import chunkfold as cf
from chunkfold.worker import block_report
from chunkfold.worker.block_report import (
    BlockTimes,
    DeviceReport,
    Report,
    distinct_names,
    merge,
)
from tests.conftest import DEVICES


def test_a_worker_s_endpoint_counts_what_it_folded(tmp_path):
    values = np.arange(1000.0)
    array = zarr.create_array(str(tmp_path / "a.zarr"), data=values, chunks=(100,))
    (tmp_path / "a.zarr" / "c" / "3").write_bytes(b"broken")
    with cf.LocalOpenCLCluster(DEVICES[0].spec) as cluster, cluster.get_client() as client:
        for _ in range(2):
            run = cf.submit(array, "sum", client=client, on_bad_chunk="skip")
            assert run.result() == values.sum() - values[300:400].sum()
        (worker,) = client.scheduler_info(n_workers=-1)["workers"].values()
        address = f"http://127.0.0.1:{worker['services']['dashboard']}/metrics"
        with urllib.request.urlopen(address, timeout=30) as answer:
            text = answer.read().decode()
    found = re.findall(r'^chunkfold_(\w+)_total\{device="(.*)"\} (.*)$', text, re.MULTILINE)
    assert {device for _, device, _ in found} == {DEVICES[0].uuid}
    counted = {name: float(amount) for name, _, amount in found}
    assert (counted["blocks"], counted["bytes"], counted["skipped_elements"]) == (2, 14400, 200)
    assert counted["decode_seconds"] > 0
    assert "dask_worker_tasks" in text


def test_blocks_that_end_at_once_are_all_counted(monkeypatch):
    """The first ones of a worker, which make the counters: each can be made once only."""
    registry, true_counter = prometheus_client.CollectorRegistry(), prometheus_client.Counter

    def slowly(*given) -> prometheus_client.Counter:
        time.sleep(0.05)
        return true_counter(*given, registry=registry)

    monkeypatch.setattr(block_report, "_counters", cache(block_report._counters.__wrapped__))
    with monkeypatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setattr(prometheus_client, "Counter", slowly)
        times = BlockTimes(*[0.0] * 7, 8)  # type: ignore[call-arg]
        for done in [pool.submit(block_report.count_block, "device", times, 0) for _ in range(4)]:
            done.result(60)
    assert registry.get_sample_value("chunkfold_blocks_total", {"device": "device"}) == 4


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
    assert list(distinct_names([mine, theirs, mine]).values()) == [
        f"{mine.spec} on a", f"{mine.spec} on b",
    ]  # fmt: skip
    assert distinct_names([mine, mine]) == {mine.identity: mine.spec}
