"""Outputs neither overlap each other nor their sources, however places are spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from chunkfold.errors import PlanError
from chunkfold.outputs.output_places import refuse_origins, refuse_overlaps


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.zarr", "a.zarr/"),
        ("a.zarr", "b/../a.zarr"),
        ("a.zarr", "a.zarr/m.json"),
        ("link/m.json", "a.zarr"),
        ("s3://b/a.zarr", "S3://b/a.zarr/m.json"),
    ],
)
def test_overlaps_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str
):
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("a.zarr")
    for pair in ((one, other), (other, None, one)):
        with pytest.raises(PlanError, match="are one or in each other"):
            refuse_overlaps(*pair)
    with pytest.raises(PlanError, match="are one or in each other"):
        refuse_origins(one, [other])


def test_neighbours_are_no_overlap():
    refuse_overlaps("a.zarr", None, "a.zarr.json", "s3://b/a.zarr", "s3://c/a.zarr")
    refuse_origins("out/a.zarr", ["a.zarr", "out/b.zarr"])
