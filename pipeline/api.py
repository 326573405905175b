"""Reduce a Zarr array: the public functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from distributed import Client, get_client

from chunkfold.backend import Backend, Crew, InProcess
from chunkfold.errors import DeviceError, PlanError
from chunkfold.events import OnEvent
from chunkfold.grid import Selection
from chunkfold.kernels import Bound, Monoid, as_monoid, bind
from chunkfold.kernels.dtypes import stored_name
from chunkfold.on_cluster import OnCluster
from chunkfold.planning import Plan, make_plan
from chunkfold.run import Run
from chunkfold.source import Source, open_source

MODES = ("fast",)
Op = str | Monoid
Result = Any
"""A NumPy scalar or array; with a list of ops, a dict of them by name."""


def reduce(
    source: Any,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    dtype: Any = None,
    selection: Selection = None,
    mode: str = "fast",
    variant: str | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Reduce a Zarr array over some or all axes, with NumPy's meaning.

    Parameters
    ----------
    source
        Path or URL of a Zarr array (`store.zarr/group/array`), or a `zarr.Array`.
    op
        A reduction, by name or as a `Monoid`; or several, which share one read of the data.
    axis
        Axes to reduce; None for all.
    keepdims
        Keep reduced axes with size one.
    dtype
        Cast elements to this before, and the result after.
    selection
        Integers, slices with positive steps, Ellipsis: as in `array[selection]`.
    mode
        "fast": float sums are off by no more than `docs/numerics.md` says.
    variant
        Use this kernel variant ("tree", "work_group", "sub_group") instead of the best one.
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
        source, op, axis=axis, keepdims=keepdims, dtype=dtype, selection=selection,
        mode=mode, variant=variant, client=client, on_event=on_event,
    ).result()  # fmt: skip


def submit(
    source: Any,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    dtype: Any = None,
    selection: Selection = None,
    mode: str = "fast",
    variant: str | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Run:
    """Start a reduction and return at once; parameters as `reduce`.

    What can be known to be wrong is raised here; the rest by `Run.result`.
    """
    if mode not in MODES:
        raise PlanError(f"mode is {mode!r}; there is: {', '.join(map(repr, MODES))}")
    backend = _backend(client)
    opened = open_source(source)
    monoids = _monoids(op)
    # Bind once before asking the cluster, so that bad input fails without one.
    bound = _bound(opened, monoids, dtype)
    make_plan(opened, bound, axis=axis, selection=selection)
    crew = backend.crew()
    if not all(device.fp64 for device in crew.devices):
        bound = _bound(opened, monoids, dtype, fp64=False)
    planned = _plan_for(opened, bound, axis, selection, crew)
    return Run(
        planned,
        bound,
        backend,
        keepdims=keepdims,
        single=isinstance(op, (str, Monoid)),
        variant=variant,
        on_event=on_event,
    )


def plan(
    source: Any,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: int | Sequence[int] | None = None,
    dtype: Any = None,
    selection: Selection = None,
    workers: int = 1,
    threads: int = 1,
    client: Client | None = None,
) -> Plan:
    """Say what `reduce` would do, without reading data; parameters as there.

    With a cluster (given or current), for its workers; else for `workers` that run `threads`
    blocks at once each.
    """
    opened = open_source(source)
    bound = _bound(opened, _monoids(op), dtype)
    client = client or _current_client()
    if client is None:
        return make_plan(
            opened, bound, axis=axis, selection=selection, workers=workers, threads=threads
        )
    return _plan_for(opened, bound, axis, selection, OnCluster(client).crew())


def _plan_for(
    source: Source,
    bound: Bound,
    axis: int | Sequence[int] | None,
    selection: Selection,
    crew: Crew,
) -> Plan:
    return make_plan(
        source,
        bound,
        axis=axis,
        selection=selection,
        workers=max(1, len(crew.devices)),
        threads=crew.threads,
        memory_limit=crew.memory_limit,
    )


def _backend(client: Client | None) -> Backend:
    if client is not None and not isinstance(client, Client):
        raise PlanError(f"client is a distributed.Client, not {type(client).__name__}")
    client = client or _current_client()
    return InProcess() if client is None else OnCluster(client)


def _current_client() -> Client | None:
    try:
        return get_client()
    except ValueError:
        return None


def _monoids(op: Op | Sequence[Op]) -> list[Monoid]:
    alone = isinstance(op, (str, bytes, Monoid)) or not isinstance(op, Iterable)
    ops: Any = [op] if alone else op
    monoids = [as_monoid(one) for one in ops]
    names = [monoid.name for monoid in monoids]
    if not names:
        raise PlanError("no reduction was named; give one, as in op='sum', or several in a list")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(f"results go by name, but {', '.join(twice)} is named more than once")
    return monoids


def _bound(source: Source, monoids: list[Monoid], dtype: Any, *, fp64: bool = True) -> Bound:
    try:
        cast = None if dtype is None else np.dtype(stored_name(np.dtype(dtype)))
    except (TypeError, ValueError, DeviceError) as error:
        raise PlanError(f"dtype={dtype!r}: {error}") from None
    return bind(monoids, [source.dtype], dtype=cast, fp64=fp64)
