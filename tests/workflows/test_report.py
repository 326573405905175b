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
from chunkfold.worker.block_report import BlockTimes, bounded_timeline
from chunkfold.workflows.files.manifest import Record
from chunkfold.workflows.files.results_json import skipped_json
from chunkfold.workflows.report import figures
from chunkfold.workflows.report.page import render
from chunkfold.workflows.report.words import result_words
from chunkfold.workflows.terminal.plots import drawable

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
            assert name not in ("src", "href"), (tag, name)
            assert not name.startswith("on")
            assert "://" not in (value or "") or name.startswith("xmlns")
            held = value or ""
            if name == "xlink:href":  # within the page, or a picture that is in it
                assert held.startswith(("#", "data:image/png;base64,")), held[:40]
            assert held.count("url(") == held.count("url(#")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs):
        assert tag in ("g", "path", "use", "image", "rect")
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_data(self, data: str):
        self.text += data


def reported(array: zarr.Array, ops, **asked) -> tuple[str, Record]:
    run = cf.submit(array, ops, **asked)
    run.result()
    record = Record("<b>night</b> & day", {"op": ops}, {"a<i>": run})
    record.manifest = record.as_json()
    return render(record.manifest, {"a<i>": drawable(run.answers)}), record


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
    text = Checked(render(record.manifest, {})).text
    for words in (
        "chunk c/0",
        "ValueError: <is> bad",
        "zstd",
        "1,234",
        "others",
        "3 computed again, 1 worker retired",
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
    busy = figures._occupancy(blocks, "fold_s", first, span)
    assert np.isclose(busy.mean() * span, 0.3 * len(blocks))
    lanes = figures._lanes(blocks)
    for lane in {lane for lane, _ in lanes}:
        row = sorted((one["began"], one["seconds"]) for n, one in lanes if n == lane)
        assert all(b[0] >= a[0] + a[1] - 2e-3 for a, b in pairwise(row))


def test_the_command_writes_one(tmp_path: Path, command: Callable):
    zarr.create_array(str(tmp_path / "a.zarr"), data=np.arange(100.0), chunks=(10,))
    words = ("reduce", "a.zarr", "--op", "mean,histogram", "--report", "r.html", "--quiet")
    command(*words, cwd=tmp_path)
    page = (tmp_path / "r.html").read_text()
    assert "49.5" in Checked(page).text
    assert "decode" in page


@pytest.mark.parametrize("ending", ["nc", "json"])
def test_a_manifest_makes_the_same_page_again(tmp_path: Path, command: Callable, ending: str):
    values = np.random.default_rng(0).normal(280, 9, (6, 40, 50)).astype("f4")
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), data=values, chunks=(2, 40, 50),
        dimension_names=["t", "y", "x"], attributes={"units": "K"},
    )  # fmt: skip
    assert array.nbytes
    words = ("--op", "mean,max", "--axis", "t", "--out", f"o.{ending}", "--manifest", "m.json")
    command("reduce", "a.zarr", *words, "--report", "r.html", "--quiet", cwd=tmp_path)
    page = (tmp_path / "r.html").read_text()
    command("report", "m.json", cwd=tmp_path)
    assert (tmp_path / "m.html").read_text() == page
    assert page.count("<image") == 2 * 2 * 2  # maps and colour bars, wide and narrow
    (tmp_path / f"o.{ending}").unlink()
    command("report", "m.json", "n.html", cwd=tmp_path)
    text = Checked((tmp_path / "n.html").read_text()).text
    assert "40 of y, 50 of x: from " in text
    assert str(values.max()) in text


def test_small_results_are_in_the_manifest(tmp_path: Path, command: Callable):
    zarr.create_array(str(tmp_path / "a.zarr"), data=np.arange(600.0).reshape(30, 20))
    asks = ("--ask", "rows: --op p5,p95 --axis 1", "--ask", "all: --op histogram,mean")
    words = ("--manifest", "m.json", "--report", "r.html", "--quiet")
    command("reduce", "a.zarr", *asks, *words, cwd=tmp_path)
    command("report", "m.json", cwd=tmp_path)
    again = (tmp_path / "m.html").read_text()
    assert again == (tmp_path / "r.html").read_text()
    assert "rows_quantiles" in again
    assert "all_histogram" in again


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("none.json",), "cannot be read"),
        (("other.json",), "is not a manifest of version 1"),
        (("m.json", "page.pdf"), "ends in '.pdf'"),
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, command: Callable, words, told: str):
    (tmp_path / "other.json").write_text("[]")
    (tmp_path / "m.json").write_text('{"manifest": 1}')
    assert told in command("report", *words, cwd=tmp_path, code=2).stderr


LABELS = {
    "results": {
        "mean": {"dims": ["month"], "dtype": "float32", "attrs": {"units": "K"}},
        "max": {"dims": ["lat", "lon"], "dtype": "float32", "attrs": {}},
        "sum": {"dims": [], "dtype": "float32", "attrs": {"units": "K"}},
    },
    "coordinates": {"month": {"values": [1, 2]}, "lat": {"values": [-5.0, 0.0, 5.0]}},
}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sum", float(np.float32(278.60822)), [("", "278.60822 K")]),
        ("sum", "NaN", [("", "NaN K")]),
        ("mean", [280.5, 281.0], [("month 1", "280.5 K"), ("month 2", "281.0 K")]),
        (
            "max",
            {
                "dtype": "float32",
                "shape": [3, 7],
                "sha256": "",
                "low": 0.10000000149011612,
                "high": 2,
            },
            [("", "3 of lat (-5.0 to 5.0), 7 of lon: from 0.1 to 2")],
        ),
        ("max", [[1.0, "NaN"], [2.0, 3.0]], [("", "2 of lat, 2 of lon: from 1.0 to 3.0")]),
        (
            "histogram",
            [{"left": 0.0, "right": 1.0, "count": 3}, {"left": 1.0, "right": 2.0, "count": 4}],
            [("", "7 in 2 bins from 0 to 2, most from 1 to 2")],
        ),
    ],
)
def test_results_are_told_in_words_in_the_digits_of_their_dtype(name: str, value, said: list):
    assert list(result_words(name, value, LABELS)) == said


def test_without_what_draws_the_page_has_numbers_alone(monkeypatch: pytest.MonkeyPatch):
    array = zarr.create_array({}, data=np.arange(60.0).reshape(12, 5), chunks=(4, 5))
    monkeypatch.setattr(figures, "can_draw", lambda: False)
    page, _ = reported(array, ["mean", "histogram"])
    assert "<svg" not in page
    assert "29.5" in page
    assert "chunkfold[plot]" in page
    assert "% of the time" in page
