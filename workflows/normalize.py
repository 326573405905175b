"""Find what makes the channels of training data comparable, in one pass; apply it, perhaps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import zarr
from distributed import Client

from chunkfold.api import submit
from chunkfold.errors import PlanError
from chunkfold.events import OnEvent
from chunkfold.grid import normalized_axes
from chunkfold.source import open_source
from chunkfold.workflows.results import check_zarr, staged

WAYS = {"mean-std": ("mean", "std"), "min-max": ("min", "max")}
"""The statistics of each way to normalize."""


@dataclass(frozen=True)
class Normalization:
    """What makes values comparable: `(value - offset) / scale`, channel by channel."""

    source: str
    axis: int | None
    """Of the channels; None if all of the array is one."""
    way: str
    statistics: dict[str, np.ndarray]
    """Mean and std, or min and max: float64, of shape (channels,)."""

    @property
    def offset(self) -> np.ndarray:
        """What becomes 0: float64, (channels,)."""
        return self.statistics[WAYS[self.way][0]]

    @property
    def scale(self) -> np.ndarray:
        """What is 1 long: float64, (channels,). 1 where a channel has one value only."""
        low, high = (self.statistics[name] for name in WAYS[self.way])
        span = high if self.way == "mean-std" else high - low
        return np.where(span == 0, 1.0, span)


def normalization(
    source: Any,
    *,
    axis: int | None = None,
    way: str = "mean-std",
    ddof: float = 0,
    skipna: bool = False,
    memory: int | str | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Normalization:
    """Measure every channel of an array in one read, exactly.

    Parameters
    ----------
    axis
        Along which channels stand; None: all of the array is one.
    way
        "mean-std" or "min-max".
    source, ddof, skipna, memory, client, on_event
        As `chunkfold.reduce` has them.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these, or the read fails.
    """
    if way not in WAYS:
        raise PlanError(f"way is {way!r}; there are: {', '.join(map(repr, WAYS))}")
    found = open_source(source)
    others = other_axes(found, axis)
    run = submit(
        found,
        list(WAYS[way]),
        axis=others,
        ddof=ddof,
        skipna=skipna,
        memory=memory,
        client=client,
        on_event=on_event,
    )
    statistics = {
        name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in run.result().items()
    }
    channels = None if axis is None else axis % len(found.shape)
    return Normalization(found.name, channels, way, statistics)


def check_applied(out: Path, dtype: Any) -> np.dtype:
    """Find out before the work starts whether normalized values can be written; return their dtype.

    Raises
    ------
    PlanError
        If not.
    """
    refused = PlanError(f"dtype {dtype!r} cannot hold normalized values; take a float's")
    try:
        made_of: np.dtype = np.dtype(dtype)
    except TypeError:
        raise refused from None
    if made_of.kind != "f":
        raise refused
    check_zarr(out)
    return made_of


def other_axes(source: Any, axis: int | None) -> list[int]:
    """Return the axes that are not the channels'.

    Raises
    ------
    ChunkfoldError
        If the source has no such axis.
    """
    ndim = len(open_source(source).shape)
    channels = () if axis is None else normalized_axes(axis, ndim)
    return [n for n in range(ndim) if n not in channels]


def apply(source: Any, found: Normalization, out: str | Path, dtype: Any = "float32") -> Any:
    """Write `(source - offset) / scale` into a new Zarr array, chunk by chunk, by Dask.

    Runs on the current Dask client, if there is one, else on threads. Computed in float64.

    Parameters
    ----------
    out
        Folder of the new array, which must not exist; chunks, shards, names of axes and attributes
        are the source's.
    dtype
        Of the new array: a float's.

    Returns
    -------
    The new array.

    Raises
    ------
    ChunkfoldError
        If it cannot be written; nothing is then left there.
    """
    path, array, made_of = Path(out), open_source(source).array, check_applied(Path(out), dtype)
    shape = [1] * array.ndim
    if found.axis is not None:
        shape[found.axis] = -1
    offset, scale = found.offset.reshape(shape), found.scale.reshape(shape)
    metadata: Any = array.metadata
    # Whole objects at a time: two writers of one shard would undo each other's work.
    values = dask.array.from_array(array, chunks=array.shards or array.chunks)
    with staged(path) as made:
        target = zarr.create_array(
            str(made),
            shape=array.shape,
            chunks=array.chunks,
            shards=array.shards,
            dtype=made_of,
            attributes=dict(array.attrs),
            dimension_names=getattr(metadata, "dimension_names", None),
        )
        normalized = ((values.astype(np.float64) - offset) / scale).astype(made_of)
        store: Any = dask.array.store
        store(normalized, target, lock=False)
    return zarr.open_array(str(path), mode="r")
