"""Stores that were damaged at random, each reduced in this process; a line of JSON tells of each.

`python -m tests.real.mutants FOLDER FIRST BEHIND`: the mutants of these numbers, which are seeds.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import resource
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec, TransposeCodec
from zarr.storage import MemoryStore, ZipStore

import chunkfold as cf
from chunkfold.sources.opening import open_each
from chunkfold.workflows.cli import main as command_line

MEMORY = 6 << 30
"""Bytes of addresses that the process may have."""
VALUES = np.random.default_rng(5).integers(-1000, 1000, (20, 30)).astype("i4")
CHUNKS = (10, 15)
ODD: list[Any] = [
    None, -1, 0, 1, 2, 33, 2**31, 2**63, 2**64, 10**30, 0.5, 1e308, float("nan"), "", "x", "\0", [],
    {}, True, [[]], {"a": 1}, [0], [1] * 40, "<f8", "|O", "int64", ["/etc/passwd"], "/etc/passwd",
    "../../../etc/passwd", "base64:AAAA", "zlib", "\u202e",
]  # fmt: skip


def _format_2(path: Path, **more: Any) -> None:
    made = zarr.create_array(
        path, shape=VALUES.shape, chunks=CHUNKS, dtype="i4", zarr_format=2, **more
    )
    made[...] = VALUES
    made.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]


def _format_3(path: Path, **more: Any) -> None:
    more = {"chunks": CHUNKS} | more
    zarr.create_array(
        path, shape=VALUES.shape, dtype="i4", dimension_names=("y", "x"), **more
    )[...] = VALUES  # fmt: skip


def _sharded(path: Path, *first: Any) -> None:
    inner = [*first, BytesCodec(), BloscCodec(shuffle="noshuffle")]
    shard = ShardingCodec(chunk_shape=(5, 15), codecs=inner)
    _format_3(path, serializer=shard, compressors=[])


def _zipped(path: Path) -> None:
    with ZipStore(path, mode="w") as store:
        made = zarr.create_array(store, shape=VALUES.shape, chunks=CHUNKS, dtype="i4")
        made[...] = VALUES


def _h5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=VALUES, chunks=CHUNKS, compression="gzip", shuffle=True)


def _references(path: Path) -> None:
    _format_2(path / "d.zarr", compressors=None)
    told = {
        f"a/{one.name}": one.read_text() if one.name.startswith(".") else [str(one), 0, 600]
        for one in (path / "d.zarr").iterdir()
    }
    (path / "refs.json").write_text(json.dumps({"version": 1, "refs": told, "templates": {}}))


BLOSC = numcodecs.Blosc("lz4", shuffle=0)
STORES: Mapping[str, Callable[[Path], None]] = {
    "plain": lambda path: _format_2(path, compressors=None),
    "fortran": lambda path: _format_2(path, compressors=numcodecs.Zlib(), order="F"),
    "delta": lambda path: _format_2(path, compressors=BLOSC, filters=[numcodecs.Delta("i4")]),
    "lzma": lambda path: _format_2(path, compressors=numcodecs.LZMA()),
    "bz2": lambda path: _format_2(path, compressors=numcodecs.BZ2()),
    "blosc": lambda path: _format_2(path, compressors=BLOSC),
    "zstd": _format_3,
    "turned": lambda path: _format_3(
        path, filters=[TransposeCodec(order=(1, 0))], compressors=[BloscCodec()]
    ),
    "sharded": _sharded,
    "turned shards": lambda path: _sharded(path, TransposeCodec(order=(1, 0))),
    "zip": _zipped,
    "h5": _h5,
    "references": _references,
}


def mutated_json(told: Any, chance: random.Random) -> Any:
    """Return a value of JSON, at one place of which there is something else."""
    if isinstance(told, (dict, list)) and told and chance.random() < 0.85:
        key = chance.choice(list(told) if isinstance(told, dict) else range(len(told)))
        made: Any = told.copy()
        if chance.random() < 0.08:
            del made[key]
        else:
            made[key] = mutated_json(told[key], chance)
        return made
    if isinstance(told, int) and chance.random() < 0.5:
        return told + chance.choice([-2, -1, 1, 2, 7, 1000])
    return chance.choice(ODD)


def mutated_bytes(content: bytes, chance: random.Random) -> bytes:
    """Return bytes of which some are others, lost or more."""
    made = bytearray(content)
    at = chance.randrange(max(1, len(made)))
    match chance.randrange(6):
        case 0:
            return bytes(made[:at])
        case 1:
            made[at:at] = chance.randbytes(chance.randrange(1, 50))
        case 2:
            del made[at : at + chance.randrange(1, 50)]
        case 3:
            made[at : at + 50] = bytes(len(made[at : at + 50]))
        case 4:
            made += made[: chance.randrange(1, len(made) + 1)]
        case _:
            for _ in range(chance.randrange(1, 9)):
                made[chance.randrange(len(made))] = chance.randrange(256)
    return bytes(made)


def mutate(file: Path, chance: random.Random) -> None:
    """Change a file."""
    content = file.read_bytes()
    if (file.suffix == ".json" or file.name.startswith(".z")) and chance.random() < 0.9:
        told = json.loads(content)
        if file.name == "refs.json" and chance.random() < 0.4:
            key = chance.choice([one for one in told["refs"] if "/.z" in one])
            inner = mutated_json(json.loads(told["refs"][key]), chance)
            told["refs"][key] = json.dumps(inner)
        else:
            told = mutated_json(told, chance)
        file.write_text(json.dumps(told))
        return
    file.write_bytes(mutated_bytes(content, chance))


def expected(kind: str, path: Path) -> int | None:
    """Return the sum of what others read there; None if that takes too long, or they refuse it."""
    with contextlib.suppress(Exception):
        if kind == "h5":
            with h5py.File(path) as file:
                return _sum(file["a"])
        if kind == "references":
            told = json.loads((path / "refs.json").read_text())
            told = told if told.get("version") is None else told["refs"]
            kept = {
                key: to if isinstance(to, str) else json.dumps(to) if isinstance(to, dict) else to
                for key, to in told.items()
            }
            store = MemoryStore(
                {key: zarr.buffer.cpu.Buffer.from_bytes(_of(to)) for key, to in kept.items()}
            )
            return _sum(zarr.open_array(store, path="a", mode="r"))
        store = ZipStore(path, mode="r") if kind == "zip" else path
        return _sum(zarr.open_array(store, mode="r"))
    return None


def _of(to: Any) -> bytes:
    if isinstance(to, str):
        return to.encode()
    content = Path(to[0]).read_bytes()
    return content if len(to) == 1 else content[to[1] : to[1] + to[2]]


def _sum(array: Any) -> Any:
    if array.size > 10**7:
        return None
    values = array[...]
    return values.sum(dtype="f8" if values.dtype.kind == "f" else None)


def place_of(kind: str, path: Path) -> Path:
    """Return where the array of a store is."""
    return {"h5": path / "a", "references": path / "refs.json" / "a"}.get(kind, path)


def outcome(kind: str, path: Path) -> str:
    """Reduce what is there; say what came of it."""
    place = place_of(kind, path)
    try:
        cf.plan(place)
        found = cf.reduce(place)
        open_each(place)
    except cf.ChunkfoldError as error:
        return f"long: {error}" if "\n" in str(error) or "Traceback" in str(error) else "refused"
    except Exception as error:  # noqa: BLE001 # that is what is looked for
        return f"traceback: {type(error).__name__}: {error}"
    if (right := expected(kind, path)) is None or found == right:
        return "right"
    same = isinstance(right, (float, np.floating)) and np.isclose(found, right, equal_nan=True)
    return "right" if same else f"wrong: {found} for {right}"


def commanded(kind: str, path: Path) -> Any:
    """Return what a command on what is there ends with."""
    sys.argv = ["chunkfold", "plan", str(place_of(kind, path))]
    try:
        command_line()
    except SystemExit as left:
        return left.code
    return None


def main(folder: Path, first: int, behind: int) -> None:
    """Try mutants, and tell of each on standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    out, sys.stdout = sys.stdout, io.StringIO()
    kinds = list(STORES)
    for seed in range(first, behind):
        chance, kind = random.Random(seed), kinds[seed % len(kinds)]
        whole, path = folder / "whole" / kind, folder / "mutant"
        if not whole.exists():
            whole.parent.mkdir(exist_ok=True)
            STORES[kind](whole)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        shutil.copytree(whole, path) if whole.is_dir() else shutil.copy(whole, path)
        files = [one for one in [path, *sorted(path.rglob("*"))] if one.is_file()]
        if kind == "references":
            files = [path / "refs.json"]
        named = [one for one in files if one.suffix == ".json" or one.name.startswith(".z")]
        mutate(chance.choice(named if named and chance.random() < 0.5 else files), chance)
        found = outcome(kind, path)
        if seed % 10 == 0 and (code := commanded(kind, path)) not in (0, 2, 4):
            found = f"traceback: a command ends with {code}"
        told = {"seed": seed, "kind": kind, "outcome": found}
        out.write(json.dumps(told) + "\n")
        out.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
