"""No result takes the place of an axis, its coordinate, or anything else that comes along."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.workflows.files.writing import write_results
from chunkfold.workflows.transforms.project import project

pytestmark = pytest.mark.unoptimised


def stored(folder: Path, *axes: str, beside: tuple[str, ...] = (), **said: str) -> Path:
    group = zarr.open_group(str(folder / "g.zarr"), mode="w")
    shape = tuple(range(2, 2 + len(axes)))
    values = np.arange(np.prod(shape), dtype="f8").reshape(shape)
    group.create_array("a", data=values, dimension_names=axes, attributes=said)
    for name in beside:
        along = [name] if name in axes else [axes[-1]]
        length = shape[axes.index(along[0])]
        group.create_array(name, data=np.arange(length), dimension_names=along)
    return folder / "g.zarr/a"


@pytest.mark.parametrize(
    ("axes", "beside", "said", "op", "taken"),
    [
        (("time", "mean"), ("mean",), {}, "mean", "axis 'mean'"),
        (("time", "mean"), (), {}, "mean", "axis 'mean'"),
        (("time", "y"), ("max",), {"coordinates": "max"}, "max", "array 'max'"),
        (("time", "y"), ("max",), {"ancillary_variables": "max"}, "max", "array 'max'"),
        (("time", "histogram"), (), {}, "histogram", "axis 'histogram'"),
        (("time", "count"), (), {}, "histogram", "axis 'count'"),
        (("time", "bin"), (), {}, "histogram", "axis 'bin'"),
        (("time", "extreme"), (), {}, "minmax", "axis 'extreme'"),
    ],
)
def test_a_name_that_is_taken_is_refused_before(
    tmp_path: Path, here, axes, beside, said, op: str, taken: str
):
    source = stored(tmp_path, *axes, beside=beside, **said)
    words = ("--op", f"min,{op}", "--axis", "time")
    commands = [("reduce", source, "--out", tmp_path / "o.zarr", *words)]
    if op not in ("histogram", "minmax"):
        commands.append(("project", source, tmp_path / "o.zarr", *words))
        with pytest.raises(PlanError, match=f"the result of '{op}' would be called"):
            project(source, tmp_path / "o.zarr", ["min", op], axis="time")
    job = tmp_path / "job.toml"
    job.write_text(
        f'schema = 1\nsources = "{source}"\n[reduce]\nstatistics = ["min", "{op}"]\n'
        f'axes = ["time"]\n[output]\npath = "{tmp_path}/o.zarr"\n'
    )
    for command in [*commands, ("run", job)]:
        code, _, err = here(*command)
        told = " ".join(err.split())
        assert (code, taken in told, repr(op) in told) == (2, True, True), err
    assert {path.name for path in tmp_path.iterdir()} == {"g.zarr", "job.toml"}


def test_axes_that_are_reduced_take_no_name(tmp_path: Path):
    source = stored(tmp_path, "time", "mean", beside=("mean", "time"))
    made = project(source, tmp_path / "o.zarr", "mean", axis="mean")
    np.testing.assert_array_equal(made["mean"], np.arange(6.0).reshape(2, 3).mean(axis=1))
    assert set(xarray.open_zarr(tmp_path / "o.zarr").coords) == {"time"}
    with pytest.raises(PlanError, match="so replace its axis 'mean': rename that axis"):
        project(source, tmp_path / "k.zarr", "mean", axis="mean", keepdims=True)
    project(source, tmp_path / "s.zarr", "mean", axis="time", selection=(slice(None), 1))


def test_what_has_no_names_is_written_all_the_same(tmp_path: Path):
    source = stored(tmp_path, "time", "mean", beside=("mean",))
    run = cf.submit(source, "mean", axis="time")
    reduced = {"": run.results}
    for out in ("o.json", "o.csv"):
        write_results(tmp_path / out, reduced)
    assert (tmp_path / "o.csv").read_text().splitlines()[0] == "source,axis1,mean"
    with pytest.raises(PlanError, match="would be called 'mean'"):
        write_results(tmp_path / "o.zarr", reduced)
    assert not (tmp_path / "o.zarr").exists()
