"""Order statistics of chunked arrays: in as many reads as planned, with all else that there is."""

from __future__ import annotations

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.events import RunStarted
from chunkfold.kernels.catalogue import radix
from chunkfold.planning import blocks, in_memory, planner
from tests.conftest import DEVICES, workers_of
from tests.kernels.catalogue.test_quantiles import elements, wanted
from tests.pipeline.test_by import SHAPE, stored

pytestmark = pytest.mark.unoptimised
WAYS = {"digit by digit": 10**9, "kept": 1}


@pytest.fixture(autouse=True, params=WAYS)
def way(request, monkeypatch) -> str:
    """Several leaves to a block, several blocks, and tables of few counters for each output.

    Each test in both ways: digits are counted read by read, or all elements of an output are kept.
    """
    monkeypatch.setattr(in_memory, "LEAST_OUTPUTS", WAYS[request.param])
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4096, 8192))
    monkeypatch.setattr(radix, "TABLE_BYTES", 4 << 20)
    return request.param


@settings(max_examples=10, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_they_are_numpys(data: st.DataObject):
    dtype = data.draw(st.sampled_from(["f4", "f8", "f2", "i2", "u1", "i4"]))
    x = elements(dtype, SHAPE, data.draw(st.integers(0, 99)), odd=False)
    chunks = data.draw(st.tuples(*(st.integers(1, n) for n in SHAPE)))
    axes = data.draw(st.sampled_from([None, 0, 1, (0, 2), (1, 2)]))
    cut = data.draw(st.sampled_from([np.s_[:], np.s_[3:20:2], np.s_[:, 2:7], np.s_[4]]))
    kept = x[cut]
    axes = axes if kept.ndim == 3 else None
    all_axes = tuple(range(kept.ndim)) if axes is None else axes
    q = data.draw(st.floats(0, 1))
    op = cf.quantile(q, method=data.draw(st.sampled_from(["linear", "lower", "hazen"])))
    got = cf.reduce(stored(x, chunks), op, axis=axes, selection=cut)
    method = op.specialised.method
    along = all_axes if isinstance(all_axes, tuple) else (all_axes,)
    np.testing.assert_array_equal(got, wanted(kept, q, along, method))


def test_several_share_each_read_and_the_first_serves_all(way: str):
    x = elements("f4", SHAPE)
    heard: list[RunStarted] = []
    ops = ["median", "p95", "mean", "max"]
    got = cf.reduce(
        stored(x), ops, on_event=lambda e: heard.append(e) if isinstance(e, RunStarted) else None
    )
    assert list(got) == ops
    again = [("median", "p95")] * (way == "digit by digit")
    assert [event.ops for event in heard] == [tuple(ops), *again]
    for name, q in [("median", 0.5), ("p95", 0.95)]:
        assert got[name] == wanted(x, q, (0, 1, 2), "linear")
    assert got["max"] == np.inf


def test_the_plan_tells_the_reads(way: str):
    x = stored(elements("f8", SHAPE))
    plan = cf.plan(x, ["median", "mean"])
    if way == "kept":
        assert plan.reads == 1
        assert "reads     1: for median a block keeps all elements of its outputs" in str(plan)
    else:
        assert plan.reads == 4
        assert "reads     4 at most, for median: 51.8 KiB in all" in str(plan)
    assert "\nreads " not in str(cf.plan(x, "mean"))


@pytest.mark.parametrize("along", [(0,), (1, 2), (1,)])
def test_groups_have_their_own(along: tuple[int, ...]):
    x = elements("f4", SHAPE)
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.resize(np.arange(-1, 4), [SHAPE[n] for n in along]))
    axes = (0, *(n for n in along if n))
    got = cf.reduce(stored(x), "p20", axis=axes, by=labels, by_axis=along)
    wide = np.broadcast_to(
        labels.reshape([n if a in along else 1 for a, n in enumerate(SHAPE)]), SHAPE
    )
    first = along[0]
    rest = [n for n in range(3) if n not in axes]
    want = []
    for group in range(4):
        held = np.where(wide == group, x.astype("f8"), np.nan)
        with np.errstate(invalid="ignore"):
            want.append(np.nanquantile(held, 0.2, axis=axes).astype("f4"))
    where = sum(n < first for n in rest)
    np.testing.assert_array_equal(got.values, np.moveaxis(np.array(want), 0, where))


def test_conditions_masks_and_gaps_leave_elements_out():
    x = elements("f4", SHAPE)
    x[2, 3] = np.nan
    mask = np.random.default_rng(0).random(SHAPE[1:]) < 0.4
    kept = mask[None] & (x > -1) & ~np.isnan(x)
    got = cf.reduce(stored(x), "nanmedian", where=(mask, lambda x: x > -1))
    assert got == np.median(x[kept].astype("f8")).astype("f4")
    packed = stored(np.arange(60, dtype="i2").reshape(3, 4, 5), (2, 2, 2))
    packed.attrs.update(scale_factor=0.5, _FillValue=7)
    got = cf.reduce(packed, "nanmedian", mask_and_scale=True)
    assert got == np.median(np.delete(np.arange(60), 7) * 0.5)


