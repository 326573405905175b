"""Elements that are kept: what has which rank, for every dtype, layout and group."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.kernels import DeviceContext, bind, box
from chunkfold.kernels.catalogue.quantiles import quantile
from chunkfold.kernels.catalogue.radix import values_of
from chunkfold.kernels.fold.selection import RankSelection
from chunkfold.kernels.program.shared_layout import with_components
from chunkfold.kernels.strides import c_strides
from tests.conftest import shaped, some
from tests.kernels.catalogue.test_quantiles import DTYPES, elements
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised


def selection(
    opened: DeviceContext, x: np.ndarray, depth: int, outputs: int, **groups
) -> RankSelection:
    bound = bind([quantile(0.5)], [x.dtype], keeping=True)
    (chooser,) = (one.chooser for one in bound.statistics)
    assert chooser is not None
    keys = with_components(bound.accumulator, (chooser.component,))
    tuning = shaped(opened.device, keys, "tree")
    return RankSelection(opened, keys, tuning, outputs, depth, opened.queue(), **groups)


@pytest.mark.parametrize(
    ("dtype", "axes", "shape"),
    some(DTYPES, [(0,), (1,), (0, 2)], [(11, 5, 7), (4, 37, 6)], of=3),
)
def test_each_rank_has_its_element(
    opened: DeviceContext, dtype: str, axes: tuple[int, ...], shape: tuple[int, ...]
):
    """In two pieces, whatever axes are reduced; the next rank's too."""
    x = elements(dtype, shape)
    kept = tuple(n for n in range(3) if n not in axes)
    rows = x.transpose(*axes, *kept).reshape(-1, np.prod([shape[n] for n in kept]))
    depth, outputs = rows.shape
    held = selection(opened, x, depth, outputs)
    strides = c_strides(shape)
    inner = depth // shape[axes[0]]
    for first, last in [(2, shape[axes[0]]), (0, 2)]:
        cut = [last - first if n == axes[0] else shape[n] for n in (*axes, *kept)]
        at = first * strides[axes[0]]
        part = box(cut, (), strides=[strides[n] for n in (*axes, *kept)], offset=at)
        held.add([upload(opened, x)], part, [(0, first * inner, (last - first) * inner)])
    ranks = np.random.default_rng(1).integers(0, depth, (outputs, 3))
    keys = held.chosen(ranks)
    ordered = np.sort(rows, axis=0)
    for step in range(2):
        found = np.minimum(ranks + step, depth - 1)
        want = np.take_along_axis(ordered, found.T, axis=0).T
        np.testing.assert_array_equal(values_of(keys[:, :, step], x.dtype), want)


@pytest.mark.parametrize("outputs", [1, 15, 16, 100])
def test_groups_choose_among_their_own_rows(opened: DeviceContext, outputs: int):
    rng = np.random.default_rng(outputs)
    x, codes = elements("f4", (40, outputs)), rng.permutation(np.resize([-1, 0, 2, 2], 40))
    held = selection(opened, x, 40, outputs, groups=codes, count=4)
    held.add([upload(opened, x)], box(x.shape, ()), [(0, 0, 40)])
    keys = held.chosen(np.full((4 * outputs, 1), 3)).reshape(4, outputs, 2)
    for group in (0, 2):
        want = np.sort(x[codes == group], axis=0)[3:5]
        np.testing.assert_array_equal(values_of(keys[group].T, x.dtype), want)
    assert (keys[[1, 3]] == np.iinfo(keys.dtype).max).all()


def test_what_is_not_brought_is_absent(opened: DeviceContext):
    x = elements("f4", (5, 20))
    held = selection(opened, x, 9, 20)
    held.add([upload(opened, x)], box(x.shape, ()), [(0, 4, 5)])
    keys = held.chosen(np.tile([0, 4, 5], (20, 1)))
    np.testing.assert_array_equal(values_of(keys[:, :2, 0].T, x.dtype), np.sort(x, axis=0)[[0, 4]])
    assert (keys[:, 2] == np.iinfo(keys.dtype).max).all()
