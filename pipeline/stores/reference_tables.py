"""Tables of references, as fsspec lays them out in Parquet files, opened with pyarrow.

fsspec reads them by way of pandas, which makes NaN of what is not stored, and takes it for a path.
"""

from __future__ import annotations

import io
import math
import re
from functools import lru_cache
from typing import Any

from fsspec.core import split_protocol, url_to_fs
from fsspec.implementations.reference import LazyReferenceMapper, ReferenceFileSystem

_KEPT = 64
"""Tables that are held at once."""
_CHUNK = re.compile(r"\d+(\.\d+)*")
_COLUMNS = ("path", "offset", "size", "raw")


class _Tables(LazyReferenceMapper):  # type: ignore[misc] # fsspec has no annotations
    """References by key; of each table, which has thousands, all or none are held."""

    def setup(self) -> None:
        """Read what is in all of them."""
        super().setup()

        @lru_cache(maxsize=_KEPT)
        def open_refs(field: str, record: int) -> dict[str, list[Any]]:
            import pyarrow.parquet as pq

            content = self.fs.cat_file(self.url.format(field=field, record=record))
            table = pq.read_table(io.BytesIO(content))
            there = [name for name in _COLUMNS if name in table.schema.names]
            return {name: table[name].to_pylist() for name in there}

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


class TabledReferences(ReferenceFileSystem):  # type: ignore[misc] # as above
    """The files that tables of references make up. Pickles as the address of the tables.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    """

    cachable = False  # others may have written them anew

    def __init__(self, tables: str, **options: Any) -> None:
        import pyarrow.parquet as pq

        assert pq
        files, root = url_to_fs(tables)
        references = _Tables(root, fs=files)
        super().__init__({}, remote_protocol=_protocol(references), **options)
        self.references = references


def _protocol(references: _Tables) -> str | None:
    """Return how the first file that they refer to is reached; None if as local ones are."""
    arrays = (key for key in references.zmetadata if key.endswith("/.zarray"))  # not groups
    for field in sorted(key.removesuffix("/.zarray") for key in arrays):
        count = math.prod(references._get_chunk_sizes(field))
        for record in range(math.ceil(count / references.record_size)):
            try:
                paths = references.open_refs(field, record).get("path", [])
            except FileNotFoundError:  # nothing is stored of so many chunks
                continue
            if path := next(filter(None, paths), None):
                protocol: str | None = split_protocol(path)[0]
                return protocol
    return None
