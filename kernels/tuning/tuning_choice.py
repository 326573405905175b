"""Choose the tuning of a reduction on a device: the table's best that was seen to work.

Where the table holds several for equals, a short measurement on the device settles it, once per
device, driver and source. `CHUNKFOLD_TIES=table` takes the table's first instead.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.errors import BuildError, DeviceError, DeviceMemoryError, MonoidError
from chunkfold.kernels.geometry import FOLDS
from chunkfold.kernels.program.options import Tuning, distinct
from chunkfold.kernels.tuning.trial import TrialRequest, Verdict, kernel_files, verdict_of
from chunkfold.kernels.tuning.variant import forced, tiers
from chunkfold.kernels.tuning.work_groups import work_group_size


@dataclass(frozen=True)
class TuningChoice:
    """A tuning, and why it was chosen."""

    tuning: Tuning
    rivals: tuple[tuple[Tuning, float], ...]
    """Tunings that were measured, and bytes per second; empty for a single one."""
    why: str = ""
    """The reason: a measurement, or the table."""
    passed_over: tuple[tuple[str, str], ...] = ()
    """Tunings that were tried before and failed, and the reasons."""

    def __str__(self) -> str:
        if not self.rivals:
            return str(self.tuning)
        return f"{self.tuning} (measured {_rates(self.rivals)})"


def _rates(rivals: Iterable[tuple[Tuning, float]]) -> str:
    return "; ".join(
        f"{rate / 1e9:.1f} GB/s: {tuning}" if rate else f"failed: {tuning}"
        for tuning, rate in rivals
    )


def choose(
    device: Device,
    accumulator: Accumulator,
    variant: str | None = None,
    kernels: Collection[str] = FOLDS,
    *,
    strided: bool = False,
) -> Tuning:
    """Return the best tuning that was seen to work on a device; parameters as `chosen`."""
    return chosen(device, accumulator, variant, kernels, strided=strided).tuning


def chosen(
    device: Device,
    accumulator: Accumulator,
    variant: str | None = None,
    kernels: Collection[str] = FOLDS,
    *,
    strided: bool = False,
) -> TuningChoice:
    """Return the best tuning that was seen to work on a device, and what it was measured against.

    Parameters
    ----------
    variant
        Use this one and no other.
    kernels
        Those of `FOLDS` that will be launched: others need not be tried.
    strided
        Whether inputs have strides of their own (`box(..., other_strides=)`).

    Raises
    ------
    BuildError
        If none works; with the compiler's log where there is one.
    DeviceMemoryError
        If the device had no memory left to try them.
    MonoidError
        If it turns out to be no monoid.
    DeviceError
        If the device cannot do `variant`, or lacks a dtype.
    """
    failures: list[tuple[Tuning, Verdict]] = []
    found: Iterable[tuple[Tuning, ...]] = (
        tiers(device, accumulator) if variant is None else [forced(device, accumulator, variant)]
    )
    if strided:
        found = (tuple(replace(one, strided=True) for one in equals) for equals in found)
    for wanted, why in _attempts(
        distinct(equals, kernel_files(equals[0].folds(kernels))) for equals in found
    ):
        equals, verdict = try_tunings(device, accumulator, *wanted, kernels=kernels)
        if verdict.usable:
            rivals = tuple(zip(equals, verdict.rates, strict=True)) if verdict.rates else ()
            told = f"{why}: {_rates(rivals)}" if rivals else why
            failed = tuple((str(tuning), other.reason) for tuning, other in failures)
            return TuningChoice(equals[verdict.chosen], rivals, told, failed)
        if verdict.unlawful:
            raise MonoidError(verdict.reason)
        failures.append((equals[verdict.chosen], verdict))
    raise _useless(device, accumulator, failures)


def _useless(
    device: Device, accumulator: Accumulator, failures: Sequence[tuple[Tuning, Verdict]]
) -> DeviceError:
    """Return the error that no tuning works: the plainest one's log, and all other reasons once.

    A reduction that does not compile in one shape does so in none.
    """
    logs = [verdict.log for _, verdict in failures if verdict.log]
    shapes: dict[str, dict[str, None]] = {}
    for tuning, verdict in failures:
        if not verdict.log:
            shapes.setdefault(verdict.reason, {})[str(tuning)] = None
    tried = "; ".join(f"{reason} ({'; '.join(of)})" for reason, of in shapes.items())
    told = f"Tried: {tried}" if tried else ""
    if logs:
        what = f"{accumulator.origins} does not compile on {device}:\n{logs[-1]}"
        return BuildError("\n".join(part for part in (what, told) if part))
    kind = DeviceMemoryError if any(one.memory for _, one in failures) else BuildError
    return kind(f"no kernel for {accumulator.origins} works on {device}. {told}")


def try_tunings(
    device: Device, accumulator: Accumulator, *equals: Tuning, kernels: Collection[str] = FOLDS
) -> tuple[tuple[Tuning, ...], Verdict]:
    """Try tunings, in smaller work-groups if kernels need them; return tunings and verdict."""
    alike = accumulator.alike
    launched = equals[0].folds(kernels)
    verdict = verdict_of(TrialRequest(device, alike, equals, launched))
    limit = verdict.local_limit
    if limit:
        equals = tuple(_limited(device, accumulator, tuning, limit) for tuning in equals)
        verdict = verdict_of(TrialRequest(device, alike, equals, launched))
    return equals, verdict


def _limited(device: Device, accumulator: Accumulator, wanted: Tuning, limit: int) -> Tuning:
    most = max(wanted.flat.local_size, wanted.rows.local_size)
    size = work_group_size(device, accumulator, wanted.variant, most, limit)
    return wanted.at_most(size)


def _attempts(
    found: Iterable[tuple[Tuning, ...]],
) -> Iterator[tuple[tuple[Tuning, ...], str]]:
    """Try equals together; each by itself, should that come to nothing: one may crash the child.

    Each attempt comes with the reason of a choice by it.
    """
    for equals in found:
        why = "the table has one shape for it"
        if len(equals) > 1:
            why = "the table's first that works; CHUNKFOLD_TIES=table measures none"
            if os.environ.get("CHUNKFOLD_TIES") != "table":
                yield equals, "measured on the device, where the table's first has 5% in advance"
                why = "it works by itself, and together with its equals it did not"
        yield from (((tuning,), why) for tuning in equals)
