"""Servers that refuse what they do not have: metadata are found, chunks are missing if told so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from numcodecs import Delta

import chunkfold as cf
from chunkfold.settings import MISSING_STATUS
from chunkfold.sources.opening import open_each
from chunkfold.workflows.cli import cli
from tests.web import Web, served

pytestmark = pytest.mark.unoptimised
SECRET = b"<html>denied: hush</html>"
LAYOUTS = {
    "format 2": {"zarr_format": 2},
    "format 3": {"zarr_format": 3},
    "shards": {"shards": (20,)},
    "by zarr": {"zarr_format": 2, "order": "F", "filters": [Delta("<i4")]},
}


@pytest.fixture(params=LAYOUTS)
def forbidding(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Web]:
    """A server of an array whose second half is not stored, which it does not say."""
    made = zarr.create_array(
        str(tmp_path / "g/a"), shape=(100,), chunks=(10,), dtype="i4", fill_value=3,
        **LAYOUTS[request.param],
    )  # fmt: skip
    made[:60] = np.arange(60)
    zarr.create_group(str(tmp_path / "g"), zarr_format=made.metadata.zarr_format, overwrite=False)
    with served(tmp_path, missing=(403, SECRET)) as web:
        yield web


WANT = np.arange(60).sum() + 40 * 3


def test_an_array_is_opened_by_the_format_that_it_has(forbidding: Web):
    (one,) = open_each(f"{forbidding.url}/g/a")
    assert one.shape == (100,)
    with pytest.raises(cf.SourceError, match="403 Forbidden") as found:
        cf.plan(f"{forbidding.url}/g/b")
    assert "hush" not in str(found.value)


def test_a_refused_chunk_is_named_and_the_remedy_with_it(forbidding: Web):
    with pytest.raises(cf.ChunkError, match=r"cannot read .* 403 Forbidden") as found:
        cf.reduce(f"{forbidding.url}/g/a")
    said = str(found.value)
    assert said.endswith(
        "; if the server answers this for objects that are not stored, give --missing-status 403"
    )
    assert "hush" not in said


def test_refused_chunks_are_absent_if_the_user_says_so(forbidding: Web):
    run = cf.submit(f"{forbidding.url}/g/a", storage_options={"missing_status": 403})
    assert run.result() == WANT
    ((missing, of),) = run.missing.values()
    assert (missing, of) in ((4, 10), (2, 5))
    assert f"{missing} of {of} " in next(run.remarks())
    with dask.config.set({MISSING_STATUS: 403}):
        assert cf.reduce(f"{forbidding.url}/g/a") == WANT


def test_refused_chunks_are_not_absent_where_metadata_are_refused_too(forbidding: Web):
    """As where credentials end in the middle of a run."""
    chunks = 0

    def failing(path: str, _before: int) -> str:
        nonlocal chunks
        chunks += path.rpartition("/")[2].isdigit()
        return "403 AccessDenied" if chunks > 2 else ""

    forbidding.failing = failing
    with pytest.raises(cf.SourceError, match=r"vanished while it was read|denies access"):
        cf.reduce(f"{forbidding.url}/g/a", storage_options={"missing_status": [403, 410]})


def test_the_command_line_says_so_too(forbidding: Web):
    given = ["reduce", f"{forbidding.url}/g/a", "--json", "--missing-status", "403"]
    done = CliRunner().invoke(cli, given, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["results"]["sum"] == WANT
    assert next(iter(told["not_stored"].values())) in (4, 2)
    assert not dask.config.get(MISSING_STATUS, ())  # of that command alone


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("http://127.0.0.1:1/a", {"missing_status": 500}, r"missing_status is 500; .* 403 or 410"),
        ("http://127.0.0.1:1/a", {"missing_status": True}, "missing_status is True"),
        (__file__, {"missing_status": 403}, "is not a URL of s3"),
    ],
)
def test_options_that_mean_nothing_are_refused(source: str, options: dict, said: str):
    with pytest.raises(cf.PlanError, match=said):
        cf.reduce(source, storage_options=options)


def test_a_setting_that_means_nothing_is_named():
    with (
        dask.config.set({MISSING_STATUS: 404}),
        pytest.raises(cf.PlanError, match=f"{MISSING_STATUS} is 404; give a status"),
    ):
        cf.reduce("http://127.0.0.1:1/a")
