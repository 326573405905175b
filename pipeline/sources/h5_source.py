"""HDF5 datasets as sources: h5py's own, and those that are named by file and path."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.bad_chunks import BadChunk
from chunkfold.boxes import region_shape
from chunkfold.errors import ChangedError, ChunkfoldError, SourceError, TargetError, unreadable
from chunkfold.kernels.feed.commands import Runs
from chunkfold.sources.array_source import copied, cut_in_memory
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.declared_source import DeclaredSource
from chunkfold.sources.h5_attributes import attributes_of, dims_of, extents_of
from chunkfold.sources.h5_storage import file_of, fills, filters_of, stored_runs, with_others
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected
from chunkfold.stores.h5_files import H5File
from chunkfold.stores.h5_targets import check_links, files_behind, targets_of

MOST_LISTED = 1 << 16
"""Chunks up to which a dataset is asked which of them are stored: it tells 1 a microsecond."""
_KEPT_BYTES = 8 << 20
"""The most bytes of a dataset's chunks that HDF5 caches by default."""


@dataclass(frozen=True, repr=False, eq=False)
class H5Source(DeclaredSource):
    """A dataset of an HDF5 file: it travels as the file, its own path and how that is opened.

    One without chunks is cut where about 4 MiB meet.
    """

    path: str
    """The path in the file."""
    file: H5File | None
    """None if nobody else can open it: one in memory, or behind an object of Python's."""
    filters: tuple[str, ...] = ()
    """Names of the filters that encode its chunks."""
    chunked: bool = False
    filled: bool = True
    """True if elements that were never written have a value."""
    fill_value: Any = 0
    written: tuple[int, ...] = ()
    """The extents that HDF5 has; what `shape` has beyond them is fill."""
    names: tuple[str | None, ...] | None = None
    noted: Mapping[str, Any] = field(default_factory=dict)
    dataset: Any = None
    """h5py's, if it was given as one: it stays in this process."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out h5py's dataset, which does not pickle."""
        return {**self.__dict__, "dataset": None}

    def __repr__(self) -> str:
        return f"<H5Source {self.name}: {self.dtype}, shape {self.shape}>"

    @property
    def dims(self) -> tuple[str | None, ...] | None:
        """Names of the axes: labels, or the names of their scales."""
        return self.names

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes of the dataset, without those of the format."""
        return self.noted

    @property
    def fill(self) -> Any:
        """The value of elements that were never written."""
        return self.fill_value

    @property
    def kind(self) -> str:
        """Return the format, and the filters if it has any."""
        return f"HDF5, {', '.join(self.filters)}" if self.filters else "HDF5"

    @property
    def travels(self) -> bool:
        """Return True if other processes can open its file."""
        return self.file is not None

    @property
    def local_path(self) -> str | None:
        """Return the path of its file."""
        return None if self.file is None else self.file.path

    @property
    def own_addresses(self) -> Sequence[str]:
        """The paths of its file, and of files that links and virtual datasets lead to."""
        own = [self.local_path or self.name]
        with suppress(OSError, KeyError, ChunkfoldError), self._opened() as dataset:
            own.append(dataset.file.filename)
            own += [] if self.file is None else files_behind(dataset, targets_of(self.file))
        return own

    @property
    def as_it_is(self) -> bool:
        """Return True if it has no filters, so that a part of a chunk can be read alone."""
        return not self.filters

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:
        """Return the bytes of chunks, of one more before and after filters, and of HDF5's cache."""
        cell = math.prod(self.unit) * self.dtype.itemsize
        kept = _KEPT_BYTES if self.file is None else dict(self.file.options).get("rdcc_nbytes", 0)
        own = super().reading_bytes(leaf_bytes, touched_bytes)
        return own + 2 * cell + min(kept, self.nbytes)

    def check_unchanged(self) -> None:
        """Notice that its file was written to while it was read."""
        if self.file is not None:
            try:
                self.file.check()
            except ChangedError as error:
                raise ChangedError(f"{self.name}: changed while it was read: {error}") from error

    def parted(self, regions: Sequence[Sequence[slice]]) -> Source:
        """Return it, or of one that nobody else can open copies of regions."""
        return self if self.travels else copied(self, regions)

    def listing(self) -> Listing | None:
        """List which chunks were written, where there are few; None where nothing can be told."""
        grid = self.object_grid
        if not (self.chunked and self.filled) or math.prod(grid) > MOST_LISTED:
            return None
        sizes = np.zeros(grid, np.uint64)
        units = self.unit

        def note(chunk: Any) -> None:
            place = tuple(n // unit for n, unit in zip(chunk.chunk_offset, units, strict=True))
            if all(n < count for n, count in zip(place, grid, strict=True)):
                sizes[place] = max(1, chunk.size)

        try:
            with self._opened(kept=False) as dataset:
                dataset.id.chunk_iter(note)
        except Exception:  # noqa: BLE001 # whoever reads it says what is wrong
            return None
        state = None if self.file is None else self.file.state
        return Listing(sizes, 0 if state is None else state.modified)

    def tells_missing(self, *, listed: bool) -> bool:
        """Only by a listing: HDF5 fills in what was never written."""
        return listed or not self.chunked

    def reopened(self) -> Source:
        """Return it as it is now, or raise `SourceError`."""
        if self.file is None:
            return self
        try:
            file = H5File.at(self.file.path, self.file.options, self.file.allowed)
            with file.opened(kept=False) as opened:
                check_links(opened, self.path, targets_of(file))
                return h5_source(opened[self.path], self.name, file, self.path)
        except TargetError:
            raise
        except Exception as error:
            raise SourceError(f"{self.name}: cannot be opened again ({error})") from error

    def read(self, region: Sequence[slice], out: np.ndarray, known: Expected | None = None) -> None:
        """Read a region through h5py, which lets one thread at a time."""
        del known  # HDF5 fills in what was never written
        try:
            with self._opened() as dataset:
                self._compare(dataset)
                _read(dataset, tuple(region), out, self.fill_value if self.filled else None)
        except Exception as error:
            place = "[" + ", ".join(f"{cut.start}:{cut.stop}" for cut in region) + "]"
            store = "memory" if self.file is None else self.file.path
            reason = f"{type(error).__name__}: {error}"
            bad = BadChunk(self.name, "region", place, self.filters, store, reason)
            raise unreadable(bad, error) from error

    def file_runs(
        self, region: Sequence[slice], known: Expected | None, *, in_turn: bool
    ) -> Runs | None:
        """Return where the bytes of a region are in its file, if they are there as they are."""
        del known  # the file says what is stored
        beyond = any(cut.stop > size for cut, size in zip(region, self.written, strict=True))
        if self.filters or self.file is None or beyond:
            return None
        try:
            with self._opened() as dataset:
                self._compare(dataset)
                return stored_runs(self.file, dataset, region, in_turn=in_turn)
        except Exception:  # noqa: BLE001 # `read` says what is wrong
            return None

    @contextmanager
    def _opened(self, *, kept: bool = True) -> Iterator[Any]:
        if self.dataset is not None:
            yield self.dataset
            return
        assert self.file is not None
        with self.file.opened(kept=kept) as file:
            yield file[self.path]

    def _compare(self, dataset: Any) -> None:
        """Raise if a dataset cannot hold the elements that were planned."""
        cut = len(dataset.shape) != len(self.written) or any(
            now < then for now, then in zip(dataset.shape, self.written, strict=True)
        )
        if cut or dataset.dtype != self.dtype:
            raise ChangedError(
                f"it was {self.dtype} of shape {self.written} when the run was planned, and is "
                f"{dataset.dtype} of {dataset.shape}"
            )


def _read(dataset: Any, region: tuple[slice, ...], out: np.ndarray, fill: Any) -> None:
    """Read a region. Elements beyond the dataset's extents are `fill`.

    None: HDF5 has no fill value, and leaves what was never written as it is; those are 0.
    """
    ends = [min(cut.stop, length) for cut, length in zip(region, dataset.shape, strict=True)]
    stored = tuple(
        slice(cut.start, max(cut.start, end), cut.step)
        for cut, end in zip(region, ends, strict=True)
    )
    shape = region_shape(stored)
    if fill is None or shape != out.shape:
        out[...] = np.zeros((), out.dtype) if fill is None else fill
    if 0 in shape:
        return
    within: tuple[Any, ...] = (*map(slice, shape), ...)
    into = out[within]
    if not stored or not into.flags.c_contiguous:
        into[...] = dataset[stored]
        return
    # By HDF5's own dtype, which says of times and enumerations what NumPy's does not.
    dataset.read_direct(into.view(dataset.dtype), stored)


def h5_source(
    dataset: Any, name: str, file: H5File | None, path: str, *, held: bool = False
) -> H5Source:
    """Return a dataset of h5py's as a source; one that is `held` is read as it was given.

    `path` leads to it in `file`, through links too.

    Raises
    ------
    SourceError
        If it has no elements, or a filter of it is not there, or a file that it is made of.
    """
    if dataset.shape is None:
        raise SourceError(f"{name}: has no elements and no shape: it is a null dataset of HDF5")
    plist = dataset.id.get_create_plist()
    filters = tuple(filters_of(plist, name))
    shape = extents_of(dataset)
    dtype = dataset.dtype
    # Without what h5py notes in it, which a pickle would lose.
    element = np.dtype(dtype.str) if dtype.names is None and dtype.kind != "O" else dtype
    if dataset.chunks is None:
        cells = cut_in_memory(shape, element.itemsize)
    else:
        cells = tuple(map(Cells, shape, map(int, dataset.chunks)))
    return H5Source(
        name=name,
        path=path,
        element=element,
        cells=cells,
        file=None if file is None else with_others(file, dataset, name),
        filters=filters,
        chunked=dataset.chunks is not None,
        filled=fills(plist),
        fill_value=np.asarray(dataset.fillvalue, element)[()] if element.kind in "biufc" else 0,
        written=tuple(map(int, dataset.shape)),
        names=dims_of(dataset),
        noted=attributes_of(dataset),
        dataset=dataset if held else None,
    )


def given_source(dataset: Any, allowed: tuple[str, ...] = ()) -> H5Source:
    """Return a dataset that h5py has open as a source.

    Raises
    ------
    SourceError
        As `h5_source`, or if its file is closed.
    """
    if not dataset:
        raise SourceError("an h5py dataset whose file is closed: open that again")
    # One that is reached through a link may say the link's name, which is none in its own file.
    found = dataset.name is not None and dataset.file.get(dataset.name) == dataset
    file = file_of(dataset.file, allowed) if found else None
    where = str(dataset.file.filename) if file is None else file.path
    return h5_source(dataset, f"{where}{dataset.name}", file, dataset.name or "", held=True)
