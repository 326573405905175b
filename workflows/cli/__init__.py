"""The command line: a shell over the library. `script` is its entry point."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import signal
import sys
from importlib import import_module, metadata

import click

from chunkfold.errors import (
    BusyError,
    ChunkError,
    ChunkfoldError,
    ClusterError,
    IncompleteError,
    PlanError,
    TimeLimitError,
    WorkerLostError,
)
from chunkfold.workflows.style import err

EXIT_FAULT = 1
"""The numbers that `demo` or `diff` compares differ; or a fault of chunkfold's own."""
EXIT_ERROR = 2
"""Bad input, which the next try will find as bad; a device that is missing or unfit."""
EXIT_SKIPPED = 3
"""Results are there, but chunks that could not be read are not in them."""
EXIT_FAILED = 4
"""A chunk, a worker, a cluster or a deadline failed: another try may go well."""
EXIT_BUSY = 5
"""Another run of the same job is under way."""
EXIT_INTERRUPTED = 130
_CODES: dict[type[ChunkfoldError], int] = {
    BusyError: EXIT_BUSY,
    **dict.fromkeys(
        (ChunkError, ClusterError, IncompleteError, TimeLimitError, WorkerLostError), EXIT_FAILED
    ),
}
COMMANDS = (
    "describe",
    "reduce",
    "run",
    "project",
    "normalize",
    "diff",
    "plan",
    "devices",
    "worker",
    "bench",
    "demo",
)
PLUGINS = "chunkfold.workflows"
"""Entry points by which other packages add click commands."""


class _Commands(click.Group):
    """Loads a command's module when it is used: `--help` waits for neither Dask nor OpenCL."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 # click's signature
        return [*COMMANDS, *sorted(set(_plugins()) - set(COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in COMMANDS:
            command = import_module(f"chunkfold.workflows.cli.{cmd_name}").command
        elif cmd_name in (plugins := _plugins()):
            return _loaded(plugins[cmd_name])
        else:
            return None
        assert isinstance(command, click.Command)
        command.name = cmd_name  # each module calls its own "command"
        return command


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
            f"command {point.name!r} of entry point {PLUGINS} cannot be loaded ({problem}): mend "
            f"{point.value.partition(':')[0]!r} or uninstall its package"
        )

    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(point.name, callback=refuse, params=[words], help="It cannot be loaded.")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(metadata.version("chunkfold"))
def cli() -> None:
    """Reduce Zarr arrays larger than memory on every OpenCL device there is.

    Results go to standard output, everything else to standard error.

    \b
    Exit codes: 0 done; 1 what demo or diff compares differs, or a fault of chunkfold's own;
    2 bad input, or no device for it; 3 done, but for chunks that were skipped (--on-bad-chunk
    skip); 4 a chunk, worker, cluster or deadline failed: another try may go well; 5 another run of
    the same job is under way; 130 interrupted, by SIGINT or SIGTERM.
    """


def _interrupted(*_: object) -> None:
    """End on SIGTERM as on SIGINT: workers freed, nothing half-written."""
    raise KeyboardInterrupt


def _tell(error: Exception) -> None:
    if "--json-lines" in sys.argv:
        told = {"event": "Failed", "error": type(error).__name__, "message": str(error)}
        sys.stderr.write(json.dumps(told) + "\n")
        return
    err.print(f"[bold red]{type(error).__name__}:[/]", end=" ")
    err.print(str(error), markup=False)


def main() -> None:
    """Run the command line and exit."""
    # What concerns the user comes as an error; distributed's own chatter does not.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        code = cli.main(standalone_mode=False)
    except ChunkfoldError as error:
        _tell(error)
        code = next((_CODES[kind] for kind in type(error).mro() if kind in _CODES), EXIT_ERROR)
    except click.ClickException as error:
        error.show()
        code = EXIT_ERROR
    except BrokenPipeError:  # whoever read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_ERROR
    except OSError as error:
        _tell(error)
        code = EXIT_FAILED
    except (click.Abort, KeyboardInterrupt):
        err.print("interrupted")
        code = EXIT_INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


def script() -> None:
    """Run the command line, and leave without taking the interpreter down.

    Threads of libraries may still be at work, such as obstore's on requests of which one has
    failed: one in fifty commands, on a busy host, then ended by a signal, not with its exit code.
    """
    try:
        main()
    except SystemExit as left:
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(left.code if isinstance(left.code, int) else EXIT_FAULT)
