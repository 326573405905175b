"""Reductions in graphs of Dask's are computed here: xarray's and Dask's code stays as it is."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import dask
from dask.array.optimization import optimize
from dask.base import dont_optimize
from dask.highlevelgraph import HighLevelGraph
from distributed.system import MEMORY_LIMIT

from chunkfold.api import reduce
from chunkfold.errors import (
    ChangedError,
    ChunkError,
    DeviceError,
    MissingError,
    MonoidError,
    NaNWarning,
    PackedWarning,
    PlanError,
    RangeError,
    RemarkWarning,
    SourceError,
)
from chunkfold.graphs.graph_calls import NotTakenError
from chunkfold.graphs.graph_reductions import GraphReduction
from chunkfold.graphs.taken_layers import by_read, taken_of, with_blocks
from chunkfold.planning.option_values import Mode
from chunkfold.planning.questions import ask
from chunkfold.sources.dask_graph import left_to_dask, not_handed_over
from chunkfold.units import size_text

_SETTING = "array_optimize"
"""Dask's setting of the function that it hands each graph of arrays to, before it is computed."""
_UNSET = object()
_NOT_OURS = (PlanError, SourceError, MonoidError, DeviceError, RangeError)
"""Errors of reductions that Dask may be able to compute."""
_DAMAGED = (ChunkError, ChangedError, MissingError)
"""Errors of the data."""
_UNSAID = (NaNWarning, PackedWarning)
"""Warnings of what those mean who asked Dask."""
_MEMORY_SHARE = 4
"""An array that has less than this part of the memory is read by Dask alone, if that reads it."""
Told = Callable[[str], None]


def accelerate(
    on: bool = True, *, mode: Mode = "fast", verbose: bool | Told = False
) -> Acceleration:
    """Compute reductions of stored arrays here that xarray, flox and Dask are asked for.

    From this call on, in all threads of the process, or within the `with` that it begins. Dask
    hands each graph of arrays over before it computes it. Reductions of stored arrays that are
    known (docs/accelerate.md has a table) are computed at once, as `reduce` does: on the current
    Dask client, or, without one, in this process. Their results take the place of their layers, and
    Dask computes all else.

    Parameters
    ----------
    on
        False: no more.
    mode
        Arithmetic of floats, as `reduce` has it. "fast" adds up in float64, as Dask does at best;
        "exact" rounds once, to the same bits for any chunks and workers, and may take longer.
    verbose
        True: say on standard error what is computed here, and what is left to Dask and why. Or a
        function that is called with each line.

    Examples
    --------
    >>> import chunkfold as cf
    >>> import dask.array as da
    >>> with cf.accelerate():
    ...     int(da.ones(4, chunks=2).sum().compute())  # nothing stored: Dask's
    4
    """
    told = _print if verbose is True else verbose or None
    return Acceleration(on=on, mode=mode, told=told)


def _print(line: str) -> None:
    sys.stderr.write(f"{line}\n")


class Acceleration:
    """The setting, from when it is made; as a context manager it restores the one before."""

    def __init__(self, *, on: bool, mode: Mode, told: Told | None) -> None:
        with dask.config.config_lock:
            self._before = dask.config.config.get(_SETTING, _UNSET)
            before = self._before.before if isinstance(self._before, Handed) else self._before
            _set(Handed(before, mode, told) if on else before)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        with dask.config.config_lock:
            _set(self._before)


def _set(value: Any) -> None:
    if value is _UNSET:
        dask.config.config.pop(_SETTING, None)
    else:
        dask.config.config[_SETTING] = value


@dataclass(frozen=True)
class Handed:
    """The function that Dask hands graphs to."""

    before: Any
    """The setting that it is in the place of."""
    mode: Mode
    told: Told | None

    def __call__(self, graph: Any, keys: Any, **options: Any) -> Any:
        """Return a graph, optimised, with the results of reductions in it."""
        if isinstance(graph, HighLevelGraph) and not left_to_dask():
            with not_handed_over():
                graph = self._computed(graph, keys)
        if self.before is _UNSET:
            return optimize(graph, keys, **options)
        return self.before(graph, keys, **options) if self.before else graph

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as what it is in the place of: a cluster's scheduler has no devices."""
        self._tell("a graph went to a cluster unchanged: pass dask.optimize(x)[0] instead")
        return _travelled, (None if self.before is _UNSET else self.before,)

    def _tell(self, line: str) -> None:
        if self.told is not None:
            self.told(f"chunkfold: {line}")

    def _computed(self, graph: HighLevelGraph, keys: Any) -> HighLevelGraph:
        taken = taken_of(graph, keys, MEMORY_LIMIT // _MEMORY_SHARE)
        blocks: dict[str, Mapping[Any, Any]] = {}
        left = dict(taken.left)
        for together in by_read(taken.found):
            for one, answer in self._answers(together):
                try:
                    if isinstance(answer, Exception):
                        raise NotTakenError(str(answer)) from answer
                    blocks[one.layer] = one.blocks(answer)
                except NotTakenError as why:
                    left[one.layer] = str(why)
                else:
                    size = size_text(one.view.nbytes)
                    self._tell(f"{one} is computed here ({one.layer}, {size})")
        for layer, reason in left.items():
            self._tell(f"{layer} is left to Dask: {reason}")
        return with_blocks(graph, blocks) if blocks else graph

    def _answers(self, together: Sequence[GraphReduction]) -> Iterator[tuple[GraphReduction, Any]]:
        """Yield the answer of each, from one read, or why there is none."""
        view = together[0].view
        asked = {str(n): ask(one.op, **one.options) for n, one in enumerate(together)}
        try:
            with warnings.catch_warnings():
                for category in _UNSAID:
                    warnings.simplefilter("ignore", category)
                made = reduce(
                    view.source,
                    asked,
                    selection=view.selection,
                    mask_and_scale=view.decoded,
                    mode=self.mode,
                )
        except _NOT_OURS as error:
            if isinstance(error, _DAMAGED):
                raise
            if len(together) > 1:
                for one in together:
                    yield from self._answers([one])
                return
            if isinstance(error, DeviceError):
                warnings.warn(f"left to Dask: {error}", RemarkWarning, stacklevel=2)
            yield together[0], error
        else:
            yield from zip(together, made.values(), strict=True)


def _travelled(before: Any) -> Any:
    """Return what a cluster optimises graphs with."""
    return optimize if before is None else before or dont_optimize
