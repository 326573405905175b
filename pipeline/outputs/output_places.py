"""Refuse outputs that overlap their sources, or each other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from chunkfold.errors import PlanError
from chunkfold.redaction import shown_address
from chunkfold.stores.addresses import is_zarr, node_type


def is_url(out: str | Path) -> bool:
    """Return True if an output is a URL."""
    return isinstance(out, str) and "://" in out


def out_text(out: str | Path) -> str:
    """Return an output as messages name it: without secrets."""
    return shown_address(str(out))


def refuse_origins(out: str | Path | None, origins: Iterable[str]) -> None:
    """Refuse an output that equals, contains or lies in what it is made of; None passes.

    Nor does it replace an array next to one of these in a Zarr group, such as a coordinate.

    Parameters
    ----------
    origins
        Paths and URLs, as `Request.origins` or `Source.addresses`.

    Raises
    ------
    PlanError
        If it is.
    """
    if out is None:
        return
    target = _place(out)
    for origin in origins:
        if _overlap(target, _place(origin)):
            raise PlanError(
                f"output {out_text(out)} and source {out_text(origin)} are one or in each other; "
                "write it elsewhere"
            )
        if target.parent == _place(origin).parent and _replaces_a_member(out):
            raise PlanError(
                f"output {out_text(out)} would replace what belongs to source {out_text(origin)}, "
                "in the same Zarr group; write it elsewhere"
            )


def refuse_overlaps(*outs: str | None) -> None:
    """Refuse outputs that are one, or of which one lies in another; None are ignored.

    Raises
    ------
    PlanError
        If two are.
    """
    given = [out for out in outs if out is not None]
    for one, other in itertools.combinations(given, 2):
        if _overlap(_place(one), _place(other)):
            raise PlanError(
                f"outputs {out_text(one)} and {out_text(other)} are one or in each other: give "
                "each a name of its own"
            )


def _replaces_a_member(out: str | Path) -> bool:
    """Return True if an array, or a file, is at a local output's place, in a Zarr group.

    A group there may be an output of before.
    """
    path = Path(out).absolute()
    there = not is_url(out) and os.path.lexists(path) and is_zarr(path.parent)
    return there and node_type(path) != "group" and not (path / ".zgroup").exists()


def _overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    return one == other or one in other.parents or other in one.parents


def _place(address: str | Path) -> PurePosixPath:
    """Return a path that is the same for all spellings of an address."""
    if is_url(address):
        scheme, _, rest = shown_address(str(address)).partition("://")
        return PurePosixPath(scheme.lower(), rest.strip("/"))
    return PurePosixPath(os.path.realpath(address))
