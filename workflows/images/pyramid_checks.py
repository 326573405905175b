"""Checks that a pyramid can be made: its windows, its op, and the number of useful levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chunkfold.errors import PlanError
from chunkfold.kernels.catalogue.histograms import histogram
from chunkfold.kernels.catalogue.named import is_known
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.planning.option_table import Op
from chunkfold.planning.request import Request
from chunkfold.sources.axis_names import axis_numbers
from chunkfold.sources.source import Source
from chunkfold.workflows.images.ome import VERSION

LevelFactor = int | Mapping[int | str, int]
Histogram = bool | Sequence[float]


def histograms_of(asked: Histogram) -> list[Monoid]:
    """Return the histogram of the whole image that is asked for, if one is.

    Raises
    ------
    MonoidError
        If its edges are none.
    """
    if isinstance(asked, bool):
        return [histogram()] if asked else []
    return [histogram(asked)]


def windows_of(source: Source, factor: LevelFactor) -> dict[int | str, int]:
    """Return by how much axes are to be coarser."""
    if isinstance(factor, Mapping):
        axis_numbers(source, list(factor))  # which says what is wrong with them
        windows = dict(factor)
    elif isinstance(factor, int) and not isinstance(factor, bool):
        ndim, names = len(source.shape), source.dims or ()
        named = [names.index(name) for name in ("y", "x") if list(names).count(name) == 1]
        windows = dict.fromkeys(named if len(named) == 2 else range(max(0, ndim - 2), ndim), factor)
    else:
        raise PlanError(
            f"factor is {factor!r}; give 2, or one for each axis, as {{'y': 2, 'x': 2}}"
        )
    if all(by == 1 for by in windows.values()):
        raise PlanError(f"factor is {factor!r}, which makes nothing coarser: give 2 or more")
    return windows


def refuse_no_labels(request: Request) -> None:
    """Refuse modes of what is no image of labels, or of some of its elements.

    Raises
    ------
    PlanError
        If it is such.
    """
    source, options = request.sources[0], request.options
    if source.dtype.kind not in "biu" or any(request.packings):
        raise PlanError(
            f"op='mode' counts labels, which are whole numbers, but {source.name} has "
            f"{source.dtype}{' and is unpacked' if any(request.packings) else ''}: use op='mean'"
        )
    given = {
        "where": request.broadcast or options.where is not None,
        "initial": options.initial is not None,
        "on_bad_chunk='skip'": options.skips,
        "skipna": options.skipna,
    }
    for name, asked in given.items():
        if asked:
            raise PlanError(f"op='mode' counts every label of a window: omit {name}")


def refuse_op(request: Request, name: str) -> None:
    """Refuse an op whose results cannot be the elements of a level."""
    monoid = request.options.monoids[0]
    if monoid.last_axis:
        raise PlanError(f"{name} has its own axes: levels of an image cannot have them")
    if request.reads_again():
        raise PlanError(f"{name} may read the image several times; a pyramid reads it once")
    if request.bound().accumulator.uses_index:
        raise PlanError(
            f"{name} returns positions, or may depend on them, but a level has no positions"
        )
    if len(request.sources) > 1 or (monoid.inputs > 1 and is_known(monoid) and not monoid.weights):
        raise PlanError(f"{name} takes {monoid.inputs} arrays; a pyramid takes one image")


def refuse_unresumable(op: Op) -> None:
    """Refuse a ledger for levels that another run would not know to be the same.

    Raises
    ------
    PlanError
        If they are such.
    """
    if not isinstance(op, str):
        raise PlanError(
            f"ledger is given, but {op.name} is your own declaration, and chunkfold cannot know "
            "whether its functions are the same in another run: omit the ledger"
        )


def refuse_levels(request: Request, factors: Sequence[int], levels: int) -> None:
    """Refuse levels behind that which has one element along all axes."""
    shrinking = [
        (axis.outputs, by) for axis, by in zip(request.chosen, factors, strict=True) if by > 1
    ]
    useful = 1
    while any(outputs > by ** (useful - 1) for outputs, by in shrinking):
        useful += 1
    if levels > useful:
        raise PlanError(
            f"levels is {levels}; of {request.name}, shape {request.sources[0].shape}, level "
            f"{useful} has one element along the axes that get coarser: give {useful} at most"
        )


def refuse_format_2(zarr_format: int, name: str) -> None:
    """Refuse to write levels beside an image whose group has no place for OME-Zarr metadata.

    Raises
    ------
    PlanError
        If it has none.
    """
    if zarr_format == 2:
        raise PlanError(
            f"{name} is of Zarr's format 2, in which OME-Zarr {VERSION} has no metadata: write the "
            "levels to a new Zarr"
        )
