"""Options as people write them, on the command line and in job files: one table for both.

A flag, a number or a word of a few in the library's table is written as it is. Others have rows in
`FORMS`, which say how texts become values. `cli/common_options.py` makes click's options of all
rows, `job/schema.py` makes keys of job files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from chunkfold.kernels.catalogue.named import NAMES
from chunkfold.planning.coarsening import BOUNDARIES
from chunkfold.planning.option_table import OPTION_TYPES, SECTIONS, OptionTable, summary
from chunkfold.planning.option_values import Section, choices, is_flag
from chunkfold.workflows.options.labels import labels_asked, parse_groups, parse_resample
from chunkfold.workflows.options.parsing import (
    axis,
    named_reductions,
    parse_step,
    wheres,
    windows,
    words,
)
from chunkfold.workflows.options.selecting import (
    labels_of,
    parse_distance,
    parse_sel,
    parse_selection,
)


def _same(given: Any) -> Any:
    return given


@dataclass(frozen=True)
class WrittenOption:
    """An option as it is written; without a kind, as the type of the library's option says."""

    help: str = ""
    """Meaning, after that of the library's option of its name."""
    in_shell: str = ""
    """More, for help of the command line."""
    in_toml: str = ""
    """More, for the schema of job files."""
    metavar: str | None = None
    """Name of its value in help."""
    flag: str = ""
    """Name on the command line, if it is another one."""
    key: str = ""
    """Key in job files, if it is another one."""
    repeats: bool = False
    """True if the command line may repeat it, and reads a tuple of texts."""
    read: Callable[[Any], Any] = _same
    """Turns the value on the command line into the library's."""
    load: Callable[[Any], Any] = _same
    """Turns the value in a job file into the library's."""
    kind: Any = str
    """Type as it is written: bool, int, float, str, or a tuple of words to choose from."""
    default: Any = None
    section: Section = Section.OPERATION
    """Section of help; job files have those of `RUNNING` below `limits`."""


def _windows(given: Mapping[str, int] | None) -> dict[int | str, int] | None:
    return None if given is None else {axis(name): size for name, size in given.items()}


def _axes(text: str) -> list[int | str]:
    return [axis(word) for word in words((text,)) if word]


