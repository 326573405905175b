"""A local cluster's pages are for its host."""

from __future__ import annotations

import ipaddress
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import dask
import psutil
import pytest

import chunkfold as cf
from tests.conftest import DEVICES

pytestmark = pytest.mark.unoptimised


def listening() -> set[tuple[str, int]]:
    """Where this process and those that it started listen."""
    me, found = psutil.Process(), set[tuple[str, int]]()
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile, as those of trials do
            found |= {
                tuple(one.laddr)
                for one in process.net_connections("inet")
                if one.status == psutil.CONN_LISTEN
            }
    return found


@contextmanager
def opened(**given) -> Iterator[set[tuple[str, int]]]:
    """Where a cluster listens while it is open."""
    before = listening()
    with cf.LocalOpenCLCluster([DEVICES[0]], **given) as made:
        assert len(made.workers) == 1
        yield listening() - before


@pytest.mark.parametrize(
    "given", [{}, {"processes": False}, {"processes": False, "dashboard_address": None}]
)
def test_it_listens_nowhere_but_on_its_host(given):
    with opened(**given) as found:
        assert len(found) >= 2
        assert all(ipaddress.ip_address(address).is_loopback for address, _ in found), found


def test_a_setting_opens_the_dashboard_and_no_more():
    with dask.config.set({"chunkfold.dashboard.address": ":0"}), opened(processes=False) as found:
        ((_, port),) = [one for one in found if one[0] in ("0.0.0.0", "::")]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            assert answer.read() == b"ok"


def test_a_setting_that_is_no_place_is_refused():
    with (
        dask.config.set({"chunkfold.dashboard.address": "everywhere"}),
        pytest.raises(cf.PlanError, match="is 'everywhere'; give HOST:PORT"),
    ):
        cf.LocalOpenCLCluster([DEVICES[0]])
