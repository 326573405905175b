"""Write what elements are beside a statistic of their group: anomalies, for one."""

from __future__ import annotations

import hashlib
import math
import shutil
import warnings
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, Unpack

import numpy as np
import zarr
from distributed import Client

from chunkfold.boxes import Slices
from chunkfold.errors import PlanError
from chunkfold.events import OnEvent
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.option_table import Keywords
from chunkfold.planning.options import options_of, with_options
from chunkfold.planning.request import Request
from chunkfold.planning.resolve import asked
from chunkfold.positions import crossed
from chunkfold.results.attributes import carried_attributes
from chunkfold.results.companions import Companions
from chunkfold.results.coordinates import Kept
from chunkfold.results.quantities import Quantity, QuantityKind
from chunkfold.sources.cf_packing import attributes_for_zarr, packing_of
from chunkfold.sources.opening import open_node, open_zarr
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.workflows.as_zarr import write_companions
from chunkfold.workflows.changed_parts import write_changed
from chunkfold.workflows.normalize import check_applied
from chunkfold.workflows.project import write_projection
from chunkfold.workflows.staging_folder import staging_folder

TRANSFORMS = {"anomaly": ("mean",), "standardize": ("mean", "std"), "divide": ("mean",)}
"""Statistics of its group that each way to change an element needs."""
HELD_BYTES = 128 << 20
"""Bytes of a statistic up to which a process holds it; larger ones are read box by box."""
_REFUSED = ("keepdims", "coarsen", "boundary", "initial", "tendency")
_OF_STATISTICS = (
    "selection", "sel", "sel_method", "sel_tolerance", "where", "weights", "ledger_statistics",
)  # fmt: skip
"""Options of the statistics, and not of what is written."""


@dataclass(frozen=True)
class Transformation:
    """Elements on their way to be written, and the statistics that they are compared with."""

    how: str
    opened: ZarrSource
    request: Request
    """The reduction to the statistics."""
    whole: Request
    """The same of all elements, for the group of each."""
    dtype: np.dtype
    """Of what is written."""


@with_options
def transform(
    source: Any,
    out: str | Path,
    how: str,
    *,
    overwrite: bool = False,
    client: Client | None = None,
    on_event: OnEvent | None = None,
    **options: Unpack[Keywords],
) -> Any:
    """Compare each element with a statistic of its group, and write the results to a new Zarr.

    The array is read twice: for the statistics, and chunk by chunk for what is written, by the
    current Dask client or threads. Statistics that are large are in a hidden folder next to `out`
    meanwhile, and not in memory. Everything is computed in float64.

    Parameters
    ----------
    source
        A Zarr array of real numbers.
    out
        Folder of the new Zarr: a group of the array, called as the source, and its coordinates.
        Chunks, shards and names of axes are the source's.
    how
        "anomaly": x - mean. "standardize": (x - mean) / std. "divide": x / mean.
    overwrite
        Replace an existing output when the new one is complete.
    client, on_event
        As `chunkfold.reduce` has them.
    options
        `axis`, `by` and all that says what the statistics are of, as `chunkfold.reduce` has them.
        `sel` and `selection` select the base period: what is written is of all elements. Elements
        in no group, or in one that has no element there, become NaN. `dtype` is that of the new
        array: a float's; without it float64 if the source has float64 or integers of 32 or 64 bits,
        else float32.

    Returns
    -------
    The new group.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these, or a read fails; nothing is then written.
    """
    made = transformation(source, out, how, overwrite=overwrite, **options)
    return write_transformation(made, out, overwrite=overwrite, client=client, on_event=on_event)


