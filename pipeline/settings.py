"""Read chunkfold's settings in Dask's configuration: `dask.config.set`, files, variables.

A variable is named after its setting: `DASK_CHUNKFOLD__REMOTE__MISSING_STATUS=403`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import dask
from dask.utils import parse_bytes, parse_timedelta

from chunkfold.errors import PlanError
from chunkfold.http_denials import MISSING

MISSING_STATUS = "chunkfold.remote.missing-status"
ALLOWED = "allow_targets"
"""Name of the option with prefixes of addresses to which references may lead."""
ALLOW_TARGETS = "chunkfold.store.allow-targets"
IMAGE_LEVEL = "chunkfold.image.level"
_DASHBOARD = "chunkfold.dashboard.address"
_REQUESTS = "chunkfold.remote.requests"
REQUESTS = 100
"""Most requests in flight for each host, of all workers of one machine together."""
NEAR_CORES = "chunkfold.workers.near-cores"
WORKER_LOSSES = "chunkfold.workers.losses"
LOSSES = 4
"""Workers that a task may lose before the run ends: the task may be what kills them."""
RETRY_S = 60.0
"""Time during which a request is retried that fails by the server's or the network's fault, s."""
STALL_S = 30.0
"""Longest time in an answer without any byte, s."""
STORE_S = 180.0
"""Longest time for a read of a store, s: a server may be away for a minute."""
METADATA_BYTES = 64 << 20
"""Most bytes of an object of metadata; consolidated ones of ten thousand arrays have 15 MB."""
ACCELERATE_BYTES = 128 << 20
"""Fewest bytes of an array that Dask's graphs reduce here: smaller ones Dask reads as fast."""
StorageOptions = Mapping[str, Any]
"""`missing_status`, one of `MISSING`; `allow_targets`, as in `allowed_targets`; all others are
obstore's, such as `skip_signature` or `region`."""


def missing_statuses(options: StorageOptions) -> Collection[int]:
    """Return the HTTP statuses that mean that an object is not stored, by options or settings.

    Raises
    ------
    PlanError
        If a status is none of `MISSING`.
    """
    given = options.get("missing_status", dask.config.get(MISSING_STATUS, ()))
    statuses = given if isinstance(given, (list, tuple, set, frozenset)) else (given,)
    for status in statuses:
        if type(status) is not int or status not in MISSING:
            name = "missing_status" if "missing_status" in options else MISSING_STATUS
            raise PlanError(
                f"{name} is {status!r}; give a status of a missing object, "
                f"other than 404: {' or '.join(map(str, MISSING))}"
            )
    return statuses


def with_targets(options: StorageOptions | None, allowed: Any) -> StorageOptions:
    """Return options with prefixes of addresses to which references may lead; None adds none."""
    return dict(options or {}) | ({} if allowed is None else {ALLOWED: allowed})


def allowed_targets(options: StorageOptions) -> tuple[str, ...]:
    """Return the prefixes of addresses to which references may lead, by options or settings.

    Raises
    ------
    PlanError
        If a prefix is no text.
    """
    given = options.get(ALLOWED, dask.config.get(ALLOW_TARGETS, None))
    given = () if given is None else given
    prefixes = (given,) if isinstance(given, str) else given
    if not isinstance(prefixes, (list, tuple)) or not all(
        isinstance(one, str) and one for one in prefixes
    ):
        raise PlanError(
            f"allow_targets is {given!r}; give prefixes of addresses, such as ['s3://bucket/']"
        )
    return tuple(prefixes)


def most_requests() -> int:
    """Return the most requests in flight for each host: `chunkfold.remote.requests`.

    Raises
    ------
    PlanError
        If the setting is no such number.
    """
    return _count(_REQUESTS, REQUESTS)


def retry_seconds() -> float:
    """Return for how long a request is retried: `chunkfold.remote.retry`; see `_time`."""
    return _time("chunkfold.remote.retry", RETRY_S)


def stall_seconds() -> float:
    """Return how long an answer may stall: `chunkfold.remote.stall`; see `_time`."""
    return _time("chunkfold.remote.stall", STALL_S)


