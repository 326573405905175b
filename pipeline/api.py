"""Reduce a Zarr array: the public functions."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from distributed import Client, get_client

from chunkfold.deadline import beside
from chunkfold.errors import LawsWarning, PackedWarning, PlaceWarning, PlanError
from chunkfold.events import OnEvent
from chunkfold.grid import Selection
from chunkfold.kernels import Device, Monoid, all_devices, devices
from chunkfold.kernels.binding.laws import depends_on_order_of
from chunkfold.kernels.tuning.variant import forced
from chunkfold.planning.plan import Plan
from chunkfold.planning.request import Op, Request, Where, memory_bytes
from chunkfold.planning.staffing import THREADS, memory_each, readers_each
from chunkfold.running.backend import Backend, InProcess
from chunkfold.running.on_cluster import OnCluster
from chunkfold.running.run import Run
from chunkfold.settings import WAITS, StorageOptions, most_requests, wait_seconds
from chunkfold.sources.axis_names import Axis
from chunkfold.sources.cf_packing import not_applied
from chunkfold.sources.source import Source

ON_BAD_CHUNK = ("stop", "skip")
Result = Any
"""A NumPy scalar or array; with a list of ops, a dict of them by name."""


def reduce(
    source: Any,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: Axis = None,
    keepdims: bool = False,
    dtype: Any = None,
    ddof: float = 0,
    skipna: bool = False,
    where: Where = None,
    mask_and_scale: bool = False,
    selection: Selection = None,
    mode: str = "exact",
    variant: str | None = None,
    memory: int | str | None = None,
    on_bad_chunk: str = "stop",
    storage_options: StorageOptions | None = None,
    by: Any = None,
    by_axis: Axis = None,
    groups: Any = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Reduce a Zarr array over some or all axes, with NumPy's meaning.

    Parameters
    ----------
    source
        Path or URL of an array (`store.zarr/group/array`, `air.nc/air`, ...: docs/sources.md), a
        `zarr.Array`, an `h5py.Dataset`, NumPy's array or anything like one, or several as one
        (`chunkfold.concatenate`); a pair of equal shape for reductions of two inputs.
    op
        A reduction, by name or as a `Monoid`; or several, which share one read of the data.
    axis
        Axes to reduce: by the names that the array gives them, or by number, counted after the
        selection as NumPy does, whose integers leave nothing of an axis; None for all.
    keepdims
        Keep reduced axes with size one.
    dtype
        Cast elements to this before, and the result after. `object` gives the sum or product of
        integers as Python's: sums of any size, products of up to 64 bits.
    ddof
        Delta degrees of freedom: variances divide by count - ddof.
    skipna
        Take elements that are NaN or NaT for absent.
    where
        A condition: elements of which it does not hold count as absent. A function of the elements,
        as `lambda x: x > 300`, with NumPy's meaning (docs/monoids.md), or its text, "x > 300".
    mask_and_scale
        Reduce the values that stored numbers stand for, by the attributes `scale_factor`,
        `add_offset`, `_FillValue`, `missing_value` and `_Unsigned`, as xarray does (in format 2
        the fill value is missing too): float64 ones, or float32 where narrow integers are masked
        only, or those of `dtype`. Missing ones are NaN, which `skipna` leaves out. A
        `chunkfold.errors.PackedWarning` says which attributes are not applied.
    selection
        Integers, slices with positive steps, Ellipsis: as in `array[selection]`.
    mode
        "exact": sums, means, variances and norms of floats are computed without rounding and
        rounded once: the same bits for any chunks, devices and workers. "fast": they are off by no
        more than `docs/numerics.md` says, and arithmetic takes less time.
    variant
        Use this kernel variant ("tree", "work_group", "sub_group") instead of the best one.
    memory
        Most that a worker may take above an idle one: bytes, or a text such as "2 GiB".
    on_bad_chunk
        "stop": a chunk that cannot be read ends the run. "skip": its elements count as absent, and
        `Run.skipped` says which they are; exact results are then those of the rest.
    storage_options
        Of sources that are URLs: `absent_status` is one or several statuses (403, 410) by which a
        server answers for chunks that it does not have; all else is obstore's, such as
        `skip_signature` or `region`.
    by
        Labels: elements of the same label are a group, and each group has its own results. An array
        of whole numbers, texts, bools or dates (NumPy's, xarray's, or Zarr's, or its path) with the
        extents of some axes of the source, before any selection. What is negative, NaN, NaT or
        masked is in no group. In results the groups are an axis, in the place of the first axis
        that has labels, in ascending order of their labels, which `Run.groups` has.
    by_axis
        The axes that labels are along, as `axis`; if it is not given, those that have the names of
        the labels' axes, or else their extents: the only ones, or the last ones.
    groups
        The labels of the groups, in the order of the results: also of those that have no elements.
        Other labels are in no group. None: those that there are.
    client
        Cluster to run on: None takes the current distributed client if there is one, else this
        process and its first device.
    on_event
        Called with each event of the run.

    Returns
    -------
    A NumPy scalar or array; with a list of ops, a dict of them by name.

    Raises
    ------
    ChunkfoldError
        See `chunkfold.errors`.
    """
    return submit(
        source, op, axis=axis, keepdims=keepdims, dtype=dtype, ddof=ddof, skipna=skipna,
        where=where,
        mask_and_scale=mask_and_scale, selection=selection, mode=mode, variant=variant,
        memory=memory, on_bad_chunk=on_bad_chunk, storage_options=storage_options, by=by,
        by_axis=by_axis, groups=groups, client=client, on_event=on_event,
    ).result()  # fmt: skip


