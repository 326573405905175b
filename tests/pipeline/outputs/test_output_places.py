"""Outputs neither overlap each other nor their sources, however places are spelled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from chunkfold.errors import PlanError
from chunkfold.outputs.output_places import refuse_origins, refuse_overlaps
from chunkfold.outputs.outputs import check_output


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.zarr", "a.zarr/"),
        ("a.zarr", "b/../a.zarr"),
        ("a.zarr", "a.zarr/m.json"),
        ("link/m.json", "a.zarr"),
        ("s3://b/a.zarr", "S3://b/a.zarr/m.json"),
        ("a.zarr", "file://{here}/a.zarr"),
        ("a.zarr", "simplecache::file://{here}/a.zarr/air"),
        ("a.zip", "zip://air::a.zip"),
        ("a.zip", "zip://air::simplecache::file://{here}/a.zip"),
        ("refs.json", "reference://air::refs.json"),
        ("s3://b/a.zarr", "simplecache::s3://b/a.zarr/air"),
    ],
)
def test_overlaps_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str
):
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("a.zarr")
    other = other.format(here=tmp_path)
    for pair in ((one, other), (other, None, one)):
        with pytest.raises(PlanError, match="are the same, or one is inside the other"):
            refuse_overlaps(*pair)
    with pytest.raises(PlanError, match="are the same, or one is inside the other"):
        refuse_origins(one, [other])


def test_arrays_that_are_links_protect_their_group_and_what_they_lead_to(tmp_path: Path):
    for name in ("a.zarr", "b.zarr"):
        zarr.open_group(tmp_path / name, mode="w").create_array("x", data=np.arange(3.0))
    zarr.create_array(tmp_path / "b.zarr" / "air", data=np.ones(3))
    (tmp_path / "a.zarr" / "air").symlink_to(tmp_path / "b.zarr" / "air")
    for out in ("a.zarr", "b.zarr", "a.zarr/x", "b.zarr/x"):
        with pytest.raises(
            PlanError, match=r"the same, or one is inside the other|belongs to source"
        ):
            refuse_origins(tmp_path / out, [str(tmp_path / "a.zarr/air")])


def test_members_of_groups_above_are_not_replaced(tmp_path: Path):
    zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("time", data=np.arange(3.0))
    with pytest.raises(PlanError, match="belongs to source"):
        refuse_origins(tmp_path / "a.zarr/time", [str(tmp_path / "a.zarr/sub/air")])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_parts_of_a_zarr_are_no_outputs(tmp_path: Path, zarr_format: int):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=zarr_format)
    group.create_array("t", data=np.ones(3))
    metadata = "zarr.json" if zarr_format == 3 else ".zattrs"
    for out in (f"a.zarr/{metadata}", f"a.zarr/t/{metadata}", "a.zarr/t/c/o.json"):
        with pytest.raises(PlanError, match=r"has the name of a Zarr meta|lies in the Zarr arr"):
            check_output(tmp_path / out, overwrite=True)
    check_output(tmp_path / "a.zarr" / "o.json")


def test_a_folder_with_an_empty_object_is_no_zarr(tmp_path: Path):
    (tmp_path / "m.zarr").mkdir()
    (tmp_path / "m.zarr" / "zarr.json").write_text("{}")
    with pytest.raises(PlanError, match="is a folder, but not a Zarr"):
        check_output(tmp_path / "m.zarr", overwrite=True)


def test_neighbours_are_no_overlap():
    refuse_overlaps("a.zarr", None, "a.zarr.json", "s3://b/a.zarr", "s3://c/a.zarr")
    refuse_origins("out/a.zarr", ["a.zarr", "out/b.zarr"])
