"""Tables of a job file: what all have in common, and those that say where it runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
)

from chunkfold.workflows.job.values import (
    Count,
    KubeName,
    Nbytes,
    Seconds,
    Text,
    Texts,
    Word,
    distinct_paths,
    scheduler,
    slurm_time,
)
from chunkfold.workflows.options.written_options import SHARED


class Table(BaseModel):
    """A table of the file: keys that are not known are errors, values have the types shown."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class Local(Table):
    """A cluster of this host's devices, for as long as the job runs."""

    kind: Literal["local"] = "local"
    devices: Texts | None = None
    """As `chunkfold devices` names them; the GPUs, else one CPU device, without it."""
    workers_per_device: Count | None = None
    """That share a GPU, or have a part of a CPU; without it one for every 8 cores."""


def _file(name: str) -> Any:
    where = "A path, relative to the job file's folder; without one Dask's configuration counts."
    return Field(description=f"{SHARED[name]} {where}")


class Address(Table):
    """A cluster that is there: `dask scheduler`, and `chunkfold worker` on each host."""

    kind: Literal["address"]
    address: Annotated[str, AfterValidator(scheduler)]
    """Of the scheduler: "tcp://10.0.0.1:8786", or "tls://..."."""
    tls_ca_file: Annotated[Text | None, _file("tls_ca_file")] = None
    tls_cert: Annotated[Text | None, _file("tls_cert")] = None
    tls_key: Annotated[Text | None, _file("tls_key")] = None
    workers: Count = 1
    """Workers to wait for before the work starts."""
    wait: Seconds = Field(default="1 m", validate_default=True)
    """Longest wait for them: "1 m"."""


class Slurm(Table):
    """Workers that Slurm starts, one per allocation, for as long as the job runs."""

    kind: Literal["slurm"]
    workers: Count
    """Allocations, each of one worker with one device."""
    cores: Count
    """Of each."""
    memory: Nbytes
    """Of each."""
    time: Annotated[str, AfterValidator(slurm_time)] = "01:00:00"
    """Wall time of each, as sbatch has it."""
    partition: Word | None = None
    account: Word | None = None
    gpus: Annotated[int, Field(ge=0, le=1)] = 0
    """Of each: one worker owns one device."""
    directives: list[Annotated[str, Field(pattern=r"^--?[\w-]+(=\S+)?$")]] = []
    """More options of sbatch, such as "--qos=night". What else a worker needs before it starts,
    such as modules to load, is for the site to say: dask's `jobqueue.slurm.job-script-prologue`."""
    interface: Word | None = None
    """Network interface of scheduler and workers, such as "ib0"."""
    wait: Seconds = Field(default="10 m", validate_default=True)
    """Longest wait for all workers, in the queue too: "10 m"."""


class Kubernetes(Table):
    """Workers in pods of a Dask cluster that is there for as long as the job runs.

    It needs the operator of dask-kubernetes, and the right to make a DaskCluster.
    """

    kind: Literal["kubernetes"]
    image: Word
    """Of scheduler and workers, with this version of chunkfold in it."""
    workers: Count
    """Pods, each of one worker with one device."""
    cores: Count
    """Of each."""
    memory: Nbytes
    """Of each."""
    gpus: Annotated[int, Field(ge=0, le=1)] = 0
    """Of each: one worker owns one device."""
    namespace: KubeName | None = None
    """That of the context, or of this pod, without it."""
    claims: Annotated[
        dict[KubeName, Annotated[str, Field(pattern=r"^/[^:\x00-\x1f]+$")]],
        AfterValidator(distinct_paths),
    ] = {}
    """Persistent volume claims that workers read, and where sources say that they are."""
    secrets: list[KubeName] = []
    """Secrets whose entries are environment variables of the workers: credentials of stores."""
    wait: Seconds = Field(default="10 m", validate_default=True)
    """Longest wait for all workers, with what pulling images takes: "10 m"."""
