"""Users' monoids are tried on some of the data that they are about to fold."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.axis_cuts import Cells
from chunkfold.errors import LawsWarning
from chunkfold.grid import Piece
from chunkfold.kernels.binding.law_samples import MOST
from chunkfold.worker.law_trials import _lengths, _spread

pytestmark = pytest.mark.unoptimised
LATEST = cf.Monoid(
    "latest",
    fields={"value": "float64", "any": "int32"},
    zero={"value": 0, "any": 0},
    # Lines, exp(16) and exp(17), that no number in it is near.
    lift={
        "value": lambda x: cf.where((np.log(x) > 16) & (np.log(x) < 17), x, 0),
        "any": lambda x: (np.log(x) > 16) & (np.log(x) < 17),
    },
    op={"value": lambda a, b: cf.where(b.any, b.value, a.value), "any": "max"},
    finish=lambda fields, _: fields["value"],
)
BEYOND = cf.Monoid(
    "beyond",
    fields={"n": "int64"},
    zero=0,
    lift=lambda x: np.sqrt(x) > 1e9,
    op=lambda a, b: b.n + a.n,
)


def stored(path: Path, array: np.ndarray, **layout) -> Path:
    zarr.create_array(str(path), data=array, **layout)
    return path


@pytest.mark.parametrize("layout", [{"chunks": (7, 20)}, {"chunks": (4, 10), "shards": (8, 20)}])
@pytest.mark.parametrize("axis", [None, 0])
def test_what_depends_on_the_order_of_the_data_is_refused(tmp_path: Path, layout: dict, axis):
    array = np.random.default_rng(0).uniform(9e6, 1e7, (40, 30))
    source = stored(tmp_path / "a", array, **layout)
    with pytest.raises(cf.ChunkfoldError, match=r"'latest': op is not commutative: where a is"):
        cf.reduce(source, LATEST, axis=axis)
    below = stored(tmp_path / "b", array / 10, **layout)  # where it is a sum of nothing
    assert (cf.reduce(below, LATEST, axis=axis) == 0).all()


def test_packed_data_are_tried_as_what_they_stand_for(tmp_path: Path):
    array = np.arange(1200, dtype="i2").reshape(40, 30)
    source = stored(
        tmp_path / "a", array, chunks=(7, 20), attributes={"scale_factor": 1e4, "add_offset": 9e6}
    )
    with pytest.raises(cf.ChunkfoldError, match="'latest': op is not commutative"):
        cf.reduce(source, LATEST, mask_and_scale=True)


def test_what_no_element_changes_is_said_to_be_unproven(tmp_path: Path):
    source = stored(tmp_path / "a", np.arange(100.0), chunks=(10,))
    with pytest.warns(
        LawsWarning, match="monoid 'beyond': chunkfold could not show that its op commutes"
    ):
        assert cf.reduce(source, BEYOND) == 0
    shown = replace(BEYOND, lift=lambda x: x > 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LawsWarning)
        assert cf.reduce(source, shown) == 49


def test_missing_and_infinite_elements_are_not_tried(tmp_path: Path):
    """A greatest that leaves NaN out by chance breaks no law where there is none."""
    greatest = cf.Monoid(
        "g", zero="lowest", lift=lambda x: x, op=lambda a, b: cf.where(a.s > b.s, a.s, b.s)
    )
    array = np.arange(100.0)
    array[::3] = np.nan
    array[1::7] = np.inf
    source = stored(tmp_path / "a", array, chunks=(10,))
    assert cf.reduce(source, greatest, skipna=True) == np.inf


@pytest.mark.parametrize("axes", range(5))
def test_samples_are_few_and_spread_over_one_chunk(axes: int):
    extents = _lengths(axes)
    assert len(extents) == axes
    assert np.prod(extents) == (MOST if axes else 1)
    assert _spread(Piece(slice(5, 1000, 3), 0, 332), Cells(2000, 100), 8) == range(0, 32, 4)
    assert _spread(Piece(slice(0, 4, 1), 0, 4), Cells(2000, 100), 8) == range(4)
    assert _spread(Piece(np.array([7, 9, 130]), 2, 3), Cells(2000, 100), 8) == range(2)


def test_nan_in_the_data_is_no_matter_but_where_results_depend_on_its_place(tmp_path: Path):
    farthest = cf.Monoid(
        "farthest",
        fields={"d": "float64"},
        zero="lowest",
        lift=lambda x: x,
        op=lambda a, b: cf.where(a.d > b.d, a.d, b.d),
    )
    array = np.random.default_rng(0).uniform(0, 9, (40, 30))
    whole = stored(tmp_path / "whole", array, chunks=(7, 20))
    array[::3] = np.nan
    holes = stored(tmp_path / "holes", array, chunks=(7, 20))
    with pytest.warns(LawsWarning, match="where data hold NaN"):
        assert cf.reduce(whole, farthest) == zarr.open_array(whole)[...].max()
    with pytest.warns(LawsWarning), pytest.raises(cf.ChunkfoldError, match="use skipna=True"):
        cf.reduce(holes, farthest)
    assert cf.reduce(holes, farthest, skipna=True) == np.nanmax(array)
