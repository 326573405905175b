"""Find what makes the channels of training data comparable, in one pass; apply it, perhaps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import zarr
from distributed import Client
from zarr.storage import StorePath

from chunkfold.api import submit
from chunkfold.errors import PlanError
from chunkfold.events import OnEvent
from chunkfold.kernels import quantile
from chunkfold.outputs.output_places import refuse_origins, refuse_overlaps
from chunkfold.outputs.outputs import check_output
from chunkfold.planning.option_table import Keywords, Op
from chunkfold.planning.options import Options
from chunkfold.planning.request import Request
from chunkfold.planning.resolve import resolve
from chunkfold.results.attributes import carried_attributes
from chunkfold.results.quantities import Quantity
from chunkfold.sources.axis_names import AxisOption, axis_numbers, normalized_axes
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.concatenation import ConcatenatedSource
from chunkfold.sources.opening import open_node, open_source, open_zarr
from chunkfold.sources.source import Source
from chunkfold.tracebacks import traceback_cut
from chunkfold.workflows.files.results_json import normalization_json
from chunkfold.workflows.images.channels import MEASURES, Normalization, Rescaled
from chunkfold.workflows.images.ome import VERSION, Image, image_of
from chunkfold.workflows.images.ome_channels import with_windows
from chunkfold.workflows.regionwise.changed_parts import write_changed


@traceback_cut
def normalization(
    source: Any,
    *,
    channels: AxisOption = None,
    by: str = "mean-std",
    low: float | None = None,
    high: float | None = None,
    extremes: bool = False,
    ddof: float = 0,
    skipna: bool = False,
    mask_and_scale: bool = False,
    memory: int | str | None = None,
    ledger: str | os.PathLike[str] | None = None,
    trust_ledger: bool = False,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Normalization:
    """Measure every channel of an array in one read, exactly.

    Parameters
    ----------
    channels
        The axis along which they stand, by number or name, or several: each combination is one.
        None: all of the array is one.
    by
        "mean-std", "min-max" or "percentiles".
    low, high
        Percentiles that become 0 and 1, by which wide elements may be read several times.
        None: 1 and 99.8.
    extremes
        Find minimum and maximum, too, which contrast windows need.
    source, ddof, skipna, mask_and_scale, memory, ledger, trust_ledger, client, on_event
        As `chunkfold.reduce` has them.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these, or the read fails.
    """
    request = measuring(
        source,
        channels,
        by,
        low,
        high,
        extremes=extremes,
        ddof=ddof,
        skipna=skipna,
        mask_and_scale=mask_and_scale,
        memory=memory,
        ledger=ledger,
        trust_ledger=trust_ledger,
    )
    return measured(request, by, client=client, on_event=on_event)


def measuring(
    source: Any,
    channels: AxisOption,
    way: str,
    low: float | None = None,
    high: float | None = None,
    *,
    extremes: bool = False,
    **options: Unpack[Keywords],
) -> Request:
    """Return what measures the channels of an array; as `normalization`, whose `by` is the way.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these.
    """
    if not isinstance(way, str) or way not in MEASURES:
        raise PlanError(f"by is {way!r}; use one of: {', '.join(map(repr, MEASURES))}")
    ops: list[Op] = list(MEASURES[way])
    if way == "percentiles":
        bounds = [1 if low is None else low, 99.8 if high is None else high]
        if not 0 <= bounds[0] < bounds[1] <= 100:
            told = "low is {} and high is {}; give percentiles, 0 <= low < high <= 100"
            raise PlanError(told.format(*bounds))
        ops += [quantile(one / 100) for one in bounds]
    elif low is not None or high is not None:
        raise PlanError(f"low and high are percentiles, but by is {way!r}; give by='percentiles'")
    ops += [one for one in ("min", "max") if extremes and one not in ops]
    found = open_source(source)
    packing = packing_of(found) if options.get("mask_and_scale") else None
    value = packing.value_dtype(found.dtype) if packing else found.dtype
    # Else the mean of short floats would be rounded to one.
    options["dtype"] = "float64" if value.kind == "f" and way != "percentiles" else None
    options["axis"] = other_axes(found, channels)
    return resolve(found, Options(ops, **options))


def measured(
    request: Request,
    by: str,
    *,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Normalization:
    """Carry out what `measuring` returned; parameters and result as `normalization`."""
    results = submit(request, client=client, on_event=on_event).result()
    statistics = {
        name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in results.items()
    }
    channels = tuple(n for n in range(len(request.chosen)) if n not in request.reduced)
    return Normalization(
        request.name,
        channels if len(channels) > 1 else channels[0] if channels else None,
        by,
        statistics,
        bool(request.options.mask_and_scale),
    )


def check_applied(
    source: Source, out: str | Path, dtype: Any, *, overwrite: bool = False
) -> np.dtype:
    """Find out before the work starts whether normalized values can be written; return their dtype.

    Raises
    ------
    PlanError
        If not.
    """
    refuse_origins(out, source.addresses)
    refused = PlanError(f"dtype {dtype!r} cannot hold normalized values; take a float's")
    try:
        made_of: np.dtype = np.dtype(dtype)
    except TypeError:
        raise refused from None
    if made_of.name not in ("float16", "float32", "float64"):
        raise refused
    check_output(out, (".zarr",), overwrite=overwrite)
    return made_of


def other_axes(source: Any, channels: AxisOption) -> list[int]:
    """Return the axes that are not the channels'.

    Raises
    ------
    ChunkfoldError
        If the source has no such axis, or no numbers.
    """
    found = open_source(source)
    ndim = len(found.shape)
    if found.dtype.kind not in "biuf":
        raise PlanError(f"{found.name}: {found.dtype} cannot be normalized; take real numbers")
    theirs = () if channels is None else normalized_axes(axis_numbers(found, channels), ndim)
    return [n for n in range(ndim) if n not in theirs]


@traceback_cut
def apply(
    source: Any,
    found: Normalization,
    out: str | Path,
    dtype: Any = "float32",
    *,
    omero: bool = False,
    overwrite: bool = False,
    ledger: str | os.PathLike[str] | None = None,
    trust_ledger: bool = False,
) -> Any:
    """Write `(source - offset) / scale` into a new Zarr array, chunk by chunk, by Dask.

    Runs on the current Dask client, if there is one, else on threads. Computed in float64; missing
    values are NaN, where the normalization is of values that stored numbers stand for.

    Parameters
    ----------
    out
        Folder or URL of the new array; chunks, shards, names of axes and attributes
        are the source's, but for `units`; `chunkfold` says what was done.
    dtype
        Of the new array: a float's.
    omero
        Write an OME-Zarr image (0.5) of one level, `out/0`, that viewers show from 0 to 1.
    overwrite
        Whether what is there goes, once the new array is made.
    ledger, trust_ledger
        As `chunkfold.reduce` has them: a call that ends early leaves what it wrote in a hidden
        folder or prefix beside `out`, and the next one with the same ledger goes on with it.

    Returns
    -------
    The new array.

    Raises
    ------
    ChunkfoldError
        If it cannot be written; nothing is then left there.
    """
    if isinstance(source, ConcatenatedSource):
        raise PlanError(
            f"{source.name}: apply writes one Zarr array, but the source is several: apply it to "
            "each"
        )
    opened = open_zarr(source)
    made_of = check_applied(opened, out, dtype, overwrite=overwrite)
    refuse_overlaps(out, ledger)
    why = found.why_not
    if why:
        raise PlanError(f"{opened.name}: {why}; nothing was written")
    shape = [1] * len(opened.shape)
    for count, axis in zip(found.offset.shape, found.axes, strict=False):
        if (opened.shape[axis] if axis < len(shape) else 0) != count:
            raise PlanError(
                f"{opened.name} has shape {opened.shape}, but the normalization is of "
                f"{count} channels along axis {axis}"
            )
        shape[axis] = count
    image = image_of(opened) if omero else None
    given: dict[str, Any] = {}
    if image is not None:
        beside = with_windows(image, opened, found, scaled=True)
        given = {"name": "0", "finish": partial(_described, image, beside), "told": [beside]}
    change = Rescaled(found.offset.reshape(shape), found.scale.reshape(shape))
    attributes = carried_attributes([opened], Quantity(), made_of, unpacked=found.mask_and_scale)
    write_changed(
        opened,
        out,
        change,
        made_of,
        attributes | {"chunkfold": normalization_json(found)},
        packing=packing_of(opened) if found.mask_and_scale else None,
        **given,
        overwrite=overwrite,
        ledger=ledger,
        trust_ledger=trust_ledger,
    )
    return open_node(f"{out}/0" if omero else out)


def _described(image: Image, beside: Mapping[str, Any], made: Path | StorePath) -> None:
    """Write the metadata of an image of one level into its group."""
    said = {key: one for key, one in image.multiscale.items() if key not in ("type", "metadata")}
    level = {"path": "0", "coordinateTransformations": image.placing.transforms}
    ome = {"version": VERSION, **beside, "multiscales": [{**said, "datasets": [level]}]}
    zarr.open_group(made, mode="r+").attrs["ome"] = ome
