"""Groups with data along time and lon, which are parts of one array."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

VALUES = np.arange(8, dtype="f4").reshape(4, 2)
MONTHS = [0, 31, 59, 90]


class Parts:
    """Makes parts, each a group with `v` along time and lon."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, itertools.count()

    def __call__(
        self,
        times: Any = MONTHS,
        units: str | None = "days since 2001-01-01",
        lon: Sequence[float] | None = (10, 20),
        values: np.ndarray = VALUES,
        calendar: str | None = None,
        time: dict[str, Any] | None = None,
        **beside: tuple[tuple[str, ...], Any],
    ) -> str:
        path = self.folder / f"{next(self.numbers)}.zarr"
        group = zarr.open_group(path, mode="w")
        names = ["time", "lon"]
        group.create_array("v", data=values, chunks=(2, 2), dimension_names=names)
        said = {"units": units, "calendar": calendar, **(time or {})}
        known = {key: value for key, value in said.items() if value is not None}
        if times is not None:
            beside["time"] = (("time",), times)
        if lon is not None:
            beside["lon"] = (("lon",), np.asarray(lon, float))
        for name, (dims, data) in beside.items():
            made = group.create_array(name, data=np.asarray(data), dimension_names=dims)
            made.attrs.update(known if name == "time" else {})
        return f"{path}/v"