def store_seconds() -> float:
    """Return how long a read of a store may take: `chunkfold.store.deadline`; see `_time`."""
    return _time("chunkfold.store.deadline", STORE_S)


def metadata_bytes() -> int:
    """Return the most bytes of an object of metadata; see `_bytes`."""
    return _bytes("chunkfold.store.metadata-bytes", METADATA_BYTES)


def accelerate_bytes() -> int:
    """Return the fewest bytes of an array that is not left to Dask; see `_bytes`."""
    return _bytes("chunkfold.accelerate.least-bytes", ACCELERATE_BYTES, least=0)


def image_level() -> int | None:
    """Return the level of images that is read where a group is named: `chunkfold.image.level`.

    Raises
    ------
    PlanError
        If the setting is no such number.
    """
    given = dask.config.get(IMAGE_LEVEL, None)
    if given is not None and (type(given) is not int or given < 0):
        raise PlanError(f"{IMAGE_LEVEL} is {given!r}; give the number of a level, 0 the finest")
    return given


def worker_losses() -> int:
    """Return how many workers a task may lose before the run ends: `chunkfold.workers.losses`.

    Raises
    ------
    PlanError
        If the setting is no such number.
    """
    return _count(WORKER_LOSSES, LOSSES)


def uses_near_cores() -> bool:
    """Return whether workers keep to the cores near their devices: `chunkfold.workers.near-cores`.

    Raises
    ------
    PlanError
        If the setting is neither true nor false.
    """
    given = dask.config.get(NEAR_CORES, True)
    if not isinstance(given, bool):
        raise PlanError(f"{NEAR_CORES} is {given!r}; give true or false")
    return given


def dashboard_address() -> str:
    """Return the address of a local cluster's dashboard: `chunkfold.dashboard.address`.

    Raises
    ------
    PlanError
        If the setting is no HOST:PORT.
    """
    given = dask.config.get(_DASHBOARD, "127.0.0.1:0")
    if not re.fullmatch(r"[\w.-]*:\d{1,5}", str(given)):
        raise PlanError(
            f"{_DASHBOARD} is {given!r}; give HOST:PORT, such as '127.0.0.1:8787' (port 0: any "
            "that is free), or ':8787' for all of this host's addresses"
        )
    return str(given)


WAITS: Mapping[str, float] = {
    "chunkfold.workers.silent": 60.0,
    "chunkfold.workers.ask": 5.0,
    "chunkfold.no-workers-timeout": 120.0,
    "chunkfold.workers.start": 120.0,
    "chunkfold.workers.join": 30.0,
    "chunkfold.workers.answer": 60.0,
    "chunkfold.scheduler.connect": 10.0,
    "chunkfold.run.stall": 900.0,
    "chunkfold.run.gather": 300.0,
    "chunkfold.run.tell": 10.0,
    "chunkfold.close": 15.0,
}
"""Longest waits on a cluster, in seconds; docs/how-it-works.md says for what."""


def wait_seconds(name: str) -> float:
    """Return a longest wait, in seconds: a setting of `WAITS`; see `_time`."""
    return _time(name, WAITS[name])


def _bytes(name: str, default: int, least: int = 1) -> int:
    """Return a number of bytes of the configuration.

    Raises
    ------
    PlanError
        If it is no such number, or less than the least.
    """
    given = dask.config.get(name, default)
    try:
        found = -1 if isinstance(given, bool) or given == "" else int(parse_bytes(given))
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError):
        found = -1
    if found < least:
        raise PlanError(f"{name} is {given!r}; give bytes, such as '64 MiB'")
    return found


def _count(name: str, default: int) -> int:
    given = dask.config.get(name, default)
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise PlanError(f"{name} is {given!r}; give a number of at least 1")
    return given


def _time(name: str, default: float) -> float:
    """Return a time of the configuration, in seconds.

    Raises
    ------
    PlanError
        If it is no time, or not above 0.
    """
    given = dask.config.get(name, default)
    try:
        seconds = float(parse_timedelta(given))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        seconds = 0.0
    if seconds <= 0:
        raise PlanError(f"{name} is {given!r}; give a time, such as '{default:.0f} s'")
    return seconds
