"""Schedulers that should be there: whether they answer, and who has joined them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from distributed.comm.addressing import get_address_host_port, parse_address
from distributed.comm.core import CommClosedError
from distributed.comm.core import connect as open_comm
from distributed.core import send_recv
from distributed.security import Security

from chunkfold.cluster.security import ENCRYPTED, Role, security_for, tls_words
from chunkfold.errors import ClusterError, DeviceError, PlanError
from chunkfold.planning.workers import Post

_WITHOUT_PORTS = ("inproc", "ucx")
"""Schemes whose addresses Dask does not take apart."""


def checked_security(address: str, role: Role, given: Security | None = None) -> Security:
    """Return what a role connects to a scheduler's address with; see `security_for`.

    Raises
    ------
    PlanError
        If that is no address, or certificates are missing or of no use.
    """
    try:
        scheme, _ = parse_address(address)
        if scheme not in _WITHOUT_PORTS:
            get_address_host_port(address)
    except ValueError as error:
        raise PlanError(
            f"{address!r} is not an address of a scheduler ({error}): write it like "
            "tcp://10.0.0.1:8786"
        ) from error
    return security_for(address, scheme, role, given)


async def reach(
    address: str, deadline_s: float, security: Security, role: Role, workers: int = 0
) -> Mapping[str, str]:
    """Ask a scheduler who it is; return addresses of so many workers by their names (-1: of all).

    Raises
    ------
    ClusterError
        If it does not answer in `deadline_s`.
    """
    arguments = security.get_connection_args(role)
    comm: Any = None
    try:
        async with asyncio.timeout(deadline_s):
            comm = await open_comm(address, timeout=deadline_s, **arguments)
            told = await send_recv(comm, op="identity", n_workers=workers)
            joined = told["workers"].items()
    except Exception as error:
        why = tls_words(error) or str(error) or f"no answer in {deadline_s:.0f} s"
        raise ClusterError(
            f"cannot reach a scheduler at {address!r} ({why}); {_remedy(address, error)}"
        ) from error
    finally:
        if comm is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(comm.close(), deadline_s)
    return {str(worker["name"]): where for where, worker in joined}


def _remedy(address: str, error: Exception) -> str:
    if parse_address(address)[0] in ENCRYPTED:
        return "does it use TLS, and are both certificates from one authority?"
    if isinstance(error, CommClosedError):
        return (
            "is it a scheduler, and without TLS? With TLS, addresses are like tls://10.0.0.1:8786"
        )
    return "start one: dask scheduler"


def refuse_those_that_joined(
    manned: Sequence[Post], joined: Mapping[str, str], scheduler: str
) -> None:
    """See that none of the workers that are to start is there already.

    Raises
    ------
    DeviceError
        If one is: a device is looked after by one `chunkfold worker`.
    """
    for post in manned:
        if post.name in joined:
            raise already_there(f"{post.device}", f"({joined[post.name]}) ", scheduler)


def already_there(device: str, where: str, scheduler: str) -> DeviceError:
    """Make what is said of a device that another command has workers for."""
    return DeviceError(
        f"{device} of host {socket.gethostname()!r} has a worker {where}at {scheduler!r} already: "
        "stop that one, or name another device (--device), or more workers for this one "
        "(--workers-per-device)"
    )
