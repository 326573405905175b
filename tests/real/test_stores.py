"""Arrays in a real S3 server (Ceph) and behind a real web server (nginx)."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import numpy as np
import obstore
import pytest
import zarr
from zarr.storage import ObjectStore

import chunkfold as cf
from chunkfold.kernels.feed.fed_buffer import FedBuffer
from chunkfold.planning import planner
from chunkfold.sources import chunk_index
from chunkfold.stores import listing, obstore_clients, remote
from chunkfold.worker.worker_device import WorkerDevice
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.job.running import run_job
from tests.pipeline.reading.conftest import worker_device  # noqa: F401 # a fixture
from tests.real.azurite import azurite, make_container
from tests.real.google import google
from tests.real.servers import SECRET, Ceph, ceph, nginx
from tests.workflows.test_cli import chunkfold

pytestmark = pytest.mark.real

VALUES = np.random.default_rng(0).normal(280, 15, (64, 100, 200)).astype("f4")
LAYOUTS = {
    "zstd": {"chunks": (8, 100, 200)},
    "shards": {"chunks": (2, 50, 100), "shards": (8, 100, 200)},
}


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceph]:
    with ceph(tmp_path_factory.mktemp("ceph")) as made:
        write_layouts(ObjectStore(made.bucket("climate")))
        yield made


def write_layouts(store: ObjectStore | str) -> None:
    """Write the first half of the values in every layout; the other half is never stored."""
    for name, layout in LAYOUTS.items():
        array = zarr.create_array(
            store, name=name, shape=VALUES.shape, dtype="f4", fill_value=1, **layout
        )
        array[:32] = VALUES[:32]


FULL = np.where(np.arange(64)[:, None, None] < 32, VALUES, np.float32(1))


@pytest.fixture
def _small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "LEAF_BYTES", 8 * 100 * 200 * 4)


@pytest.fixture
def environment(s3: Ceph, _small_leaves: None, monkeypatch: pytest.MonkeyPatch) -> Ceph:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_s3_is_read_by_workers_from_the_command_line(s3: Ceph, layout: str):
    words = ["--op", "min,max,count", "--json"]
    done = chunkfold("reduce", f"s3://climate/{layout}", *words, **s3.environment)
    told = json.loads(done.stdout)
    assert told["results"] == {
        "min": float(FULL.min()), "max": float(FULL.max()), "count": FULL.size
    }  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_s3_gives_the_bits_that_a_disk_gives(environment: Ceph, tmp_path: Path, layout: str):
    made = zarr.create_array(
        str(tmp_path / "a"), shape=FULL.shape, dtype="f4", fill_value=1, **LAYOUTS[layout]
    )
    made[...] = FULL
    for given in ({}, {"axis": 0}, {"selection": (slice(3, 40, 5), 17)}):
        got = cf.reduce(f"s3://climate/{layout}", ["sum", "std"], **given)
        want = cf.reduce(made, ["sum", "std"], **given)
        assert all(got[name].tobytes() == want[name].tobytes() for name in want)


@pytest.mark.parametrize("worker_device", ["native"], indirect=True)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_devices_decode_what_s3_has(
    environment: Ceph,
    worker_device: WorkerDevice,  # noqa: F811 # the device of this process
    layout: str,
    monkeypatch: pytest.MonkeyPatch,
):
    by_device, decode = list[bool](), FedBuffer.decode
    monkeypatch.setattr(
        FedBuffer, "decode", lambda *given: by_device.append(decode(*given)) or by_device[-1]
    )
    found = cf.reduce(f"s3://climate/{layout}", ["sum", "max"], axis=0)
    want = cf.reduce(FULL, ["sum", "max"], axis=0)
    for op, values in found.items():
        np.testing.assert_array_equal(values, want[op])
    assert by_device
    assert all(by_device)


def test_results_in_python_are_written_to_s3(environment: Ceph):
    result = cf.submit("s3://climate/zstd", "mean", axis=0).labelled()
    for number in range(2):
        result.to_zarr("s3://climate/mean.zarr", overwrite=number > 0)
        store = ObjectStore(environment.store("climate"), read_only=True)
        written = zarr.open_group(store, path="mean.zarr", mode="r")
        np.testing.assert_array_equal(written["mean"][...], result.values)
    with pytest.raises(cf.PlanError, match="exists; remove it"):
        result.to_zarr("s3://climate/mean.zarr")
    with pytest.raises(cf.PlanError, match="are the same, or one is inside the other"):
        result.to_zarr("s3://climate/zstd", overwrite=True)


def test_s3_is_listed_in_lots(environment: Ceph, monkeypatch: pytest.MonkeyPatch):
    ranges, between = [], listing._between

    def noted(*given: object) -> list:
        ranges.append(given[-1])
        return between(*given)

    monkeypatch.setattr(listing, "_between", noted)
    monkeypatch.setattr(listing, "PAGE", 20)
    monkeypatch.setattr(chunk_index, "PAGE", 20)
    store = ObjectStore(environment.store("climate"))
    array = zarr.create_array(store, name="many", shape=(30, 10), chunks=(1, 1), dtype="u1")
    array[...] = 1
    array[7:9, 3:] = 0  # what is fill is not stored
    assert ((chunk_index.list_objects(array).sizes > 0) == (array[...] > 0)).all()
    assert len(ranges) > 10


def test_what_a_listing_lacks_is_not_asked_for(environment: Ceph, monkeypatch):
    asked: list[str] = []
    true_start, true_now = remote.RemoteObjects.start, remote.answer_now

    def counted(self, key: str, *given):
        asked.append(key)
        return true_start(self, key, *given)

    def counted_now(store: object, path: str, most: int):
        asked.append(path.removeprefix("zstd/"))
        return true_now(store, path, most)

    monkeypatch.setattr(remote.RemoteObjects, "start", counted)
    monkeypatch.setattr(remote, "answer_now", counted_now)
    for leaf_bytes in (8 * 100 * 200 * 4, 16 << 20):
        monkeypatch.setattr(planner, "LEAF_BYTES", leaf_bytes)
        run = cf.submit("s3://climate/zstd", "count")
        assert run.result() == FULL.size
        # Leaves of which nothing is stored are left out; of others, what is not.
        assert run.plan.scan.nbytes == VALUES[:32].nbytes
        assert sorted(asked) == [f"c/{n}/0/0" for n in range(4)]
        asked.clear()


def test_a_job_reads_s3_and_writes_to_it(environment: Ceph, tmp_path: Path):
    def keys() -> set[str]:
        return {one["path"] for one in obstore.list(environment.store("climate")).collect()}

    before = keys()
    with cf.LocalOpenCLCluster() as cluster:
        for name in ("out.json", "out.zarr", "out.parquet"):
            job, out = tmp_path / "job.toml", f"s3://climate/{name}"
            job.write_text(
                'schema = 1\nsources = "s3://climate/*s*d*"\n[reduce]\n'
                f'statistics = ["max", "mean"]\naxes = 0\n[output]\npath = "{out}"\n[cluster]\n'
                f'kind = "address"\naddress = "{cluster.scheduler_address}"\n'
            )
            run_job(load_job(job))
            run_job(load_job(job, ["output.overwrite=true"]))
            with pytest.raises(cf.PlanError, match=f"output {out} exists; remove it"):
                run_job(load_job(job))
            left = {key for key in keys() - before if not key.startswith(f"{name}/")}
            assert left == {f"{name}.manifest.json"} | ({name} if name != "out.zarr" else set())
            before = keys()
    assert cf.reduce("s3://climate/out.zarr/zstd/max", "max") == FULL.max()


@pytest.mark.usefixtures("_small_leaves")
def test_azure_gives_the_bits_that_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with azurite(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        make_container(environment["AZURITE_BLOB_STORAGE_URL"], "climate")
        write_layouts(ObjectStore(obstore_clients.open_store("az://climate")))
        check_bits("az://climate")
        # Workers find the credentials too, and outputs are written there.
        words = ["--op", "max", "--axis", "0", "--out", "az://climate/max.zarr"]
        chunkfold("reduce", "az://climate/shards", *words, **environment)
        assert cf.reduce("az://climate/max.zarr/max", "max") == FULL.max()
        with pytest.raises(cf.SourceError, match=r"^az://climate/none: no Zarr array"):
            cf.reduce("az://climate/none")


@pytest.mark.usefixtures("_small_leaves")
def test_google_s_client_reads_what_anybody_may_read(
    s3: Ceph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Ceph stands in for Google, whose protocol for reading is that of S3."""
    write_layouts(str(tmp_path))
    s3.publish("public", tmp_path)
    key = {"gcs_base_url": f"http://127.0.0.1:{s3.port}", "disable_oauth": True}
    key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(key))
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    check_bits("gs://public")


