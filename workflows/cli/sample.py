"""Sample data: a year of daily temperature fields on a quarter-degree grid."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import zarr

FIELD = (721, 1440)
"""Latitudes and longitudes."""
CHUNK_DAYS = 8


def days_for(gib: float) -> int:
    """Return the days that make an array of at least `gib` GiB of float32.

    >>> days_for(1.0)
    259
    """
    return max(1, -int(-gib * 2**30 // (FIELD[0] * FIELD[1] * 4)))


def write_sample(path: Path, days: int, progress: Callable[[int], None]) -> zarr.Group:
    """Write a Zarr v3 group with a float32 and an int16 array of the same temperatures.

    `temperature` has kelvins; `packed` has hundredths of kelvins above 200 K. A sample that is
    whole and of the right size is kept as it is.

    Parameters
    ----------
    path
        Where the group goes.
    days
        Extent of the first axis.
    progress
        Told the bytes of each chunk of both arrays, as they are written.
    """
    shape = (days, *FIELD)
    kept = _whole(path, shape)
    if kept is not None:
        progress(_nbytes(kept))
        return kept
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    chunks = (CHUNK_DAYS, *FIELD)
    kelvins = group.create_array("temperature", shape=shape, chunks=chunks, dtype="float32")
    packed = group.create_array("packed", shape=shape, chunks=chunks, dtype="int16")

    def write(start: int) -> int:
        stop = min(start + CHUNK_DAYS, days)
        values = _temperatures(start, stop)
        kelvins[start:stop] = values
        packed[start:stop] = np.rint((values - 200) * 100).astype(np.int16)
        return values.nbytes + values.nbytes // 2

    with ThreadPoolExecutor(4) as pool:
        for nbytes in pool.map(write, range(0, days, CHUNK_DAYS)):
            progress(nbytes)
    group.attrs["whole"] = True
    return group


def _nbytes(group: zarr.Group) -> int:
    return sum(int(array.nbytes) for _, array in group.arrays())


def _whole(path: Path, shape: tuple[int, ...]) -> zarr.Group | None:
    if not (path / "zarr.json").exists():
        return None
    group = zarr.open_group(str(path), mode="r")
    arrays = dict(group.arrays())
    fits = arrays.keys() >= {"temperature", "packed"} and arrays["temperature"].shape == shape
    return group if fits and group.attrs.get("whole") else None


def _temperatures(start: int, stop: int) -> np.ndarray:
    """Seasons, latitudes and weather, in kelvins, to a hundredth, as float32."""
    days = np.arange(start, stop, dtype=np.float32)[:, None, None]
    latitude = np.linspace(-np.pi / 2, np.pi / 2, FIELD[0], dtype=np.float32)[None, :, None]
    weather = np.random.default_rng(start).standard_normal((stop - start, *FIELD), np.float32)
    climate = 250 + 45 * np.cos(latitude) + 12 * np.sin(latitude) * np.cos(days * (2 * np.pi / 365))
    hundredths: np.ndarray = np.rint((climate + 4 * weather) * 100)
    return hundredths / np.float32(100)
