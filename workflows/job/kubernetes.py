"""A Dask cluster in Kubernetes for as long as a job runs, made by dask-kubernetes' operator."""

from __future__ import annotations

import os
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from chunkfold.deadline import with_deadline
from chunkfold.errors import ChunkfoldError, ClusterError, PlanError
from chunkfold.planning.workers import THREADS
from chunkfold.workflows.job.toml_tables import Kubernetes

KIND, API = "DaskCluster", "kubernetes.dask.org/v1"
_PORT = 8786
_IDLE_S = 3600
"""After so long without work the operator removes a cluster, should this process be killed."""
_POLL_S = 1.0
_REQUEST_S = 30.0
"""Longest wait for one answer of Kubernetes, in seconds."""


def manifest(cluster: Kubernetes, name: str) -> dict[str, Any]:
    """Return the DaskCluster that is asked for: a scheduler, and workers with one device each."""
    ports = {"tcp-comm": _PORT, "http-dashboard": 8787}
    scheduler = {
        "name": "scheduler",
        "image": cluster.image,
        "command": ["dask", "scheduler"],
        "ports": [{"name": port, "containerPort": ports[port]} for port in ports],
        "readinessProbe": {"tcpSocket": {"port": "tcp-comm"}, "periodSeconds": 2},
    }
    options = ["--name", "$(DASK_WORKER_NAME)", "--nthreads", str(THREADS)]
    options += ["--memory-limit", f"{cluster.memory} B"]
    gpus = {"nvidia.com/gpu": str(cluster.gpus)} if cluster.gpus else {}
    worker = {
        "name": "worker",
        "image": cluster.image,
        # Without further word it owns the first device that its pod sees; and would take its
        # threads' share of the node's cores for its share of the memory.
        "command": ["dask", "worker", *options],
        "resources": {
            "requests": {"cpu": str(cluster.cores), "memory": str(cluster.memory)},
            "limits": {"memory": str(cluster.memory), **gpus},
        },
        "envFrom": [{"secretRef": {"name": secret}} for secret in cluster.secrets],
        "volumeMounts": [
            {"name": f"claim-{number}", "mountPath": path, "readOnly": True}
            for number, path in enumerate(cluster.claims.values())
        ],
    }
    volumes = [
        {
            "name": f"claim-{number}",  # a claim's own name may be none for a volume
            "persistentVolumeClaim": {"claimName": claim, "readOnly": True},
        }
        for number, claim in enumerate(cluster.claims)
    ]
    return {
        "apiVersion": API,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {
            "idleTimeout": _IDLE_S,
            "scheduler": {
                "spec": {"containers": [scheduler]},
                "service": {
                    "type": "ClusterIP",
                    "selector": {
                        "dask.org/cluster-name": name,
                        "dask.org/component": "scheduler",
                    },
                    "ports": [
                        {"name": port, "port": ports[port], "targetPort": port} for port in ports
                    ],
                },
            },
            "worker": {
                "replicas": cluster.workers,
                "spec": {"containers": [worker], "volumes": volumes},
            },
        },
    }


@contextmanager
def scheduler_address(cluster: Kubernetes) -> Iterator[tuple[str, float]]:
    """Make a cluster and yield its scheduler's address, and the seconds that are left to wait.

    The cluster is removed in the end. From outside of Kubernetes the scheduler's port is forwarded.

    Raises
    ------
    ClusterError
        If Kubernetes cannot be reached or refuses, or no scheduler is ready in time.
    """
    kr8s = imported()
    name = f"chunkfold-{uuid.uuid4().hex[:10]}"
    what = f"no {KIND} could be made in Kubernetes"
    with _told(what):
        # Which asks for a version before it can be told how long to wait.
        api = with_deadline(_REQUEST_S, "Kubernetes", lambda: kr8s.api(namespace=cluster.namespace))
        api.timeout = _REQUEST_S
        made = kr8s.objects.new_class(KIND, API)(manifest(cluster, name), api=api)
    try:
        with _told(what, "; is the operator of dask-kubernetes installed there?"):
            made.create()
    except BaseException:
        with suppress(Exception):  # it may have been made, and the answer lost
            made.delete()
        raise
    try:
        until = time.monotonic() + cluster.wait
        service = _ready_service(kr8s, name, api, until)
        with _reached(service) as address:
            yield address, max(1.0, until - time.monotonic())
    finally:
        try:
            made.delete()
        except Exception as error:  # noqa: BLE001 - what the job has done counts more
            warnings.warn(
                f"{KIND} {name} could not be removed ({_words(error)}); "
                f"kubectl delete daskcluster {name}",
                stacklevel=2,
            )


def imported() -> ModuleType:
    """Return the package that talks to Kubernetes.

    Raises
    ------
    PlanError
        If it is not installed.
    """
    try:
        import kr8s.objects
    except ImportError as error:
        raise PlanError(
            f"cluster.kind 'kubernetes' needs another package ({error}): pip install kr8s"
        ) from error
    return kr8s


def _ready_service(kr8s: ModuleType, name: str, api: Any, until: float) -> Any:
    """Wait for the scheduler's service and a pod behind it; what fails meanwhile may pass."""
    missing = "the operator has not made one: is it installed, and running?"
    while time.monotonic() < until:
        try:
            service = kr8s.objects.Service.get(f"{name}-scheduler", api=api, timeout=1)
            if service.ready():
                return service
            missing = "its pod is not ready: see kubectl describe pod, for its image and its node"
        except kr8s.NotFoundError:
            pass
        except Exception as error:  # noqa: BLE001 - as in _told; it may pass
            missing = _words(error)
        time.sleep(_POLL_S)
    raise ClusterError(
        f"{KIND} {name} has no scheduler in time: {missing} "
        "(cluster.wait says how long to wait for it)"
    )


@contextmanager
def _reached(service: Any) -> Iterator[str]:
    """Yield an address of the scheduler that this host can reach."""
    inside = f"{service.name}.{service.namespace}"
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        yield f"tcp://{inside}:{_PORT}"
    else:
        with service.portforward(_PORT, "auto") as port:
            yield f"tcp://127.0.0.1:{port}"


@contextmanager
def _told(what: str, hint: str = "") -> Iterator[None]:
    """Turn whatever goes wrong on the way to Kubernetes into ClusterErrors.

    `hint` is for what Kubernetes does not know of.
    """
    try:
        yield
    except ChunkfoldError:
        raise
    except Exception as error:  # credentials, configurations and answers fail in many ways
        response = getattr(error, "response", None)
        missing = response is not None and response.status_code == 404
        raise ClusterError(f"{what}: {_words(error)}{hint if missing else ''}") from error


def _words(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
