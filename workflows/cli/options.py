"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click
import dask
from distributed import Client

from chunkfold.cluster.joining import connect
from chunkfold.cluster.security import tls_settings
from chunkfold.errors import ChunkError, PlanError
from chunkfold.http_denials import ABSENT
from chunkfold.planning.option_values import DECODE, ON_BAD_CHUNK, ON_MISSING_CHUNK
from chunkfold.planning.options import Options
from chunkfold.settings import ABSENT_STATUS, ALLOW_TARGETS, LOSSES, WORKER_LOSSES
from chunkfold.sources.cf_packing import not_applied
from chunkfold.sources.coordinate_positions import METHODS
from chunkfold.sources.source import Source
from chunkfold.workflows.cli.numbers import NumberOption, Whole
from chunkfold.workflows.clients import dashboard, local_client
from chunkfold.workflows.consoles import err
from chunkfold.workflows.job.lock import locked
from chunkfold.workflows.outputs import shown

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def stacked(*options: Decorator) -> Decorator:
    """Join decorators into one, in the order given."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


memory = click.option(
    "--memory",
    metavar="SIZE",
    help="Most that a worker may take above an idle one, as in '2GiB'.  [default: 60% of the "
    "memory limit of a Dask worker]",
)
select = click.option(
    "--select",
    "selection",
    metavar="INDEX",
    help="Take a part, by positions along each axis, as between NumPy's brackets: '0:100, ..., 3'; "
    "also a list of integers or bools, '[0,3,5]', or a .npy file of them, of one axis by itself.",
)
sel = stacked(
    click.option(
        "--sel",
        multiple=True,
        metavar="AXIS=VALUE",
        help="Take a part, by coordinates, as xarray's sel: 'time=2001-01:2010-12', with both "
        "ends, 'lat=30', 'lon=[0,90]'; may be repeated.",
    ),
    click.option(
        "--sel-method",
        type=click.Choice(METHODS),
        help="Of a value that the coordinate has not take a neighbour.",
    ),
    click.option(
        "--sel-tolerance",
        metavar="DISTANCE",
        help="How far away that may be: a number, or '12h' of dates.",
    ),
    click.option(
        "--allow-empty",
        is_flag=True,
        help="Let --select and --sel take nothing; else that is an error.",
    ),
)
on_bad_chunk = click.option(
    "--on-bad-chunk",
    type=click.Choice(ON_BAD_CHUNK),
    default=Options.on_bad_chunk,
    show_default=True,
    help="skip: leave chunks out that cannot be read, say which, and exit with 3. What was damaged "
    "so that its codec decodes it still, only a checksum tells (crc32c).",
)
on_missing_chunk = click.option(
    "--on-missing-chunk",
    type=click.Choice(ON_MISSING_CHUNK),
    default=Options.on_missing_chunk,
    show_default=True,
    help="fill: chunks that are not stored are the fill value. stop: end with 4 if there is one, "
    "before anything is read where the store can be listed.",
)

as_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="For machines; NaN, infinities and times are strings.",
)
json_lines = click.option(
    "--json-lines", is_flag=True, help="Events as lines of JSON on standard error, nothing else."
)
quiet = click.option("--quiet", "-q", is_flag=True, help="Results and errors only.")
keepdims = click.option("--keepdims", is_flag=True, help="Keep reduced axes with size one.")
report = click.option(
    "--report",
    metavar="FILE.html",
    help="Write a page there: results, what the devices did and when, the plan, the manifest.",
)
performance_report = click.option(
    "--performance-report",
    "performance",
    metavar="FILE.html",
    help="Let Dask write its own report there: tasks, transfers, workers. It needs bokeh.",
)
overwrite = click.option(
    "--overwrite", is_flag=True, help="An output that exists goes, once the new one is made."
)

variant = click.option("--variant", help="Force a kernel variant: tree, work_group or sub_group.")
decode = click.option(
    "--decode",
    type=click.Choice(DECODE),
    default=Options.decode,
    show_default=True,
    help="Who decodes compressed chunks: the host's cores, the device, or the faster one.",
)

ddof = click.option(
    "--ddof", type=NumberOption(), default=Options.ddof, help="Variances divide by count - ddof."
)
mask_and_scale = click.option(
    "--mask-and-scale",
    is_flag=True,
    help="Unpack values by scale_factor, add_offset, _FillValue, missing_value, as xarray does; "
    "missing ones are NaN.",
)


def _configured(
    name: str, value: Callable[[Any], Any]
) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that puts an option, if it is given, into Dask's configuration."""

    def set_it(context: click.Context, _option: click.Parameter, given: Any) -> None:
        if given:
            context.with_resource(dask.config.set({name: value(given)}))

    return set_it


