"""Groups are compared array by array."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from chunkfold.errors import PlanError
from chunkfold.workflows.comparisons.diff_groups import GroupDifference, diff_groups

pytestmark = pytest.mark.unoptimised


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A group, and a copy of it in other chunks and another format."""
    for name, chunk, form in (("a.zarr", 2, 2), ("b.zarr", 3, 3)):
        group = zarr.open_group(tmp_path / name, mode="w", zarr_format=form)
        for path in ("air", "deep/er/sea", "mask"):
            data = np.arange(6) > 2 if path == "mask" else np.arange(6.0)
            group.create_array(path, shape=(6,), chunks=(chunk,), dtype=data.dtype)[...] = data
    return tmp_path / "a.zarr", tmp_path / "b.zarr"


def reasons(found: GroupDifference) -> dict[str, str]:
    return {one.path: one.reason for one in found.arrays if one.found is None}


def test_groups_are_equal_in_any_chunks_and_formats(pair: tuple[Path, Path]):
    found = diff_groups(*pair)
    assert (found.equal, found.unread, found.only) == (True, False, ((), ()))
    assert [one.path for one in found.arrays] == ["air", "deep/er/sea", "mask"]
    assert found.lines() == [f"{pair[0]} and {pair[1]}: 3 arrays, 3 equal"]


def test_every_difference_is_told_and_tolerances_pass_over_some(pair: tuple[Path, Path]):
    one, other = pair
    zarr.open_array(other / "air", mode="a")[3] += 0.25
    shutil.rmtree(other / "mask")
    zarr.create_array(other / "more", data=np.arange(3))
    zarr.open_array(other / "deep/er/sea", mode="a").resize((5,))
    found = diff_groups(one, other)
    assert not found.equal
    assert found.only == (("mask",), ("more",))
    assert reasons(found) == {"deep/er/sea": "shapes differ: (6,) and (5,)"}
    assert [one.differs for one in found.arrays] == [True, True]
    air = found.arrays[0].found
    assert air is not None
    differs = "1 of 6 elements differ, the first at [3]: 3.0 and 3.25"
    assert found.lines() == [
        f"mask: only in {one}",
        f"more: only in {other}",
        f"air: {differs}; max_abs 0.25; rmse {air.rmse}",
        "deep/er/sea: shapes differ: (6,) and (5,)",
        f"{one} and {other}: 4 arrays, 2 different, 2 on one side only",
    ]
    near = diff_groups(one, other, atol=0.25)
    assert [one.differs for one in near.arrays] == [False, True]


def test_arrays_that_cannot_be_read_or_compared_have_reasons(pair: tuple[Path, Path]):
    one, other = pair
    (other / "air/c/1").write_bytes(b"spoiled")
    (other / "mask/zarr.json").write_text("{ not")
    for path in pair:
        zarr.open_group(path, mode="a").create_array("names", shape=(2,), dtype="str")
    zarr.create_array(one / "time", data=np.arange(3), zarr_format=2)
    zarr.create_array(other / "time", data=np.arange(3).astype("M8[s]"))
    found = diff_groups(one, other)
    told = reasons(found)
    assert set(told) == {"air", "mask", "names", "time"}
    assert "cannot read chunk 'c/1'" in told["air"]
    assert "not compared: " in told["names"]
    unread = {one.path for one in found.arrays if one.unread}
    assert unread == {"air", "mask"}
    assert {one.path for one in found.arrays if one.differs} == {"time"}
    assert (found.unread, found.equal) == (True, False)


def test_a_group_of_zarr_equals_one_of_hdf5(pair: tuple[Path, Path], tmp_path: Path):
    with h5py.File(tmp_path / "c.nc", "w") as file:
        file["air"] = file["deep/er/sea"] = np.arange(6.0)
        file["mask"] = np.arange(6) > 2
    assert diff_groups(pair[0], tmp_path / "c.nc").equal


def test_arrays_and_groups_are_not_compared_with_each_other(pair: tuple[Path, Path]):
    with pytest.raises(PlanError, match=r"a\.zarr/air is an array, but .*b\.zarr is a group"):
        diff_groups(pair[0] / "air", pair[1])
    with pytest.raises(PlanError, match="two arrays, not groups"):
        diff_groups(pair[0] / "air", pair[1] / "air")


def test_the_command_compares_groups(pair: tuple[Path, Path], here: Callable):
    one, other = pair
    code, shown, _ = here("diff", one, other)
    assert (code, shown) == (0, f"{one} and {other}: 3 arrays, 3 equal\n")
    zarr.open_array(other / "air", mode="a")[3] += 0.25
    code, shown, _ = here("diff", one, other, "--json")
    told = json.loads(shown)
    assert (code, told["equal"], told["only_in_first"]) == (1, False, [])
    assert {path: each["differs"] for path, each in told["arrays"].items()} == {
        "air": True, "deep/er/sea": False, "mask": False,
    }  # fmt: skip
    assert told["arrays"]["air"]["first"] == [3]
    assert here("diff", one, other, "--rtol", "0.1")[0] == 0
    (other / "air/c/1").write_bytes(b"spoiled")
    code, shown, _ = here("diff", one, other)
    assert code == 3
    assert "2 equal, 1 not compared" in shown
    code, _, said = here("diff", one, other, "--select", "0:3")
    assert code == 2
    assert "select of two arrays" in said
