"""Get ready for a run: whoever is there is asked, and a reduction is planned for them, once."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from distributed import Client, get_client

from chunkfold.deadline import in_background
from chunkfold.errors import PlaceWarning, PlanError
from chunkfold.kernels import Device
from chunkfold.kernels.tuning.variant import forced
from chunkfold.planning.feeding import codecs_to_measure
from chunkfold.planning.plan import Plan, request_of
from chunkfold.planning.planner import fitted, make_plan
from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms
from chunkfold.running.backend import Backend, InProcess
from chunkfold.running.kept_blocks import ledger_of
from chunkfold.running.on_cluster import OnCluster
from chunkfold.settings import WAITS, wait_seconds
from chunkfold.sources.dask_source import DaskSource
from chunkfold.sources.source import Source
from chunkfold.tracebacks import warn_caller


@dataclass(frozen=True)
class Ready:
    """The parts that a run needs to begin."""

    run: str
    """Its name."""
    plan: Plan
    backend: Backend
    """The backend that carries the plan out; a caller that starts no run stops it."""
    devices: Sequence[Device]
    """Theirs."""


def ready(asked: Request | Plan, client: Client | None) -> Ready:
    """Plan what was asked for those who will do it, unless it is planned for such.

    Of a plan nothing is listed again: where it is for other workers than those that are there, it
    is made anew of what was listed for it.

    Raises
    ------
    ChunkfoldError
        If there is no worker, or not enough memory, or a device cannot do it.
    """
    request = request_of(asked)
    chosen = check_terms(client, request.sources)
    if client is None and chosen is not None and (here := in_this_process(request, chosen)):
        warn_caller(PlaceWarning(here))
        chosen = None
    backend: Backend = InProcess() if chosen is None else OnCluster(chosen)
    run, planned = uuid.uuid4().hex[:12], _planning(asked)
    try:
        backend.listen(run)
        workers = backend.workers(codecs_to_measure(request))
        plan = replace(planned(workers.terms), device=workers.devices[0])
        if plan.options.variant is not None:  # that workers would refuse, each by itself
            for device, one in itertools.product(workers.devices, plan.all_plans):
                forced(device, one.accumulator, plan.options.variant)
        return Ready(run, plan, backend, workers.devices)
    except BaseException:
        backend.stop()
        raise


def in_this_process(request: Request, chosen: Client | None) -> str:
    """Say which sources are in this process and stay here, unless a client is named; else "".

    Or unless another source is persisted on the cluster of the client that was found.
    """
    here = [source.name for source in request.sources if source.here]
    if not here or (chosen is not None and any(map(_owner, request.sources))):
        return ""
    return (
        f"{' and '.join(here)}: is in this process and is reduced here, not on the cluster; "
        "client= sends it there, block by block"
    )


def _planning(asked: Request | Plan) -> Callable[[Terms], Plan]:
    """Return what plans for those who are there; what is stored is listed meanwhile."""
    if isinstance(asked, Plan):
        return partial(fitted, asked)
    listings = in_background(asked.listings)
    ledger = None if asked.options.ledger is None else ledger_of(asked)
    return lambda terms: make_plan(asked, listings.result(), terms, ledger=ledger)


def check_terms(client: Client | None, sources: Sequence[Source] = ()) -> Client | None:
    """Return the client to run on, as `chosen_client`, once all settings are seen to be sound.

    Raises
    ------
    PlanError
        If anything is wrong, whatever is reduced.
    """
    for name in WAITS:
        wait_seconds(name)
    return chosen_client(client, sources)


def chosen_client(client: Client | None, sources: Sequence[Source] = ()) -> Client | None:
    """Return the client to run on: the one given, else the current one; None if there is none.

    Where sources are persisted on a cluster, it is one of that.

    Raises
    ------
    PlanError
        If it is none that can be waited for.
    """
    if client is not None and not isinstance(client, Client):
        raise PlanError(f"client is a distributed.Client, not {type(client).__name__}")
    for source in sources:
        if (owner := _owner(source)) is not None:
            client = client or owner
            if client is not owner and _address(client) != _address(owner):
                raise PlanError(
                    f"{source.name}: is persisted on {_address(owner)}, but client= is connected "
                    f"to {_address(client)}: give the client that persisted it"
                )
    client = client or _current_client()
    if client is not None and client.asynchronous:
        raise PlanError(
            "client is asynchronous, but a reduction waits for its results: call it in a thread, "
            "await asyncio.to_thread(chunkfold.reduce, ...), or give it Client(address)"
        )
    return client


def _owner(source: Source) -> Client | None:
    """Return a client of the cluster on which a source is persisted; None if it is not."""
    return source.client if isinstance(source, DaskSource) else None


def _address(client: Client) -> str:
    """Return that of its scheduler."""
    scheduler = client.scheduler
    return str(scheduler.address) if scheduler else f"a client that is {client.status}"


def _current_client() -> Client | None:
    try:
        return get_client()
    except ValueError:
        return None
