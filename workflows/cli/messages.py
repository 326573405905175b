"""Write the command line's errors and warnings, in the shell's spelling."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from chunkfold.errors import BuildError, JobError
from chunkfold.workflows.consoles import err, lines, tell_warning

COMMANDS = {
    "describe": "Say what is in a Zarr array or group.",
    "reduce": "Reduce a Zarr array and print the results, or write them.",
    "run": "Carry out a job file.",
    "project": "Write reductions along axes to a new Zarr.",
    "pyramid": "Write an image at coarser resolutions, as OME-Zarr.",
    "normalize": "Find offset and scale of channels; apply them, perhaps.",
    "diff": "Compare two Zarr arrays of equal shape, in any chunks.",
    "plan": "Say what reduce would do, and how much memory it would take.",
    "devices": "List this host's OpenCL devices, and what each can do.",
    "worker": "Join a Dask scheduler with workers for this host's devices.",
    "bench": "Measure kernels and transfers, against ceilings and peers.",
    "demo": "Write a sample, reduce it on every device, compare with NumPy.",
}
"""In the order they are shown in, and what is shown of each."""


def tell(error: Exception) -> None:
    """Write an error as one sentence, or a line of JSON."""
    said = in_shell_words(str(error))
    if "--json-lines" in sys.argv:
        from chunkfold.workflows.as_json import json_text  # NumPy, which `--help` does without

        told = {"event": "Failed", "error": type(error).__name__, "message": said}
        sys.stderr.write(json_text(told) + "\n")
        return
    err.print(f"[bold red]{type(error).__name__}:[/]", end=" ")
    several = isinstance(error, (JobError, BuildError)) or getattr(error, "several", False)
    err.print(lines(said) if several else said, markup=False)


def in_shell_words(text: str) -> str:
    """Return a message with the options of the command that runs, spelled as the shell has them."""
    name = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if name not in COMMANDS:
        return text
    from chunkfold.workflows.cli.spelling import in_shell

    return in_shell(text, import_module(f"chunkfold.workflows.cli.{name}").command)


def suggesting(error: click.ClickException) -> click.ClickException:
    """Suggest the option that other tools call so, if the command has it: `--axis` for `--dim`."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    from chunkfold.planning.keywords import nearest_option

    near = nearest_option(error.option_name.lstrip("-").replace("-", "_"))
    spelled = f"--{near.replace('_', '-')}" if near else ""
    if not any(spelled in one.opts for one in error.ctx.command.params):
        return error
    hint = f"{error.message} Did you mean {spelled!r}?"  # click suggests what is spelled alike
    return click.NoSuchOption(error.option_name, hint, ctx=error.ctx)


warned_of: set[str] = set()
"""What a command has warned of: once is enough, though it is looked at again."""


def show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Tell a warning as a sentence; what zarr warns of concerns those who write arrays."""
    if category.__module__.partition(".")[0] == "zarr":
        return
    said = in_shell_words(" ".join(str(message).split()))
    if said in warned_of:
        return
    warned_of.add(said)
    tell_warning(said)


def command_words() -> str:
    """Return the command, and what it was given besides options."""
    from chunkfold.redaction import shown_address

    return " ".join(shown_address(one) for one in sys.argv[1:4] if not one.startswith("-"))
