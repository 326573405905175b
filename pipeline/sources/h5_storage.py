"""Storage of an HDF5 dataset: its files, its filters, and its fill value."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from chunkfold.decoding.file_runs import runs_of_region
from chunkfold.errors import SourceError
from chunkfold.kernels.feed.commands import Runs
from chunkfold.stores.h5_files import H5File, H5Options
from chunkfold.stores.h5_targets import files_behind, targets_of

_DRIVERS = {"sec2": None, "stdio": "stdio"}
"""h5py's drivers of files that others open as well, and what they are opened with."""

_KNOWN = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 6: "scaleoffset", 32000: "lzf"}
"""Filters by their numbers, as h5py calls them."""


def with_others(file: H5File, dataset: Any, name: str) -> H5File:
    """Return a file with those that a dataset in it is in, or made of.

    Raises
    ------
    SourceError
        If one of these is not there: HDF5 would take its elements for fill; or is where the file
        may not lead.
    """
    own = os.path.abspath(str(dataset.file.filename))  # noqa: PTH100 # links stay
    try:
        return file.with_others({own} | files_behind(dataset, targets_of(file)))
    except OSError as error:
        raise SourceError(
            f"{name}: is made of other files, and one of them is missing ({error})"
        ) from error


def stored_runs(
    file: H5File, dataset: Any, region: Sequence[slice], *, in_turn: bool
) -> Runs | None:
    """Return where the bytes of a region of a dataset without filters are in the file it is in.

    None if any of them are nowhere in it, or HDF5 would change them, or may hold some back: where
    this process has the file open to write.
    """
    from h5py import h5t

    dtype, shape = dataset.dtype, dataset.chunks or dataset.shape
    own = os.path.abspath(str(dataset.file.filename))  # noqa: PTH100 # as `with_others`
    state = dict([*file.others, (file.path, file.state)]).get(own)
    if state is None or dataset.file.mode != "r" or dataset.file.userblock_size:
        return None
    if dtype.kind not in "biufc" or dataset.id.get_type() != h5t.py_create(dtype, logical=True):
        return None
    if (found := runs_of_region(region, shape, dtype.itemsize, in_turn=in_turn)) is None:
        return None
    box, runs = found
    if dataset.chunks is None:
        begins = [dataset.id.get_offset()]
    else:
        firsts = np.array(list(itertools.product(*box))) * shape
        begins = [dataset.id.get_chunk_info_by_coord(tuple(at)).byte_offset for at in firsts]
    if None in begins:
        return None
    runs[:, 1] += np.array(begins, np.int64)[runs[:, 0]]
    runs[:, 0] = 0
    return Runs([own], np.array([[state.size, state.modified, 1]]), runs)


def file_of(file: Any, allowed: tuple[str, ...]) -> H5File | None:
    """Return how others open a file that is open here; None if they cannot."""
    driver = str(file.driver)
    if driver not in _DRIVERS:
        return None
    if file.mode != "r":
        file.flush()  # others read what is on the disk
    _, slots, nbytes, preempted = file.id.get_access_plist().get_cache()
    given: dict[str, Any] = {"rdcc_nslots": slots, "rdcc_nbytes": nbytes, "rdcc_w0": preempted}
    if _DRIVERS[driver] is not None:
        given["driver"] = _DRIVERS[driver]
    if file.swmr_mode:
        given["swmr"] = True
    options: H5Options = tuple(sorted(given.items()))
    try:
        return H5File.at(file.filename, options, allowed)
    except OSError:  # it was removed, and lives as long as it is open
        return None


def fills(plist: Any) -> bool:
    """Return True if unwritten elements have a value; the creator may have chosen to have none."""
    from h5py import h5d

    return bool(
        plist.get_fill_time() != h5d.FILL_TIME_NEVER
        and plist.fill_value_defined() != h5d.FILL_VALUE_UNDEFINED
    )


def filters_of(plist: Any, name: str) -> Iterator[str]:
    """Yield the names of a dataset's filters, in the order in which chunks went through them.

    Raises
    ------
    SourceError
        If one is not there.
    """
    from h5py import h5z

    for number in range(plist.get_nfilters()):
        code, _, _, label = plist.get_filter(number)
        called = _KNOWN.get(code, label.decode(errors="replace").split(";")[0] or str(code))
        if not h5z.filter_avail(code):
            raise SourceError(
                f"{name}: its filter {called!r} (number {code}) is missing: pip install "
                "hdf5plugin brings most filters"
            )
        yield called
