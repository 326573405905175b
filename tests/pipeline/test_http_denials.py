"""What a server refuses for all objects: said with what helps, and no chunk is skipped for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
import zarr

import chunkfold as cf
from chunkfold.outputs.outputs import check_output
from chunkfold.planning import planner
from chunkfold.sources.opening import open_each, open_source
from tests.web import Web, served

REFUSALS = [
    ("400 ExpiredToken", "the credentials have expired: get new ones .*AWS_SESSION_TOKEN"),
    ("400 InvalidToken", "the session's token is not valid: AWS_SESSION_TOKEN belongs to"),
    ("403 InvalidAccessKeyId", "the server does not know AWS_ACCESS_KEY_ID"),
    ("403 SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY does not match AWS_ACCESS_KEY_ID"),
    ("403 RequestTimeTooSkewed", "this host's clock is wrong: set it"),
    ("400 AuthorizationHeaderMalformed", "the store is in another region: set AWS_REGION"),
    ("404 NoSuchBucket", "the bucket does not exist: check its spelling"),
    ("401 Unauthorized", "the server requires credentials, or refuses the given ones"),
]


@pytest.fixture
def s3(tmp_path: Path, monkeypatch) -> Iterator[Web]:
    """A server that answers as S3 does, with a bucket of an array."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 64)
    layout = {"shape": (40,), "chunks": (4,), "dtype": "f8"}
    for name, how in (("v", {}), ("by-zarr", {"zarr_format": 2, "order": "F"})):
        made = zarr.create_array(tmp_path / f"bucket/{name}", **layout, **how)
        made[...] = 1
    with served(tmp_path) as web:
        monkeypatch.setenv("AWS_ENDPOINT_URL", web.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAHUSH")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
        with dask.config.set({"chunkfold.remote.retry": "1 s"}):
            yield web


@pytest.mark.parametrize(("answer", "meaning"), REFUSALS)
@pytest.mark.parametrize("opens", [open_source, open_each])
@pytest.mark.parametrize("url", ["s3://bucket/v", "s3://bucket/s.zip/v", "zip://v::s3://bucket/s"])
def test_what_is_refused_when_opened_is_said(s3: Web, answer: str, meaning: str, opens, url: str):
    s3.failing = lambda *_: answer
    with pytest.raises(cf.SourceError, match=f"^{url}: {meaning}") as found:
        opens(url)
    said = str(found.value)
    assert ("\n" in said, "hush" in said.lower(), answer in said) == (False, False, True), said


@pytest.mark.parametrize(("answer", "meaning"), [one for one in REFUSALS if "404" not in one[0]])
@pytest.mark.parametrize("name", ["v", "by-zarr"])
def test_no_chunk_is_left_out_for_what_all_are_refused(
    s3: Web, answer: str, meaning: str, name: str
):
    s3.failing = lambda path, _: answer if any(map(str.isdigit, path)) else ""
    with pytest.raises(cf.SourceError, match=f"^s3://bucket/{name}: {meaning}") as found:
        cf.reduce(f"s3://bucket/{name}", on_bad_chunk="skip")
    assert not isinstance(found.value, cf.ChunkError)


def test_what_one_object_is_denied_is_its_own(s3: Web):
    s3.failing = lambda path, _: "500 AccessDenied" if path.endswith("/c/1") else ""
    with pytest.raises(cf.ChunkError, match=r"cannot read chunk 'c/1'.*the server denies access"):
        cf.reduce("s3://bucket/v")


def test_credentials_that_expire_in_between_are_said_and_nothing_vanished(s3: Web):
    metadata = "/bucket/v/zarr.json"
    s3.failing = lambda path, before: "400 ExpiredToken" if path == metadata and before else ""
    with pytest.raises(cf.SourceError, match=r"^s3://bucket/v: the credentials have expired"):
        cf.reduce("s3://bucket/v")


def test_where_a_bucket_has_nothing_it_is_not_said_to_be_missing(s3: Web):
    with pytest.raises(cf.SourceError, match=r"^s3://bucket/w: no Zarr array or group is there$"):
        open_source("s3://bucket/w")


@pytest.mark.parametrize("overwrite", [True, False])
def test_outputs_are_refused_in_the_same_words(s3: Web, overwrite: bool):
    s3.failing = lambda *_: "404 NoSuchBucket"
    with pytest.raises(
        cf.PlanError, match=r"s3://bucket/o.zarr cannot be .*the bucket does not exist"
    ):
        check_output("s3://bucket/o.zarr", overwrite=overwrite)
