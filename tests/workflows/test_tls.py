"""Schedulers, workers, clients and jobs over TLS, with certificates of an authority."""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from distributed import LocalCluster
from distributed.security import Security

import chunkfold as cf
from chunkfold.cluster.security import tls_settings
from chunkfold.workflows.job import clusters
from chunkfold.workflows.job.clusters import check_cluster
from chunkfold.workflows.job.toml_tables import Kubernetes
from tests.certificates import DAY, Authority, Pair
from tests.conftest import DEVICES
from tests.processes import BIN, awaited, finished, started, worker_command

pytestmark = pytest.mark.unoptimised

CA, CERT, KEY = (
    f"distributed.comm.tls.{name}" for name in ("ca-file", "client.cert", "client.key")
)


class Site:
    """Two authorities, certificates, an array and a scheduler."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.address = folder, ""
        self.ours, self.others = Authority(folder, "ours"), Authority(folder, "others")
        names = ("scheduler", "worker", "client")
        self.scheduler, self.worker, self.client = map(self.ours.signed, names)
        self.array = folder / "a.zarr"
        zarr.create_array(str(self.array), data=np.arange(100.0), chunks=(10,))

    def settings(self, pair: Pair) -> dict[str, str]:
        return dict(zip((CA, CERT, KEY), map(str, self.options(pair)[1::2]), strict=True))

    def options(self, pair: Pair, authority: Authority | None = None) -> list[object]:
        ca = (authority or self.ours).file
        return ["--tls-ca-file", ca, "--tls-cert", pair.cert, "--tls-key", pair.key]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """With one worker, both started by commands."""
    made = Site(tmp_path_factory.mktemp("site"))
    words = [BIN / "dask", "scheduler", "--host", "tls://127.0.0.1", "--port", "0"]
    log = made.folder / "scheduler.log"
    secured = [*words, "--no-dashboard", *made.options(made.scheduler)]
    with started(secured, log) as scheduler:
        made.address = awaited(log, r"Scheduler at:\s+(tls://\S+)", scheduler)
        command = worker_command(made.address, DEVICES[0].spec) + made.options(made.worker)
        with started(command, made.folder / "worker.log"):
            awaited(log, "(Register worker)", scheduler)
            yield made


@pytest.fixture
def reduce(site: Site, here) -> Callable[..., tuple[int, str, str]]:
    """The sum of the array by the scheduler's workers: exit code, stdout, stderr."""
    return partial(here, "reduce", site.array, "--quiet", "--scheduler")


def test_options_bring_commands_to_a_scheduler(site: Site):
    """In processes of their own."""
    words = ["reduce", site.array, "--quiet", "--scheduler", site.address]
    done = finished([BIN / "chunkfold", *words, *site.options(site.client)], 60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sum 4950.0\n", "")


def test_pages_of_workers_are_encrypted_as_their_connections_are(site: Site):
    log = (site.folder / "worker.log").read_text()
    (place,) = re.findall(r"dashboard at:\s+(\S+)", log)
    context = ssl.create_default_context(cafile=str(site.ours.file))
    context.check_hostname = False
    with urllib.request.urlopen(f"https://{place}/health", timeout=30, context=context) as answer:
        assert answer.read() == b"ok"
    with pytest.raises(OSError):  # noqa: PT011 # it is closed, or reset
        urllib.request.urlopen(f"http://{place}/health", timeout=30)


def test_dask_s_configuration_does_too(site: Site, reduce):
    with dask.config.set(site.settings(site.client)):
        assert reduce(site.address) == (0, "sum 4950.0\n", "")
        assert reduce(site.address, "--tls-ca-file", site.others.file)[0] == 4


def test_so_does_a_loader_that_it_names(site: Site, reduce, monkeypatch):
    """As it does for Dask's own client."""
    ca, cert, key = site.settings(site.client).values()
    given = Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key)
    monkeypatch.setattr(f"{__name__}.loader", lambda asked: given if asked["address"] else None)
    with dask.config.set({"distributed.client.security-loader": f"{__name__}.loader"}):
        assert reduce(site.address) == (0, "sum 4950.0\n", "")
    with dask.config.set({"distributed.client.security-loader": "no.such"}):
        code, _, said = reduce(site.address)
    assert (code, "distributed.client.security-loader 'no.such' fails: " in said) == (2, True)