_SEVERAL = "May be repeated, or joined by commas"
_EACH = "With several --by, repeat it once for each"
_LISTED = "With several labels, give a list for each"
# fmt: off
FORMS: Mapping[str, WrittenOption] = MappingProxyType({
    "op": WrittenOption(
        in_shell=f"{_SEVERAL}. One of {NAMES}.  [default: sum]",
        in_toml="Names as for `chunkfold reduce --op`.",
        key="statistics", repeats=True, read=lambda texts: words(texts) or ["sum"]),
    "edges": WrittenOption(
        "Edges of the bins of a histogram: '0,10,100', or LOW:HIGH:BINS of equal width.",
        in_shell=" [default: sixteen bins to a power of two]", metavar="EDGES"),
    "sketch": WrittenOption(
        "Find quantiles within this relative tolerance, such as 0.01, in one read.",
        in_shell=" [default: exactly]", metavar="RTOL", kind=float),
    "axis": WrittenOption(
        in_shell=f"{_SEVERAL}.", key="axes", repeats=True,
        read=lambda texts: [axis(word) for word in words(texts)] or None),
    "coarsen": WrittenOption(
        "Other axes are reduced only if they are named, and then whole.",
        in_shell=f"{_SEVERAL}, as in 'y=2,x=2'.", in_toml="Example: { y = 2, x = 2 }.",
        metavar="AXIS=N", repeats=True, read=lambda texts: windows(words(texts)) or None,
        load=_windows),
    "boundary": WrittenOption(kind=BOUNDARIES, default=OptionTable.boundary),
    "initial": WrittenOption(kind=float),
    "where": WrittenOption(metavar="CONDITION"),
    "mask": WrittenOption(
        "Ignore elements where this array of bools is false. It has some of the source's axes, by "
        "their names, or the last ones. Or an array of numbers, called y in --where 'x > y'.",
        metavar="NAME|ZARR"),
    "weights": WrittenOption(metavar="NAME|ZARR|FORMULA"),
    "by": WrittenOption(
        "Labels are the name of a coordinate (lat), a part of its dates (time.month), or the path "
        "or URL of an array. All combinations of several labels are groups, and results have an "
        "axis for each.",
        in_shell="May be repeated.", in_toml='A path has a "/", or ends in .npy or .zarr.',
        metavar="NAME|FILE.npy|ZARR", repeats=True, read=list, load=lambda given: given or []),
    "bins": WrittenOption(
        "Group labels by intervals between these edges, each including its lower end: "
        "'-90,-60,0,60,90', or LOW:HIGH:BINS. Without labels, group elements by their own values.",
        in_shell=f"{_EACH}; '' means none.",
        in_toml='With several labels, give a list or a string for each; "" means none.',
        metavar="EDGES", repeats=True, read=list),
    "by_axis": WrittenOption(
        in_shell=f"{_SEVERAL}. {_EACH}; '' means none.  [default: by names, or else by lengths]",
        in_toml=f"{_LISTED}; [] means none.",
        repeats=True, read=lambda texts: [*map(_axes, texts)]),
    "groups": WrittenOption(
        in_shell=f"Example: 'DJF,MAM,JJA,SON'. {_EACH}.  [default: all labels in the data]",
        in_toml=f"{_LISTED}; [] means all labels in the data.",
        metavar="LABELS", repeats=True, read=lambda texts: [*map(parse_groups, texts)]),
    "resample": WrittenOption(
        in_shell="Example: 'time=1MS'.", in_toml='Example: { time = "1MS" }.',
        metavar="AXIS=SPAN", repeats=True, read=parse_resample),
    "selection": WrittenOption(
        "Written as in NumPy's brackets: '0:100, ..., 3'. A list of integers or bools, "
        "'[0,3,5]', or a .npy file of them, selects along one axis.",
        in_toml="The file is relative to the job file's folder.",
        metavar="INDEX", flag="select", key="select", read=parse_selection, load=parse_selection),
    "sel": WrittenOption(
        in_shell="'time=2001-01:2010-12' includes both ends; also 'lat=30', 'lon=[0,90]' and "
        "'time.season=JJA'. May be repeated.",
        in_toml='Example: { time = "2001-01:2010-12", lat = [30, 60], "time.season" = "JJA" }; a '
        "slice includes both ends.",
        metavar="AXIS=VALUE", repeats=True, read=parse_sel, load=labels_of),
    "sel_tolerance": WrittenOption(
        "A number, or '12h' for dates.", metavar="DISTANCE", read=parse_distance),
    "tendency": WrittenOption(
        "'time=4' uses elements that are four apart.",
        metavar="AXIS[=STEP]", read=parse_step, load=parse_step),
    "memory": WrittenOption(
        "A size with its unit, such as '2GiB'.",
        in_shell=" [default: 60% of the memory limit of a Dask worker]", metavar="SIZE"),
    "ledger": WrittenOption(
        in_shell="Example: era5.ledger.", in_toml="The path is relative to the job file's folder.",
        metavar="PATH|URL"),
    "on_bad_chunk": WrittenOption(
        'The exit code is 4 after "stop", and 3 after "skip". If a codec decodes damaged bytes '
        "without an error, only a checksum (crc32c) finds the damage."),
    "on_missing_chunk": WrittenOption('The exit code is 4 after "stop".'),
})
"""Forms of options that do not follow from their types in the library."""
_ROWS = {
    "op": ("op", "edges", "sketch"), "where": ("where", "mask"), "by": ("by", "bins"),
    "storage_options": (), "allow_targets": (),
}
"""Options of the library that are written as several; or not at all: a command sets these for all
that it opens."""
SHARED: Mapping[str, str] = MappingProxyType({
    "allow_targets": summary("allow_targets"),
    "overwrite": "Replace an existing output when the new one is complete.",
    "report": "Write a page about the run to this file: results, devices over time, plan, "
    "manifest.",
    "worker_losses": "Number of workers that a block may lose before the run ends with exit code "
    "4: the block may be the cause. Workers that are retired or scaled down do not count.",
    "tls_ca_file": "TLS certificates of the authority, as PEM.",
    "tls_cert": "TLS certificate of this side, as PEM.",
    "tls_key": "TLS key of that certificate, as PEM, if its file has none.",
})
"""Meanings of options that belong to commands and job files, not to a reduction."""
# fmt: on


def _row(name: str, section: Section) -> WrittenOption:
    form = FORMS.get(name, WrittenOption())
    form = replace(form, help=f"{summary(name)} {form.help}".strip(), section=section)
    kind, default = OPTION_TYPES.get(name), getattr(OptionTable, name, None)
    if is_flag(kind):
        return replace(form, kind=bool, default=bool(default))
    if words := choices(kind) or (kind if kind in (int, float) else None):
        return replace(form, kind=words, default=default)
    return form


WRITTEN: Mapping[str, WrittenOption] = MappingProxyType(
    {
        one: _row(one, section)
        for name, section in SECTIONS.items()
        for one in _ROWS.get(name, (name,))
    }
)
"""All options of a reduction, by their names, in the order of the library's table."""


def in_sections(*sections: Section) -> dict[str, WrittenOption]:
    """Return the rows of some sections."""
    return {name: row for name, row in WRITTEN.items() if row.section in sections}


def library_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the library's options of what was written.

    Parameters
    ----------
    given
        Values of rows by their names, read or loaded; of `bins`, `by_axis` and `groups` a list of
        one for each label.

    Raises
    ------
    ChunkfoldError
        If two do not go together.
    """
    rest = dict(given)
    take = rest.pop
    ops = named_reductions(take("op"), take("edges"), take("sketch"))
    where = wheres(take("where"), take("mask"))
    labels = labels_asked(take("by"), take("bins"), take("groups"), take("by_axis"))
    return {"op": ops, "where": where, **labels, **rest}
