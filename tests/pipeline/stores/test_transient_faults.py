"""What may pass is tried again, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import obstore
import pytest
from aiohttp import ClientPayloadError, ClientResponseError, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from obstore.exceptions import GenericError
from obstore.store import HTTPStore
from yarl import URL

from chunkfold.http_denials import RefusedError
from chunkfold.stores import transient_faults
from chunkfold.stores.transient_faults import Fault, fault_of
from tests.web import served


def answered(status: int, **headers: str) -> ClientResponseError:
    url = URL("http://h/a")
    asked = RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    return ClientResponseError(asked, (), status=status, headers=CIMultiDict(headers))


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ConnectionResetError("reset"), Fault(busy=False)),
        (TimeoutError("timed out"), Fault(busy=True)),
        (FileNotFoundError(), None),
        (PermissionError(), None),
        (ValueError("bad frame"), None),
        (OSError("status code: 429 Too Many"), Fault(busy=True, answered=True)),
        (OSError("status code: 408 Late"), Fault(busy=True)),
        (OSError("status code: 500 Oh"), Fault(busy=False)),
        (OSError("status code: 403 Forbidden"), None),
        (answered(503), Fault(busy=True, answered=True)),
        (answered(401), None),
        (ClientPayloadError("cut"), Fault(busy=False)),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, fault: Fault | None):
    assert fault_of(error) == fault


@pytest.mark.parametrize("failure", ["close", "hang"])
def test_a_connection_that_is_closed_is_no_sign_of_load(tmp_path: Path, failure: str):
    seconds = {"read_timeout": timedelta(seconds=1)}
    with served(tmp_path, failing=lambda _path, _before: failure) as web:
        store = HTTPStore.from_url(
            web.url, client_options={"allow_http": True, **seconds}, retry_config={"max_retries": 0}
        )
        with pytest.raises(GenericError) as found:
            obstore.get(store, "a")
    assert fault_of(found.value) == Fault(busy=failure == "hang")


def test_a_server_that_sends_another_range_is_not_asked_again():
    assert fault_of(GenericError("Requested 104..172, got 0..68")) is None


def test_stores_of_others_are_tried_when_servers_want_it(monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []
    monkeypatch.setattr(transient_faults.TRIES, "sleep", slept.append)
    failures = [answered(503, **{"Retry-After": "30"}), answered(429)]

    def read() -> int:
        if failures:
            raise failures.pop(0)
        return 7

    assert transient_faults.TRIES(read) == 7
    assert 30 <= slept[0] < 45
    assert slept[1] < 10
    failures.append(answered(503, **{"Retry-After": "3600"}))
    with pytest.raises(RefusedError, match=r"pause of 3,600 s .* again for 60 s"):
        transient_faults.TRIES(read)
