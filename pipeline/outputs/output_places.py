"""Refuse outputs that overlap their sources, or equal each other."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from chunkfold.errors import PlanError
from chunkfold.redaction import shown_address
from chunkfold.sources.source import Source


def is_url(out: str | Path) -> bool:
    """Return True if an output is a URL."""
    return isinstance(out, str) and "://" in out


def out_text(out: str | Path) -> str:
    """Return an output as messages name it: without secrets."""
    return shown_address(str(out))


def refuse_sources(out: str | Path | None, sources: Iterable[Source]) -> None:
    """Refuse an output that equals, contains or lies in a source; None passes.

    Raises
    ------
    PlanError
        If it is.
    """
    if out is None:
        return
    refuse_origins(out, origins_of(sources))


def origins_of(sources: Iterable[Source]) -> tuple[str, ...]:
    """Return the addresses of all that sources are read from."""
    every = [origin for one in sources for origin in one.origins]
    return tuple(dict.fromkeys((one.local_path or one.name).rstrip("/") for one in every))


def refuse_origins(out: str | Path, origins: Iterable[str]) -> None:
    """Refuse an output as `refuse_sources`, by addresses."""
    target = _place(out)
    for origin in origins:
        place = _place(origin)
        if target == place or target in place.parents or place in target.parents:
            raise PlanError(
                f"output {out_text(out)} and source {out_text(origin)} are one or in each other; "
                "write it elsewhere"
            )


def refuse_equal(*outs: str | None) -> None:
    """Refuse outputs of the same place; None are ignored.

    Raises
    ------
    PlanError
        If two are one.
    """
    places = [_place(out) for out in outs if out is not None]
    twice = [place for place in places if places.count(place) > 1]
    if twice:
        raise PlanError(f"two outputs are one, {twice[0]}: give each a name of its own")


def _place(address: str | Path) -> PurePosixPath:
    """Return a path that is the same for all spellings of an address."""
    if is_url(address):
        scheme, _, rest = shown_address(str(address)).partition("://")
        return PurePosixPath(scheme.lower(), rest.strip("/"))
    return PurePosixPath(os.path.realpath(address))
