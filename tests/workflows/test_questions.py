"""Several questions from the command line and in job files: names, labels, files and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import chunkfold as cf
from chunkfold.errors import JobError
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.job.running import plan_job, run_job

pytestmark = pytest.mark.unoptimised
TIMES = np.arange("2001-01-01", "2002-03-01", dtype="M8[D]")
ASKED = (
    "--ask", "mean: --op mean,max",
    "--ask", "months: --op mean --by time.month",
    "--ask", "warm: --op count_nonzero --axis time,lat --where 'x > 0'",
)  # fmt: skip


@pytest.fixture
def air(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xr.DataArray:
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).normal(size=(len(TIMES), 4, 6)).astype("f4")
    coords = {"time": TIMES, "lat": np.arange(4) * 30.0, "lon": np.arange(6) * 60.0}
    made = xr.Dataset({"air": (("time", "lat", "lon"), values, {"units": "K"})}, coords)
    made.to_zarr("a.zarr", encoding={"air": {"chunks": (100, 4, 3)}})
    return made["air"]


def checked(found: xr.DataTree, air: xr.DataArray) -> None:
    chosen = air.sel(time=slice("2001-02", "2002-01"))
    np.testing.assert_allclose(found["mean/mean"], chosen.mean("time"), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(found["mean/max"], chosen.max("time"))
    months = chosen.groupby("time.month").mean()
    np.testing.assert_allclose(found["months/mean"], months, rtol=1e-5, atol=1e-6)
    assert found["months/mean"].dims == ("month", "lat", "lon")
    assert found["months/month"].values.tolist() == list(range(1, 13))
    np.testing.assert_array_equal(found["warm/count_nonzero"], (chosen > 0).sum(("time", "lat")))


def test_a_command_asks_several_and_writes_them_by_name(air: xr.DataArray, command: Callable):
    words = ("reduce", "a.zarr/air", "--axis", "time", "--sel", "time=2001-02:2002-01", *ASKED)
    said = json.loads(command(*words, "--json", "--out", "c.zarr").stdout)
    assert list(said["results"]) == [
        "mean/mean", "mean/max", "months/mean", "warm/count_nonzero"
    ]  # fmt: skip
    assert said["groups"] == {"months": list(range(1, 13))}
    checked(xr.open_datatree("c.zarr", engine="zarr"), air)
    command(*words, "-q", "--out", "c.nc", "--report", "c.html", "--manifest", "c.json")
    checked(xr.open_datatree("c.nc"), air)
    assert "months/mean" in Path("c.html").read_text()
    assert list(json.loads(Path("c.json").read_text())["runs"]["a.zarr/air"]["results"]) == list(
        said["results"]
    )
    planned = json.loads(command("plan", "a.zarr/air", "--axis", "time", *ASKED, "--json").stdout)
    assert {name: one["axes"] for name, one in planned["questions"].items()} == {
        "mean": [0], "months": [0], "warm": [0, 1]
    }  # fmt: skip
    printed = command(*words, "-q").stdout
    assert "groups of months [" in printed


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        (["mean --op mean"], "--ask 'mean --op mean' has no name: write 'NAME: OPTIONS'"),
        (["a: --op mean", "a: --op max"], "--ask 'a' is given twice"),
        (
            ["a: --sel time=3"],
            "--ask 'a': --sel applies to what all questions read: give it outside --ask",
        ),
        (["a: --opp mean"], "--ask 'a': No such option '--opp'"),
        (["a: --out x.zarr"], "give others outside --ask"),
        (["..: --op mean"], "a question is called '..'"),
        (["a: --where 'x >"], "--ask 'a': No closing quotation"),
        (["a: --op mean", ": --op max"], "a question is called ''"),
        (
            ["a: --coarsen lat=2", "b: --coarsen lat=4"],
            "b: its windows are 4 along 1, but those of a are 2 along 1: leaves end where",
        ),
    ],
)
def test_what_cannot_be_asked_is_said(
    asks: list[str], said: str, air: xr.DataArray, here: Callable
):
    words = [word for ask in asks for word in ("--ask", ask)]
    code, _, told = here("plan", "a.zarr/air", *words)
    assert code == 2
    assert said in told.replace("\n", " ")


JOB = """
schema = 1
sources = ["a.zarr/air"]
[reduce]
axes = ["time"]
sel = {time = "2001-02:2002-01"}
[questions.mean]
statistics = ["mean", "max"]
[questions.months]
statistics = ["mean"]
by = ["time.month"]
[questions.warm]
statistics = ["count_nonzero"]
axes = ["time", "lat"]
where = "x > 0"
[output]
path = "j.zarr"
"""


def test_a_job_file_asks_several(air: xr.DataArray):
    Path("j.toml").write_text(JOB)
    job = load_job("j.toml")
    (plan,) = plan_job(job).values()
    assert plan.request.questions == ("mean", "months", "warm")
    outcome = run_job(job)
    assert list(outcome.reduced) == ["air/mean", "air/months", "air/warm"]
    checked(xr.open_datatree("j.zarr", engine="zarr")["air"], air)


def test_statistics_for_all_that_no_question_takes_are_told(air: xr.DataArray, here: Callable):
    common = JOB.replace("[reduce]", '[reduce]\nstatistics = ["std"]')
    taken = common.replace('statistics = ["count_nonzero"]\n', "")
    for text, told in ((JOB, 0), (common, 1), (taken, 0)):
        Path("j.toml").write_text(text)
        code, out, err = here("run", "j.toml", "--check")
        assert code == 0
        assert " ".join(err.split()).count("reduce.statistics are never computed") == told
        assert "std" not in out or text == taken


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "[questions.warm]",
            "[questions.warm]\nsel = {lat = 3}",
            "questions.warm.sel applies to what",
        ),
        ('statistics = ["count_nonzero"]', "", "questions.warm.statistics"),
        ("where =", "were =", "questions.warm.were: is no such key; did you mean 'where'"),
        ("[output]", '[questions."a/b"]\nstatistics = ["sum"]\n[output]', "'a/b'"),
    ],
)
def test_a_job_file_that_asks_badly_is_refused(old: str, new: str, said: str, air: xr.DataArray):
    Path("j.toml").write_text(JOB.replace(old, new))
    with pytest.raises((JobError, cf.PlanError), match=said.replace(".", r"\.")):
        plan_job(load_job("j.toml"))


def test_a_job_file_that_asks_nothing_is_refused(air: xr.DataArray):
    Path("j.toml").write_text('schema = 1\nsources = ["a.zarr/air"]\n[output]\npath = "j.zarr"\n')
    with pytest.raises(JobError, match="the job computes nothing"):
        load_job("j.toml")
