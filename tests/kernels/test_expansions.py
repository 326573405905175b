"""Exact sums of many outputs: expansions, in every shape of kernel, in one form for each value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from chunkfold.kernels import (
    Accumulator,
    Combiner,
    DeviceContext,
    Fold,
    Tuning,
    as_monoid,
    bind,
    box,
)
from chunkfold.kernels.accumulator.sums import exact_sums, rewritten
from chunkfold.kernels.fold import combine as combine_module
from tests.conftest import DEVICES, SHAPES, ran, reading, tried
from tests.exactly import expected
from tests.kernels.catalogue.test_exact_sums import (
    COUNT,
    KINDS,
    bits,
    chosen,
    every,
    folded,
    hard_rows,
    rows_of,
    same,
)
from tests.kernels.fold.test_fold import upload

_FORMS = [
    pytest.param("float16", marks=pytest.mark.unoptimised),
    pytest.param("float32", marks=pytest.mark.unoptimised),
    "float64",  # as users run it: compilers that add up in another order lose what is exact
]


@pytest.mark.every_device
@pytest.mark.unoptimised
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_kernel_gives_the_same_bits(opened: DeviceContext, shape: str):
    dtype = "float32" if shape in ("tree-64", "vectors") else "float64"
    bound = bind([as_monoid("var")], [np.dtype(dtype)], exact=True)  # of two exact sums
    forms = bound.accumulator, bound.accumulator.for_outputs(2)
    tunings = {form: tried(opened.device, form, shape) for form in forms}
    if None in tunings.values():
        return  # no built-in does it
    ran.setdefault(f"exact {shape}", set()).add(opened.device.spec)
    for kind in KINDS:
        data = rows_of(kind, dtype, 2, rows=60)
        for axes in ((0, 1), (0,), (1,)):
            got = folded(opened, bound, data, axes, lambda _, form, kernel: tunings[form])
            assert bits(got) == bits(folded(opened, bound, data, axes)), (kind, axes)


@pytest.mark.whole
def test_exact_sums_ran_in_every_shape_that_they_may_have():
    """Runs behind the suite above."""
    trees = {shape for shape in SHAPES if shape.startswith(("tree", "vectors"))}
    everywhere = {device.spec for device in DEVICES}
    for shape in trees:
        assert ran[f"exact {shape}"] == everywhere


def ties(dtype: str) -> np.ndarray:
    """Return rows of which half a unit of the sum, and a little more or less, is left over.

    Then the next double, or none, is nearest.
    """
    rows = np.zeros((8, COUNT), dtype)
    units = (2.0, 2.0**-10, 2.0**-24) if dtype == "float16" else (2.0**60, 2.0**7, 2.0**-60)
    for row, signs in enumerate(itertools.product((1, -1), repeat=3)):
        rows[row, : len(signs)] = np.multiply(units, signs)
    return rows


@pytest.mark.parametrize("dtype", _FORMS)
def test_expansions_have_the_form_that_limbs_give_them(opened: DeviceContext, dtype: str):
    """Of each value there is one form, whoever made it."""
    bound = every(dtype)
    accumulator = bound.accumulator.for_outputs(2)
    limbs = accumulator.with_limbs()
    data = np.concatenate([hard_rows(dtype)[0], ties(dtype)])
    partials = []
    for form in (accumulator, limbs):
        fold = Fold(opened, form, chosen(opened, form, "rows"), outputs=len(data))
        fold.add([upload(opened, data)], box(data.shape, (1,)))
        partials.append(fold.read_back())
    for name, field in accumulator.sums.items():
        held = np.flatnonzero(~exact_sums(partials[0], name, field.limbs).lost)
        again = rewritten(partials[0], name, field.limbs, held, partials[1].arrays[name][held])
        assert len(held) > len(data) // 4
        assert bits(again) == bits(partials[0])


@pytest.mark.parametrize("dtype", _FORMS)
def test_expansions_beside_others_have_the_form_that_they_have_alone(
    opened: DeviceContext, dtype: str
):
    """CPUs settle those of neighbouring outputs together, if none of them is odd."""
    form = every(dtype).accumulator.for_outputs(2)
    columns = np.concatenate([rows_of(kind, dtype, 13, rows=8) for kind in KINDS] + [ties(dtype)]).T
    beside = np.repeat(columns, 24, axis=1)  # so that wherever eights begin some are all alike
    tuning = chosen(opened, form, "columns")
    fold = Fold(opened, form, tuning, outputs=beside.shape[1])
    fold.add([upload(opened, beside)], box(beside.shape, (0,)))
    together = fold.read_back()
    fold = Fold(opened, form, tuning)
    compared = 0
    for number, column in enumerate(columns.T):
        fold.add([upload(opened, column[:, None])], box((len(column), 1), (0,)))
        alone = fold.read_back()
        for name in form.sums:
            mine = slice(number * 24, (number + 1) * 24)
            terms = [n for n in alone.arrays if n.startswith(name)]
            here = np.array([together.arrays[term][mine] for term in terms])
            there = np.array([alone.arrays[term] for term in terms])
            lost = [np.isfinite(one[0]) & np.isnan(one[-1]) for one in (here, there)]
            if not any(one.any() for one in lost):  # which depends on the order
                assert here.tobytes() == np.repeat(there, 24, axis=1).tobytes(), (name, column)
                compared += 1
    assert compared > columns.shape[1]


@pytest.mark.parametrize("dtype", _FORMS[1:])
def test_expansions_combine_to_one_form(opened: DeviceContext, dtype: str):
    """Of three cuts, one has sums that expansions do not hold, but what all make may be held."""
    bound = every(dtype)
    accumulator = bound.accumulator.for_outputs(2)
    columns = np.concatenate([rows_of(kind, dtype, 11, rows=30) for kind in KINDS]).T.copy()
    far = rows_of("wild", dtype, 12, rows=6, count=columns.shape[1])
    columns = np.concatenate([columns, far, -far])
    whole = folded(opened, bound, columns, (0,))
    combiner = Combiner(opened, accumulator, chosen(opened, accumulator, "columns"))
    for cuts in ((1,), (3, 4), (40,), (COUNT + 2, COUNT + 6)):
        pieces = np.split(columns, cuts)
        partials = [folded(opened, bound, piece, (0,)) for piece in pieces]
        found = [len(rows.at) for partial in partials for rows in partial.wide.values()]
        assert 0 < min(found) < columns.shape[1]
        assert bits(combiner.combine(partials)) == bits(whole), cuts


@pytest.mark.unoptimised
@pytest.mark.parametrize("slabs", [1, 4, COUNT])
def test_large_partials_are_combined_slab_by_slab(opened: DeviceContext, monkeypatch, slabs: int):
    bound = every("float32")
    nbytes = 9 * bound.accumulator.nbytes * COUNT
    monkeypatch.setattr(combine_module, "SLAB_BYTES", nbytes // slabs)
    mean = next(one for one in bound.statistics if one.name == "mean")
    data = rows_of("wild", "float32", 10, rows=9)
    form = bound.accumulator
    tuning = chosen(opened, form, "columns")
    fold = Fold(opened, form, tuning, outputs=COUNT)
    partials = []
    for row in data:
        fold.add([upload(opened, row)], box((1, COUNT), (0,)))
        partials.append(fold.read_back())
    combiner = Combiner(opened, form, tuning)
    whole = mean.finish(combiner.combine(partials))
    assert same(whole, [expected("mean", column, "float32") for column in data.T.tolist()]).all()


def test_a_launch_without_vectors_is_as_exact(opened: DeviceContext):
    bound = every("float64")

    def plain(opened: DeviceContext, form: Accumulator, kernel: str) -> Tuning:
        return reading(chosen(opened, form, kernel).plain(), local_size=1)

    data = rows_of("cancelling", "float64", 9)
    for axes in ((1,), (0, 1)):
        got = folded(opened, bound, data, axes, plain)
        assert bits(got) == bits(folded(opened, bound, data, axes))