def test_chunks_that_are_not_stored_count_as_fill():
    array = zarr.create_array(store={}, shape=(40, 6), chunks=(5, 3), dtype="f4", fill_value=2.5)
    array[:10] = elements("f4", (10, 6))
    x = array[...]
    assert cf.reduce(array, "p30") == wanted(x, 0.3, (0, 1), "linear")
    np.testing.assert_array_equal(
        cf.reduce(array, "median", axis=0), wanted(x, 0.5, (0,), "linear")
    )


def test_workers_find_the_same(tmp_path: Path):
    x = elements("f4", SHAPE)
    zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(5, 3, 4))
    with (
        cf.LocalOpenCLCluster(workers_of(DEVICES[0], 2), dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        run = cf.submit(tmp_path / "x.zarr", ["median", "p99", "mean"], axis=0, client=client)
        got = run.result()
        dask = cf.reduce(da.from_array(x, (5, 3, 9)) + 0, "median", axis=0, client=client)
    assert sum(entry.nbytes for entry in run.profile.values()) == run.plan.reads * x.nbytes
    for name, q in [("median", 0.5), ("p99", 0.99)]:
        np.testing.assert_array_equal(got[name], wanted(x, q, (0,), "linear"))
    np.testing.assert_array_equal(dask, got["median"])


def test_several_quantiles_make_a_last_axis_with_their_values():
    x = elements("f4", (20, 6))
    source = zarr.create_array(store={}, data=x, chunks=(5, 3), dimension_names=["time", "x"])
    found = cf.reduce(source, cf.quantile([0.1, 0.9]), axis="time", labels=True)
    assert (found.dims, found.shape) == (("x", "quantile"), (6, 2))
    assert found.to_xarray()["quantile"].values.tolist() == [0.1, 0.9]


def test_what_is_too_large_is_refused(monkeypatch, way: str):
    x = stored(elements("f4", SHAPE))
    monkeypatch.setattr(in_memory, "MOST_BYTES", 100)
    if way == "digit by digit":
        with pytest.raises(PlanError, match=r"median of .* is read several times.*select less"):
            cf.plan(x, "median", axis=0)


@pytest.mark.parametrize("kind", ["numpy", "zarr"])
def test_elements_that_are_others_in_a_later_read_end_it(kind: str, way: str):
    x, heard = elements("f4", SHAPE, odd=False), list[RunStarted]()
    source, want = x if kind == "numpy" else stored(x), wanted(x, 0.5, (0, 1, 2), "linear")

    def change(event: object) -> None:
        if isinstance(event, RunStarted):
            heard.append(event)
            if len(heard) == 2:
                source[...] = x + 100

    if way == "kept":
        assert cf.reduce(source, "median", on_event=change) == want
    else:
        with pytest.raises(
            cf.ChunkfoldError, match=r"'median'.* changed before the last one: run it"
        ):
            cf.reduce(source, "median", on_event=change)


def test_outputs_with_nan_are_no_change(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(radix, "TABLE_BYTES", 1 << 17)  # the first digits of NaN are an infinity's
    x = elements("f4", SHAPE)
    x[:, 2], x[3:, 4] = np.nan, np.inf
    x[3, 4] = np.nan
    np.testing.assert_array_equal(
        cf.reduce(stored(x), "p97", axis=0), wanted(x, 0.97, (0,), "linear")
    )


def test_sketches_take_one_read_and_the_same_bits_in_any_chunks():
    """With groups, conditions and NaN; exact ones next to them take their own reads."""
    x = elements("f4", SHAPE, odd=False)
    x[::4, 2] = np.nan
    sketch = cf.quantile([0.1, 0.5, 1], method="sketch", rtol=0.02)
    labels = np.arange(SHAPE[0]) % 3
    given = {"axis": (0, 1), "by": labels, "by_axis": 0, "skipna": True}
    one, other = (
        cf.reduce(stored(x, chunks), sketch, where=lambda x: x > -100, **given)
        for chunks in (SHAPE, (5, 2, 4))
    )
    assert one.dims[-1] == "quantile"
    assert one.attrs["rtol"] == 0.02
    np.testing.assert_array_equal(one.values, other.values)
    held = np.where(x > -100, x, np.nan)
    for group in range(3):
        want = np.nanquantile(held[labels == group], [0.1, 0.5, 1], axis=(0, 1), method="lower")
        np.testing.assert_allclose(one.values[group], want.T, rtol=0.02)
        np.testing.assert_array_equal(one.values[group, :, 2], want[2])
    assert cf.plan(stored(x), sketch).reads == 1
    plain = cf.quantile([0.1, 0.5, 1], method="sketch", rtol=0.02).called("sketched")
    both = cf.reduce(stored(x), [plain, "median"], skipna=True)
    np.testing.assert_array_equal(both["median"], np.nanmedian(x.astype("f8")).astype("f4"))
    np.testing.assert_allclose(
        both["sketched"], np.nanquantile(x, [0.1, 0.5, 1], method="lower"), rtol=0.02
    )
