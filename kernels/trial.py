"""Try kernels in a child process: some compilers crash on valid kernels, some build wrong ones.

A tuning may be used on a device once its kernels built and ran right there; where the table knows
several that are as good, the child measures first. It reports a verdict per request; a request
during which it died or hung gets that as its verdict.
Verdicts are kept on disk, so that each is paid for once per device, driver and source.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.caches import child_environment
from chunkfold.kernels.device import Device
from chunkfold.kernels.folders import cache_folder, write_atomically
from chunkfold.kernels.opened import program_source
from chunkfold.kernels.variant import Tuning, language_options

TRIAL_DEADLINE_S = 120.0
"""Longest time for one request in the child, in seconds."""
KERNEL_FILES = ("flat.cl", "rows.cl", "columns.cl", "passes.cl")
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE)
"""Signals by which a process ends itself; others come from outside."""


@dataclass(frozen=True)
class Request:
    """A reduction to try on a device, in shapes of which the fastest is wanted."""

    device: Device
    accumulator: Accumulator
    tunings: tuple[Tuning, ...]

    @property
    def key(self) -> str:
        """Digest of all that decides the verdict: device, driver, sources, options."""
        device = self.device
        parts = [
            (device.platform, device.name, device.driver, device.version, device.compute_units),
            [
                program_source(device, file, self.accumulator, self.tunings[0])
                for file in KERNEL_FILES
            ],
            (language_options(device), self.tunings),
            [component.rtol for component in self.accumulator.components],
        ]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Verdict:
    """What came of a request."""

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
    """Whether the reduction is no monoid; `reason` has the counter-example."""
    lasting: bool = True
    """Whether it would be the same another time: not if the machine was busy or full."""


def verdicts(requests: Sequence[Request]) -> list[Verdict]:
    """Return the verdict of each request, from disk where it is known, else by trying."""
    folder = cache_folder("verdicts")
    known = {r.key: _recorded(folder / r.key, len(r.tunings)) for r in requests}
    unknown = {r.key: r for r in requests if known[r.key] is None}
    for key, verdict in zip(unknown, _try_all(list(unknown.values())), strict=True):
        if verdict.lasting:
            write_atomically(folder / key, json.dumps(asdict(verdict)))
        known[key] = verdict
    found = [known[request.key] for request in requests]
    return [verdict for verdict in found if verdict is not None]


def _recorded(path: Path, tunings: int) -> Verdict | None:
    """Read a verdict on so many tunings; one that is absent or damaged is tried again."""
    try:
        verdict = Verdict(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return verdict if verdict.chosen in range(tunings) else None


def _try_all(requests: list[Request]) -> list[Verdict]:
    """Run children until every request has a verdict; each death costs one request."""
    done: list[Verdict] = []
    while len(done) < len(requests):
        verdicts, ending = _run_child(requests[len(done) :])
        done += verdicts
        if ending is not None and len(done) < len(requests):
            done.append(ending)
    return done


def _run_child(requests: list[Request]) -> tuple[list[Verdict], Verdict | None]:
    """Try requests in one child; return the verdicts it reached, and that of an early end."""
    # pyopencl leaves the source of a failed build in the temporary folder; this one goes away.
    with tempfile.TemporaryDirectory(prefix="chunkfold-trial-") as folder:
        command = [sys.executable, "-m", "chunkfold.kernels.trial_child"]
        environment = os.environ | child_environment() | {"TMPDIR": folder}
        try:
            child = subprocess.run(
                command,
                input=pickle.dumps(requests),
                capture_output=True,
                env=environment,
                timeout=TRIAL_DEADLINE_S * len(requests),
                check=False,
            )
            output, ending = child.stdout, _ending(child.returncode, child.stderr)
        except subprocess.TimeoutExpired as expired:
            output = expired.stdout or b""
            reason = f"the compiler or the kernel hung for {TRIAL_DEADLINE_S:.0f} s"
            ending = Verdict(usable=False, reason=reason, lasting=False)
    lines = [line for line in output.split(b"\n") if line.startswith(b"{")]
    return [Verdict(**json.loads(line)) for line in lines], ending


def _ending(code: int, stderr: bytes) -> Verdict | None:
    if code == 0:
        return None
    if code < 0:
        reason = f"the compiler or the kernel crashed (signal {-code})"
        return Verdict(usable=False, reason=reason, lasting=-code in _CRASHES)
    last = stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1]
    reason = f"the trial ended with exit code {code}: {last}"
    return Verdict(usable=False, reason=reason, lasting=False)
