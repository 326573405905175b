"""Refuse outputs that overlap their sources, or each other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from chunkfold.errors import PlanError
from chunkfold.redaction import shown_address
from chunkfold.stores.addresses import array_around, is_zarr, local_path, zarr_node
from chunkfold.stores.guarded_stores import METADATA
from chunkfold.stores.targets import last_link

Places = set[PurePosixPath]


def is_url(out: str | os.PathLike[str]) -> bool:
    """Return True if an output is a URL."""
    return isinstance(out, str) and "://" in out


def out_text(out: str | os.PathLike[str]) -> str:
    """Return an output as messages name it: without secrets."""
    return shown_address(str(out))


def refuse_origins(out: str | Path | None, origins: Iterable[str]) -> None:
    """Refuse an output that is a source, contains one, or lies in one; None is allowed.

    Refuse, too, an output that would replace an array in the Zarr group of a source, such as a
    coordinate, or in a group above.

    Parameters
    ----------
    origins
        Paths and URLs, as `Request.origins` or `Source.addresses`.

    Raises
    ------
    PlanError
        If the output is refused.
    """
    if out is None:
        return
    targets, replaces = _places(out), _replaces_member(out)
    for origin in origins:
        places = _places(origin)
        if _overlap(targets, places):
            raise PlanError(
                f"output {out_text(out)} and source {out_text(origin)} are the same, or one is "
                "inside the other; write it elsewhere"
            )
        if replaces and any(one.parent in place.parents for one in targets for place in places):
            raise PlanError(
                f"output {out_text(out)} would replace what belongs to source {out_text(origin)}, "
                "in the same Zarr group; write it elsewhere"
            )


def refuse_overlaps(*outs: str | os.PathLike[str] | None) -> None:
    """Refuse outputs, or a ledger, that are one or lie in each other; None are allowed.

    Raises
    ------
    PlanError
        If two overlap.
    """
    given = [(out, _places(out)) for out in outs if out is not None]
    for (one, own), (other, others) in itertools.combinations(given, 2):
        if _overlap(own, others):
            raise PlanError(
                f"outputs {out_text(one)} and {out_text(other)} are the same, or one is inside "
                "the other: give each its own name"
            )


def refuse_parts_of_zarr(out: Path) -> None:
    """Refuse a local output that lies in a Zarr array, or has the name of its metadata.

    Raises
    ------
    PlanError
        If the output is refused.
    """
    if out.name in METADATA and is_zarr(out.parent):
        raise PlanError(f"output {out} has the name of a Zarr metadata file: choose another")
    if (around := array_around(out)) is not None:
        raise PlanError(f"output {out} lies in the Zarr array {around}: write it elsewhere")


def _replaces_member(out: str | Path) -> bool:
    """Return True if an array is at a local output's place, in a Zarr group.

    A group there, or a file, is allowed: it may be an earlier output, or its manifest.
    """
    path = local_path(str(out))
    return path is not None and is_zarr(path.absolute().parent) and zarr_node(path) == "array"


def _overlap(some: Places, others: Places) -> bool:
    return any(
        one == other or one in other.parents or other in one.parents
        for one, other in itertools.product(some, others)
    )


def _places(address: str | os.PathLike[str]) -> Places:
    """Return the absolute path of a local address, with and without its links; of a URL one path.

    The place of a chain of fsspec is that of its last link.
    """
    text = str(address)
    path = local_path(text) or local_path(last_link(text))
    if path is not None:
        made = os.path.abspath(path)  # noqa: PTH100 # links stay
        return {PurePosixPath(made), PurePosixPath(os.path.realpath(made))}
    scheme, _, rest = shown_address(last_link(text)).partition("://")
    return {PurePosixPath(scheme.lower(), rest.strip("/"))}