@pytest.mark.usefixtures("_small_leaves")
@pytest.mark.parametrize("kind", ["service_account", "authorized_user"])
def test_google_s_credentials_are_found_and_shown(
    s3: Ceph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """Those of a machine's account, and those that `gcloud auth application-default login` left."""
    write_layouts(str(tmp_path / "data"))
    s3.publish(kind.replace("_", "-"), tmp_path / "data")
    (tmp_path / "google").mkdir()
    with google(tmp_path / "google", s3.port) as stand_in:
        environment = stand_in.environment(kind)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        check_bits(f"gs://{kind.replace('_', '-')}")
        done = chunkfold("reduce", f"gs://{kind.replace('_', '-')}/zstd", "--op", "max")
        assert done.stdout == f"max {FULL.max()!s}\n"
        file = Path(environment["GOOGLE_APPLICATION_CREDENTIALS"])
        file.write_text(file.read_text().replace("of-the-user", "of-nobody"))
        if kind == "authorized_user":
            with pytest.raises(cf.SourceError, match=r"^gs://.*403") as found:
                cf.reduce("gs://authorized-user/zstd")
            assert "of-" not in str(found.value)
    whose = "account" if kind == "service_account" else "user"
    assert set(stand_in.shown) == {whose}
    assert stand_in.shown[whose] > 10


def check_bits(root: str) -> None:
    """See that arrays below a URL are what was written, and that gaps are not read."""
    for name in LAYOUTS:
        run = cf.submit(f"{root}/{name}", ["sum", "min", "count"])
        got = run.result()
        assert got["sum"] == np.float32(math.fsum(FULL.ravel()))
        assert (got["min"], got["count"]) == (FULL.min(), FULL.size)
        assert run.plan.scan.nbytes == VALUES[:32].nbytes
        some = cf.reduce(f"{root}/{name}", "max", axis=0, selection=(slice(3, 40, 5), 17))
        assert (some == FULL[3:40:5, 17].max(axis=0)).all()


def test_what_s3_does_not_let_write_is_told_before(environment: Ceph):
    words = ("reduce", "s3://climate/zstd", "--out")
    for out, sentence in (("s3://no-such-bucket/o.json", "404"), ("s3://climate", "names no obj")):
        assert sentence in chunkfold(*words, out, code=2).stderr
    told = chunkfold(*words, "s3://climate/o.json", code=2, AWS_SECRET_ACCESS_KEY="wrong").stderr
    assert "403" in told


def test_a_wrong_secret_is_refused_and_told_nobody(environment: Ceph, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(cf.SourceError, match=r"s3://climate/zstd: .*403") as found:
        cf.reduce("s3://climate/zstd")
    assert "not-the-secret" not in str(found.value)
    assert SECRET not in str(found.value)


def test_a_pause_of_the_disks_behind_s3_costs_only_time(environment: Ceph):
    run = None
    process = environment.processes["osd"]
    os.kill(process.pid, signal.SIGSTOP)
    waking = threading.Timer(5, os.kill, (process.pid, signal.SIGCONT))
    try:
        waking.start()
        began = time.monotonic()
        with dask.config.set({"chunkfold.remote.stall": "2 s"}):
            run = cf.submit("s3://climate/zstd", ["min", "max"])
            assert run.result(120) == {"min": FULL.min(), "max": FULL.max()}
        assert time.monotonic() - began > 4
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_a_gateway_that_died_is_an_error_in_time(environment: Ceph, monkeypatch):
    """The last of them: it does not come back."""
    from chunkfold.sources.zarr_source import ZarrSource

    true_read = ZarrSource.read

    def killing(self: ZarrSource, *given) -> None:
        environment.processes["rgw"].kill()
        environment.processes["rgw"].wait(10)
        true_read(self, *given)

    monkeypatch.setattr(ZarrSource, "read", killing)
    began = time.monotonic()
    with (
        dask.config.set({"chunkfold.remote.retry": "3 s"}),
        pytest.raises(cf.ChunkError, match=r"chunk 'c/\d/0/0' \(codecs zstd; S3Store\(.*error"),
    ):
        cf.reduce("s3://climate/zstd")
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nginx_serves_arrays_to_workers(tmp_path: Path, layout: str):
    root = tmp_path / "root"
    made = zarr.create_array(
        str(root / "a.zarr"), shape=FULL.shape, dtype="f4", fill_value=1, **LAYOUTS[layout]
    )
    made[:32] = VALUES[:32]
    (tmp_path / "state").mkdir()
    with nginx(tmp_path / "state", root) as url:
        done = chunkfold("reduce", f"{url}/a.zarr", "--op", "min,max,count", "--json")
    want = {"min": float(FULL.min()), "max": float(FULL.max()), "count": FULL.size}
    assert json.loads(done.stdout)["results"] == want
    assert " 206 " in (tmp_path / "state/access.log").read_text() or layout == "zstd"
