"""What may pass is tried again, and nothing else."""

from __future__ import annotations

import pytest
from aiohttp import ClientPayloadError, ClientResponseError, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from chunkfold.refusals import RefusedError
from chunkfold.stores import transient_faults
from chunkfold.stores.transient_faults import Fault, fault_of


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
    with pytest.raises(RefusedError, match=r"alone for 3,600 s .* again for 60 s"):
        transient_faults.TRIES(read)