def loader(asked: dict[str, str]) -> Security | None:
    """Another in the test."""


def test_a_job_file_has_certificates_beside_it(site: Site, here):
    job = site.folder / "job.toml"
    job.write_text(
        f'schema = 1\nsources = "a.zarr"\nreduce.statistics = "sum"\noutput.path = "o.json"\n'
        f'[cluster]\nkind = "address"\naddress = "{site.address}"\n'
        'tls_ca_file = "ours.pem"\ntls_cert = "client.pem"\ntls_key = "client.key"\n'
    )
    assert here("run", job, "--quiet") == (0, "", "")
    assert "4950" in (site.folder / "o.json").read_text()
    code, _, said = here("run", job, "--quiet", "--overwrite", "--set", "cluster.tls_key=no.key")
    assert code == 2
    assert f"TLS key '{site.folder / 'no.key'}' cannot be read" in " ".join(said.split())


def test_a_key_may_be_in_its_certificate_s_file(site: Site, reduce):
    """And that of the configuration is not its own."""
    both = site.folder / "both.pem"
    both.write_bytes(site.client.cert.read_bytes() + site.client.key.read_bytes())
    with dask.config.set({KEY: str(site.worker.key)}):
        words = ("--tls-ca-file", site.ours.file, "--tls-cert", both)
        assert reduce(site.address, *words) == (0, "sum 4950.0\n", "")


def _expired(site: Site) -> list[object]:
    return site.options(site.ours.signed("expired", ends=-DAY))


def _early(site: Site) -> list[object]:
    return site.options(site.ours.signed("early", ends=3 * DAY))


def _locked(site: Site) -> list[object]:
    return site.options(site.ours.signed("locked", passphrase="hush"))


def _no_pem(site: Site) -> list[object]:
    (site.folder / "empty.pem").touch()
    return site.options(Pair(site.folder / "empty.pem", site.client.key))


Given = Callable[[Site], list[object]]
FAULTS: list[tuple[Given, int, str]] = [
    (lambda _: [], 2, "tls.ca-file is missing for 'tls://.*': give --tls-ca-file FILE, or"),
    (lambda site: site.options(site.client)[:2], 2, "tls.client.cert is missing .* --tls-cert F"),
    (lambda site: site.options(Pair(Path("/no"), site.client.key)), 2, "cert '/no' cannot be read"),
    (lambda site: site.options(Pair(site.client.cert, site.worker.key)), 2, "key values mismatch"),
    (_no_pem, 2, r"cert '.*/empty.pem' is not in PEM"),
    (_locked, 2, r"key '.*/locked.key' is protected by a passphrase"),
    (_expired, 2, r"certificate '.*/expired.pem', or its CA .*, has expired"),
    (_early, 2, r"certificate '.*/early.pem', or its CA .*, is not valid yet"),
    (lambda site: site.options(site.client, site.others), 4, "its TLS certificate is refused: "),
    (
        lambda site: site.options(site.others.signed("stranger")),
        4,
        "refuses this side's TLS certificate|Connection reset",
    ),
]


@pytest.mark.parametrize(("given", "code", "words"), FAULTS)
def test_wrong_certificates_end_in_a_sentence(site: Site, reduce, given, code: int, words: str):
    began = time.monotonic()
    ended, _, said = reduce(site.address, *given(site))
    assert time.monotonic() - began < 10
    assert re.match(f"{'PlanError' if code == 2 else 'ClusterError'}: .*{words}", said), said
    assert (ended, len(said.splitlines())) == (code, 1)


