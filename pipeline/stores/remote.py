"""Stored objects behind a network, by obstore: S3, GCS, Azure, HTTP.

Requests for objects that fail by the server's or the network's fault are tried again by `flight`,
listings by obstore and `listing`, with growing pauses between.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chunkfold.errors import ChangedError, SourceError
from chunkfold.http_denials import RefusedError, denial, refusal, status_of
from chunkfold.redaction import without_secrets
from chunkfold.stores.expected import UNTOLD, ObjectState
from chunkfold.stores.fetching import (
    Fetched,
    ServerStore,
    SpansOf,
    fetched,
    server_store_of,
    whole_of,
)
from chunkfold.stores.listing import Entry, listed
from chunkfold.stores.object_answers import answer_now, is_web_server
from chunkfold.stores.objects import Span, StoredObject
from chunkfold.stores.obstore_clients import LISTED, open_store
from chunkfold.stores.requests import PendingResponse, flight

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or for public data AWS_SKIP_SIGNATURE=true",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or for public data GOOGLE_SKIP_SIGNATURE=true",
}
_H5 = re.compile(r"\.(?:h5|hdf5|he5|nc|nc4|cdf)(?:/[^?#]*)?(?:[?#]|$)", re.IGNORECASE)
"""The end of an address of an HDF5 file, or of a path in one."""
_SCHEME = re.compile(r"(\w+)://")
_EXTRAS = {"fsspec": "remote", "icechunk": "icechunk", "obstore": "remote", "pyarrow": "parquet"}
"""The extra of this package that installs each other package."""
_OF_THE_CLOUD = "169.254.169.254"
"""The host that gives credentials to cloud machines: it is asked when none are set elsewhere."""
_OPENING = threading.Lock()
"""Held while a store for near requests is opened."""


@dataclass(frozen=True)
class RemoteObjects:
    """Objects below a path of a store of obstore's."""

    store: Any
    path: str
    missing: frozenset[int] = frozenset()
    """Statuses of answers that mean that an object is not stored, beside 404."""
    hasty: Any = None
    """The same store, which does not try again by itself, if there is such a one."""
    near: Callable[[], Any] | None = None
    """Opens the same for `near_requests`: it does not wait long either."""
    planned: int = UNTOLD
    """The time when the run was planned, by the server's clock: later writes are refused."""

    @property
    def where(self) -> str:
        """The store, which tells no secrets, and the path."""
        return without_secrets(f"{self.store}/{self.path}".rstrip("/"))

    @property
    def listable(self) -> bool:
        """Return True if the store can list its objects: plain HTTP cannot."""
        return not is_web_server(self.store)

    @cached_property
    def server(self) -> ServerStore:
        """Whom it asks."""
        return server_store_of(self.store, self.hasty, self.planned)

    def start(
        self,
        key: str,
        whole: int,
        index: Span | None,
        nbytes: int,
        spans_of: SpansOf | None,
        most: int,
    ) -> PendingResponse[Fetched | None]:
        """Ask for an object, and go on; parameters as `open`.

        Parameters
        ----------
        nbytes
            About so many bytes will come: there must be room for them.
        spans_of
            What is wanted of it besides the index.
        """

        async def fetch() -> Fetched | None:
            try:
                return await fetched(self.server, self._at(key), whole, most, index, spans_of)
            except Exception as error:
                if not self._means_missing(error):
                    raise
                return None

        return flight().start(nbytes, fetch)

    def is_asked_now(self, nbytes: int) -> bool:
        """Return True if it is better to `open` an object of so many bytes than to `start` it."""
        return self._room_now(nbytes) > 0

    def _room_now(self, nbytes: int) -> int:
        """Return how many requests threads may make by themselves at once; 0 for none."""
        server = flight().server(self.server.name)
        asked = self.near is not None and server.near.is_asked(nbytes)
        return server.room if asked else 0

    def _now(self, key: str, nbytes: int, most: int) -> PendingResponse[Fetched | None]:
        """Ask for a whole object, and wait; by the event loop where that is better, or it fails."""
        if not (room := self._room_now(nbytes)):
            return self.start(key, nbytes, None, nbytes, None, most)
        landing: PendingResponse[Fetched | None] = PendingResponse()
        try:
            with _OPENING:  # the first of many threads opens it, before time is taken
                store = self._near_store
            with flight().server(self.server.name).near.request(nbytes, room) as free:
                if free:
                    landing.set_result(self._fetched_now(store, key, most))
                    return landing
        except (ChangedError, ValueError) as error:  # another answer would not be another array's
            landing.set_exception(error)
            return landing
        except Exception:  # noqa: BLE001, S110 # it is asked for again, and what fails then is said
            pass
        return self.start(key, nbytes, None, nbytes, None, most)

    def _fetched_now(self, store: Any, key: str, most: int) -> Fetched | None:
        try:
            answer = answer_now(store, self._at(key), most)
        except Exception as error:
            if not self._means_missing(error):
                raise
            return None
        answer.state.refuse_later(self.planned)
        return whole_of(self.server, self._at(key), answer, most)

    @cached_property
    def _near_store(self) -> Any:
        assert self.near is not None
        return self.near()

    def _at(self, key: str) -> str:
        """Return the path of an object in the store."""
        return f"{self.path}/{key}" if self.path else key

    @contextlib.contextmanager
    def open(
        self, key: str, whole: int, index: Span | None, most: int
    ) -> Iterator[StoredObject | None]:
        """Ask for the object, or for what of it is read first, and wait for it."""
        if index is None:
            asked = self._now(key, whole, most)
        else:
            asked = self.start(key, whole, index, index[1], None, most)
        with landed(asked) as found:
            yield found

    def _means_missing(self, error: Exception) -> bool:
        """Return True if an error means that an object is not stored."""
        if isinstance(error, FileNotFoundError):
            return True
        return status_of(error) in self.missing and not refusal(error)

    def state(self, key: str) -> ObjectState | None:
        """Ask for the size and the time of an object."""
        with said_shortly():
            try:
                return flight().waited(lambda: self.server.head(self._at(key)))
            except Exception as error:  # obstore has dozens
                if not self._means_missing(error):
                    raise
                return None

    def entries(self, marks: Sequence[str] = ()) -> Iterator[Entry]:
        """Yield key, size and time of every object below the path.

        As `listing.listed`.

        Raises
        ------
        OSError
            If they cannot be listed, or not in time.
        """
        with said_shortly():
            yield from listed(self.store, self.path, marks)


