"""Options that several commands share, and the help that shows them in sections."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import click
import dask
from distributed import Client

from chunkfold.cluster.joining import connect
from chunkfold.cluster.security import tls_settings
from chunkfold.errors import ChunkError, PlanError, RemarkWarning
from chunkfold.http_denials import MISSING
from chunkfold.outputs.output_places import out_text
from chunkfold.planning.option_values import Section
from chunkfold.planning.options import Options
from chunkfold.settings import ALLOW_TARGETS, IMAGE_LEVEL, LOSSES, MISSING_STATUS, WORKER_LOSSES
from chunkfold.sources.cf_packing import not_applied
from chunkfold.sources.source import Source
from chunkfold.workflows.cli.numbers import NumberOption, Whole
from chunkfold.workflows.job.clients import dashboard, local_client
from chunkfold.workflows.job.lock import locked
from chunkfold.workflows.options.written_options import SHARED, WRITTEN
from chunkfold.workflows.terminal.consoles import err


class SectionedOption(click.Option):
    """An option that help shows in a section."""

    def __init__(self, *args: Any, section: Section, **given: Any) -> None:
        super().__init__(*args, **given)
        self.section = section


class SectionedCommand(click.Command):
    """A command that shows its options by section; those without one say what it does."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them."""
        shown: dict[Section, list[tuple[str, str]]] = {one: [] for one in Section}
        last = self.get_help_option(ctx)
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                own = Section.RUNNING if param is last else Section.OPERATION
                shown[getattr(param, "section", own)].append(record)
        for section, records in shown.items():
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)


option = partial(click.option, cls=SectionedOption)
command = partial(click.command, cls=SectionedCommand)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def stacked(*options: Decorator) -> Decorator:
    """Join decorators into one, in the order given."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def declared(name: str) -> tuple[list[str], dict[str, Any]]:
    """Return the names of a row of the table of written options, and what click's option takes."""
    row = WRITTEN[name]
    given: dict[str, Any] = {
        "section": row.section,
        "help": f"{row.help} {row.in_shell}".strip(),
        "metavar": row.metavar,
    }
    if isinstance(row.kind, tuple):
        given |= {"type": click.Choice(row.kind), "default": row.default}
        given["show_default"] = row.default is not None
    elif row.kind is bool:
        given["is_flag"] = True
    elif row.repeats:
        given["multiple"] = True
    else:
        kinds = {int: Whole(min=0), float: NumberOption(), str: click.STRING}
        given |= {"type": kinds[row.kind], "default": row.default}
    return [f"--{(row.flag or name).replace('_', '-')}", name], given


def written(*names: str) -> Decorator:
    """Return the options of some rows of the table, by their names."""
    return stacked(*(option(*flags, **given) for flags, given in map(declared, names)))


_output = partial(option, section=Section.OUTPUT)
_running = partial(option, section=Section.RUNNING)
as_json = _output("--json", "as_json", is_flag=True,
                  help="Print JSON; NaN, infinities and times are strings.")  # fmt: skip
json_lines = _output(
    "--json-lines", is_flag=True, help="Print only events on standard error, as lines of JSON."
)
quiet = _output("--quiet", "-q", is_flag=True, help="Print results and errors only.")
report = _output("--report", metavar="FILE.html", help=SHARED["report"])
performance_report = _output(
    "--performance-report",
    "performance",
    metavar="FILE.html",
    help="Let Dask write its own report to this file: tasks, transfers, workers. It needs bokeh.",
)
plot = _output(
    "--plot",
    metavar="FILE",
    help="Draw the results in this file: PNG, SVG, PDF or another format, by its ending "
    "(chunkfold[plot]); '-' draws in the terminal, if that shows pictures.",
)
overwrite = _output("--overwrite", is_flag=True, help=SHARED["overwrite"])


def _configured(
    name: str, value: Callable[[Any], Any]
) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that puts an option, if it is given, into Dask's configuration."""

    def set_it(context: click.Context, _option: click.Parameter, given: Any) -> None:
        if given is not None and given != ():
            context.with_resource(dask.config.set({name: value(given)}))

    return set_it


stores = stacked(
    option(
        "--level",
        section=Section.SOURCE,
        metavar="N",
        type=Whole(min=0),
        callback=_configured(IMAGE_LEVEL, int),
        expose_value=False,
        help="Level of OME-Zarr images that you name by their group; 0 is the finest.  "
        "[default: 0]",
    ),
    option(
        "--missing-status",
        section=Section.SOURCE,
        multiple=True,
        type=click.Choice([str(status) for status in MISSING]),
        callback=_configured(MISSING_STATUS, lambda given: [int(one) for one in given]),
        expose_value=False,
        help="HTTP status that means that the server lacks a chunk; may be repeated. Without this "
        "option such a chunk cannot be read.",
    ),
    option(
        "--allow-targets",
        section=Section.SOURCE,
        multiple=True,
        metavar="PREFIX",
        callback=_configured(ALLOW_TARGETS, list),
        expose_value=False,
        help=f"{SHARED['allow_targets']} Examples: s3://bucket/, https://host/, /data/. May be "
        "repeated.",
    ),
)
"""Options by which sources are opened."""
devices = _running(
    "--device",
    "specs",
    multiple=True,
    metavar="SPEC",
    help="Device to run on, as platform:device:type, each by index or name, or a UUID; '/n' splits "
    "a CPU device into n workers. May be repeated.  [default: the GPUs, else one CPU device]",
)


def _set_tls(context: click.Context, option: click.Parameter, given: str | None) -> None:
    if given is not None:
        assert option.name is not None
        context.with_resource(dask.config.set(tls_settings(**{option.name: given})))


def _pem_file(name: str, *, first: bool = False) -> Decorator:
    return _running(
        f"--{name.replace('_', '-')}",
        # A certificate's file may have its key in it: that of the configuration is another's.
        is_eager=first,
        metavar="FILE",
        callback=_set_tls,
        expose_value=False,
        help=f"{SHARED[name]}  [default: Dask's configuration]",
    )


tls = stacked(_pem_file("tls_ca_file"), _pem_file("tls_cert", first=True), _pem_file("tls_key"))
"""Files that a scheduler at a tls:// address asks for."""
worker_losses = _running(
    "--worker-losses",
    metavar="N",
    type=Whole(min=1),
    callback=_configured(WORKER_LOSSES, int),
    expose_value=False,
    help=f"{SHARED['worker_losses']}  [default: {LOSSES}]",
)
cluster = stacked(
    devices,
    _running(
        "--scheduler",
        metavar="ADDRESS",
        help="Use the device workers of this Dask scheduler instead of starting a local cluster.",
    ),
    tls,
    worker_losses,
)
"""Options that say where a command runs."""


@contextmanager
def client_for(
    scheduler: str | None, specs: tuple[str, ...], *, quiet: bool = False
) -> Iterator[Client]:
    """Yield a client of the scheduler given, else of a local cluster of the devices given.

    A quiet command does not say what its results do not show.
    """
    if quiet:
        warnings.simplefilter("ignore", RemarkWarning)
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
            told = ChunkError(f"{error}; {remedy}", error.chunk)
            for note in getattr(error, "__notes__", ()):
                told.add_note(note)
            raise told from error
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
        what = f"command that writes {out_text(out)}"
        click.get_current_context().with_resource(locked(out, what))
