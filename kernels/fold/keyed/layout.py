"""Where elements and their keys are, in a box whose axes are kept or reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.geometry import Box, Dim, box, c_strides


@dataclass(frozen=True)
class KeyedBox:
    """A box of elements, each of which has a key; several may share one."""

    elements: Box
    keys: Box
    """The same dims; strides are those among the keys, 0 along what has the same key."""

    @property
    def outputs(self) -> int:
        """Outputs of each group."""
        return self.elements.outputs


def keyed_box(
    shape: Sequence[int],
    axes: Sequence[int],
    key_axes: Sequence[int] | None = None,
    *,
    strides: Sequence[int] | None = None,
    index_strides: Sequence[int] | None = None,
    index: int = 0,
    offset: int = 0,
) -> KeyedBox:
    """Describe a box of a buffer whose `axes` are reduced by key.

    Parameters
    ----------
    key_axes
        The axes that the keys have, ascending: keys are a C-contiguous buffer of these extents, and
        the same along all others. None: all axes.
    shape, axes, strides, index_strides, index, offset
        As in `chunkfold.kernels.box`.

    Raises
    ------
    MonoidError
        If `key_axes` are not axes of the box.

    >>> [(dim.size, dim.stride) for dim in keyed_box((2, 3, 4), (0, 1, 2), (1, 2)).keys.reduced]
    [(2, 0), (12, 1)]
    """
    ndim = len(shape)
    along = tuple(range(ndim)) if key_axes is None else tuple(key_axes)
    if list(along) != sorted(set(along)) or not set(along) <= set(range(ndim)):
        raise MonoidError(
            f"keys have axes {along}, the elements {ndim}: name some of them, ascending"
        )
    own = dict(zip(along, c_strides([shape[axis] for axis in along]), strict=True))
    whole = box(
        shape, axes, strides=strides, index_strides=index_strides, index=index, offset=offset
    )
    strides = c_strides(shape) if strides is None else strides
    indices = strides if index_strides is None else index_strides
    kept_axes = [axis for axis in range(ndim) if axis not in axes]
    outputs = dict(zip(kept_axes, c_strides([shape[axis] for axis in kept_axes]), strict=True))
    pairs = {
        axis: (
            Dim(shape[axis], strides[axis], indices[axis], outputs.get(axis, 0)),
            Dim(shape[axis], own.get(axis, 0), 0),
        )
        for axis in range(ndim)
    }
    kept = _merged([pairs[axis] for axis in kept_axes])
    reduced = _merged([pairs[axis] for axis in range(ndim) if axis in axes])
    return KeyedBox(
        replace(whole, kept=_elements(kept), reduced=_elements(reduced)),
        Box(_keys(kept), _keys(reduced)),
    )


_Pair = tuple[Dim, Dim]
"""A dim of the elements, and of their keys."""


def _elements(pairs: Sequence[_Pair]) -> tuple[Dim, ...]:
    return tuple(pair[0] for pair in pairs)


def _keys(pairs: Sequence[_Pair]) -> tuple[Dim, ...]:
    return tuple(pair[1] for pair in pairs)


def _merged(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Put dims in memory's order; merge those that are one run of elements and of keys."""
    if any(element.size == 0 for element, _ in pairs):
        return [(Dim(0, 1, 1, 1), Dim(0, 1, 0))]
    out: list[_Pair] = []
    for element, key in sorted(pairs, key=lambda pair: -pair[0].stride):
        if element.size == 1:
            continue
        if out and all(map(_continues, out[-1], (element, key))):
            before = out[-1][0].size
            out[-1] = (
                replace(element, size=before * element.size),
                replace(key, size=before * element.size),
            )
        else:
            out.append((element, key))
    return out


def _continues(before: Dim, dim: Dim) -> bool:
    strides = ("stride", "index_stride", "output_stride")
    return all(getattr(before, name) == dim.size * getattr(dim, name) for name in strides)
