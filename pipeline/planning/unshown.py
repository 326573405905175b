"""What results do not show of what is reduced: that it is nothing, or has fill values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from chunkfold.errors import EmptyWarning, MissingWarning, UnstoredWarning

if TYPE_CHECKING:
    from chunkfold.planning.plan import Plan


def unshown(
    plan: Plan, missing: Mapping[str, tuple[int, int]], unlisted: Collection[str] = ()
) -> Iterator[UserWarning]:
    """Yield what results do not show, as warnings.

    Parameters
    ----------
    missing
        Of each input how many of its chunks, or shards, are not stored, of how many.
    unlisted
        Inputs of which that was found out when they were read.
    """
    if not plan.layout.elements:
        told = f"there is nothing to reduce: what is selected has shape {plan.layout.shape}"
        yield EmptyWarning(told)
    named = {source.name: source for source in plan.sources}  # once, if it is both inputs
    for name, (lacking, objects) in missing.items():
        if lacking:
            source, kind = named[name], MissingWarning if name in unlisted else UnstoredWarning
            yield kind(
                f"{lacking:,} of {objects:,} {source.object_kind} of {name} are not stored: "
                f"their elements are its fill value, {source.fill}"
            )
