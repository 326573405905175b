"""What is said of a run beside its results: of laws that were not shown, of servers, of NaN."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

from chunkfold.errors import LawsWarning
from chunkfold.running.answers import Answer
from chunkfold.stores.requests import Requests


def warn_of_laws(laws: Mapping[str, bool]) -> None:
    """Say which monoids' laws were tried in vain: what changes nothing proves nothing."""
    for name, moved in laws.items():
        if not moved:
            message = (
                f"monoid {name!r}: it is not shown that its op commutes and associates: no "
                "element that was tried, of the data or near the numbers that it names, "
                "changes its accumulator"
            )
            warnings.warn(message, LawsWarning, stacklevel=1)


def waits_told(requests: Requests) -> Iterator[str]:
    """Say how long servers asked to be left alone."""
    if asked := requests.waits:
        yield (
            f"a server asked to be left alone {asked} time(s), for "
            f"{requests.longest_wait_s:.0f} s at most (Retry-After), and was"
        )


def nan_told(answers: Mapping[str, Answer], flag: str) -> Iterator[str]:
    """Say which results are NaN since elements are, and which option leaves those out."""
    for why, since in ((True, "since elements are"), (None, "perhaps since elements are")):
        names = ", ".join(
            f"{op} of {name}" if name else op
            for name, answer in answers.items()
            for op, of_nan in answer.nan.items()
            if of_nan is why
        )
        if names:
            yield f"there is NaN in {names}, {since}: {flag} takes those for absent"
