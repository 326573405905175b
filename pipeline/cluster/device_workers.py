"""Asks the workers of a Dask cluster for their devices, before a run."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from distributed import Client
from tenacity import (
    Retrying,
    retry_if_result,
    stop_after_attempt,
    stop_after_delay,
    stop_all,
    wait_fixed,
)

from chunkfold.deadline import awaited, in_background, with_deadline
from chunkfold.errors import ClusterError, DeviceError
from chunkfold.kernels import Device
from chunkfold.kernels.decode.decode_rates import DecodeRates
from chunkfold.planning.workers import Workers
from chunkfold.plural import counted
from chunkfold.settings import wait_seconds
from chunkfold.worker.worker_device import RESOURCE, decode_rates_here, describe_worker


def _until_some_answer() -> Retrying:
    """A worker that dies while it is asked may come again, though Dask took long to see it."""
    return Retrying(
        retry=retry_if_result(
            lambda asked: all(isinstance(one, OSError) for one in asked[1].values())
        ),
        stop=stop_all(
            stop_after_delay(wait_seconds("chunkfold.workers.join")), stop_after_attempt(2)
        ),
        wait=wait_fixed(0.2),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )


_ASK_EVERY_S = 0.25
"""Interval at which the scheduler is asked if a worker has come again, s."""


class DeviceWorkers:
    """The workers of a cluster that have devices."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.resources: dict[str, int] = {}
        """What tasks ask for, so that they go to no other worker."""
        self.near = False
        """Whether the workers are where the client reaches the scheduler: on one host with it."""
        self._several = False
        """True if several workers were there at the start."""
        self._avoided: set[str] = set()
        """Workers whose devices failed."""

    def ask(self, while_waiting: Callable[[], object], codecs: Collection[str] = ()) -> Workers:
        """Ask every worker for its device, and call `while_waiting` a few times a second.

        One worker of each device with memory of its own is asked how fast it decodes some codecs.

        Raises
        ------
        ClusterError
            If no worker joins or they do not answer in time.
        DeviceError
            If none of them has a device.
        """
        if self._client.status != "running":
            raise ClusterError(f"the client is {self._client.status}: connect it to a scheduler")
        workers, answers = _until_some_answer()(self._ask, while_waiting)
        found = {a: known for a, known in answers.items() if isinstance(known, tuple)}
        if not found:
            raise DeviceError(
                f"found no OpenCL device on {counted(len(answers), 'worker')}: "
                + "; ".join(str(answer) for answer in answers.values())
            )
        reached: Any = self._client.scheduler  # None, had it not been running
        self.near = {_host(address) for address in found} == {_host(reached.address)}
        limits = [workers[a]["memory_limit"] for a in found if workers[a].get("memory_limit")]
        threads = min(int(workers[address]["nthreads"]) for address in found)
        devices, readers = zip(*found.values(), strict=True)
        self._several = len(found) > 1
        (_, neighbours), *_ = Counter(map(_host, found)).most_common(1)
        rates = self._decode_rates(found, codecs, while_waiting)
        return Workers(devices, threads, max(readers), min(limits, default=None), neighbours, rates)

    def _decode_rates(
        self,
        found: Mapping[str, tuple[Device, int]],
        codecs: Collection[str],
        while_waiting: Callable[[], object],
    ) -> tuple[DecodeRates, ...]:
        """Return the rates of each device; none of those whose worker does not say."""
        if not codecs or any(device.unified_memory for device, _ in found.values()):
            return ()
        sharing: dict[str, list[str]] = {}
        for address, (device, _) in found.items():
            sharing.setdefault(device.identity, []).append(address)

        def measured(addresses: Sequence[str]) -> Any:
            given = (decode_rates_here, codecs, len(addresses))
            return self._client.run(*given, workers=[addresses[0]], on_error="return")

        asked = [in_background(partial(measured, one)) for one in sharing.values()]
        seconds = wait_seconds("chunkfold.workers.silent")
        answers: list[Any] = []
        for one in asked:
            with contextlib.suppress(ClusterError):  # then they are not known
                what = "the workers to measure how fast they decode"
                answers += awaited(one, seconds, what, while_waiting).values()
        return tuple(rates for answer in answers if isinstance(answer, tuple) for rates in answer)

    def _ask(self, while_waiting: Callable[[], object]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Wait for a worker, and ask all there are; return them, and what they answer."""
        join, answer = wait_seconds("chunkfold.workers.join"), _answer()
        workers = self.joined_workers()
        reached: Any = self._client.scheduler  # None, had it not answered
        if not workers:
            with contextlib.suppress(TimeoutError), self._task_to_do():
                with_deadline(
                    join + answer,
                    "a first worker",
                    lambda: self._client.wait_for_workers(1, timeout=join),
                )
            workers = self.joined_workers()
        if not workers:
            address = reached.address
            raise ClusterError(
                f"no worker joined {address} in {join:.0f} s; "
                f"start some: chunkfold worker {address}"
            )
        declared = {a: w for a, w in workers.items() if RESOURCE in w.get("resources", {})}
        if declared and len(declared) < len(workers):
            # Resources switch off queuing on Dask's scheduler; the block scheduler bounds it.
            self.resources = {RESOURCE: 1}
            workers = declared
        asked = in_background(
            lambda: self._client.run(describe_worker, workers=list(workers), on_error="return")
        )
        # One that is stopped is removed meanwhile, which ends the wait for it.
        seconds = wait_seconds("chunkfold.workers.silent") + answer
        return workers, awaited(
            asked, seconds, "the workers' answer about their devices", while_waiting
        )

    @contextlib.contextmanager
    def _task_to_do(self) -> Iterator[None]:
        """Have a task wait for a worker: a cluster that adapts to what is to do starts one then."""
        waiting = self._client.submit(os.getpid, pure=False)
        try:
            yield
        finally:
            waiting.release()

    def joined_workers(self) -> dict[str, Any]:
        """Ask the scheduler who has joined: what it knows of each, by address."""
        asked = partial(self._client.scheduler_info, n_workers=-1)
        found: dict[str, Any] = with_deadline(_answer(), "the scheduler's answer", asked)["workers"]
        return found

    def useful(self, worker: Mapping[str, Any]) -> bool:
        """Tell if tasks may go to a worker, by what the scheduler knows of it."""
        return all(name in worker.get("resources", {}) for name in self.resources)

    def retire(self, worker: str) -> bool:
        """Close a worker; return True if any are left."""
        asked = partial(self._client.retire_workers, [worker])
        with_deadline(_answer(), "a worker's retirement", asked)
        return bool(self.joined_workers())

    def avoid(self, worker: str, cancelled: Callable[[], bool]) -> set[str]:
        """Prefer other workers from now on; return these.

        Where each has been avoided, what happened to the others may have passed. Where there were
        others before, and there are none now, one may be about to come again: it is waited for,
        unless the run is cancelled.
        """
        self._avoided.add(worker)
        others = self.preferred()
        if not others:
            self._avoided = {worker}
            others = self.preferred()
        until = time.monotonic() + wait_seconds("chunkfold.workers.join")
        while not (others or cancelled()) and self._several and time.monotonic() < until:
            time.sleep(_ASK_EVERY_S)
            others = self.preferred()
        return others

    def preferred(self) -> set[str]:
        """Return the workers that tasks are to go to, if they can; none if all are as good."""
        if not self._avoided:
            return set()
        joined = {one for one, known in self.joined_workers().items() if self.useful(known)}
        return joined - self._avoided


def _answer() -> float:
    return wait_seconds("chunkfold.workers.answer")


def _host(address: str) -> str | None:
    return urlsplit(address).hostname
