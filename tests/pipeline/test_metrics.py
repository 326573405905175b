"""Workers count what they fold, for Prometheus."""

from __future__ import annotations

import re
import urllib.request

import numpy as np
import zarr

import chunkfold as cf
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
