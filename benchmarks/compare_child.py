"""Folds cases for benchmarks/compare.py, which starts one of these for each source tree.

It reads requests from standard input, a line of JSON each, and answers each by one on what was
standard output; what drivers write there goes to standard error.

    list                    names of all cases
    prepare NAME            place the arrays and compile
    time NAME SECONDS       fold for a while: bytes, and median seconds by either clock
"""

from __future__ import annotations

import json
import os
import sys
import time
from statistics import median
from typing import Any

from cases import CASES, Prepared, prepared

import chunkfold
from chunkfold.kernels import DeviceContext, devices

_LEAST_FOLDS = 3


class Folder:
    """Answers requests for one device."""

    def __init__(self, spec: str, nbytes: int) -> None:
        (device,) = devices(spec)
        self._opened, self._nbytes = DeviceContext(device), nbytes
        self._cases = {case.name: case for case in CASES}
        self._kept: dict[str, Prepared] = {}

    def list(self) -> dict[str, Any]:
        """Say what there is, and where it comes from."""
        device = str(self._opened.device)
        return {"names": list(self._cases), "from": chunkfold.__file__, "device": device}

    def prepare(self, name: str) -> dict[str, Any]:
        """Get ready what `time` measures; the case before is dropped."""
        self._kept.clear()
        self._kept[name] = prepared(self._opened, self._cases[name], self._nbytes)
        self._kept[name]()  # builds
        return {"tuning": str(self._kept[name].fold.tuning)}

    def time(self, name: str, seconds: float) -> dict[str, Any]:
        """Fold for a while; the first half warms up caches and clocks, and does not count."""
        fold = self._kept[name]
        times: list[tuple[float, float]] = []
        until = time.monotonic() + seconds
        while len(times) < 2 * _LEAST_FOLDS or time.monotonic() < until:
            began = time.perf_counter()
            on_device = fold.device_seconds()
            times.append((on_device, time.perf_counter() - began))
        counted = times[len(times) // 2 :]
        return {
            "nbytes": fold.nbytes,
            "device": median(one for one, _ in counted),
            "wall": median(one for _, one in counted),
        }


def main() -> None:
    """Answer until there are no more requests."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder = Folder(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        what, *given = json.loads(line)
        try:
            answer = getattr(folder, what)(*given)
        except Exception as error:  # noqa: BLE001 # what fails in one tree is compared in the others
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
