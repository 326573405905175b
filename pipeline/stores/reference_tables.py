"""Tables of references, as fsspec lays them out in Parquet files, opened with pyarrow.

fsspec reads them by way of pandas, which makes NaN of what is not stored, and takes it for a path.
"""

from __future__ import annotations

import io
import re
from functools import lru_cache
from typing import Any

from fsspec.implementations.reference import LazyReferenceMapper

from chunkfold.errors import SourceError
from chunkfold.redaction import without_secrets
from chunkfold.stores.reference_files import CheckedReferences, fetched, files_of
from chunkfold.stores.targets import Targets

_KEPT = 64
"""Tables that are held at once."""
_CHUNK = re.compile(r"\d+(\.\d+)*")
_COLUMNS = ("path", "offset", "size", "raw")
_TEXTS = ["path", "raw"]
_MOST_ROWS = 10_000_000
"""The most rows of a table: writers make ten thousand."""


class _Tables(LazyReferenceMapper):  # type: ignore[misc] # fsspec has no annotations
    """References by key; of each table, which has thousands, all or none are held."""

    def setup(self) -> None:
        """Read what is in all of them."""
        try:
            super().setup()
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise SourceError(f"its .zmetadata cannot be read ({error})") from error
        if not isinstance(self.zmetadata, dict) or type(self.record_size) is not int:
            raise SourceError("its .zmetadata are not those of tables of references")
        if self.record_size < 1:
            raise SourceError(f"its record_size is {self.record_size}: give a number of 1 or more")

        @lru_cache(maxsize=_KEPT)
        def open_refs(field: str, record: int) -> dict[str, list[Any]]:
            content = self.fs.cat_file(self.url.format(field=field, record=record))
            return _columns(content, f"{field}/refs.{record}.parq")

        self.open_refs = open_refs

    def _load_one_key(self, key: str) -> Any:
        """Return a reference; of what is neither metadata nor a chunk there is none.

        Raises
        ------
        KeyError
            If there is none.
        """
        last = key.rpartition("/")[2]
        if not last.startswith(".z") and not _CHUNK.fullmatch(last):
            raise KeyError(key)  # as of "zarr.json", which is asked for where there might be one
        return super()._load_one_key(key)


def _columns(content: bytes, name: str) -> dict[str, list[Any]]:
    """Return the columns of a table; equal texts are one, as they may be long and many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(io.BytesIO(content), read_dictionary=_TEXTS)
        if file.metadata.num_rows > _MOST_ROWS:
            raise SourceError(f"its table {name} has {file.metadata.num_rows:,} rows")
        there = [column for column in _COLUMNS if column in file.schema_arrow.names]
        table = file.read(columns=there)
        return {column: _values(table[column]) for column in there}
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"its table {name} cannot be read ({error})") from error


def _values(column: Any) -> list[Any]:
    found: list[Any] = []
    for chunk in column.chunks:
        if not hasattr(chunk, "dictionary"):
            found += chunk.to_pylist()
            continue
        texts = chunk.dictionary.to_pylist()
        found += [None if n is None else texts[n] for n in chunk.indices.to_pylist()]
    return found


class _Bounded:
    """Files of which no more is read than metadata may have."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def cat_file(self, path: str) -> bytes:
        return fetched(self._files, path, without_secrets(path))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


class TabledReferences(CheckedReferences):
    """The files that tables of references make up. Pickles as the address of the tables.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    """

    def __init__(self, tables: str, allowed: tuple[str, ...] = (), **options: Any) -> None:
        import pyarrow.parquet as pq

        assert pq
        targets = Targets(tables.rstrip("/"), allowed)
        files, root = files_of(tables.rstrip("/"), targets)
        super().__init__(targets, _Tables(root, fs=_Bounded(files)), **options)
        self.tables, self.allowed = tables, allowed

    def __reduce__(self) -> Any:
        return TabledReferences, (self.tables, self.allowed)

    def check(self, prefix: str) -> None:
        """Do nothing: there may be millions, in many tables; each is checked when it is read."""
