"""No message tells the secrets of a URL, whoever wrote it and however."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import fsspec
import numpy as np
import obstore
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import SourceError
from chunkfold.redaction import shown_address, without_secrets
from chunkfold.sources.opening import open_source
from tests.strangers import answering, head

SECRETS = ("hush", "tok123", "hu%40sh", "hu@sh", "hu sh")


def told(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("memory://store/a?sig=hush", "memory://store/a"),
        ("https://host/a.zarr?sig=hush&x=tok123", "https://host/a.zarr"),
        ("https://host/a.zarr#token=hush", "https://host/a.zarr"),
        ("https://me:hush@host:8/a.zarr", "https://host:8/a.zarr"),
        ("https://me:hu%40sh@host/a.zarr", "https://host/a.zarr"),
        ("http://me:hu/s@hush@host/a", "http://host/a"),
        ("https://host/a.zarr%3Fsig%3Dhush", "https://host/a.zarr"),
        ("zip://a::https://me:hush@host/b.zip?sig=hush", "zip://a::https://host/b.zip"),
        ("simplecache::s3://key:hush@bucket/a", "simplecache::s3://bucket/a"),
        (
            "GET https://h/a?sig=hush failed, as did https://h/b?x=tok123 and s3://bucket/a@b",
            "GET https://h/a failed, as did https://h/b and s3://bucket/a@b",
        ),
        ("url=URL('https://host/a?sig=hush'), status=403", "url=URL('https://host/a'), status=403"),
        ("<FsspecStore(Memory, /store?sig=hush)>", "<FsspecStore(Memory, /store>"),
        ("file:/store?sig=hush", "file:/store"),
        ("//me:hush@host/a", "//host/a"),
        ("headers={'Authorization': 'Basic bWU6hush'}", "headers={'Authorization': '...'}"),
        ("authorization: Bearer hush", "authorization: ..."),
        ("az://container@account/a?sv=1&sig=hush", "az://account/a"),
    ],
)  # fmt: skip
def test_texts_have_no_secrets(text: str, left: str):
    assert without_secrets(text) == left
    assert not told(left)


@pytest.mark.parametrize(
    "text",
    [
        "tcp://10.0.0.1:8786 and http://[::1]:8787/status",
        "/data/why?.zarr, x = {1: 2} ; what? yes = no",
        "Basic authentication is what is wanted",
        "GET http://host:8/a: 404",
    ],
)
def test_texts_without_secrets_stay_as_they_are(text: str):
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    ("address", "shown", "said"),
    [
        ("https://h/a b?sig=hu sh&x=tok123", "https://h/a b", "/a b?sig=hu sh&x=tok123: 404"),
        ("https://h/a?sig=hu sh", "https://h/a", "no /a?sig=hu%20sh here, nor /a?sig=hu+sh"),
        ("https://h/a?sig=hu%20sh", "https://h/a", "no key 'sig=hu sh' in it"),
        ("memory://x?sig=hu sh#y=tok123", "memory://x", "FileNotFoundError: /x?sig=hu sh#y=tok123"),
        ("https://me:hu%40sh@h/a", "https://h/a", "BasicAuth(login='me', password='hu@sh')"),
        ("zip://a?b=tok123::https://me:hush@h/b", "zip://a::https://h/b", "me:hush is not known"),
        ("/data/a?b=c.zarr", "/data/a?b=c.zarr", ""),
    ],
)  # fmt: skip
def test_secrets_of_an_address_are_told_nowhere(address: str, shown: str, said: str):
    assert shown_address(address) == shown
    assert not told(without_secrets(said))


def test_secrets_of_an_address_are_no_other_words():
    shown_address("https://h/a?v=2&mode&reduce&zarr")
    shown_address("s3://bucket/a?.zarr")
    said = "a.zarr of mode v2: reduce /a with v=2.5"
    assert without_secrets(said) == said


def test_libraries_tell_no_secrets(tmp_path: Path):
    """As obstore, fsspec and zarr say that something is wrong."""
    refused = []

    def refuse(request) -> None:
        refused.append(request.path)
        head(request, 403, 0)

    with answering(refuse) as host:
        addresses = [
            f"http://me:hush@{host}/a b.zarr?sig=hu sh&x=tok123",
            f"http://{host}/a.zarr?sig=hush#tok123",
            "memory://nothing.zarr?sig=hush",
            f"zip://a.zarr::memory://{tmp_path.name}?sig=hush",
            f"reference::memory://{tmp_path.name}.json?sig=hush",
            "s3://me:hush@bucket/a",
            "odd://me:hush@host/a?sig=tok123",
        ]
        for address in addresses:
            with pytest.raises(SourceError) as found:
                open_source(address)
            assert not told(str(found.value))
    assert any("sig=hu%20sh" in path for path in refused)
    for raised in (
        lambda: fsspec.filesystem("memory").cat_file("/gone?sig=hush"),
        lambda: obstore.get(
            obstore.store.HTTPStore.from_url(
                "http://127.0.0.1:1/a?sig=hush",
                client_options={"allow_http": True},
                retry_config={"max_retries": 0},
            ),
            "k",
        ),
    ):
        with pytest.raises(Exception) as error:  # noqa: PT011 # of each library its own
            raised()
        assert told(str(error.value))
        assert not told(without_secrets(str(error.value)))


def test_aiohttp_tells_no_secrets():
    aiohttp = pytest.importorskip("aiohttp")

    async def ask() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            await session.get(f"http://me:hush@{host}/a?sig=tok123")

    with answering(lambda request: head(request, 403, 0)) as host:
        with pytest.raises(aiohttp.ClientResponseError) as error:
            asyncio.run(ask())
        assert not told(without_secrets(f"{error.value} {error.value!r}"))


@pytest.mark.parametrize("password", ["hush", "hu%40s%3Ah", ""])
def test_a_web_server_is_given_user_and_password(tmp_path: Path, password: str):
    plain = password.replace("%40", "@").replace("%3A", ":")
    wanted = f"Basic {base64.b64encode(f'me:{plain}'.encode()).decode()}"
    zarr.create_array(tmp_path / "a.zarr", data=np.arange(12.0), chunks=(4,))

    def answer(request) -> None:
        path, _, query = request.path.partition("?")
        file = tmp_path / path.lstrip("/")
        if request.headers.get("Authorization") != wanted or query != "v=1":
            head(request, 401, 0)
        elif not file.is_file():
            head(request, 404, 0)
        else:
            head(request, 200, file.stat().st_size)
            request.wfile.write(file.read_bytes())

    with answering(answer) as host:
        assert cf.reduce(f"http://me:{password}@{host}/a.zarr?v=1") == 66
        with pytest.raises(SourceError) as found:
            cf.reduce(f"http://me:wrong{password}@{host}/a.zarr?v=1")
    assert "wrong" not in str(found.value)


@pytest.mark.parametrize("url", ["s3://key:hush@bucket/a", "gs://u:hush@bucket/a"])
def test_a_password_that_nobody_would_use_is_refused(url: str):
    with pytest.raises(SourceError, match=r"a password in a URL of .* is not used; name it by"):
        open_source(url)
