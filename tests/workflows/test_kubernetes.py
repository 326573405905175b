"""Jobs make a Dask cluster in Kubernetes, and leave none: against what plays API and operator."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import zarr
from pydantic import ValidationError

from chunkfold import ClusterError, PlanError
from chunkfold.workflows.job.clusters import check_cluster
from chunkfold.workflows.job.kubernetes import manifest, scheduler_address
from chunkfold.workflows.job.toml_tables import Kubernetes
from tests.kubernetes import Api, serving, written_config
from tests.processes import finished
from tests.workflows.test_cli import chunkfold

pytestmark = pytest.mark.unoptimised

JOB = """
schema = 1
sources = "a.zarr"

[reduce]
statistics = ["sum"]

[output]
path = "sum.json"

[cluster]
kind = "kubernetes"
image = "registry.example.org/chunkfold:0.1.0"
workers = 2
cores = 1
memory = "1 GiB"
"""


def cluster_of(**more: object) -> Kubernetes:
    fields = {
        "kind": "kubernetes",
        "image": "chunkfold",
        "workers": 2,
        "cores": 3,
        "memory": "2 GiB",
    }
    return Kubernetes.model_validate(fields | more)


@pytest.fixture
def api(tmp_path: Path, monkeypatch) -> Iterator[Api]:
    api = Api()
    with serving(api, tmp_path) as config:
        monkeypatch.setenv("KUBECONFIG", str(config))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        # Clients are kept by process, whatever the configuration says by now.
        import_module("kr8s._api").Api._instances.clear()
        yield api


def test_a_job_runs_in_pods_of_its_own(api: Api, tmp_path: Path):
    values = np.random.default_rng(0).integers(-1000, 1000, (64, 512, 512), np.int32)
    zarr.create_array(str(tmp_path / "a.zarr"), data=values, chunks=(1, 512, 512))
    (tmp_path / "job.toml").write_text(JOB)
    done = chunkfold("run", str(tmp_path / "job.toml"), "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert f'"sum": {values.sum()}' in done.stdout
    assert "secret-token" not in done.stdout + done.stderr
    (made,) = api.made
    assert made["metadata"]["namespace"] == "science"
    assert api.removed == [made["metadata"]["name"]]
    assert all(process.poll() is not None for process in api.processes)


def test_without_the_operator_it_says_so(api: Api):
    api.operator = False
    with (
        pytest.raises(ClusterError, match=r"could not find .*is the operator of dask-kubernetes"),
        scheduler_address(cluster_of()),
    ):
        pass


def test_a_scheduler_that_does_not_come_is_waited_for_no_longer_than_said(api: Api):
    api.ready = False
    with (
        pytest.raises(ClusterError, match=r"no scheduler in time: its pod is not ready"),
        scheduler_address(cluster_of(wait="2 s")),
    ):
        pass
    assert len(api.removed) == 1


def test_an_api_that_is_not_there_is_a_cluster_error(api: Api, tmp_path: Path, monkeypatch):
    text = Path(os.environ["KUBECONFIG"]).read_text()
    port = text.split("127.0.0.1:")[1].split("\n")[0]
    (tmp_path / "other").write_text(text.replace(port, "1"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "other"))
    with (
        pytest.raises(ClusterError, match="could be made in Kubernetes"),
        scheduler_address(cluster_of()),
    ):
        pass


def test_a_failing_job_leaves_no_cluster(api: Api):
    with pytest.raises(ValueError, match="of the job"), scheduler_address(cluster_of()):
        raise ValueError("of the job")
    assert len(api.removed) == 1


def test_pods_have_what_the_job_says():
    made = manifest(cluster_of(gpus=1, claims={"data": "/data"}, secrets=["store"]), "chunkfold-1")
    pods = made["spec"]["worker"]
    (container,) = pods["spec"]["containers"]
    assert pods["replicas"] == 2
    assert container["resources"]["limits"] == {"memory": str(2 << 30), "nvidia.com/gpu": "1"}
    assert container["resources"]["requests"] == {"cpu": "3", "memory": str(2 << 30)}
    assert container["envFrom"] == [{"secretRef": {"name": "store"}}]
    (mount,), (volume,) = container["volumeMounts"], pods["spec"]["volumes"]
    assert mount == {"name": volume["name"], "mountPath": "/data", "readOnly": True}
    assert container["command"][-2:] == ["--memory-limit", f"{2 << 30} B"]
    assert volume["persistentVolumeClaim"] == {"claimName": "data", "readOnly": True}


def test_a_package_that_is_missing_is_named_before_the_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "kr8s.objects", None)
    with pytest.raises(PlanError, match="pip install kr8s"):
        check_cluster(cluster_of())


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", "{{{{::: x", "apiVersion: v1\nkind: Config\n"], ids=range(4)
)
def test_a_configuration_that_is_none_is_a_cluster_error(
    api: Api, tmp_path: Path, monkeypatch, text: str
):
    (tmp_path / "bad").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "bad"))
    with (
        pytest.raises(ClusterError, match="could be made in Kubernetes"),
        scheduler_address(cluster_of()),
    ):
        pass


def test_an_api_that_is_silent_is_not_waited_for_forever(tmp_path: Path, monkeypatch):
    """Nor by the process when it ends."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = written_config(tmp_path, silent.getsockname()[1])
        code = (
            "from chunkfold.workflows.job import kubernetes\n"
            "from chunkfold.workflows.job.schema import Kubernetes\n"
            "kubernetes._REQUEST_S = 1.0\n"
            "fields = {'kind': 'kubernetes', 'image': 'i', 'workers': 1, 'cores': 1}\n"
            "cluster = Kubernetes.model_validate(fields | {'memory': '1 GiB'})\n"
            "with kubernetes.scheduler_address(cluster): pass\n"
        )
        done = finished([sys.executable, "-c", code], 30, os.environ | {"KUBECONFIG": str(config)})
    assert "ClusterError: waited 1 s for Kubernetes in vain" in done.stderr


@pytest.mark.parametrize(
    "more",
    [
        {"namespace": "../x"},
        {"claims": {"Data": "/data"}},
        {"claims": {"a": "/data", "b": "/data"}},
        {"claims": {"a": "/data:x"}},
        {"secrets": ["a/b"]},
        {"workers": 10**19},
    ],
    ids=str,
)
def test_what_kubernetes_would_not_take_is_refused(more: dict):
    with pytest.raises(ValidationError):
        cluster_of(**more)
