"""Spans of a calendar that follow each other: labels of what is resampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.sources.axis_names import Named
from chunkfold.sources.date_parts import WITHOUT_ZONE
from chunkfold.sources.labels import GivenLabels, is_missing
from chunkfold.sources.named_labels import coordinate_of, known_names

_MOST_SPANS = 2**24
"""The most spans that an axis is resampled into: each has accumulators."""


@dataclass(frozen=True, eq=False)
class Resampling:
    """An axis of times, and how long a span of it is, as xarray's `resample` takes them."""

    dim: str
    frequency: Any
    """Such as "1MS" (pandas' aliases, also of cftime's calendars), or a `TimeResampler`."""

    @property
    def name(self) -> str:
        """Return the name that messages use."""
        return f"resample {self.dim}={getattr(self.frequency, 'freq', self.frequency)}"

    def times(self, data: Named) -> GivenLabels:
        """Read the times along its axis.

        Raises
        ------
        PlanError
            If there are none.
        """
        found = coordinate_of(self.dim, data)
        if found is not None and found.zone:
            raise PlanError(
                f"{self.name}: {self.dim!r} of {data.name} has times of time zone {found.zone}: "
                f"{WITHOUT_ZONE}"
            )
        if found is None or not found.of_axis or not found.are_dates:
            what = "it has none" if found is None else f"that is {found.values.dtype}"
            raise PlanError(
                f"{self.name}: {self.dim!r} must be an axis with a coordinate of dates, but "
                f"{what}; {data.name} has {known_names(data)}"
            )
        missing = np.array([is_missing(one) for one in found.values], bool)
        return GivenLabels(found.values, missing, found.dims, self.name, self.dim, found.attrs)

    def numbered(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return in which span each time is, int64, and where all spans begin.

        Also those that have no time between the first and the last, as in xarray.

        Raises
        ------
        PlanError
            If times do not ascend, or the frequency is none.
        """
        import pandas as pd
        import xarray as xr
        from xarray.groupers import TimeResampler

        frequency = self.frequency
        grouper = (
            frequency if isinstance(frequency, TimeResampler) else TimeResampler(freq=frequency)
        )
        if not values.size:
            raise PlanError(f"{self.name}: nothing is selected along {self.dim!r}")
        lacking = np.flatnonzero(pd.isna(values))
        if lacking.size:
            raise PlanError(
                f"{self.name}: times along {self.dim!r} are missing ({values[lacking[0]]} at "
                f"position {lacking[0]} of the selection): select the others by positions"
            )
        times = xr.DataArray(values, {self.dim: values}, [self.dim], self.dim)
        if not pd.Index(values).is_monotonic_increasing:
            raise PlanError(
                f"{self.name}: times along {self.dim!r} do not ascend, but spans must follow each "
                "other: select them in ascending order"
            )
        self._refuse_many(getattr(frequency, "freq", frequency), values)
        try:
            found = grouper.reset().factorize(times[self.dim])
        except (ValueError, TypeError, AttributeError) as error:
            why = str(error).partition("\n")[0]
            raise PlanError(f"{self.name}: {why}") from None
        codes = np.asarray(found.codes.values, np.int64)
        return codes, np.asarray(found.full_index)

    def _refuse_many(self, frequency: Any, values: np.ndarray) -> None:
        """Refuse spans of no time, or so many as fill memory where they are made."""
        import pandas as pd

        try:
            one = pd.tseries.frequencies.to_offset(frequency).nanos / 1e9
            apart = values.max() - values.min()
        except (ValueError, TypeError, AttributeError):  # of no fixed length, or none at all
            return
        whole = (
            apart / np.timedelta64(1, "s") if values.dtype.kind == "M" else apart.total_seconds()
        )
        if one <= 0 or whole / one > _MOST_SPANS:
            many = "no time" if one <= 0 else f"{one:g} s are {whole / one:.3g} of them"
            hint = ": months are 'MS'" if str(frequency).endswith("ms") else ""
            raise PlanError(f"{self.name}: spans of {many}; give longer ones{hint}")


def resamplings(given: Any) -> list[Resampling]:
    """Return what is to be resampled, as it was asked for: a mapping of axes to frequencies.

    Raises
    ------
    PlanError
        If it is none.
    """
    if given is None:
        return []
    if not isinstance(given, Mapping) or not all(isinstance(dim, str) for dim in given):
        raise PlanError(f"resample is {given!r}; name an axis and a span, as {{'time': '1MS'}}")
    other = next((one for one in given.values() if not _is_frequency(one)), "")
    if other != "":
        raise PlanError(
            f"resample has a span of {other!r}; give a frequency of pandas such as '1MS' or '6h', "
            "or a TimeResampler of xarray"
        )
    return [Resampling(dim, frequency) for dim, frequency in given.items()]


def _is_frequency(given: Any) -> bool:
    """Return True for a text or a time, or for a frequency of pandas or xarray."""
    return (
        isinstance(given, (str, timedelta)) or hasattr(given, "freq") or hasattr(given, "freqstr")
    )
