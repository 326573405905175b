"""The shell's spelling of what the library says: `--boundary pad` for `boundary='pad'`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

_VALUE = r"'[^'{}]*'|\"[^\"{}]*\"|\{[^{}]*\}|[\w.+-]*\w|"
_PART = r"[\w/.?&'\"{-]"
"""What an address, a quoted word or a longer name may have before a name."""
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
