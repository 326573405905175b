"""Reduce arrays: the public functions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from distributed import Client

from chunkfold.errors import LawsWarning, PackedWarning, PlanError
from chunkfold.events import OnEvent
from chunkfold.kernels import Device, all_devices, devices
from chunkfold.kernels.binding.laws import depends_on_order_of
from chunkfold.kernels.tuning.decode_request import decode_rates
from chunkfold.planning.feeding import codecs_to_measure
from chunkfold.planning.option_table import Keywords, Op
from chunkfold.planning.options import DEFAULT, options_of, with_options
from chunkfold.planning.plan import Plan, request_of
from chunkfold.planning.planner import fitted, make_plan
from chunkfold.planning.questions import Question, Questions, options_of_each
from chunkfold.planning.request import Request, Streamed
from chunkfold.planning.resolve import resolve
from chunkfold.planning.workers import THREADS, Terms
from chunkfold.running.execution import Execution
from chunkfold.running.graph import lazily
from chunkfold.running.kept_blocks import ledger_of
from chunkfold.running.on_cluster import OnCluster
from chunkfold.running.progress_shown import progress_shown
from chunkfold.running.ready import chosen_client, in_this_process, ready
from chunkfold.running.run import Run
from chunkfold.running.streaming import Sink
from chunkfold.sources.cf_packing import not_applied
from chunkfold.sources.data_arrays import is_of_xarray
from chunkfold.tracebacks import traceback_cut, warn_caller


@traceback_cut
@with_options
def reduce(
    source: Any,
    op: Op | Sequence[Op] | Questions = DEFAULT,
    *,
    labels: bool = False,
    compute: bool = True,
    progress: bool | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
    **options: Unpack[Keywords],
) -> Any:
    """Reduce an array over some or all axes, with NumPy's meaning.

    Parameters
    ----------
    source
        Path or URL of an array (`store.zarr/group/array`, `air.nc/air`, ...: docs/sources.md), a
        `zarr.Array`, an `h5py.Dataset`, NumPy's array or anything like one, several as one
        (`chunkfold.concatenate`); a `dask.array.Array`, whose tasks run where blocks do; a
        DataArray or a Dataset of xarray's; a pair of equal shape for reductions of two inputs. Or a
        `Plan`, which has its options.
    op, options
        The rows of `chunkfold.planning.option_table.OptionTable`. Instead of an op a mapping of
        names to questions (`ask`): one read answers all of them, each with axes, weights, labels
        of its own.
    labels
        Return a `Result`: values with the names of their axes, coordinates, attributes and units.
        Results of groups are such anyway.
    compute
        False: plan only, and return an array of Dask's that whoever computes it carries the plan
        out with; or xarray's of one, where the source is xarray's, with `labels`, and of groups.
        `docs/results.md` says how.
    progress
        Whether to show how far the run is: on standard error, or below a notebook's cell. None: in
        terminals and notebooks, once it has taken a second, unless there is `on_event`.
    client
        Cluster to run on. None: the current distributed client, or, without one, this process
        and its first device.
        With `compute=False` it is planned for that one's workers.
    on_event
        Called with each event of the run.

    Returns
    -------
    What the source is: a NumPy scalar or array, or a DataArray or Dataset of xarray's; with
    `labels`, or of groups, a `Result`. With a list of ops, a mapping of them by name. Of questions
    a mapping of all that by their names.

    Raises
    ------
    ChunkfoldError
        See `chunkfold.errors`.
    """
    if is_of_xarray(source, "Dataset"):
        from chunkfold.datasets import reduce_dataset

        given: dict[str, Any] = {"client": client, "on_event": on_event, **options}
        given["progress"] = progress
        return reduce_dataset(source, op, compute=compute, **given)
    asked = _checked(source, op, options)
    if not compute:
        return lazily(asked, client, on_event, labels=labels)
    with progress_shown(progress, on_event) as heard:
        run = _started(asked, client, heard)
        return run.labelled() if labels else run.result()


@traceback_cut
@with_options
def submit(
    source: Any,
    op: Op | Sequence[Op] | Questions = DEFAULT,
    *,
    client: Client | None = None,
    on_event: OnEvent | None = None,
    **options: Unpack[Keywords],
) -> Run:
    """Start a reduction and return at once.

    What can be known to be wrong is raised here, before a cluster is asked; the rest by
    `Run.result`.

    Parameters
    ----------
    source
        As `reduce`. Of a `Plan` nothing is opened or listed again: it is carried out as it is, if
        the workers are such as it was made for (as many, with as much memory, and so on), and else
        cut anew for those that there are. Chunks that were changed since it was made end the run,
        and those that were not stored then are still fill.
    op, options
        The rows of `chunkfold.planning.option_table.OptionTable`.
    client, on_event
        As `reduce`.
    """
    return _started(_checked(source, op, options), client, on_event)


@traceback_cut
@with_options
def plan(
    source: Any,
    op: Op | Sequence[Op] | Questions = DEFAULT,
    *,
    workers: int = 1,
    threads: int = THREADS,
    memory_limit: int | None = None,
    device: Device | str | None = None,
    client: Client | None = None,
    **options: Unpack[Keywords],
) -> Plan:
    """Plan what `reduce` would do, without reading data.

    With a cluster (given or current), for its workers; else for `workers` that run `threads`
    blocks at once each, and may take `memory_limit` bytes each: of this host's memory, if it is
    not given, an equal share.

    Parameters
    ----------
    source
        As `reduce`; a `Plan` is made anew for other workers, without listing anything again.
    op, options
        The rows of `chunkfold.planning.option_table.OptionTable`.
    workers, threads, memory_limit
        The number of workers, of blocks that each runs at once, and the bytes that each may take;
        used where no cluster is given.
    device
        The first device of the workers; None: this host's default.
    client
        Cluster whose workers the plan is for.
    """
    for name, number in (("workers", workers), ("threads", threads)):
        if number < 1:
            raise PlanError(f"{name} is {number!r}; a plan needs at least 1")
    request = _asked(source, op, options)
    wanted = request_of(request)
    chosen = chosen_client(client, wanted.sources)
    if client is None and in_this_process(wanted, chosen):
        chosen = None
    if chosen is not None:
        found = OnCluster(chosen).workers(codecs_to_measure(wanted))
        terms, able = found.terms, list(found.devices)
    else:  # a host without any device can plan, too
        able = [device] if isinstance(device, Device) else _first(device)
        rates = [one for each in able for one in decode_rates(each, codecs_to_measure(wanted))]
        terms = Terms.of_this_host(able, workers, threads, memory_limit, rates)
    if isinstance(request, Plan):
        made = fitted(request, terms)
    else:
        ledger = None if wanted.options.ledger is None else ledger_of(wanted)
        made = make_plan(request, request.listings(), terms, ledger=ledger)
    return replace(made, device=able[0] if able else None)


def _first(device: str | None) -> list[Device]:
    return devices(device)[:1] if device is not None or all_devices() else []


def _asked(source: Any, op: Op | Sequence[Op] | Questions, options: Keywords) -> Request | Plan:
    """Return the request of a source and its options; a request or a plan is returned as it is."""
    if not isinstance(source, (Request, Plan)):
        if isinstance(op, Mapping):
            return resolve(source, options_of_each(op, options))
        if any(
            isinstance(one, Question) for one in (op if isinstance(op, (list, tuple)) else [op])
        ):
            raise PlanError(
                "a question needs a name for its result: {'mean': chunkfold.ask('mean')}"
            )
        return resolve(source, options_of(op, options))
    given = [*(["op"] if op is not DEFAULT else []), *options]
    if given:
        raise PlanError(
            f"{', '.join(given)} given with a plan, which has its options already: give "
            f"{'it' if len(given) == 1 else 'them'} to chunkfold.plan"
        )
    return source


@traceback_cut
def stream(
    request: Request, sink: Sink, *, client: Client | None = None, on_event: OnEvent | None = None
) -> Run:
    """Start a reduction whose results go to a sink as they come, and are not kept; see `submit`."""
    streamed = replace(request, streamed=request.streamed or Streamed())
    return _started(_checked(streamed, DEFAULT, {}), client, on_event, sink)


def _started(
    asked: Request | Plan,
    client: Client | None,
    on_event: OnEvent | None,
    sink: Sink | None = None,
) -> Run:
    made = ready(asked, client)
    try:
        execution = Execution(made, on_event, sink)
        execution.begin()
        return Run(execution)
    except BaseException:
        made.backend.stop()
        raise


def _checked(source: Any, op: Op | Sequence[Op] | Questions, options: Keywords) -> Request | Plan:
    """Return what is asked for; warn of what results will not show."""
    found = _asked(source, op, options)
    request = request_of(found)
    unpacks = all(one.options.mask_and_scale for one in request.all_requests)
    # xarray has unpacked its arrays when it opened them, or was asked not to.
    stored = request.sources if request.data_arrays is None else ()
    for message in not_applied(stored, "mask_and_scale=True", mask_and_scale=unpacks):
        warn_caller(PackedWarning(message))
    folded = [one.bound().accumulator for one in request.all_requests]
    for each, value in itertools.product(folded, (np.nan, -0.0)):
        if message := depends_on_order_of(each, value):
            warn_caller(LawsWarning(message))
    return found
