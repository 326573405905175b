"""Warnings about a run: untested laws, servers, skipped chunks, short memory, NaN."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping

from chunkfold.bad_chunks import Skipped
from chunkfold.errors import (
    LawsWarning,
    NaNWarning,
    ServerWarning,
    ShortMemoryWarning,
    SkippedWarning,
)
from chunkfold.planning.tile_finishing import why_nan
from chunkfold.plural import counted
from chunkfold.running.answers import Answer
from chunkfold.stores.requests import Requests
from chunkfold.tracebacks import warn_caller
from chunkfold.worker.block_report import DeviceReport


def warn_of_laws(laws: Mapping[str, bool]) -> None:
    """Say which monoids' laws were tried in vain: what changes nothing proves nothing."""
    for name, moved in laws.items():
        if not moved:
            message = (
                f"monoid {name!r}: chunkfold could not show that its op commutes and associates: "
                "no element that it tried, of the data or near the numbers that the monoid "
                "names, changes the accumulator"
            )
            warnings.warn(message, LawsWarning, stacklevel=1)


def warn_user(remarks: Iterable[Warning]) -> None:
    """Issue each warning at the line of the user's code that called chunkfold."""
    for one in remarks:
        warn_caller(one)


def skipped_warnings(skipped: Skipped, elements: int) -> Iterator[SkippedWarning]:
    """Say how much was left out, of how many elements, and the first chunk of it."""
    if skipped:
        yield SkippedWarning(
            f"{sum(skipped.values()):,} of {elements:,} elements were skipped, of "
            f"{counted(len(skipped), 'bad chunk')}, such as {next(iter(skipped))}: Run.skipped "
            "lists all"
        )


def wait_warnings(requests: Requests) -> Iterator[ServerWarning]:
    """Say how often servers asked for a pause, and of how many seconds at most."""
    if asked := requests.waits:
        yield ServerWarning(
            f"servers asked for a pause {counted(asked, 'time')} (Retry-After), and got it: "
            f"{requests.longest_wait_s:.0f} s at most"
        )


def memory_warnings(devices: Iterable[DeviceReport]) -> Iterator[ShortMemoryWarning]:
    """Say which devices had less memory left than planned."""
    for one in devices:
        if one.smaller > 1:
            yield ShortMemoryWarning(
                f"{one.device} had too little memory left: reads were {one.smaller} times smaller "
                "than planned, which takes longer; does another process use it?"
            )


def nan_warnings(answers: Mapping[str, Answer], flag: str) -> Iterator[NaNWarning]:
    """Say which results are NaN because elements or weights are, and how to leave those out."""
    remedies = {
        "the data contain NaN": f"; {flag} ignores them",
        "weights contain NaN": ": give 0 to omit elements",
    }
    found: dict[tuple[str, str], list[str]] = {}
    for name, answer in answers.items():
        for statistic in answer.plan.bound.statistics:
            op = statistic.name
            of_nan = answer.nan.get(op, False)
            why = "" if of_nan is False else why_nan(statistic, answer.plan.request)
            if why:
                since = "" if of_nan else ", perhaps"
                found.setdefault((since, why), []).append(f"{op} of {name}" if name else op)
    for (since, why), names in sorted(found.items()):
        told = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} NaN{since}"
        yield NaNWarning(f"{told} because {why}{remedies[why]}")