def transformation(
    source: Any,
    out: str | Path,
    how: str,
    *,
    overwrite: bool = False,
    **options: Unpack[Keywords],
) -> Transformation:
    """Open what is to be transformed, and find out whether it can be; parameters as `transform`.

    Raises
    ------
    ChunkfoldError
        If not.
    """
    if how not in TRANSFORMS:
        raise PlanError(f"{how!r} is no transformation; there are: {', '.join(TRANSFORMS)}")
    for name in _REFUSED:
        if name in options:
            raise PlanError(f"{name} is given, but elements keep their places: leave it out")
    opened = open_zarr(source)
    if opened.dtype.kind not in "biuf":
        raise PlanError(f"{opened.name}: {opened.dtype} has no anomalies; take real numbers")
    packing = packing_of(opened) if options.get("mask_and_scale") else None
    value = opened.dtype if packing is None else packing.value_dtype(opened.dtype)
    wide = np.result_type(value, np.float32)
    dtype = options.get("dtype") or wide
    written = check_applied(opened, out, dtype, overwrite=overwrite)
    given: Any = {**options, "dtype": "float64"}
    if given.get("axis") is None:
        given["axis"] = [*range(len(opened.shape))]
    everything: Any = {name: said for name, said in given.items() if name not in _OF_STATISTICS}
    whole = asked(opened, options_of(TRANSFORMS[how], everything))
    if whole.grouping is not None:
        if not isinstance(whole.keys, Keys):
            raise PlanError(f"{opened.name}: bins of its own values are no groups to compare with")
        spans = options.get("resample") is not None
        selects = options.get("sel") is not None or options.get("selection") is not None
        if spans and selects:
            raise PlanError("resample makes other groups of a selection: group by labels, as by=")
        labels = [None if one.intervals else one.groups for one in whole.grouping.labels]
        if not spans:
            given["groups"] = labels if isinstance(options.get("by"), (tuple, list)) else labels[0]
    return Transformation(
        how, opened, asked(opened, options_of(TRANSFORMS[how], given)), whole, written
    )


