"""Open Zarr arrays, v2 and v3, and read boxes of them into given memory."""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import zarr
from zarr.buffer.cpu import NDBuffer
from zarr.storage import LocalStore, MemoryStore, ObjectStore, ZipStore

from chunkfold.codecs import package_of
from chunkfold.direct import Direct
from chunkfold.errors import ChunkError, DeviceError, SourceError
from chunkfold.grid import Cells
from chunkfold.kernels.dtypes import stored_name
from chunkfold.objects import Known
from chunkfold.remote import (
    SCHEMES,
    TRIES,
    hint,
    message_of,
    open_store,
    said_shortly,
    without_secrets,
)
from chunkfold.route import direct_of, fill_value
from chunkfold.stored import stored_sizes

# A README or a script beside arrays is nobody's fault.
warnings.filterwarnings("ignore", message=".* is not recognized as a component of a Zarr hierarchy")

AnyArray: TypeAlias = "zarr.Array[Any]"


@dataclass(frozen=True, repr=False)
class Source:
    """A Zarr array as planners and workers see it. Pickles small."""

    array: AnyArray
    name: str
    """How messages call it."""

    def __repr__(self) -> str:
        return f"<Source {self.name}: {self.dtype}, shape {self.shape}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype:
        """Element dtype, in the array's byte order."""
        return np.dtype(self.array.dtype)

    @property
    def cell(self) -> tuple[int, ...]:
        """Shape of what is decoded at once: a chunk, or else a shard where zarr reads it."""
        return tuple((self.direct is None and self.array.shards) or self.array.chunks)

    @property
    def remote(self) -> bool:
        """Whether reading it is waiting for a network more than anything."""
        return not isinstance(self.array.store, (LocalStore, MemoryStore, ZipStore))

    @property
    def object_shape(self) -> tuple[int, ...]:
        """Shape of what is stored as one object: a shard, or else a chunk."""
        return tuple(max(1, size) for size in self.array.shards or self.array.chunks)

    @property
    def fill(self) -> Any:
        """The value of elements that are not stored."""
        return fill_value(self.array)

    @property
    def cells(self) -> tuple[Cells, ...]:
        """Where stored objects meet along each axis."""
        return tuple(
            Cells(size, max(1, cell)) for size, cell in zip(self.shape, self.cell, strict=True)
        )

    @property
    def nbytes(self) -> int:
        """Decoded bytes of the whole array."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def stored(self) -> np.ndarray | None:
        """Return the bytes of each stored object; see `chunkfold.stored`."""
        return stored_sizes(self.array)

    def described(self) -> list[str]:
        """Say what it is, for the plan."""
        array = self.array
        shards = f" in shards of {array.shards}" if array.shards else ""
        cells = f"chunks of {array.chunks}{shards}"
        route = "decoded in place" if self.direct is not None else "decoded by zarr, copied"
        return [
            f"source    {self.name}",
            f"          {self.dtype}, shape {self.shape}, {cells}; {route}",
        ]

    def check_unchanged(self) -> None:
        """Notice an array that was replaced or removed while it was read.

        Chunks that are missing are fill by Zarr's rules: without its metadata they are nothing.

        Raises
        ------
        SourceError
            If its metadata are gone or others.
        """
        try:
            now = _as_stored(self.array)
        except Exception as error:
            raise SourceError(f"{self.name}: vanished while it was read ({error})") from error
        # As text: NaN and NaT, as fill values, equal nothing.
        if str(now.metadata.to_dict()) != str(self.array.metadata.to_dict()):
            raise SourceError(f"{self.name}: its metadata changed while it was read")

    @cached_property
    def direct(self) -> Direct | None:
        """How its chunks are read without zarr, if they can be."""
        return direct_of(self.array)

    def read(self, region: Sequence[slice], out: np.ndarray, known: Known | None = None) -> None:
        """Decode a region into `out`, whose shape and dtype are the region's.

        `known` says which of its objects are stored, if that is known.

        Raises
        ------
        ChunkError
            If any chunk of it cannot be read or decoded.
        """
        if self.direct is not None:
            self.direct.read(self.name, region, out, known)
        else:
            self._read_by_zarr(region, out)

    def _read_by_zarr(self, region: Sequence[slice], out: np.ndarray) -> None:
        try:
            read, into = self.array.get_basic_selection, NDBuffer.from_numpy_array(out)
            if self.remote:
                TRIES(read, tuple(region), out=into)
            else:
                read(tuple(region), out=into)
        except Exception as error:
            store = without_secrets(str(self.array.store_path))
            raise ChunkError(
                f"{self.name}: cannot read {self._named_cell(region)} "
                f"(codecs {_codecs(self.array)}; {store}): {type(error).__name__}: "
                f"{message_of(error)}"
            ) from error

    def _named_cell(self, region: Sequence[slice]) -> str:
        """Name the first cell of a region that cannot be read, or the region if all of them can."""
        cuts = [
            range(cut.start // size, (cut.stop - 1) // size + 1)
            for cut, size in zip(region, self.cell, strict=True)
        ]
        for place in itertools.product(*cuts):
            box = tuple(
                slice(n * size, (n + 1) * size) for n, size in zip(place, self.cell, strict=True)
            )
            try:
                self.array.get_basic_selection(box)
            except Exception:  # noqa: BLE001 # whatever it is: this one it is of
                return f"chunk {self.array.metadata.encode_chunk_key(place)!r}"
        return "[" + ", ".join(f"{cut.start}:{cut.stop}" for cut in region) + "]"


def _as_stored(array: AnyArray) -> AnyArray:
    """Open an array anew: one that was just made may say its dtype in other words."""
    return zarr.open_array(store=array.store, path=array.path, mode="r")


def _codecs(array: AnyArray) -> str:
    names = [type(codec).__name__ for codec in array.compressors]
    return ", ".join(names) if names else "none"


def open_source(source: Any) -> Source:
    """Open what a user names: a path or URL of a Zarr array, or a zarr.Array.

    Raises
    ------
    SourceError
        If there is nothing there, it is a group (its arrays are named), it is no Zarr, or its
        dtype cannot be reduced.
    """
    node, name = (source.array, source.name) if isinstance(source, Source) else _named(source)
    if isinstance(node, zarr.Group):
        raise SourceError(f"{name}: is a Zarr group, not an array; {_inside(node, name)}")
    try:
        stored_name(np.dtype(node.dtype))
    except (DeviceError, TypeError) as error:
        raise SourceError(f"{name}: {error}") from None
    return Source(node, name)


def open_all(source: Any) -> list[Source]:
    """Open every array of a group, in the order of their paths; or the one array that is named.

    Their dtypes need not be such as can be reduced: `open_source` of each tells.

    Raises
    ------
    SourceError
        If there is nothing there, it is no Zarr, it cannot be listed, or has no arrays.
    """
    node, name = _named(source)
    if isinstance(node, zarr.Array):
        return [Source(node, name)]
    try:
        nodes = sorted(node.members(max_depth=None))
    except Exception as error:
        raise SourceError(f"{name}: cannot be listed ({message_of(error)})") from error
    found = [
        Source(inner, f"{name.rstrip('/')}/{key}")
        for key, inner in nodes
        if isinstance(inner, zarr.Array)
    ]
    if not found:
        raise SourceError(f"{name}: is a Zarr group without arrays")
    return found


def _named(source: Any) -> tuple[AnyArray | zarr.Group, str]:
    """Open an array or a group; return what messages call it, too."""
    if isinstance(source, zarr.Group):
        return source, str(source.store_path)
    if isinstance(source, zarr.Array):
        name = str(source.store_path)
        try:
            return _as_stored(source), name
        except Exception as error:
            raise SourceError(f"{name}: cannot be opened again ({error})") from error
    if isinstance(source, (str, os.PathLike)):
        address = os.path.expanduser(os.fspath(source))  # noqa: PTH111 # it may be a URL
        name = without_secrets(address) if "://" in address else address
        return _opened(address, name), name
    raise SourceError(
        f"a source is a path or URL of a Zarr array or a zarr.Array, not {type(source).__name__}"
    )


def _opened(address: str, name: str) -> AnyArray | zarr.Group:
    """Open an array or a group; `name` is what messages call its address."""
    local = "://" not in address and "::" not in address
    try:
        if local and not Path(name).exists():
            raise SourceError(f"{name}: no such path{_nearest(Path(name))}")
        return zarr.open(_store(address), mode="r")
    except SourceError:
        raise
    except ImportError as error:
        raise SourceError(
            f"{name}: this kind of URL needs another package ({error}); "
            "try pip install 'chunkfold[remote]'"
        ) from error
    except Exception as error:
        missing = re.search(r"codec[^']*'+([\w.]+)'", str(error))
        if type(error).__name__ == "UnknownCodecError" and missing:
            raise SourceError(
                f"{name}: its codec {missing[1]!r} is not installed; {package_of(missing[1])}"
            ) from error
        message = message_of(error)
        what = "not a Zarr array or group" if local else "cannot be opened as a Zarr array"
        raise SourceError(
            f"{name}: {what} ({type(error).__name__}: {message})"
            + hint(address.partition("://")[0], message)
        ) from error


def _store(address: str) -> Any:
    """Return what zarr is to open: a store, or the name of one that it knows how to open."""
    scheme, found, rest = address.partition("://")
    if found and "::" not in address and scheme.lower() in SCHEMES:
        with said_shortly():
            return ObjectStore(open_store(f"{scheme.lower()}://{rest}"), read_only=True)
    return ZipStore(address) if address.endswith(".zip") else address


def _nearest(path: Path) -> str:
    """Say how far a path that does not exist can be followed."""
    parent = next((p for p in path.parents if p.exists()), None)
    if parent is None or parent in (Path(), Path("/")):
        return ""
    try:
        node = zarr.open(str(parent), mode="r")
    except Exception:  # noqa: BLE001 # a hint, for whatever the parent is
        return f" ({parent} exists)"
    if isinstance(node, zarr.Array):
        return f" ({parent} is an array)"
    return f" ({parent} is a Zarr group; {_inside(node, str(parent))})"


def _inside(group: zarr.Group, name: str) -> str:
    try:
        nodes = group.members(max_depth=None)
    except Exception as error:  # noqa: BLE001 # plain web servers do not list
        return f"name one of its arrays: it cannot be listed ({message_of(error)})"
    arrays = [key for key, node in nodes if isinstance(node, zarr.Array)]
    if not arrays:
        return "there are no arrays in it"
    shown = ", ".join(f"{name.rstrip('/')}/{key}" for key in sorted(arrays)[:20])
    more = f" and {len(arrays) - 20} more" if len(arrays) > 20 else ""
    return f"its arrays: {shown}{more}"
