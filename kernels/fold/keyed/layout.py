"""Where elements and their keys are, in a box whose axes are kept or reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.geometry import Box, Dim, dims_of, merged, strides_along


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
    own = strides_along(shape, along)
    pairs = {
        axis: (dim, Dim(dim.size, own[axis], 0))
        for axis, dim in dims_of(shape, axes, strides, index_strides).items()
    }
    kept = merged([pair for axis, pair in pairs.items() if axis not in axes])
    reduced = merged([pair for axis, pair in pairs.items() if axis in axes])
    elements, keys = (
        (tuple(pair[n] for pair in kept), tuple(pair[n] for pair in reduced)) for n in range(2)
    )
    return KeyedBox(Box(*elements, offset, index), Box(*keys))
