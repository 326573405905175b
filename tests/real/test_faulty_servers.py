"""Real servers that lose, delay, cut and refuse requests: the same bits, and a ledger holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import dask
import numpy as np
import obstore
import pytest
import zarr
from zarr.storage import ObjectStore

import chunkfold as cf
from chunkfold.errors import LedgerWarning
from chunkfold.ledger.ledger import Ledger
from chunkfold.ledger.upkeep import prune
from chunkfold.planning import ledger_spans
from chunkfold.running.run import Run
from chunkfold.stores.listing import listed
from chunkfold.stores.obstore_clients import open_store
from tests.ledgers import assert_same, small_blocks
from tests.real.faulty import FAULTS, faulty
from tests.real.servers import Ceph, ceph, nginx
from tests.workflows.test_cli import chunkfold

pytestmark = pytest.mark.real
VALUES = np.random.default_rng(0).normal(size=(300, 20, 25)).astype("f4")
OPS = ("mean", "std", "argmax")
Server = tuple[str, int, dict[str, str]]
"""The address of the array, the server's port, and what clients need; a proxy's port is open."""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceph]:
    with ceph(tmp_path_factory.mktemp("ceph")) as made:
        write_array(ObjectStore(made.bucket("data")))
        made.bucket("kept")
        yield made


def write_array(store: ObjectStore | Path) -> None:
    """Write an array of 300 chunks."""
    zarr.create_array(store, name="a", data=VALUES, chunks=(1, 20, 25))


@pytest.fixture(params=["s3", "http"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    if request.param == "s3":
        made = request.getfixturevalue("s3")
        yield "s3://data/a", made.port, made.environment | {"AWS_ENDPOINT_URL": "http://{}"}
        return
    write_array(tmp_path / "root")
    (tmp_path / "state").mkdir()
    with nginx(tmp_path / "state", tmp_path / "root") as url:
        yield "http://{}/a", int(urlsplit(url).port or 0), {}


def test_faults_of_one_request_in_twenty_change_no_bit_and_are_counted(
    server: Server, tmp_path: Path
):
    address, port, environment = server
    alone = cf.reduce(VALUES, list(OPS), axis=0)
    asking = ("--axis", "0", *(word for op in OPS for word in ("--op", op)))
    out, manifest = tmp_path / "out.zarr", tmp_path / "manifest.json"
    with faulty(port, seed=2) as proxy:
        there = f"127.0.0.1:{proxy.port}"
        more = {name: value.format(there) for name, value in environment.items()}
        writing = ("--out", out, "--manifest", manifest)
        chunkfold("reduce", address.format(there), *asking, *writing, **more)
    for op in OPS:
        assert_same(zarr.open_array(out / op)[...], alone[op])
    (run,) = json.loads(manifest.read_text())["runs"].values()
    # A failure is not tried again where a second request was made beside.
    assert run["requests"]["again"] + run["requests"]["hedged"] >= proxy.failed("/c/") > 0
    assert {kind for kind, _ in proxy.faults} == {*FAULTS}


@pytest.fixture
def _small_blocks(s3: Ceph, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    small_blocks(monkeypatch, 1 << 13, (1 << 16, 1 << 17))
    monkeypatch.setattr(ledger_spans, "SETTLED_NS", (0, 0))  # chunks were written a moment ago


def asked(port: int, place: str) -> Run:
    """Reduce the array in S3 with a ledger, through a port; see that it is right."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        run = cf.submit("s3://data/a", ["mean", "argmax"], ledger=f"s3://kept/{place}")
        assert_same(run.result(120), cf.reduce(VALUES, ["mean", "argmax"]))
    return run


@pytest.mark.usefixtures("_small_blocks")
def test_a_ledger_behind_faults_holds(s3: Ceph):
    with faulty(s3.port, 0) as proxy:
        first = asked(proxy.port, "mixed")
        assert first.ledger.kept == len(first.plan.blocks) > 4
        assert asked(proxy.port, "mixed").ledger.known == len(first.plan.blocks)
    for kind in FAULTS:
        of_data = ["GET /data?list"] * (kind in ("cut", "dropped", "503"))
        for only in ("PUT /kept", "GET /kept", *of_data):
            with faulty(s3.port, 1, kinds=(kind,), only=only, share=0.1, first=1) as proxy:
                report = asked(proxy.port, kind).ledger
                assert proxy.faults
            done = report.kept if only.startswith("PUT") else report.known
            assert done == len(first.plan.blocks), (kind, only, report)
            assert report.damaged == 0


def test_a_listing_goes_on_where_an_answer_broke_off(s3: Ceph, monkeypatch: pytest.MonkeyPatch):
    store = s3.store("data")
    keys = {f"many/{number}" for number in range(1100)}  # more than a server tells at a time
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: obstore.put(store, key, b"x"), keys))
    second = "continuation-token"
    with faulty(s3.port, 0, kinds=("cut",), only=second, share=0, first=1) as proxy:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value.replace(str(s3.port), str(proxy.port)))
        found = [f"many/{key}" for key, *_ in listed(open_store("s3://data"), "many")]
        assert len(proxy.faults) == 1
    assert len(found) == len(keys)
    assert set(found) == keys


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("kind", ["403", "500", "lost"])
def test_a_ledger_that_takes_no_entry_ends_no_run(s3: Ceph, kind: str):
    with (
        faulty(s3.port, 0, kinds=(kind,), only="PUT /kept", share=1) as proxy,
        dask.config.set({"chunkfold.remote.retry": "1 s"}),
        pytest.warns(LedgerWarning, match=r"s3://kept/no-\w+ cannot be written .*the run goes on"),
    ):
        assert asked(proxy.port, f"no-{kind}").ledger.kept == 0
    assert asked(s3.port, f"no-{kind}").ledger.known == 0


@pytest.mark.usefixtures("_small_blocks")
def test_answers_that_are_half_of_an_entry_are_not_used_and_remove_nothing(
    s3: Ceph, monkeypatch: pytest.MonkeyPatch
):
    kept = asked(s3.port, "short").ledger.kept
    with faulty(s3.port, 0, kinds=("short",), only="GET /kept/short", share=1) as proxy:
        report = asked(proxy.port, "short").ledger
        assert report.known == 0 < report.damaged
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        assert prune(Ledger.at("s3://kept/short")) == []
    assert asked(s3.port, "short").ledger.known == kept
