"""Reduce a Zarr array: the public functions."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.utils import parse_bytes
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
from chunkfold.worker import readers_each

MODES = ("exact", "fast")
ON_BAD_CHUNK = ("stop", "skip")
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
    ddof: float = 0,
    skipna: bool = False,
    selection: Selection = None,
    mode: str = "exact",
    variant: str | None = None,
    memory: int | str | None = None,
    on_bad_chunk: str = "stop",
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Reduce a Zarr array over some or all axes, with NumPy's meaning.

    Parameters
    ----------
    source
        Path or URL of a Zarr array (`store.zarr/group/array`), or a `zarr.Array`; a pair of
        equal shape for reductions of two inputs.
    op
        A reduction, by name or as a `Monoid`; or several, which share one read of the data.
    axis
        Axes to reduce; None for all.
    keepdims
        Keep reduced axes with size one.
    dtype
        Cast elements to this before, and the result after. `object` gives the sum or product of
        integers as Python's, of any size.
    ddof
        Delta degrees of freedom: variances divide by count - ddof.
    skipna
        Take elements that are NaN or NaT for absent.
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
        selection=selection, mode=mode, variant=variant, memory=memory, on_bad_chunk=on_bad_chunk,
        client=client, on_event=on_event,
    ).result()  # fmt: skip


def submit(
    source: Any,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    dtype: Any = None,
    ddof: float = 0,
    skipna: bool = False,
    selection: Selection = None,
    mode: str = "exact",
    variant: str | None = None,
    memory: int | str | None = None,
    on_bad_chunk: str = "stop",
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Run:
    """Start a reduction and return at once; parameters as `reduce`.

    What can be known to be wrong is raised here; the rest by `Run.result`.
    """
    backend = _backend(client)
    sources = _sources(source)
    monoids = _monoids(op, skipna=skipna)
    if on_bad_chunk not in ON_BAD_CHUNK:
        raise PlanError(
            f"on_bad_chunk is {on_bad_chunk!r}; there are: {', '.join(map(repr, ON_BAD_CHUNK))}"
        )
    # Bind once before asking the cluster, so that bad input fails without one.
    bound = _bound(sources, monoids, dtype, ddof, mode)
    wanted = _Wanted(sources, axis, selection, _bytes(memory))
    wanted.plan(bound)
    crew = backend.crew()
    if not all(device.fp64 for device in crew.devices):
        bound = _bound(sources, monoids, dtype, ddof, mode, fp64=False)
    planned = wanted.plan(bound, crew, stored=wanted.stored())
    return Run(
        planned,
        bound,
        backend,
        keepdims=keepdims,
        single=isinstance(op, (str, Monoid)),
        variant=variant,
        skips=on_bad_chunk == "skip",
        on_event=on_event,
    )


def check(
    source: Any,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: int | Sequence[int] | None = None,
    dtype: Any = None,
    ddof: float = 0,
    skipna: bool = False,
    selection: Selection = None,
    mode: str = "exact",
    memory: int | str | None = None,
) -> None:
    """Raise what `reduce` would of these arguments, without a cluster and without reading data."""
    sources = _sources(source)
    bound = _bound(sources, _monoids(op, skipna=skipna), dtype, ddof, mode)
    _Wanted(sources, axis, selection, _bytes(memory)).plan(bound)


def plan(
    source: Any,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: int | Sequence[int] | None = None,
    dtype: Any = None,
    ddof: float = 0,
    skipna: bool = False,
    selection: Selection = None,
    mode: str = "exact",
    memory: int | str | None = None,
    workers: int = 1,
    threads: int = 1,
    client: Client | None = None,
) -> Plan:
    """Say what `reduce` would do, without reading data; parameters as there.

    With a cluster (given or current), for its workers; else for `workers` that run `threads`
    blocks at once each.
    """
    sources = _sources(source)
    bound = _bound(sources, _monoids(op, skipna=skipna), dtype, ddof, mode)
    wanted = _Wanted(sources, axis, selection, _bytes(memory))
    client = client or _current_client()
    crew = (
        Crew((), threads, readers_each(workers), None, workers)
        if client is None
        else OnCluster(client).crew()
    )
    return wanted.plan(bound, crew, stored=wanted.stored())


@dataclass(frozen=True)
class _Wanted:
    """What is asked for, but for the statistics."""

    sources: tuple[Source, ...]
    axis: int | Sequence[int] | None
    selection: Selection
    memory: int | None

    def stored(self) -> list[np.ndarray | None]:
        """Find out what is stored of each input."""
        return [source.stored() for source in self.sources]

    def plan(
        self,
        bound: Bound,
        crew: Crew | None = None,
        stored: Sequence[np.ndarray | None] | None = None,
    ) -> Plan:
        """Plan it for a crew; for none, see that it can be planned at all."""
        given: dict[str, Any] = {}
        if crew is not None:
            given = {
                "workers": crew.workers,
                "threads": crew.threads,
                "readers": crew.readers,
                "memory_limit": crew.memory_limit,
            }
        return make_plan(
            self.sources,
            bound,
            axis=self.axis,
            selection=self.selection,
            stored=stored,
            memory=self.memory,
            **given,
        )


def _bytes(memory: int | str | None) -> int | None:
    if memory is None:
        return None
    plain = isinstance(memory, (int, float, np.integer)) and not isinstance(memory, bool)
    text = isinstance(memory, str) and any(map(str.isdigit, memory))
    try:
        nbytes = int(memory) if plain else int(parse_bytes(memory)) if text else 0
    except (ValueError, OverflowError):
        nbytes = 0
    if nbytes <= 0:
        raise PlanError(f"memory is {memory!r}; give bytes, or a text such as '2 GiB'")
    return nbytes


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


def _sources(given: Any) -> tuple[Source, ...]:
    """Open one source, or a pair of equal shape."""
    sources = tuple(map(open_source, given if isinstance(given, (tuple, list)) else (given,)))
    if not sources:
        raise PlanError("no source was named")
    first = sources[0]
    for other in sources[1:]:
        if other.shape != first.shape:
            raise PlanError(
                f"{first.name} has shape {first.shape}, but {other.name} has {other.shape}; "
                "reductions of several inputs need equal shapes"
            )
    return sources


def _monoids(op: Op | Sequence[Op], *, skipna: bool) -> list[Monoid]:
    alone = isinstance(op, (str, bytes, Monoid)) or not isinstance(op, Iterable)
    ops: Any = [op] if alone else op
    monoids = [as_monoid(one) for one in ops]
    if skipna:
        monoids = [monoid.skipping() for monoid in monoids]
    names = [monoid.name for monoid in monoids]
    if not names:
        raise PlanError("no reduction was named; give one, as in op='sum', or several in a list")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(f"results go by name, but {', '.join(twice)} is named more than once")
    return monoids


def _bound(
    sources: tuple[Source, ...],
    monoids: list[Monoid],
    dtype: Any,
    ddof: float,
    mode: str,
    *,
    fp64: bool = True,
) -> Bound:
    if mode not in MODES:
        raise PlanError(f"mode is {mode!r}; there are: {', '.join(map(repr, MODES))}")
    plain = isinstance(ddof, (int, float)) and not isinstance(ddof, bool)
    if not plain or not -(2**63) <= ddof < 2**63:
        raise PlanError(f"ddof is {reprlib.repr(ddof)}; give a number of 64 bits at most")
    try:
        cast = None if dtype is None else np.dtype(dtype)
        if cast is not None and cast.kind != "O":
            stored_name(cast)
    except (TypeError, ValueError, DeviceError) as error:
        raise PlanError(f"dtype={dtype!r}: {error}") from None
    dtypes = [source.dtype for source in sources]
    exact = mode == "exact"
    return bind(monoids, dtypes, dtype=cast, fp64=fp64, ddof=ddof, exact=exact)
