"""What results do not show reaches Python as warnings, once; in the shell commands say it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf

pytestmark = pytest.mark.unoptimised
NAN = np.array([[1.0, np.nan], [2.0, 3.0]])


def warned(call: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [
        one for one in caught if issubclass(one.category, (cf.RemarkWarning, cf.MissingWarning))
    ]


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """An array of four chunks, of which two are stored."""
    made = zarr.create_array(tmp_path / "a", shape=(8,), chunks=(2,), dtype="f4")
    made[:4] = 1
    return tmp_path / "a"


def test_nan_in_results_is_warned_of_where_it_was_asked_for():
    (told,) = warned(lambda: cf.reduce(NAN, ["mean", "max", "count"]))
    assert (told.category, told.filename) == (cf.NaNWarning, __file__)
    assert str(told.message) == (
        "mean, max are NaN because the data contain NaN; skipna=True ignores them"
    )
    assert warned(lambda: cf.reduce(NAN, "mean", skipna=True)) == []
    (told,) = warned(lambda: cf.reduce(NAN, {"all": cf.ask("mean"), "last": cf.ask("max")}))
    assert "mean of all, max of last are NaN" in str(told.message)


@pytest.mark.parametrize("skipna", [True, False])
@pytest.mark.parametrize("op", ["mean", "sum", "var"])
def test_nan_of_weights_is_told_apart_from_nan_of_elements(op: str, skipna: bool):
    numbers, weights = np.arange(6.0).reshape(2, 3), np.array([1, np.nan, 2])
    for axis in (None, 0, 1):
        (told,) = warned(
            lambda axis=axis: cf.reduce(numbers, op, axis=axis, weights=weights, skipna=skipna)
        )
        assert told.category == cf.NaNWarning
        message = str(told.message).replace(", perhaps", "")
        assert message == f"{op} is NaN because weights contain NaN: give 0 to omit elements"
    lacking = np.array([[1, np.nan, 2], [np.nan] * 3])
    one = {"weights": np.array([1.0, 0, 2]), "axis": 1, "skipna": skipna}
    told_of_data = [str(told.message) for told in warned(lambda: cf.reduce(lacking, op, **one))]
    assert len(told_of_data) == (not skipna)
    assert all("because the data contain NaN; skipna" in told for told in told_of_data)


def test_a_run_warns_once_however_often_it_is_asked():
    def ask() -> None:
        run = cf.submit(NAN, "mean")
        for _ in range(2):
            run.result()
            run.labelled()
        assert run.answers

    assert [one.category for one in warned(ask)] == [cf.NaNWarning]


def test_nothing_to_reduce_is_warned_of():
    selected = warned(lambda: cf.reduce(NAN, selection=slice(0, 0), allow_empty=True))
    empty = warned(lambda: cf.reduce(np.zeros((0, 2))))
    assert [one.category for one in (*selected, *empty)] == [cf.EmptyWarning] * 2
    assert str(empty[0].message).endswith("the selection has shape (0, 2)")


@pytest.mark.parametrize("compute", [True, False])
def test_chunks_that_are_not_stored_are_warned_of(compute: bool, sparse: Path):
    (told,) = warned(lambda: cf.reduce(sparse, compute=compute))
    assert (told.category, told.filename) == (cf.UnstoredWarning, __file__)
    assert issubclass(told.category, cf.MissingWarning)
    assert "2 of 4 chunks of" in str(told.message)


def test_skipped_chunks_are_warned_of(sparse: Path):
    (sparse / "c" / "0").write_bytes(b"bad")
    found = warned(lambda: cf.reduce(sparse, on_bad_chunk="skip", selection=slice(4)))
    assert [one.category for one in found] == [cf.SkippedWarning]
    told = str(found[0].message)
    assert told.startswith("2 of 4 elements were skipped, of 1 bad chunk, such as ")


def test_warnings_can_be_errors(sparse: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", cf.RemarkWarning)
        with pytest.raises(cf.NaNWarning):
            cf.reduce(NAN, "mean")
        with pytest.raises(cf.MissingWarning):
            cf.reduce(sparse)


def test_the_shell_says_each_once_by_its_own_spelling(sparse: Path, command: Callable):
    zarr.open_array(sparse)[0] = np.nan
    told = command("reduce", sparse, "--op", "mean").stderr
    assert told.count("is NaN") == 1
    assert "--skipna ignores them" in told
    assert told.count("are not stored") == 1
    assert "Warning" not in told
    assert command("reduce", sparse, "--op", "mean", "-q").stderr == ""
