"""Reports: one page for any run, that loads nothing and escapes everything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.bad_chunks import BadChunk
from chunkfold.kernels.catalogue.finish_functions import BIN
from chunkfold.worker.block_report import BlockTimes, bounded_timeline
from chunkfold.workflows.manifest import Record
from chunkfold.workflows.report import svg
from chunkfold.workflows.report.page import render
from chunkfold.workflows.results import skipped_json

pytestmark = pytest.mark.unoptimised

VOID = {"meta", "br"}


class Checked(HTMLParser):
    """Every tag is closed; nothing is loaded."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs):
        assert tag not in ("script", "link", "img", "iframe")
        for name, value in attrs:
            assert name not in ("src", "href", "style"), (tag, name)
            assert not name.startswith("on")
            assert "://" not in (value or "") or name == "xmlns"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs):
        assert tag in ("rect", "polygon")

    def handle_data(self, data: str):
        self.text += data


def reported(array: zarr.Array, ops, **asked) -> tuple[str, Record]:
    run = cf.submit(array, ops, **asked)
    run.result()
    record = Record("<b>night</b> & day", {"op": ops}, {"a<i>": run})
    record.manifest = record.as_json()
    return render(record), record


@pytest.mark.parametrize(
    ("dtype", "ops", "asked"),
    [
        ("f4", ["mean", "histogram", "argmax"], {}),
        ("f4", ["mean", "histogram"], {"axis": 0}),
        ("f8", ["min"], {"axis": 1, "skipna": True}),
        ("i2", ["sum", "minmax"], {}),
        ("M8[D]", ["max"], {"axis": 0}),
        ("c8", ["sum"], {}),
        ("?", ["any"], {"axis": 0}),
        ("f4", ["count"], {"selection": (slice(0, 0), slice(None)), "allow_empty": True}),
    ],
)
def test_any_run_has_a_page(dtype: str, ops: list[str], asked: dict):
    values = np.arange(60).reshape(12, 5).astype(dtype)
    page, record = reported(zarr.create_array({}, data=values, chunks=(4, 5)), ops, **asked)
    text = Checked(page).text
    assert "<b>night</b> & day" in text
    assert "a<i>" in text
    for op in ops:
        assert op in text
    assert '"elements"' in text  # the manifest
    json.dumps(record.as_json(), allow_nan=False)


def test_a_page_says_what_was_left_out_and_retried():
    array = zarr.create_array({}, data=np.arange(8.0), chunks=(2,))
    run = cf.submit(array, ["sum"])
    run.result()
    record = Record("n", {}, {"a": run})
    told = record.as_json()
    bad = BadChunk("a", "chunk", "c/0", ("zstd",), "/a", "ValueError: <is> bad")
    told["runs"]["a"]["skipped"] = skipped_json({bad: 1234, None: 2})
    told["runs"]["a"]["retries"] = {"blocks": 3, "workers": [{"worker": "w", "reason": "r"}]}
    told |= {"status": "failed", "error": "ChunkError: <x>"}
    record.manifest = told
    text = Checked(render(record)).text
    for words in (
        "chunk c/0",
        "ValueError: <is> bad",
        "zstd",
        "1,234",
        "others",
        "3 computed again, 1 workers",
        "ChunkError: <x>",
    ):
        assert words in " ".join(text.split())


@pytest.mark.parametrize(("ops", "several"), [(["p95", "mean"], True), (["mean"], False)])
def test_a_further_read_is_no_retry_and_shares_are_of_what_was_folded(ops, several: bool):
    values = np.random.default_rng(0).normal(size=(40, 5000))
    page, record = reported(zarr.create_array({}, data=values, chunks=(4, 5000)), ops)
    entry = record.manifest["runs"]["a<i>"]
    text = " ".join(Checked(page).text.split())
    assert (entry["reads"] > 1) == several == (f"read {entry['reads']} times" in text)
    assert entry["retries"] == {"blocks": 0, "workers": []}
    assert entry["attempts"]["again"] == 0
    assert "computed again" not in text
    assert sum(map(int, re.findall(r"(\d+) %", text))) == 100


def test_a_run_that_failed_leaves_a_page_that_says_so(tmp_path: Path, command: Callable):
    zarr.create_array(str(tmp_path / "a.zarr"), data=np.arange(8.0), chunks=(2,))
    (tmp_path / "a.zarr/c/1").write_bytes(b"nonsense")
    command("reduce", tmp_path / "a.zarr", "-q", "--report", tmp_path / "r.html", code=4)
    text = " ".join(Checked((tmp_path / "r.html").read_text()).text.split())
    assert "failed" in text
    assert "ChunkError: " in text
    assert "It did not come to a result." in text


