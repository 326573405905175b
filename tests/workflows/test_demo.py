"""The demo in its short form: it agrees with NumPy, and notices when it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from chunkfold.workflows.cli import demo_command, sample
from tests.conftest import DEVICES
from tests.workflows.test_cli import chunkfold

pytestmark = pytest.mark.unoptimised


@pytest.mark.short
def test_the_demo_agrees_with_numpy(tmp_path: Path):
    words = ("demo", "--size", 0.06, "--folder", tmp_path, "--device", f"{DEVICES[0].spec}/2")
    done = chunkfold(*words)
    assert done.stdout.count("identical") == 5
    assert done.stdout.count(" yes ") == 8
    assert "every result agrees with NumPy's" in done.stdout
    assert f"{DEVICES[0].spec}/2#0" in done.stdout
    assert f"{DEVICES[0].spec}/2#1" in done.stdout
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    chunkfold(*words)  # the sample is there and whole: it is kept
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_sample_that_was_cut_short_is_written_anew(tmp_path: Path):
    path = tmp_path / "s.zarr"
    group = sample.write_sample(path, 3, lambda _: None)
    assert group.attrs["whole"]
    written = []
    sample.write_sample(path, 3, written.append)
    assert written == [3 * 721 * 1440 * 6]
    del group.attrs["whole"]
    written.clear()
    again = sample.write_sample(path, 3, written.append)
    assert written == [3 * 721 * 1440 * 6]
    values = again["temperature"][...]
    assert 200 < values.min() < values.max() < 340
    np.testing.assert_array_equal(again["packed"][...], np.rint((values - 200) * 100))


def test_a_result_that_differs_ends_the_demo_with_1(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(demo_command, "_agree", lambda op, *_: (op != "max", "as scripted"))
    words = ["--size", "0.004", "--folder", str(tmp_path), "--device", DEVICES[0].spec]
    done = CliRunner().invoke(demo_command.demo_command, words)
    assert done.exit_code == 1
    assert done.stdout.count(" NO ") == 2
    assert "2 results differ from NumPy's" in done.stderr


@pytest.mark.parametrize(
    ("op", "error", "right"),
    [("min", 0, True), ("min", 1e-6, False), ("sum", 1e-13, True), ("sum", 1e-5, False),
     ("mean", 1e-13, True), ("mean", 1e-5, False)],
)  # fmt: skip
def test_a_float_result_that_is_off_is_noticed(op: str, error: float, right: bool):
    data = np.random.default_rng(0).uniform(1, 2, 10_000).astype("f8")
    got = getattr(np, op)(data) * (1 + error)
    assert demo_command._agree(op, data, got)[0] == right


@pytest.mark.parametrize("op", demo_command.OPS)
def test_an_integer_result_that_is_off_by_one_is_noticed(op: str):
    data = np.arange(1000, dtype="i2")
    got = getattr(np, op)(data)
    assert demo_command._agree(op, data, got)[0]
    assert not demo_command._agree(op, data, got + 1)[0]
