"""Write the command line's errors and warnings, in the shell's spelling."""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Mapping
from importlib import import_module

import click

from chunkfold.errors import BuildError, JobError
from chunkfold.redaction import without_secrets
from chunkfold.workflows.terminal.consoles import err, lines, tell_warning

COMMANDS = {
    "describe": "Say what is in a Zarr array or group.",
    "reduce": "Reduce a Zarr array and print the results, or write them.",
    "run": "Carry out a job file.",
    "project": "Write reductions along axes to a new Zarr.",
    "transform": "Write anomalies, and other values relative to the mean of a group.",
    "pyramid": "Write an image at coarser resolutions, as OME-Zarr.",
    "normalize": "Find offset and scale of channels, and apply them if asked.",
    "regions": "Measure the regions of a segmentation, as a table.",
    "check": "Say whether an archive is sound: chunks, values, coordinates.",
    "diff": "Compare two Zarr arrays, or groups of them, in any chunks.",
    "plot": "Draw results that were written.",
    "report": "Make the page about a run again, from its manifest.",
    "plan": "Say what reduce would do, and how much memory it would take.",
    "devices": "List this host's OpenCL devices, and what each can do.",
    "worker": "Join a Dask scheduler with workers for this host's devices.",
    "bench": "Measure kernels and transfers, against ceilings and peers.",
    "ledger": "List, verify or prune a ledger of partials.",
    "demo": "Write a sample, reduce it on every device, compare with NumPy.",
}
"""In the order they are shown in, and what is shown of each."""


def load_command(name: str) -> click.Command:
    """Import the module of a command, and return the command."""
    command = getattr(import_module(f"chunkfold.workflows.cli.{name}_command"), f"{name}_command")
    assert isinstance(command, click.Command)
    command.name = name
    # What concerns the user comes as an error. Dask sets how much is logged when it is imported.
    for logger in ("distributed", "distributed.client"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    return command


def tell(error: Exception) -> None:
    """Write an error as one sentence, or a line of JSON."""
    said = in_shell_words(str(error))
    if "--json-lines" in sys.argv:
        from chunkfold.workflows.as_json import json_text  # NumPy, which `--help` does without

        told = {"event": "Failed", "error": type(error).__name__, "message": said}
        if notes := getattr(error, "__notes__", ()):
            told |= {"notes": "; ".join(notes), "resume": _resuming()}
        sys.stderr.write(json_text(told) + "\n")
        return
    err.print(f"[bold red]{type(error).__name__}:[/]", end=" ")
    several = isinstance(error, (JobError, BuildError)) or getattr(error, "several", False)
    err.print(lines(said) if several else said, markup=False)
    tell_notes(error)


def tell_notes(error: BaseException) -> None:
    """Write what an error's notes say, such as how to go on; then the command that does."""
    notes = getattr(error, "__notes__", ())
    for note in notes:
        err.print(note, markup=False, soft_wrap=True)
    if notes:
        err.print(f"resume: {_resuming()}", markup=False, soft_wrap=True)


def _resuming() -> str:
    """Return the command that goes on, without secrets."""
    return without_secrets(shlex.join(["chunkfold", *sys.argv[1:]]))


def in_shell_words(text: str) -> str:
    """Return a message with the options of the command that runs, spelled as the shell has them."""
    name = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if name not in COMMANDS:
        return text
    return in_shell(text, load_command(name))


def suggesting(error: click.ClickException) -> click.ClickException:
    """Suggest the option that other tools call so, if the command has it: `--axis` for `--dim`."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    from chunkfold.planning.options import nearest_option

    near = nearest_option(error.option_name.lstrip("-").replace("-", "_"))
    spelled = f"--{near.replace('_', '-')}" if near else ""
    if not any(spelled in one.opts for one in error.ctx.command.params):
        return _of_another(error, error.ctx)
    hint = f"{error.message} Did you mean {spelled!r}?"  # click suggests what is spelled alike
    return click.NoSuchOption(error.option_name, hint, ctx=error.ctx)


def _of_another(error: click.NoSuchOption, context: click.Context) -> click.ClickException:
    """Name the command that has an option, if one or two others have it."""
    others = [
        name
        for name in COMMANDS
        if any(error.option_name in one.opts for one in load_command(name).params)
    ]
    if context.info_name not in COMMANDS or not 0 < len(others) <= _FEW:
        return error
    hint = " or ".join(f"`chunkfold {name} ... {error.option_name}`" for name in others)
    return click.NoSuchOption(error.option_name, f"{error.message} Use {hint}.", ctx=context)


_FEW = 2
"""Commands that a hint names."""
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


_VALUE = r"'[^'{}]*'|\"[^\"{}]*\"|\{[^{}]*\}|[\w.+-]*\w|"
_PART = r"[\w/.?&'\"{-]"
"""What an address, a quoted word or a longer name may have before a name."""
_CONDITION_AND_MAP = re.compile(rf"(?<!{_PART})where=\(('[^']*'), ([^()]+)\)")
_ENTRY = re.compile(r"'(\w+)': ([\w.]+)")


def in_shell(text: str, command: click.Command) -> str:
    """Return a message with the spelling of a command's options where it has that of the library's.

    What is quoted or part of a path stays as it is.

    >>> flag = click.Option(["--keep-dims"], is_flag=True)
    >>> told = click.Command("fold", params=[click.Option(["--axis"]), flag])
    >>> in_shell("axis is 3: give axis='y', keep_dims=True, or another axis=", told)
    '--axis is 3: give --axis y, --keep-dims, or another --axis'
    """
    options = _options(command)
    if not options:
        return text
    names = "|".join(map(re.escape, sorted(options, key=len, reverse=True)))
    # No word of a sentence but an option's name has an underscore.
    joined = rf"(?<!{_PART})\w+_\w+(?![\w/.='\"])"
    text = re.sub(joined, lambda found: options.get(found[0], found[0]), text)
    text = re.sub(rf"((?:^|: ))({names})(?= (?:is|has|names) )",
                  lambda found: found[1] + options[found[2]], text)  # fmt: skip
    if {"where", "mask"} <= options.keys():
        text = _CONDITION_AND_MAP.sub(r"--mask \2 --where \1", text)
    given = re.compile(rf"(?<!{_PART})({names})=({_VALUE})(?![\w(])")
    return given.sub(lambda found: _spelled(options[found[1]], found[2]), text)


def _spelled(option: str, value: str) -> str:
    if value.startswith("{"):
        value = ",".join(f"{name}={one}" for name, one in _ENTRY.findall(value))
    bare = value.strip("'\"")
    return option if bare in ("", "True") else f"{option} {bare}"


def _options(command: click.Command) -> Mapping[str, str]:
    """Return the options of a command by the library's names of them."""
    found: dict[str, str] = {}
    for one in command.params:
        if isinstance(one, click.Option) and one.opts[-1].startswith("--"):
            name = one.opts[-1].removeprefix("--").replace("-", "_")
            found |= {str(one.name): one.opts[-1], name: one.opts[-1]}
    return found