def times(began: float, seconds: float, prepare: float = 0, nbytes: int = 1) -> BlockTimes:
    return BlockTimes(began, seconds, prepare, 0.1, 0.2, 0, 0.3, nbytes)


SPANS = st.tuples(st.integers(0, 1000), st.integers(1, 50), st.integers(1, 9))


@given(st.lists(SPANS, max_size=2500))
def test_a_timeline_stays_bounded_and_loses_nothing(spans):
    made = bounded_timeline([times(began, seconds, 0, nbytes) for began, seconds, nbytes in spans])
    assert len(made) <= 1000
    assert sum(one.nbytes for one in made) == sum(nbytes for _, _, nbytes in spans)
    if spans:
        assert min(one.began for one in made) == min(began for began, _, _ in spans)
        last = max(began + seconds for began, seconds, _ in spans)
        assert max(one.began + one.seconds for one in made) == last


@given(st.lists(SPANS, min_size=1, max_size=40))
def test_a_stage_is_busy_for_as_long_as_its_blocks_say(spans):
    blocks = [vars(times(began, seconds, 0.5)) for began, seconds, _ in spans]
    first = min(one["began"] for one in blocks)
    span = max(one["began"] + one["seconds"] for one in blocks) - first
    busy = svg._occupancy(blocks, "fold_s", first, span)
    assert np.isclose(busy.mean() * span, 0.3 * len(blocks))
    lanes = svg._lanes(blocks)
    for lane in {lane for lane, _ in lanes}:
        row = sorted((one["began"], one["seconds"]) for n, one in lanes if n == lane)
        assert all(b[0] >= a[0] + a[1] - 2e-3 for a, b in pairwise(row))


def test_bars_are_as_high_as_counts():
    bins = np.array([(0, 1, 5), (1, 2, 10), (2, 3, 0)], BIN)
    heights = [float(h) for h in re.findall(r'height="([\d.]+)"><title>', svg.histogram(bins))]
    assert heights == [80, 160, 0]


def bars(page: str) -> np.ndarray:
    """x, width and height of every bar of a histogram: (bars, 3)."""
    found = re.findall(r'x="([\d.-]+)" y="[\d.]+" width="([\d.]+)" height="([\d.]+)"><title>', page)
    return np.array(found, float)


def test_bars_of_unequal_bins_are_areas_over_their_values():
    bins = np.array([(0, 1, 5), (1, 3, 10), (5, 9, 10)], BIN)
    x, width, height = bars(svg.histogram(bins)).T
    unit = width[0]
    np.testing.assert_allclose((x - 1) / unit, [0, 1, 5], atol=1e-3)
    np.testing.assert_allclose(width / unit, [1, 2, 4], atol=1e-3)
    np.testing.assert_allclose(height, [160, 160, 80])
    assert x[-1] + width[-1] <= svg.WIDTH


def test_even_values_make_no_steps_where_bins_change_their_width():
    for values in (np.linspace(1, 100, 100_000), np.arange(1, 128).repeat(50)):
        array = zarr.create_array({}, data=values)
        page, _ = reported(array, ["histogram"])
        _, width, height = bars(page)[1:-1].T  # those at the ends are cut
        assert width.max() > 10 * width.min() or values.dtype.kind == "i"
        assert height.min() > 0.9 * height.max()


def test_bins_without_width_or_end_hide_no_others():
    array = zarr.create_array({}, data=np.array([0.0] * 50 + [1.0, 2.0, 3.0] * 20 + [np.inf] * 7))
    page, _ = reported(array, ["histogram"])
    text = Checked(page).text
    found = bars(page)
    assert "inf to inf: 7" in text
    assert len(found) == 4
    assert (found[:, 2] > 1).all()
    assert bars(svg.histogram(np.array([(0, 0, 5)], BIN)))[:, 1].max() <= svg.WIDTH
    assert "<rect" not in svg.histogram(np.array([], BIN))


def test_the_command_writes_one(tmp_path: Path, command: Callable):
    zarr.create_array(str(tmp_path / "a.zarr"), data=np.arange(100.0), chunks=(10,))
    words = ("reduce", "a.zarr", "--op", "mean,histogram", "--report", "r.html", "--quiet")
    command(*words, cwd=tmp_path)
    page = (tmp_path / "r.html").read_text()
    assert "49.5" in Checked(page).text
    assert "decode" in page
