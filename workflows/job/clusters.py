"""Start or find a job's cluster: this host, a running cluster, Slurm, or Kubernetes."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import dask
from distributed import Client
from distributed.security import Security

from chunkfold.cluster.joining import connect
from chunkfold.cluster.local_cluster import chosen_devices
from chunkfold.cluster.security import ROLES, check, configured, page_settings, tls_settings
from chunkfold.errors import ClusterError, PlanError
from chunkfold.planning.workers import THREADS, posts
from chunkfold.plural import counted
from chunkfold.settings import dashboard_address
from chunkfold.workflows.job import kubernetes
from chunkfold.workflows.job.clients import QUIET, local_client
from chunkfold.workflows.job.schema import Cluster
from chunkfold.workflows.job.toml_tables import Address, Kubernetes, Local, Slurm

_SUBMIT_S = 60.0
"""Longest wait for Slurm to say whether it takes a job."""


def job_client(cluster: Cluster) -> AbstractContextManager[Client]:
    """Return what yields a client of a job's cluster, for as long as the job runs.

    Raises
    ------
    ChunkfoldError
        Once it is entered: if the cluster cannot be reached or started, or workers do not come in
        time.
    """
    return _KINDS[type(cluster)](cluster)


def planned_workers(cluster: Cluster) -> dict[str, Any]:
    """Return how many workers there will be, what each runs and may take, as far as is known.

    Raises
    ------
    DeviceError
        If this host has no such devices.
    """
    if isinstance(cluster, Local):
        manned = posts(chosen_devices(cluster.devices), cluster.workers_per_device)
        return {"workers": len(manned), "threads": THREADS}
    limit = {"memory_limit": cluster.memory} if isinstance(cluster, Slurm | Kubernetes) else {}
    return {"workers": cluster.workers, "threads": THREADS} | limit


def check_cluster(cluster: Cluster) -> None:
    """Find out before the work starts whether a cluster can be asked for.

    Raises
    ------
    PlanError
        If a package or a program is missing for it, or it cannot be encrypted and should be.
    """
    if isinstance(cluster, Slurm):
        _jobqueue()
        if shutil.which("sbatch") is None:
            raise PlanError("cluster.kind is 'slurm', but sbatch is not on this host's PATH")
        _security_of_slurm()
    if isinstance(cluster, Kubernetes):
        kubernetes.imported()
        if configured().require_encryption:
            raise PlanError(
                "distributed.comm.require-encryption is set, but a cluster of cluster.kind "
                "'kubernetes' has no certificates: start one that has (cluster.kind 'address')"
            )


def _local(cluster: Local) -> AbstractContextManager[Client]:
    return local_client(cluster.devices, cluster.workers_per_device)


@contextmanager
def _address(cluster: Address) -> Iterator[Client]:
    files = cluster.tls_ca_file, cluster.tls_cert, cluster.tls_key
    with dask.config.set(tls_settings(*files)), connect(cluster.address) as client:
        _await(client, cluster.workers, cluster.wait)
        yield client


@contextmanager
def _slurm(cluster: Slurm) -> Iterator[Client]:
    options: dict[str, Any] = {
        "cores": cluster.cores,
        "memory": f"{cluster.memory} B",
        "processes": 1,
        "walltime": cluster.time,
        "queue": cluster.partition,
        "account": cluster.account,
        "interface": cluster.interface,
        "job_extra_directives": [
            *([f"--gres=gpu:{cluster.gpus}"] if cluster.gpus else []),
            *cluster.directives,
        ],
        # Where people log in, Dask's dashboard would be for all who reach that host.
        "scheduler_options": {
            "dashboard_address": dashboard_address(),
            **dask.config.get("jobqueue.slurm.scheduler-options", {}),
        },
        # Blocks that a worker runs at once; its cores are for the threads that read and decode.
        "worker_extra_args": ["--nthreads", str(THREADS)],
        "silence_logs": QUIET,
    }
    security = _security_of_slurm()
    if security is not None:
        options["security"] = security
        options["job_script_prologue"] = _prologue(security)
    try:
        slurm = _jobqueue().SLURMCluster(**options)
    except (RuntimeError, ValueError, OSError) as error:
        raise ClusterError(f"no scheduler for Slurm's workers could be started: {error}") from error
    with slurm as made, Client(made, set_as_default=False) as client:
        _check_script(made.job_script())
        made.scale(cluster.workers)
        _await(client, cluster.workers, cluster.wait)
        yield client


def _security_of_slurm() -> Security | None:
    """Return what Slurm's workers are reached with, where Dask's configuration wants encryption.

    Raises
    ------
    PlanError
        If certificates are missing or of no use: their files are for this host and the nodes.
    """
    security = configured()
    if not security.require_encryption:
        return None
    for role in ROLES:
        check(security, role, "for workers in Slurm, which are to be encrypted")
    # dask-jobqueue names a key to its workers, whether or not it is in a file of its own.
    files = security.get_tls_config_for_role("worker")
    return Security(tls_worker_key=files["key"] or files["cert"])


_SITE = ("job-script-prologue", "env-extra")
"""Settings of dask-jobqueue by which sites have their scripts begin; the second is of old ones."""


def _prologue(security: Security) -> list[str]:
    """Return what a worker's script begins with: what the site has it do, and settings of pages."""
    settings = page_settings(security)
    return [
        *next(filter(None, (dask.config.get(f"jobqueue.slurm.{key}", None) for key in _SITE)), ()),
        *(f"export DASK_{name.replace('.', '__').upper()}={shlex.quote(value)}"
          for name, value in settings.items() if value),
    ]  # fmt: skip


def _check_script(script: str) -> None:
    """Ask Slurm whether it would take a worker's script: dask-jobqueue hides what submissions say.

    Raises
    ------
    PlanError
        If not: with its own words.
    """
    try:
        done = subprocess.run(
            ["sbatch", "--test-only"],
            input=script,
            capture_output=True,
            text=True,
            timeout=_SUBMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"Slurm does not answer: {error}") from error
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise PlanError(f"Slurm refuses what cluster requests: {said}")


@contextmanager
def _kubernetes(cluster: Kubernetes) -> Iterator[Client]:
    with kubernetes.scheduler_address(cluster) as (address, left), connect(address) as client:
        _await(client, cluster.workers, left)
        yield client


def _jobqueue() -> Any:
    interrupted = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError as error:
        raise PlanError(
            f"cluster.kind 'slurm' needs another package ({error}): pip install dask-jobqueue"
        ) from error
    if signal.getsignal(signal.SIGINT) is not interrupted:
        # The import has it end the process as if all were well.
        signal.signal(signal.SIGINT, interrupted)
    return dask_jobqueue


def _await(client: Client, workers: int, seconds: float) -> None:
    try:
        client.wait_for_workers(workers, timeout=seconds)
    except TimeoutError:
        there = len(client.scheduler_info(n_workers=-1)["workers"])
        raise ClusterError(
            f"only {there} of {counted(workers, 'worker')} came within {seconds:.0f} s; "
            "look at their logs, or raise cluster.wait"
        ) from None


_KINDS: Mapping[type[Any], Callable[[Any], AbstractContextManager[Client]]] = {
    Local: _local,
    Address: _address,
    Slurm: _slurm,
    Kubernetes: _kubernetes,
}
