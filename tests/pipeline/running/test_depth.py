"""How many modules a call passes through from `chunkfold.reduce` to the first launch on its data.

Later launches fold what work-groups left, which is a matter of kernels/ alone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

import chunkfold as cf
from chunkfold.kernels.fold.launch import Launcher

pytestmark = pytest.mark.unoptimised
MOST = 10
"""Modules that a stranger opens to follow a call, those of kernels/ and tracebacks among them."""
_stacks: list[list[str]] = []
"""Modules on the stack wherever work went to another thread or process, or to the device."""


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def recording(*args: Any, **kwargs: Any) -> Any:
        frame, names = sys._getframe(1), list[str]()
        while frame is not None:
            names.append(frame.f_globals.get("__name__", ""))
            frame = frame.f_back  # type: ignore[assignment]
        _stacks.append([name for name in reversed(names) if name.startswith("chunkfold")])
        return function(*args, **kwargs)

    return recording


def _record_launches() -> None:
    """Record them in a worker's process, too."""
    Launcher.enqueue = _recorded(Launcher.enqueue)  # type: ignore[method-assign]


def _unrecorded() -> list[list[str]]:
    """Return what was recorded, and record no more."""
    Launcher.enqueue = Launcher.enqueue.__wrapped__  # type: ignore[attr-defined, method-assign]
    found = list(_stacks)
    _stacks.clear()
    return found


def _source(folder: Path) -> str:
    array = zarr.create_array(folder / "x.zarr", data=np.arange(4000.0), chunks=(1000,))
    return str(array.store_path.store.root)


def _passed(*stacks: list[str]) -> list[str]:
    """Return the modules of stacks, each of which was begun by the one before, in order."""
    return list(dict.fromkeys(name for stack in stacks for name in stack))


def _handed_over(by: str) -> list[str]:
    """Return the stack on which a module hands work over to others."""
    return next(stack for stack in _stacks if stack[-1:] == [by])


@pytest.fixture
def _begins(monkeypatch: pytest.MonkeyPatch) -> None:
    _stacks.clear()
    monkeypatch.setattr(threading.Thread, "start", _recorded(threading.Thread.start))
    monkeypatch.setattr(ThreadPoolExecutor, "submit", _recorded(ThreadPoolExecutor.submit))
    monkeypatch.setattr(Client, "submit", _recorded(Client.submit))


@pytest.mark.usefixtures("_begins")
def test_a_call_reaches_the_device_through_few_modules(tmp_path: Path):
    _record_launches()
    try:
        assert cf.reduce(_source(tmp_path)) == 7998000
        begun = (
            _handed_over("chunkfold.running.execution"),
            _handed_over("chunkfold.running.backend"),
        )
    finally:
        recorded = _unrecorded()
    launch = next(one for one in recorded if one[-1:] == ["chunkfold.kernels.fold.launch"])
    found = _passed(*begun, launch)
    assert found[:2] == ["chunkfold.tracebacks", "chunkfold.api"]
    assert len(found) <= MOST, found


@pytest.mark.usefixtures("_begins")
def test_a_call_reaches_a_workers_device_through_as_few(tmp_path: Path, client: Client):
    client.run(_record_launches)
    try:
        assert cf.reduce(_source(tmp_path), client=client) == 7998000
        begun = (
            _handed_over("chunkfold.running.execution"),
            _handed_over("chunkfold.running.on_cluster"),
        )
    finally:
        recorded = [one for found in client.run(_unrecorded).values() for one in found]
    found = _passed(*begun, recorded[0])
    assert found[:2] == ["chunkfold.tracebacks", "chunkfold.api"]
    assert len(found) <= MOST + 1, found  # tracebacks came in: MOST without it