@pytest.mark.parametrize(("given", "code", "words"), [FAULTS[0], FAULTS[6], FAULTS[9]])
def test_so_they_do_for_workers(site: Site, here, given, code: int, words: str):
    ended, _, said = here("worker", site.address, "--device", DEVICES[0].spec, *given(site))
    assert re.search(words.replace("client", "worker"), said.splitlines()[1]), said
    assert (ended, len(said.splitlines())) == (code, 2)


def test_what_is_asked_for_and_what_addresses_say_must_agree(site: Site, reduce):
    plain = site.address.replace("tls://", "tcp://")
    code, _, said = reduce(plain, *site.options(site.client))
    assert (code, "is not an encrypted address, which" in said) == (2, True)
    code, _, said = reduce(plain)
    assert (code, "With TLS, addresses are like tls://" in said) == (4, True)
    with LocalCluster(n_workers=0, dashboard_address=":0") as other:
        insecure = other.scheduler_address.replace("tcp://", "tls://")
        code, _, said = reduce(insecure, *site.options(site.client))
    assert (code, "does it use TLS" in said) == (4, True)


def test_a_cluster_of_this_host_is_encrypted_where_dask_s_configuration_says_so(site: Site, here):
    """With certificates of its own, in memory."""
    words = ("reduce", site.array, "--device", DEVICES[0].spec, "--json")
    settings = site.settings(site.client)
    with dask.config.set({"distributed.comm.require-encryption": True}):
        code, out, said = here(*words)
        assert code == 0, said
        assert json.loads(out)["devices"][0]["workers"][0].startswith("tls://")
        with dask.config.set(settings):
            code, _, said = here(*words)
    assert (code, "tls.scheduler.cert is missing for a local cluster" in said) == (2, True)


def test_workers_in_slurm_have_certificates_and_those_in_kubernetes_cannot(site: Site):
    asked = {"workers": 1, "cores": 1, "memory": "1 GiB"}
    pods = Kubernetes(kind="kubernetes", image="x", **asked)
    with dask.config.set({"distributed.comm.require-encryption": True}):
        with pytest.raises(cf.PlanError, match="'kubernetes' has no certificates: start one"):
            check_cluster(pods)
        with pytest.raises(cf.PlanError, match=r"tls.ca-file is missing for workers in Slurm"):
            clusters._security_of_slurm()
        both = site.folder / "in-one.pem"
        both.write_bytes(site.worker.cert.read_bytes() + site.worker.key.read_bytes())
        with dask.config.set(tls_settings(str(site.ours.file), str(both))):
            security = clusters._security_of_slurm()
            prologue = clusters._prologue(security)
            with clusters._jobqueue().SLURMCluster(
                cores=1, memory="1 GB", security=security, job_script_prologue=prologue
            ) as made:
                pages = f"export DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__TLS__CERT={both}"
                assert pages in made.job_script()
                words = f"--tls-ca-file {site.ours.file} --tls-cert {both} --tls-key {both}"
                assert words in made.job_script()
                assert made.scheduler_address.startswith("tls://")


def test_a_scheduler_s_own_certificate_may_have_expired(site: Site, reduce):
    pair = site.ours.signed("old", ends=-DAY)
    files = {"tls_scheduler_cert": str(pair.cert), "tls_scheduler_key": str(pair.key)}
    security = Security(tls_ca_file=str(site.ours.file), **files)
    with LocalCluster(n_workers=0, dashboard_address=":0", security=Security()) as other:
        other.sync(_listen, other, security)
        address = other.scheduler.listeners[-1].contact_address
        code, _, said = reduce(address, *site.options(site.client))
    assert (code, "its TLS certificate is refused: certificate has expired" in said) == (4, True)


async def _listen(cluster: LocalCluster, security: Security) -> None:
    """At another port, with these certificates."""
    arguments = security.get_listen_args("scheduler")
    await cluster.scheduler.listen("tls://127.0.0.1:0", **arguments)
