"""The command line: a shell over the library. `script` is its entry point."""

from __future__ import annotations

import atexit
import difflib
import io
import logging
import os
import signal
import sys
import time
import warnings
from importlib import metadata

import click

from chunkfold.errors import (
    BusyError,
    ChangedError,
    ChunkError,
    ChunkfoldError,
    ClusterError,
    IncompleteError,
    MissingError,
    OutputError,
    PackedWarning,
    PlanError,
    SkippedWarning,
    TimeLimitError,
    UnreachableError,
    WorkerLostError,
)
from chunkfold.tracebacks import TRACEBACK
from chunkfold.workflows.cli.messages import (
    COMMANDS,
    command_words,
    load_command,
    show_warning,
    suggesting,
    tell,
    tell_notes,
    warned_of,
)
from chunkfold.workflows.cli.streams import UnreadError, open_streams
from chunkfold.workflows.terminal.consoles import err, hear_others, lines, warned

EXIT_FAULT = 1
"""What `demo` or `diff` compares differs, `check` finds errors; or a fault of chunkfold's own."""
EXIT_ERROR = 2
"""Bad input, which the next try will find as bad; a device that is missing or unfit."""
EXIT_SKIPPED = 3
"""Results are there, but chunks, or arrays of a group, that could not be read are not in them."""
EXIT_FAILED = 4
"""A chunk cannot be read, results cannot be written; a worker, a cluster or a deadline failed."""
EXIT_BUSY = 5
"""Another run that writes the same output is under way."""
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141
"""Whoever read the output went away, as with programs that SIGPIPE ends."""
_INSISTS_AFTER_S = 5.0
"""What is freed after an interrupt takes a second; who interrupts again after so long insists."""
_AGAIN_S = 0.01
_CODES: dict[type[ChunkfoldError], int] = {
    BusyError: EXIT_BUSY,
    **dict.fromkeys(
        (
            ChangedError,
            ChunkError,
            ClusterError,
            IncompleteError,
            MissingError,
            OutputError,
            TimeLimitError,
            UnreachableError,
            WorkerLostError,
        ),
        EXIT_FAILED,
    ),
}
PLUGINS = "chunkfold.workflows"
"""Entry points by which other packages add click commands."""


class _Commands(click.Group):
    """Loads a command's module when it is used: `--help` waits for neither Dask nor OpenCL."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 # click's signature
        return [*COMMANDS, *sorted(set(_plugins()) - set(COMMANDS))]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        told = dict(COMMANDS)
        for name, point in sorted(_plugins().items()):
            told.setdefault(name, _loaded(point).get_short_help_str())
        with formatter.section("Commands"):
            formatter.write_dl(list(told.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (known := self.list_commands(ctx)):
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")  # as click says of those it has loaded
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in COMMANDS:
            return load_command(cmd_name)
        if cmd_name in (plugins := _plugins()):
            return _loaded(plugins[cmd_name])
        return None


def _plugins() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=PLUGINS)}


def _loaded(point: metadata.EntryPoint) -> click.Command:
    """Load another package's command; one that cannot be loaded says so when it is used."""
    try:
        command = point.load()
        if isinstance(command, click.Command):
            return command
        problem = f"it is a {type(command).__name__}, not a click.Command"
    except Exception as error:  # noqa: BLE001 # whatever their package does wrong
        problem = f"{type(error).__name__}: {error}"

    def refuse(**_: object) -> None:
        raise PlanError(
            f"command {point.name!r} of entry point {PLUGINS} cannot be loaded ({problem}): "
            f"correct {point.value.partition(':')[0]!r} or uninstall its package"
        )

    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(point.name, callback=refuse, params=[words], help="It cannot be loaded.")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(metadata.version("chunkfold"))
def cli() -> None:
    """Reduce Zarr arrays larger than memory on every OpenCL device that you have.

    Results go to standard output, everything else to standard error.

    \b
    Exit codes: 0 done; 1 demo or diff found a difference, check found errors, or chunkfold itself
    has a fault; 2 bad input, or no device for it; 3 done, without chunks that were skipped
    (--on-bad-chunk skip) or that check could not read, or without arrays that describe, check or
    diff could not read or run cannot name; 4 a chunk cannot be read, results cannot be written
    (standard output is closed, or a disk full), or a worker, cluster or deadline failed; 5 another
    run writes the same output; 130 interrupted, by SIGINT or SIGTERM; 141 the reader of the output
    ended.
    """


class _Interrupts:
    """Ends on SIGTERM as on SIGINT: workers freed, nothing half-written.

    Another one meanwhile would end that, and what is left is waited for longer.
    """

    def __init__(self) -> None:
        self._first: float | None = None

    def __call__(self, *_: object) -> None:
        if self._first is None:
            self._first = time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() - self._first > _INSISTS_AFTER_S:
            os._exit(EXIT_INTERRUPTED)

    def unraised(self, lost: sys.UnraisableHookArgs) -> None:
        """Interrupt once more, soon, where Python has swallowed it: in a destructor, say."""
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(lost)
            return
        self._first = None
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


def _prepare() -> None:
    """Set up the command line's warnings, logs and interrupts."""
    logging.getLogger("chunkfold").addHandler(warned)
    for kind in (PackedWarning, SkippedWarning):  # which commands say themselves
        warnings.simplefilter("ignore", kind)
    warnings.showwarning = show_warning
    warned_of.clear()
    hear_others()
    interrupts = _Interrupts()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, interrupts)
    sys.unraisablehook = interrupts.unraised


def main() -> None:
    """Run the command line and exit."""
    _prepare()
    try:
        code = cli.main(standalone_mode=False)
    except ChunkfoldError as error:
        tell(error)
        code = next((_CODES[kind] for kind in type(error).mro() if kind in _CODES), EXIT_ERROR)
    except click.ClickException as error:
        error = suggesting(error)
        told = io.StringIO()
        error.show(told)
        err.print(lines(told.getvalue().rstrip("\n")), soft_wrap=True)
        code = EXIT_ERROR
    except UnreadError:
        code = EXIT_UNREAD
    except OSError as error:
        tell(error)
        code = EXIT_FAILED
    except (click.Abort, KeyboardInterrupt) as error:
        err.print("interrupted")
        tell_notes(error.__cause__ or error)  # click wraps it
        code = EXIT_INTERRUPTED
    except MemoryError:
        tell(ClusterError(f"{command_words()}: this process has no memory left"))
        code = EXIT_FAILED
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        where = f"{type(error).__name__}: {error}".partition("\n")[0]
        tell(
            ChunkfoldError(
                f"{command_words()}: an unexpected error ({where}): a bug in chunkfold; "
                f"{TRACEBACK}=1 shows where, for a report"
            )
        )
        code = EXIT_FAULT
    sys.exit(code if isinstance(code, int) else 0)


def script() -> None:
    """Run the command line, and leave without taking the interpreter down.

    Threads of libraries may still be at work, such as obstore's on requests of which one has
    failed: one in fifty commands, on a busy host, then ended by a signal, not with its exit code.
    """
    open_streams()
    try:
        main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else EXIT_FAULT
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
        except UnreadError:
            code = code or EXIT_UNREAD
        except OSError as error:
            tell(error)
            code = code or EXIT_FAILED
        os._exit(code)
