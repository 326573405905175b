"""Try kernels in a child process: some compilers crash on valid kernels, some build wrong ones.

A tuning may be used on a device once its kernels built and ran right there; where the table knows
several that are as good, the child measures first. A request during which it died or hung gets
that as its verdict. Verdicts are kept on disk, so that each is paid for once per device, driver
and source.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.binding.law_samples import telling
from chunkfold.kernels.cache.caches import child_environment, seal, why_no_room
from chunkfold.kernels.cache.entries import read_entry, write_entry
from chunkfold.kernels.cache.folders import cache_folder
from chunkfold.kernels.device.device import POCL, Device
from chunkfold.kernels.expressions.nodes import flat
from chunkfold.kernels.fold.programs import keyed_programs
from chunkfold.kernels.geometry import BY_KEY, CHOOSE, FOLDS
from chunkfold.kernels.program.assemble import nameless
from chunkfold.kernels.program.build_options import build_options
from chunkfold.kernels.program.device_context import program_source
from chunkfold.kernels.program.options import KEYED, Tuning
from chunkfold.kernels.tuning.trial_process import ChildEndedError, TrialProcesses

TRIAL_DEADLINE_S = 120.0
"""Longest time for one request in the child, in seconds."""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE)
"""Signals by which a process ends itself; others come from outside."""
processes = TrialProcesses()


def kernel_files(kernels: Collection[str]) -> tuple[str, ...]:
    """Return the files that hold these of `FOLDS`, `BY_KEY` and `CHOOSE`, and what follows them.

    >>> kernel_files({"rows"})
    ('rows.cl', 'passes.cl')
    """
    keyed = KEYED if set(BY_KEY).intersection(kernels) else ()
    plain = (f"{kernel}.cl" for kernel in (*FOLDS, CHOOSE) if kernel in kernels)
    return (*plain, *keyed, "passes.cl")


@dataclass(frozen=True)
class TrialRequest:
    """A reduction to try on a device, in shapes of which the fastest is wanted."""

    device: Device
    accumulator: Accumulator
    tunings: tuple[Tuning, ...]
    kernels: tuple[str, ...] = FOLDS
    """Kernels of `FOLDS`, `BY_KEY` and `CHOOSE` that will be launched: others are not tried."""

    @property
    def programs(self) -> list[tuple[str, Accumulator]]:
        """Kernel files that are tried, and what each folds into."""
        plain = [name for name in self.kernels if name not in BY_KEY]
        keyed = [
            one
            for way in BY_KEY
            if way in self.kernels
            for one in keyed_programs(self.device, self.accumulator, self.tunings[0], way)
        ]
        files = kernel_files(plain)
        return [*((file, self.accumulator) for file in files[:-1]), *keyed,
                (files[-1], self.accumulator)]  # fmt: skip

    @property
    def key(self) -> str:
        """Digest of all that decides the verdict: device, driver, sources, options."""
        device = self.device
        parts = [
            (device.platform, device.name, device.driver, device.version, device.compute_units),
            [
                nameless(program_source(device, file, accumulator, self.tunings[0]))
                for file, accumulator in self.programs
            ],
            (build_options(device), self.tunings),
            [component.rtol for component in self.accumulator.components],
            self._laws,
        ]
        return digest(parts)

    @property
    def own_key(self) -> str:
        """Digest of that and of what its monoids are called, which messages name."""
        return digest([self.key, self.accumulator.origins])

    @property
    def _laws(self) -> list[Any]:
        """Return the trees and samples by which the laws of users' components are tried."""
        doubted = [part for part in self.accumulator.components if part.rtol is not None]
        if not doubted:
            return []
        trees = [flat(part.trees) for part in doubted]
        return [trees, [array.tobytes() for array in telling(self.accumulator)]]


@dataclass(frozen=True)
class Verdict:
    """The answer to a request."""

    usable: bool
    reason: str = ""
    chosen: int = 0
    """Number of the tuning that it is of."""
    rates: Sequence[float] = ()
    """Bytes per second that each tuning folded, if there were several; 0 of one that failed."""
    log: str = ""
    """The compiler's, if it did not build."""
    local_limit: int = 0
    """The largest work-group that the built kernels allow, if that was the trouble."""
    unlawful: bool = False
    """True: the reduction is no monoid; `reason` has the counter-example."""
    lasting: bool = True
    """True: it would be the same another time; not if the machine was busy or full."""
    memory: bool = False
    """True: the device had no memory left."""


def verdict_of(request: TrialRequest) -> Verdict:
    """Return the verdict of a request, from disk where it is known, else by trying.

    A good verdict is shared by all requests with the same kernels; a bad one names its monoids.
    """
    folder = cache_folder("verdicts")
    shared, own = folder / request.key, folder / request.own_key
    tunings = len(request.tunings)
    verdict = _recorded(shared, tunings) or _recorded(own, tunings)
    if verdict is None:
        verdict = _tried(request)
        if not verdict.usable and (full := why_no_room()):
            # Compilers that cannot write fail, and do not say why.
            verdict = replace(verdict, lasting=False, log=f"{verdict.log}\n{full}".strip())
        if verdict.lasting:
            path = shared if verdict.usable else own
            write_entry(path, json.dumps(asdict(verdict)).encode())
        if request.device.platform == POCL:
            seal("pocl")
    return verdict


def digest(parts: object) -> str:
    """Return what tells apart all that decides an answer."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _recorded(path: Path, tunings: int) -> Verdict | None:
    """Read a verdict on so many tunings; None if it is missing or damaged."""
    content = read_entry(path)
    if content is None:
        return None
    try:
        verdict = Verdict(**json.loads(content))
    except (ValueError, TypeError):
        return None
    return verdict if verdict.chosen in range(tunings) else None


def _tried(request: TrialRequest) -> Verdict:
    try:
        verdict = Verdict(**answer_to(request))
    except ChildEndedError as ended:
        reason, lasting = why_ended(ended)
        return Verdict(usable=False, reason=reason, lasting=lasting)
    if not verdict.usable and not verdict.log:
        processes.stop()  # such kernels may have written anywhere, if they were built
    return verdict


def answer_to(request: Any) -> Any:
    """Return the answer of the child to a request, from its line of JSON.

    Raises
    ------
    ChildEndedError
        If the child died of it, or hung.
    """
    environment = os.environ | child_environment()
    return json.loads(processes.ask(request, environment, TRIAL_DEADLINE_S))


def why_ended(ended: ChildEndedError) -> tuple[str, bool]:
    """Say why a child ended, and whether it would do so another time."""
    code = ended.code
    if code is None:
        reason = f"the compiler or the kernel hung for {TRIAL_DEADLINE_S:.0f} s"
    elif code < 0:
        reason = f"the compiler or the kernel crashed (signal {-code})"
    else:
        reason = f"the trial ended with exit code {code}: {ended}"
    return reason, code is not None and -code in _CRASHES