def write_transformation(
    made: Transformation,
    out: str | Path,
    *,
    overwrite: bool = False,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Any:
    """Carry out what `transformation` found to be sound; parameters and result as `transform`.

    Raises
    ------
    ChunkfoldError
        If a read fails, or the output cannot be written; nothing is then written.
    """
    opened, options, path = made.opened, made.request.options, Path(out)
    with staging_folder(path.with_name(f"{path.name}.statistics")) as folder:
        try:
            place = folder / "statistics.zarr"
            change = Compared.of(made, place)
            chunks = partial(change.chunks, opened.chunks)
            write_projection(made.request, place, chunks=chunks, client=client, on_event=on_event)
            name = _array_name(opened)
            along = Companions(Kept(opened, made.whole.chosen, range(len(opened.shape))))
            made_of: Any = zarr.open_group(str(place), mode="r")["mean"].attrs["chunkfold"]
            told = {"chunkfold": {**made_of, "op": made.how}}
            attributes = {**_attributes(made), **told, **along.attributes}
            write_changed(
                opened,
                out,
                change,
                made.dtype,
                attributes_for_zarr(attributes, made.dtype),
                packing=packing_of(opened) if options.mask_and_scale else None,
                name=name,
                finish=partial(_finish, along),
                told=[made.how, change.digest()],
                overwrite=overwrite,
                ledger=options.ledger,
                trust_ledger=options.trust_ledger,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return open_node(out)


@dataclass(frozen=True)
class Compared:
    """Compares elements with the statistics of their groups, which are in a Zarr."""

    how: str
    statistics: str
    """The folder of their group."""
    ndim: int
    kept: tuple[int, ...]
    """The elements' axes that statistics have, too."""
    keys: Keys | None
    """The group of each element; None if there are no groups."""
    shape: tuple[int, ...] = ()
    """Extents of the statistics' axes of groups."""

    @classmethod
    def of(cls, made: Transformation, statistics: Path) -> Compared:
        """Return what compares elements with statistics that were written."""
        whole = made.whole
        keys = whole.keys if isinstance(whole.keys, Keys) else None
        grouped = () if keys is None else keys.axes
        kept = tuple(
            n for n in range(len(whole.chosen)) if n not in whole.reduced and n not in grouped
        )
        shape = () if whole.grouping is None else whole.grouping.shape
        return cls(made.how, str(statistics), len(whole.chosen), kept, keys, shape)

    def __call__(self, box: Slices, values: np.ndarray) -> np.ndarray:
        """Return the new values of a box, float64."""
        names = TRANSFORMS[self.how]
        mean, *std = (self._beside(_statistic(self.statistics, name), box) for name in names)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = values / mean if self.how == "divide" else values - mean
            found: np.ndarray = away / std[0] if std else away
        return found

    def _beside(self, array: Any, box: Slices) -> np.ndarray:
        """Return the statistic of each element of a box, as far as elements differ in it."""
        if self.keys is None:
            found, axes = np.asarray(array[tuple(box[n] for n in self.kept)]), list(self.kept)
        else:
            codes = self.keys.at(tuple(box[n] for n in self.keys.axes))
            found, axes = self._of_groups(array, box, codes), [*self.keys.axes, *self.kept]
        found = found.transpose(np.argsort(axes))
        return np.expand_dims(found, [n for n in range(self.ndim) if n not in axes])

    def _of_groups(self, array: Any, box: Slices, codes: np.ndarray) -> np.ndarray:
        """Return the statistics of groups by their numbers; NaN where there is no group.

        Only those of groups that are met are read.
        """
        assert self.keys is not None
        before = sum(n < self.keys.axes[0] for n in self.kept)
        numbers = np.unique(codes[codes >= 0]).astype(np.int64)
        each = np.unravel_index(numbers, self.shape)
        met = [np.unique(one) for one in each]
        kept: list[Any] = [box[n] for n in self.kept]
        index = (*kept[:before], *met, *kept[before:])
        read = crossed(array, index) if isinstance(array, np.ndarray) else array.oindex[index]
        groups = range(before, before + len(met))
        read = np.moveaxis(read, groups, range(len(met)))
        rows = read[tuple(np.searchsorted(one, at) for one, at in zip(met, each, strict=True))]
        none = np.full((1, *rows.shape[1:]), np.nan)
        places = np.where(codes >= 0, np.searchsorted(numbers, codes), len(numbers))
        return np.concatenate([rows, none])[places]

    def chunks(self, source: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return chunks of statistics of a shape: of one group and a source's chunk, if large."""
        if math.prod(shape) * 8 <= HELD_BYTES:
            return tuple(max(1, size) for size in shape)
        grouped = () if self.keys is None else self.keys.axes
        before = sum(n < grouped[0] for n in self.kept) if grouped else 0
        extents = [source[n] for n in self.kept]
        extents[before:before] = [1] * len(self.shape)
        return tuple(max(1, min(*pair)) for pair in zip(extents, shape, strict=True))

    def digest(self) -> str:
        """Return a hash of the statistics."""
        made = hashlib.blake2b(digest_size=16)
        for file in sorted(Path(self.statistics).rglob("*")):
            if file.is_file():
                made.update(str(file.relative_to(self.statistics)).encode() + b"\0")
                made.update(file.read_bytes())
        return made.hexdigest()


@lru_cache(maxsize=2)  # of one run: a mean and a deviation
def _statistic(folder: str, name: str) -> Any:
    """Open a statistic; one that is small is read at once, for all boxes of this process."""
    array = zarr.open_array(f"{folder}/{name}", mode="r")
    return array[...] if array.nbytes <= HELD_BYTES else array


def _array_name(opened: ZarrSource) -> str:
    """Return the name of an array in its group, or of its folder."""
    return PurePosixPath(opened.name.partition("?")[0].rstrip("/")).stem or "data"


def _attributes(made: Transformation) -> dict[str, Any]:
    """Return the attributes of the source that hold for what is written, and its units."""
    kind = QuantityKind.DIFFERENCE if made.how == "anomaly" else QuantityKind.OTHER
    unpacked = bool(made.request.options.mask_and_scale)
    held = carried_attributes([made.opened], Quantity(kind), made.dtype, unpacked=unpacked)
    return held if made.how == "anomaly" else {**held, "units": "1"}


def _finish(along: Companions, made: Path) -> None:
    write_companions(zarr.open_group(str(made), mode="r+"), along)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the third format's specification does not know of it yet
        zarr.consolidate_metadata(str(made))
