"""Arrays behind a far server: chunkfold beside obstore alone, and zarr with fsspec.

A server on loopback answers late. obstore alone brings the same chunks with as many requests in
flight, and decodes nothing: it is the ceiling. Every row is the median of rounds in which all take
turns.

    python benchmarks/far.py [--rounds 3] [--slow]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import numpy as np
import obstore
import zarr
from obstore.store import from_url

import chunkfold as cf

SERVER = Path(__file__).with_name("far_server.py")
REQUESTS = 100
BEARS = 64
HALVES = ["pocl:0:cpu/2", "intel:0:cpu/2"]
"""Halves of the CPU, by both runtimes: four workers, also of two cores."""
WORKERS = 2 * len(HALVES)
UNBOUNDED = 10**6


@contextmanager
def served(folder: Path, latency_s: float, bears: int = UNBOUNDED) -> Iterator[str]:
    """Serve a folder for a while, by a process of its own."""
    command = [sys.executable, SERVER, folder, str(latency_s), str(bears)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def counts(url: str) -> tuple[int, int, int]:
    """Return requests made, refused, and most at once, since this was asked last."""
    made, refused, most = urllib.request.urlopen(f"{url}/-/counts").read().split()
    return int(made), int(refused), int(most)


def made(folder: Path, chunks: int, nbytes: int) -> Path:
    """Store so many chunks of so many bytes, without codecs."""
    array = zarr.create_array(
        str(folder), shape=(chunks, nbytes // 4), chunks=(1, nbytes // 4), dtype="f4",
        compressors=None,
    )  # fmt: skip
    array[...] = np.random.default_rng(0).random(array.shape, "f4")
    return folder


def by_obstore(url: str, chunks: int, requests: int = REQUESTS) -> float:
    """Bring all chunks, so many at once, and do nothing with them."""
    store = from_url(url, client_options={"allow_http": True})

    async def bring() -> int:
        left, total = asyncio.Semaphore(requests), 0

        async def one(number: int) -> int:
            async with left:
                answer = await obstore.get_async(store, f"c/{number}/0")
                return len(await answer.bytes_async())

        for nbytes in await asyncio.gather(*map(one, range(chunks))):
            total += nbytes
        return total

    began = time.perf_counter()
    assert asyncio.run(bring()) > 0
    return time.perf_counter() - began


def by_chunkfold(url: str, **given: object) -> float:
    """Sum the array."""
    began = time.perf_counter()
    cf.reduce(url, **given)
    return time.perf_counter() - began


def by_fsspec(url: str) -> float:
    """Sum the array as zarr reads it through fsspec."""
    began = time.perf_counter()
    zarr.open_array(url, mode="r")[...].sum()
    return time.perf_counter() - began


def medians(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Let each take its turn, round by round, after a first that is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            seconds = way()
            if number:
                taken[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def beside_peers(folder: Path, rounds: int, *, slow: bool) -> None:
    """Print how long many small chunks take far away, and large ones nearer."""
    for name, chunks, nbytes, latency_s in (
        ("1,000 chunks of 64 KiB at 100 ms", 1000, 1 << 16, 0.1),
        ("500 chunks of 1 MB at 20 ms", 500, 1 << 20, 0.02),
    ):
        array = made(folder / name.replace(" ", "-"), chunks, nbytes)
        with served(folder, latency_s) as host:
            url = f"{host}/{array.name}"
            ways: dict[str, Callable[[], float]] = {
                "obstore": lambda url=url, chunks=chunks: by_obstore(url, chunks),
                "chunkfold": lambda url=url: by_chunkfold(url),
            }
            if slow:
                ways["zarr, fsspec"] = lambda url=url: by_fsspec(url)
            found = medians(ways, rounds)
        for way, seconds in found.items():
            rate = found["obstore"] / seconds
            print(f"{name:36}{way:14}{seconds:7.2f} s  {rate:5.2f} of obstore's rate", flush=True)


def where_a_server_refuses(folder: Path, rounds: int) -> None:
    """Print how long it takes where a server bears fewer requests than there would be."""
    array = made(folder / "many", 4000, 1 << 16)
    found: dict[str, list[float]] = {}
    again: list[float] = []
    for _ in range(rounds):
        for name, most, bears in (("may be", BEARS, UNBOUNDED), ("it bears", REQUESTS, BEARS)):
            with (
                served(folder, 0.1, bears) as host,
                dask.config.set({"chunkfold.remote.requests": most}),
                cf.LocalOpenCLCluster(HALVES) as cluster,
                cluster.get_client() as client,
            ):
                by_chunkfold(f"{host}/{array.name}", client=client, selection=slice(0, 100))
                counts(host)
                found.setdefault(name, []).append(
                    by_chunkfold(f"{host}/{array.name}", client=client)
                )
                requests, refused, _ = counts(host)
                if bears == BEARS:
                    again.append(refused / requests)
    ideal, real = (statistics.median(seconds) for seconds in found.values())
    print(
        f"4,000 chunks of 64 KiB at 100 ms, {WORKERS} workers, a server that bears {BEARS}: "
        f"{real:.2f} s, {real / ideal:.2f} times as long as with {BEARS} at once; "
        f"{statistics.median(again):.1%} of requests made again"
    )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow", action="store_true", help="also zarr with fsspec")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        beside_peers(Path(folder), given.rounds, slow=given.slow)
        where_a_server_refuses(Path(folder), given.rounds)


if __name__ == "__main__":
    main()