absent_status = click.option(
    "--absent-status",
    multiple=True,
    type=click.Choice([str(status) for status in ABSENT]),
    callback=_configured(ABSENT_STATUS, lambda given: [int(one) for one in given]),
    expose_value=False,
    help="The server of a URL answers so for chunks that are not stored; may be repeated. Without "
    "it such a chunk cannot be read.",
)


allow_targets = click.option(
    "--allow-targets",
    multiple=True,
    metavar="PREFIX",
    callback=_configured(ALLOW_TARGETS, list),
    expose_value=False,
    help="References, and links of HDF5 files, may lead to addresses below this one, too: "
    "s3://bucket/, https://host/, /data/; may be repeated. Without it they lead to their own "
    "server or folder.",
)


devices = click.option(
    "--device",
    "specs",
    multiple=True,
    metavar="SPEC",
    help="platform:device:type, each by index or name, or a UUID; '/n' splits a CPU device in n "
    "workers. May be repeated.  [default: the GPUs, else one CPU device]",
)


def _set_tls(context: click.Context, option: click.Parameter, given: str | None) -> None:
    if given is not None:
        assert option.name is not None
        context.with_resource(dask.config.set(tls_settings(**{option.name: given})))


def _pem_file(name: str, meaning: str, *, first: bool = False) -> Decorator:
    return click.option(
        name,
        # A certificate's file may have its key in it: that of the configuration is another's.
        is_eager=first,
        metavar="FILE",
        callback=_set_tls,
        expose_value=False,
        help=f"{meaning} of this side's TLS, as PEM.  [default: Dask's configuration]",
    )


tls = stacked(
    _pem_file("--tls-ca-file", "Certificates of the authority"),
    _pem_file("--tls-cert", "Certificate", first=True),
    _pem_file("--tls-key", "Key, where the certificate's file has none,"),
)
"""What a scheduler at a tls:// address is connected with."""


worker_losses = click.option(
    "--worker-losses",
    metavar="N",
    type=Whole(min=1),
    callback=_configured(WORKER_LOSSES, int),
    expose_value=False,
    help="End with 4 where a block loses its worker so many times: it may be what kills them. "
    f"Workers that are sent away do not count.  [default: {LOSSES}]",
)
cluster = stacked(
    devices,
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Use the device workers of this Dask scheduler instead of starting a local cluster.",
    ),
    tls,
    worker_losses,
)
"""Where it runs."""


@contextmanager
def client_for(
    scheduler: str | None, specs: tuple[str, ...], *, quiet: bool = False
) -> Iterator[Client]:
    """Yield a client of the scheduler given, else of a local cluster of the devices given."""
    if scheduler is not None and specs:
        raise PlanError(
            f"--device {specs[0]!r} and --scheduler {scheduler!r} exclude each other: "
            "the workers of a scheduler own their devices already"
        )
    with ExitStack() as stack:
        if scheduler is not None:
            client = stack.enter_context(connect(scheduler))
        else:
            with err.status("starting a local cluster"):
                client = stack.enter_context(local_client(list(specs) or None))
        tell_dashboard(client, quiet=quiet)
        yield client


def tell_dashboard(client: Client, *, quiet: bool) -> None:
    """Say where Dask shows what the cluster does, if it can."""
    link = None if quiet else dashboard(client)
    if link:
        err.print(f"dashboard {link}", markup=False)


@contextmanager
def or_skipped(on_bad_chunk: str) -> Iterator[None]:
    """Name the remedy where a chunk that cannot be read ends a command."""
    try:
        yield
    except ChunkError as error:
        if on_bad_chunk == Options.on_bad_chunk:
            remedy = "--on-bad-chunk skip goes on without it"
            raise ChunkError(f"{error}; {remedy}", error.chunk) from error
        raise


def tell_packed(
    sources: Iterable[Source], flag: str = "--mask-and-scale", *, mask_and_scale: bool, quiet: bool
) -> None:
    """Say where stored numbers are folded that stand for others, and what helps."""
    for told in () if quiet else not_applied(sources, flag, mask_and_scale=mask_and_scale):
        err.print(told, markup=False)


def hold(out: str | None) -> None:
    """Keep other commands from an output until this one has ended; None: nothing.

    Raises
    ------
    BusyError
        If one is at it.
    """
    if out is not None:
        what = f"command that writes {shown(out)}"
        click.get_current_context().with_resource(locked(out, what))