@contextlib.contextmanager
def landed(landing: PendingResponse[Fetched | None]) -> Iterator[StoredObject | None]:
    """Wait for an object that was asked for; None if it is not stored. It is closed behind that."""
    try:
        with said_shortly():
            found = landing.result()
        yield found
    finally:
        landing.close()


@contextlib.contextmanager
def said_shortly() -> Iterator[None]:
    """Leave the first line of what obstore says, without secrets: the others help debug it."""
    try:
        yield
    except (FileNotFoundError, ImportError, RefusedError, SourceError):
        raise
    except Exception as error:  # noqa: BLE001 # obstore has dozens
        kind = RefusedError if refusal(error) else OSError
        raise kind(message_of(error)) from None


def message_of(error: Exception) -> str:
    """Return the first line of what an error says, or what a server means by it; without secrets.

    What servers say beside the status, and how long it took, is not the same each time.
    """
    if told := denial(error):
        return without_secrets(told)
    line = re.sub(r"(status code: \d+ [A-Za-z' -]*\w).*", r"\1", str(error).partition("\n")[0])
    return without_secrets(re.sub(r" in [\d.]+(ns|µs|us|ms|s)\b", "", line))


def missing_of(error: ImportError) -> str:
    """Say which package an address needs, other than those that are installed.

    >>> missing_of(ImportError("Install s3fs to access S3"))
    'this kind of URL needs another package (Install s3fs to access S3)'
    """
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    remedy = f": pip install 'chunkfold[{extra}]'" if extra else ""
    return f"this kind of URL needs another package ({error}){remedy}"


def nothing_at(url: str) -> str:
    """Say why nothing may be found at a URL: there is no such bucket; empty if there is one.

    To readers of keys a bucket that is not there has none of them.
    """
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in LISTED or "::" in rest:
        return ""
    import obstore

    try:
        next(iter(obstore.list(open_store(url), chunk_size=1)), None)
    except Exception as error:  # noqa: BLE001 # it may be that they cannot be listed
        return without_secrets(refusal(error))
    return ""


def hint(address: str, message: str) -> str:
    """Say what may help where a store could not be opened; empty if nothing is known to."""
    if _H5.search(address):
        return "; files of HDF5 are read from a local disk: copy it, or write references of it"
    scheme = "".join(_SCHEME.findall(address)[-1:]).lower()
    if _OF_THE_CLOUD in message and scheme[:2] in _CREDENTIALS:
        return f"; no credentials were found: set {_CREDENTIALS[scheme[:2]]}"
    if "argument: 'fo'" in message:
        return f"; name the file that contains it: {address.partition('://')[0]}://PATH::FILE"
    if "Protocol not known" in message:
        return "; use a path, or a URL of file, s3, gs, az, http, https, or another one of fsspec"
    return ""
