"""References lead to their own origin or folder, and elsewhere only by leave."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import dask
import fsspec
import numpy as np
import pytest
import zarr
from fsspec.implementations.reference import LazyReferenceMapper

import chunkfold as cf
from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.opening import open_neighbour, open_source
from chunkfold.stores.targets import Targets, is_inner
from tests.strangers import answering, head
from tests.web import Web, served

VALUES = np.arange(6, dtype="i4")


def references(target: Any, **more: Any) -> dict[str, Any]:
    """Return references of an array `x` whose one chunk is a target's."""
    array = {
        "zarr_format": 2, "shape": [6], "chunks": [6], "dtype": "<i4", "fill_value": 0,
        "order": "C", "compressor": None, "filters": None,
    }  # fmt: skip
    return {
        "version": 1,
        "refs": {".zgroup": {"zarr_format": 2}, "x/.zarray": array, "x/0": target},
        **more,
    }


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    """Serve a folder of references, beside which there is another with a secret."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "data").write_bytes(VALUES.tobytes())
    (tmp_path / "secret").write_bytes(VALUES.tobytes())
    with served(tmp_path / "served") as web:
        yield web


def local(folder: Path, target: Any, **more: Any) -> str:
    (folder / "refs.json").write_text(json.dumps(references(target, **more)))
    return f"{folder}/refs.json/x"


SPELLINGS = (
    "{secret}", "file://{secret}", "file:{secret}", "local://{secret}", "FILE://{secret}",
    "{folder}/../secret", "file://{folder}/../secret", "{folder}/link", "../secret", "~/secret",
)  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("where", ["web", "local", "tables"])
def test_files_of_this_host_need_leave(
    web: Web, tmp_path: Path, spelling: str, whole: bool, where: str, monkeypatch
):
    (web.folder / "link").symlink_to(tmp_path / "secret")
    monkeypatch.chdir(web.folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    address = spelling.format(secret=tmp_path / "secret", folder=web.folder)
    target = [address] if whole else [address, 0, 24]
    place = local(web.folder, target)
    if where == "web":
        place = f"{web.url}/refs.json/x"
    if where == "tables":
        place = f"{as_tables(web.folder, target)}/x"
    with pytest.raises(SourceError, match=r"without permission .*allow_targets='/") as found:
        cf.reduce(place)
    assert not isinstance(found.value, cf.ChunkError)
    assert cf.reduce(place, allow_targets=[f"{tmp_path}/"]) == 15
    assert cf.reduce(place, allow_targets=[str(tmp_path / "secret")]) == 15
    with pytest.raises(SourceError, match="without permission"):
        cf.reduce(place, allow_targets=[f"{tmp_path}/secre"])  # a prefix ends at a /


def as_tables(folder: Path, target: Any) -> str:
    files = fsspec.filesystem("file")
    made = LazyReferenceMapper.create(
        f"{folder}/refs.parquet", fs=files, record_size=2, engine="pyarrow"
    )
    for key, to in references(target)["refs"].items():
        made[key] = json.dumps(to) if isinstance(to, dict) else to
    made.flush()
    return f"{folder}/refs.parquet"


def test_own_folder_and_own_server_need_no_leave(web: Web):
    own = f"{web.folder}/data"
    for target in ([own], [own, 0, 24], [f"file://{own}"]):
        assert cf.reduce(local(web.folder, target)) == 15
    assert cf.reduce(f"{as_tables(web.folder, [own, 0, 24])}/x") == 15
    for target in ([f"{web.url}/data"], [f"{web.url}/data", 0, 24]):
        local(web.folder, target)
        assert cf.reduce(f"{web.url}/refs.json/x") == 15
        assert cf.reduce(f"reference://x::{web.url}/refs.json") == 15
    as_tables(web.folder, [f"{web.url}/data", 0, 24])
    assert cf.reduce(f"{web.url}/refs.parquet/x") == 15


def test_inner_servers_need_leave_from_anywhere(web: Web, tmp_path: Path):
    with served(tmp_path / "served") as inner:
        for host in (
            "127.0.0.1",
            "localhost",
            "2130706433",
            "127.1",
            "0x7f.1",
            "[::ffff:127.0.0.1]",
        ):
            target = [f"http://{host}:{inner.port}/data"]
            place = local(web.folder, target)
            for source in (place, f"{web.url}/refs.json/x"):
                with pytest.raises(SourceError, match="without permission"):
                    cf.reduce(source)
        assert not inner.asked
        target = [f"{inner.url}/data"]
        place = local(web.folder, target)
        for source in (place, f"{web.url}/refs.json/x"):
            assert cf.reduce(source, allow_targets=[inner.url]) == 15
            with pytest.raises(SourceError, match="without permission"):
                cf.reduce(source, allow_targets=[f"{inner.url}/dat", "http://127.0.0.2/"])


@contextlib.contextmanager
def redirecting(to: str) -> Iterator[str]:
    def redirect(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", to)
        request.send_header("Content-Length", "0")
        request.end_headers()

    with answering(redirect) as host:
        yield f"http://{host}"


def test_redirects_are_targets(web: Web, tmp_path: Path):
    with served(tmp_path / "served") as inner, redirecting(f"{inner.url}/data") as other:
        place = local(web.folder, [f"{other}/moved", 0, 24])
        with pytest.raises(SourceError, match=f"leads to {inner.url}/data, but without permission"):
            cf.reduce(place, allow_targets=[other])
        assert not inner.asked
        assert cf.reduce(place, allow_targets=[other, inner.url]) == 15


def test_a_server_without_ranges_gives_the_same_bytes(tmp_path: Path):
    (tmp_path / "data").write_bytes(bytes(10) + VALUES.tobytes() + bytes(99))
    with served(tmp_path, ranges=False) as web:
        local(tmp_path, [f"{web.url}/data", 10, 24])
        assert cf.reduce(f"{web.url}/refs.json/x") == 15


def test_what_is_used_is_what_was_checked(web: Web, monkeypatch):
    """A server that alternates gives the second one to nobody."""
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    told = []

    def alternate(request: BaseHTTPRequestHandler) -> None:
        told.append(request.path)
        bad = len([one for one in told if "refs.json" in one]) > 1
        good = references([f"{web.url}/data", 0, 24])
        leak = references(["{{f.__globals__[os].environ[SECRET_TOKEN]}}"], templates={"f": "{{x}}"})
        body = json.dumps(leak if bad else good).encode()
        head(request, 200, len(body))
        request.wfile.write(body)

    with answering(alternate) as host:
        source = open_source(f"http://{host}/refs.json/x", {"allow_targets": [web.url]})
        assert told == ["/refs.json"]
        assert cf.reduce(source) == 15
    assert not any("hush" in path for path in told)


@pytest.mark.parametrize("key", ["templates", "templ\\u0061tes", "\\u0074emplates"])
@pytest.mark.parametrize("name", ["f", "u"])
def test_templates_are_texts_however_they_are_spelled(web: Web, key: str, name: str, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    leak = f"{web.url}/{{{{{name}.__globals__[os].environ[SECRET_TOKEN]}}}}"
    text = json.dumps(references([leak], templates={name: "{{x}}" if name == "f" else "t"}))
    (web.folder / "refs.json").write_text(text.replace('"templates"', f'"{key}"'))
    for place in (f"{web.folder}/refs.json/x", f"{web.url}/refs.json/x"):
        with pytest.raises(SourceError, match="its templates are functions"):
            open_source(place)
    assert not any("hush" in path for path in web.asked)


def test_templates_pad_nothing_and_repeat_little(web: Web):
    place = local(web.folder, ["{{u:>2000000000}}"], templates={"u": "a"})
    with pytest.raises(SourceError, match="its templates are functions"):
        open_source(place)
    many = references(["{{u}}"], templates={"u": "a" * 1000})
    many["refs"] |= {f"x/{n}": [f"{{{{u}}}}{n}"] for n in range(100)}
    (web.folder / "refs.json").write_text(json.dumps(many))
    with (
        dask.config.set({"chunkfold.store.metadata-bytes": "20 kB"}),
        pytest.raises(SourceError, match=r"templates replaced: has more than 20,000 bytes"),
    ):
        open_source(place)
    local(web.folder, ["{{u}}/{{ v }}", 0, 24], templates={"u": str(web.folder), "v": "data"})
    assert cf.reduce(place) == 15
    local(web.folder, ["{{w}}", 0, 24], templates={"u": str(web.folder)})
    with pytest.raises(SourceError, match="has no template 'w'"):
        open_source(place)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (None, "is null"), ([None, 0, 0], "has the address null"), ([None], "has the address null"),
        (5, "is 5"), (1.5, "is 1.5"), (True, "is true"), ([], "is empty"), ("", "is empty"),
        (["", 0, 4], "is empty"), (["DATA", 0, 0], "so it is empty"), (["DATA", None, 4], "null"),
        (["DATA", -1, 4], "has the offset -1"), (["DATA", 0, 1e3], "has the size 1000.0"),
        (["DATA", 0, 2**63], "has the size 9223372036854775808"),
        (["DATA", "0", 4], 'the offset "0"'),
        (["DATA", 0], r"is \["), ([["DATA"], 0, 4], r"has the address \["),
        ("base64:AAA!", "is not base64"), (["a::b", 0, 4], "not a path or a URL"),
        (["simplecache::file:///etc/passwd", 0, 4], "not a path or a URL"),
        (["data:AAAA", 0, 4], "not a path or a URL"), (["a\0b", 0, 4], "not a path or"),
    ],
)  # fmt: skip
def test_a_malformed_reference_is_named_and_never_skipped(web: Web, target: Any, said: str):
    if isinstance(target, list):
        target = [f"{web.folder}/data" if one == "DATA" else one for one in target]
    place = local(web.folder, target)
    for more in ({}, {"on_bad_chunk": "skip"}):
        with pytest.raises(SourceError, match=said) as found:
            cf.reduce(place, **more)
        assert not isinstance(found.value, cf.ChunkError)
        assert "Error" not in str(found.value)


def test_special_files_are_no_targets(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, leave in (("pipe", []), ("zero", ["/dev"])):
        for target in ([f"{tmp_path}/{name}"], [f"{tmp_path}/{name}", 0, 24]):
            with pytest.raises(SourceError, match=r"which is a (named pipe|device), not a regular"):
                cf.reduce(local(tmp_path, target), allow_targets=leave)


@pytest.mark.parametrize("where", ["refs", "gen", "version", "top"])
def test_what_is_no_file_of_references_is_said_so(tmp_path: Path, where: str):
    told: Any = references("x")
    told |= {"refs": {"refs": [1]}, "gen": {"gen": [{}]}, "version": {"version": 2}}.get(where, {})
    (tmp_path / "refs.json").write_text(json.dumps([told] if where == "top" else told))
    with pytest.raises(SourceError, match=r"refs.json.*(not an object|'gen'|version 2|of a list)"):
        open_source(f"reference://x::{tmp_path}/refs.json")
    for text in ("[" * 100_000, '{"refs": ' * 50_000):
        (tmp_path / "refs.json").write_text(text)
        with pytest.raises(SourceError, match="not readable JSON"):
            open_source(f"reference://x::{tmp_path}/refs.json")


@pytest.mark.filterwarnings("ignore:.*_FillValue")
def test_leave_reaches_what_stands_beside(tmp_path: Path):
    group = zarr.open_group(tmp_path / "d.zarr", mode="w", zarr_format=2)
    group.create_array("x", data=np.ones(3)).attrs["_ARRAY_DIMENSIONS"] = ["t"]
    group.create_array("t", data=np.arange(3.0)).attrs["_ARRAY_DIMENSIONS"] = ["t"]
    refs = {
        path.relative_to(tmp_path / "d.zarr").as_posix(): (
            path.read_text() if path.name.startswith(".") else [str(path)]
        )
        for path in (tmp_path / "d.zarr").rglob("*")
        if path.is_file()
    }
    (tmp_path / "r").mkdir()
    (tmp_path / "r/refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    source = open_source(f"{tmp_path}/r/refs.json/x", {"allow_targets": f"{tmp_path}/d.zarr"})
    assert cf.reduce(source) == 3
    assert open_neighbour(source, "t")[...].tolist() == [0, 1, 2]
    with dask.config.set({"chunkfold.store.allow-targets": [f"{tmp_path}/"]}):
        assert cf.reduce(f"{tmp_path}/r/refs.json/x") == 3
    with pytest.raises(PlanError, match="allow_targets is 5"):
        cf.reduce(f"{tmp_path}/r/refs.json/x", allow_targets=5)


def test_origins_are_scheme_host_and_port_or_bucket():
    of_web = Targets("https://host/refs.json", ("s3://other/sub/",))
    for target in ("https://host/a", "https://HOST:443/b", "s3://other/sub/a", "s3a://other/sub/a"):
        of_web.checked(target)
    for target in (
        "http://host/a", "https://host:444/a", "https://host.evil/a", "https://host@evil/a",
        "s3://other/subs/a", "s3://other/sub/../a", "s3://other/sub/%2e%2e/a",
        "s3://others/sub/a", "gs://other/sub/a", "memory://a", "ftp://host/a",
    ):  # fmt: skip
        with pytest.raises(SourceError, match="without permission"):
            of_web.checked(target)
    bucket = Targets("s3://bucket/refs.json")
    assert bucket.checked("s3://bucket/other/key") == "s3://bucket/other/key"
    with pytest.raises(SourceError, match="allow_targets='s3://bucket2/"):
        bucket.checked("s3://bucket2/key")
    file = Targets("/data/refs.json")
    assert file.checked("s3://any/key") == "s3://any/key"
    assert file.checked("https://example.org/key") == "https://example.org/key"
    for target in (
        "http://10.1.2.3/a",
        "http://169.254.169.254/latest",
        "http://[::1]/a",
        "ftp://h/a",
    ):
        with pytest.raises(SourceError, match="without permission"):
            file.checked(target)


@pytest.mark.parametrize("host", ["192.168.1.1", "::1", "fe80::1%eth0", "0.0.0.0", "224.0.0.1"])
def test_inner_addresses_are_known(host: str):
    assert is_inner(host)


def test_caches_may_stand_before_references_and_nothing_else(tmp_path: Path):
    (tmp_path / "data").write_bytes(VALUES.tobytes())
    local(tmp_path, [f"{tmp_path}/data", 0, 24])
    assert cf.reduce(f"simplecache::reference://x::{tmp_path}/refs.json") == 15
    with pytest.raises(SourceError, match="references are read at the beginning of a chain"):
        open_source(f"zip://x::reference://s.zip::{tmp_path}/refs.json")
    local(tmp_path, ["/etc/hostname", 0, 24])
    with pytest.raises(SourceError, match="without permission"):
        cf.reduce(f"simplecache::reference://x::{tmp_path}/refs.json")


def test_references_that_changed_meanwhile_end_the_run(tmp_path: Path):
    (tmp_path / "data").write_bytes(VALUES.tobytes())
    source = open_source(local(tmp_path, [f"{tmp_path}/data", 0, 24]))
    sent = pickle.dumps(source)
    local(tmp_path, [f"{tmp_path}/refs.json", 0, 24])
    with pytest.raises(cf.ChunkfoldError, match="the references changed"):
        pickle.loads(sent)
