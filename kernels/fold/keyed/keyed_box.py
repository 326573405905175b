"""Lay out elements and their keys in a box whose axes are kept or reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.geometry import Box, Dim, dims_of, merged_dims, of_others
from chunkfold.kernels.strides import Strides, c_strides, strides_along

_MOST_LOOKED_AT = 1 << 14
"""Elements of an output whose keys the host looks at."""


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
    other_strides: Sequence[Strides] = (),
    other_offsets: Sequence[int] | None = None,
) -> KeyedBox:
    """Describe a box of a buffer whose `axes` are reduced by key.

    Parameters
    ----------
    key_axes
        The axes that the keys have, ascending: keys are a C-contiguous buffer of these extents, and
        the same along all others. None: all axes.
    shape, axes, strides, index_strides, index, offset, other_strides, other_offsets
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
    strides = tuple(c_strides(shape) if strides is None else strides)
    each, offsets = of_others(strides, offset, other_strides, other_offsets)
    of_keys = strides_along(shape, along)
    pairs = {
        axis: (dim, Dim(dim.size, of_keys[axis], 0))
        for axis, dim in dims_of(shape, axes, strides, index_strides, each).items()
    }
    kept = merged_dims([pair for axis, pair in pairs.items() if axis not in axes])
    reduced = merged_dims([pair for axis, pair in pairs.items() if axis in axes])
    elements, keys = (
        (tuple(pair[n] for pair in kept), tuple(pair[n] for pair in reduced)) for n in range(2)
    )
    return KeyedBox(Box(*elements, offset, index, offsets), Box(*keys))


def keys_of_rows(codes: np.ndarray | None, box: Box) -> np.ndarray | None:
    """Return the keys of the elements that an output has, the same of each output.

    None if outputs differ in it, or it is not worth while to look. `codes` are what a box of keys
    describes, C-contiguous.
    """
    if (
        codes is None
        or box.elements_per_output > _MOST_LOOKED_AT
        or any(dim.stride for dim in box.kept)
    ):
        return None
    sizes = [dim.size for dim in box.reduced]
    flat = codes.reshape(-1)
    steps = [dim.stride * flat.itemsize for dim in box.reduced]
    return as_strided(flat, sizes, steps, writeable=False).reshape(-1)


def runs_of_keys(row: np.ndarray, keys: int) -> np.ndarray:
    """Count the runs of equal keys among some, one after another: int64, (keys,).

    Those not in [0, keys) do not end a run.
    """
    own = row[(row >= 0) & (row < keys)]
    return np.bincount(own[np.diff(own, prepend=-1) != 0], minlength=keys)