def submit(
    source: Any,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: Axis = None,
    keepdims: bool = False,
    dtype: Any = None,
    ddof: float = 0,
    skipna: bool = False,
    where: Where = None,
    mask_and_scale: bool = False,
    selection: Selection = None,
    mode: str = "exact",
    variant: str | None = None,
    memory: int | str | None = None,
    on_bad_chunk: str = "stop",
    storage_options: StorageOptions | None = None,
    by: Any = None,
    by_axis: Axis = None,
    groups: Any = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Run:
    """Start a reduction and return at once; parameters as `reduce`.

    What can be known to be wrong is raised here; the rest by `Run.result`.
    """
    check_terms(memory=memory, on_bad_chunk=on_bad_chunk, client=client)
    request = Request.of(
        source, op, axis=axis, dtype=dtype, ddof=ddof, skipna=skipna,
        where=where,
        mask_and_scale=mask_and_scale, selection=selection, mode=mode, memory=memory,
        storage_options=storage_options, by=by, by_axis=by_axis, groups=groups,
    )  # fmt: skip
    # Before asking the cluster, so that bad input fails without one.
    bound = request.bound()
    request.check(bound)
    given = {"mask_and_scale": bool(mask_and_scale)}
    for told in not_applied(request.sources, "mask_and_scale=True", **given):
        warnings.warn(told, PackedWarning, stacklevel=3)
    for told in (depends_on_order_of(bound.accumulator, value) for value in (np.nan, -0.0)):
        if told:
            warnings.warn(told, LawsWarning, stacklevel=3)
    backend = _backend(client, request.sources)
    run, listings = uuid.uuid4().hex[:12], beside(request.listings)
    try:
        backend.listen(run)
        workers = backend.workers()
        if not all(device.fp64 for device in workers.devices):
            bound = request.bound(fp64=False)
        planned = request.plan(bound, listings.result(), **workers.terms)
        planned = replace(planned, device=workers.devices[0])
        if variant is not None:  # that workers would refuse, each by itself
            for device in workers.devices:
                forced(device, planned.accumulator, variant)
        return Run(
            run,
            planned,
            bound,
            backend,
            workers.devices,
            keepdims=keepdims,
            single=isinstance(op, (str, Monoid)),
            variant=variant,
            skips=on_bad_chunk == "skip",
            on_event=on_event,
        )
    except BaseException:
        backend.stop()
        raise


def check_terms(
    *, memory: int | str | None, on_bad_chunk: str, client: Client | None = None
) -> None:
    """Raise what is wrong with the terms of a run, whatever it is of; parameters as `reduce`."""
    _chosen(client)
    memory_bytes(memory)
    for name in WAITS:
        wait_seconds(name)
    if on_bad_chunk not in ON_BAD_CHUNK:
        raise PlanError(
            f"on_bad_chunk is {on_bad_chunk!r}; there are: {', '.join(map(repr, ON_BAD_CHUNK))}"
        )


def check(source: Any, op: Op | Sequence[Op], **given: Any) -> None:
    """Raise what `reduce` would, without a cluster and without reading data, but of its memory.

    Parameters as `Request.of`.
    """
    request = Request.of(source, op, **given)
    request.check(request.bound())


def plan(
    source: Any,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: Axis = None,
    dtype: Any = None,
    ddof: float = 0,
    skipna: bool = False,
    where: Where = None,
    mask_and_scale: bool = False,
    selection: Selection = None,
    mode: str = "exact",
    memory: int | str | None = None,
    storage_options: StorageOptions | None = None,
    by: Any = None,
    by_axis: Axis = None,
    groups: Any = None,
    workers: int = 1,
    threads: int = THREADS,
    memory_limit: int | None = None,
    device: Device | str | None = None,
    client: Client | None = None,
) -> Plan:
    """Say what `reduce` would do, without reading data; parameters as there.

    With a cluster (given or current), for its workers; else for `workers` that run `threads`
    blocks at once each, and may take `memory_limit` bytes each: of this host's memory, if it is
    not given, an equal share. `device` is the first of theirs, if it is not this host's default.
    """
    for name, number in (("workers", workers), ("threads", threads)):
        if number < 1:
            raise PlanError(f"{name} is {number!r}; a plan needs at least 1")
    request = Request.of(
        source, op, axis=axis, dtype=dtype, ddof=ddof, skipna=skipna,
        where=where,
        mask_and_scale=mask_and_scale, selection=selection, mode=mode, memory=memory,
        storage_options=storage_options, by=by, by_axis=by_axis, groups=groups,
    )  # fmt: skip
    if client is None and all(source.travels for source in request.sources):
        client = _current_client()
    terms: dict[str, Any] = {
        "workers": workers, "threads": threads, "readers": readers_each(workers),
        "requests": max(1, most_requests() // workers),
        "memory_limit": memory_limit or memory_each(workers),
    }  # fmt: skip
    if client is not None:
        found = OnCluster(client).workers()
        terms, able = found.terms, list(found.devices)
    elif isinstance(device, Device):
        able = [device]
    else:  # a plan is made where there is no device, too
        able = devices(device)[:1] if device is not None or all_devices() else []
    bound = request.bound(fp64=all(one.fp64 for one in able))
    planned = request.plan(bound, request.listings(), **terms)
    return replace(planned, device=able[0] if able else None)


def _backend(client: Client | None, sources: Sequence[Source]) -> Backend:
    """Return where a reduction runs: what is in this process's memory stays here, unless told."""
    chosen = _chosen(client)
    here = [source.name for source in sources if not source.travels]
    if chosen is None or not (here and client is None):
        return InProcess() if chosen is None else OnCluster(chosen)
    message = (
        f"{' and '.join(here)}: is in this process and is reduced here, not on the cluster; "
        "client= sends it there, block by block"
    )
    warnings.warn(message, PlaceWarning, stacklevel=4)
    return InProcess()


def _chosen(client: Client | None) -> Client | None:
    """Return the client to run on: the one given, else the current one; None if there is none."""
    if client is not None and not isinstance(client, Client):
        raise PlanError(f"client is a distributed.Client, not {type(client).__name__}")
    client = client or _current_client()
    if client is not None and client.asynchronous:
        raise PlanError(
            "client is asynchronous, but a reduction is waited for: call it in a thread, "
            "await asyncio.to_thread(chunkfold.reduce, ...), or give it Client(address)"
        )
    return client


def _current_client() -> Client | None:
    try:
        return get_client()
    except ValueError:
        return None
