"""Write what elements are beside a statistic of their group: anomalies, for one."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Unpack

import numpy as np
import zarr
from distributed import Client
from zarr.storage import StorePath

from chunkfold.errors import NaNWarning, PlanError
from chunkfold.events import OnEvent
from chunkfold.outputs.output_places import is_url, out_text, refuse_origins, refuse_overlaps
from chunkfold.outputs.staging_folder import clear_staging, staging_folder
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.option_table import Keywords
from chunkfold.planning.options import options_of, with_options
from chunkfold.planning.request import Request
from chunkfold.planning.resolve import resolve
from chunkfold.results.attributes import carried_attributes
from chunkfold.results.companions import Companions
from chunkfold.results.coordinates import Kept
from chunkfold.results.quantities import Quantity, QuantityKind
from chunkfold.sources.cf_packing import attributes_for_zarr, packing_of
from chunkfold.sources.consolidated_metadata import consolidate
from chunkfold.sources.opening import open_node, open_zarr
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.tracebacks import traceback_cut, warn_caller
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.files.as_zarr import write_companions
from chunkfold.workflows.regionwise.changed_parts import write_changed
from chunkfold.workflows.transforms.comparing import HELD_BYTES, TRANSFORMS, Compared
from chunkfold.workflows.transforms.normalize import check_applied
from chunkfold.workflows.transforms.project import write_projection

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


@traceback_cut
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
        raise PlanError(f"{how!r} is not a transformation; use one of: {', '.join(TRANSFORMS)}")
    for name in _REFUSED:
        if name in options:
            raise PlanError(f"{name} is given, but elements keep their places: omit it")
    opened = open_zarr(source)
    if opened.dtype.kind not in "biuf":
        raise PlanError(f"{opened.name}: {opened.dtype} has no anomalies; take real numbers")
    dtype = options.get("dtype") or np.result_type(opened.dtype, np.float32)
    _refuse_url(out)
    written = check_applied(opened, out, dtype, overwrite=overwrite)
    given: Any = {**options, "dtype": "float64"}
    if given.get("axis") is None:
        given["axis"] = [*range(len(opened.shape))]
    everything: Any = {name: said for name, said in given.items() if name not in _OF_STATISTICS}
    whole = resolve(opened, options_of(TRANSFORMS[how], everything))
    if whole.grouping is not None:
        if not isinstance(whole.keys, Keys):
            raise PlanError(
                f"{opened.name}: bins of its own values cannot be the groups: give labels with by="
            )
        spans = options.get("resample") is not None
        selects = options.get("sel") is not None or options.get("selection") is not None
        if spans and selects:
            raise PlanError("resample makes other groups of a selection: group by labels, as by=")
        labels = [None if one.intervals else one.groups for one in whole.grouping.labels]
        if not spans:
            given["groups"] = labels if isinstance(options.get("by"), (tuple, list)) else labels[0]
    request = resolve(opened, options_of(TRANSFORMS[how], given))
    refuse_origins(out, (*whole.origins, *request.origins))
    refuse_overlaps(out, request.options.ledger)
    _refuse_part_of_kept_axes(request, whole)
    return Transformation(how, opened, request, whole, written)


def _refuse_url(out: str | Path) -> None:
    if is_url(out):
        raise PlanError(
            f"output {out_text(out)} is a URL, and workers read statistics in a folder next to it: "
            "write to a folder that all share"
        )


def _refuse_part_of_kept_axes(request: Request, whole: Request) -> None:
    """Refuse a base that lacks some places which the statistics are of, or has others first."""
    grouped = whole.keys.axes if isinstance(whole.keys, Keys) else ()
    for n, axis in enumerate(request.chosen):
        if n in whole.reduced or n in grouped:
            continue
        if axis.dropped or not np.array_equal(axis.shown, whole.chosen[n].shown):
            raise PlanError(
                f"{request.name}: a part of axis {n} is selected, but the statistics have a value "
                "for each place along it: select along the axes that are reduced"
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
    beside = path.with_name(f"{path.name}.statistics")
    clear_staging(beside)  # of runs that were killed
    with staging_folder(beside) as folder:
        try:
            place = folder / "statistics.zarr"
            change = Compared.of(made.how, made.whole, place)
            chunks = partial(change.chunks, opened.chunks)
            write_projection(made.request, place, chunks=chunks, client=client, on_event=on_event)
            name = _array_name(opened)
            along = Companions(Kept(opened, made.whole.chosen, range(len(opened.shape))))
            mean = zarr.open_array(str(place / "mean"), mode="r")
            _tell_missing(made, mean)
            made_of = json.loads(str(mean.attrs["chunkfold"]))
            told = {"chunkfold": json_text({**made_of, "op": made.how})}
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
                told=[] if options.ledger is None else [made.how, change.digest()],
                overwrite=overwrite,
                ledger=options.ledger,
                trust_ledger=options.trust_ledger,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return open_node(out)


def _tell_missing(made: Transformation, mean: Any) -> None:
    """Warn of groups whose statistics are NaN, where these are small: their elements become NaN."""
    if mean.nbytes > HELD_BYTES:
        return
    missing = int(np.isnan(mean[...]).sum())
    if missing:
        options = made.request.options
        base = " in the base" if options.selection is not None or options.sel else ""
        why = f"have no element{base}, or NaN, which skipna=True ignores"
        why = f"have no valid element{base}" if options.skipna else why
        warn_caller(
            NaNWarning(f"{missing:,} of {mean.size:,} means {why}: their elements become NaN")
        )


def _array_name(opened: ZarrSource) -> str:
    """Return the name of an array in its group, or of its folder."""
    return PurePosixPath(opened.name.partition("?")[0].rstrip("/")).stem or "data"


def _attributes(made: Transformation) -> dict[str, Any]:
    """Return the attributes of the source that hold for what is written, and its units."""
    kind = QuantityKind.DIFFERENCE if made.how == "anomaly" else QuantityKind.OTHER
    unpacked = bool(made.request.options.mask_and_scale)
    held = carried_attributes([made.opened], Quantity(kind), made.dtype, unpacked=unpacked)
    return held if made.how == "anomaly" else {**held, "units": "1"}


def _finish(along: Companions, made: Path | StorePath) -> None:
    write_companions(zarr.open_group(made, mode="r+"), along)
    consolidate(made)
