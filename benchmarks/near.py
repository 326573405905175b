"""Arrays on a server of this host: chunkfold beside obstore alone, by threads and by asyncio.

nginx serves a folder on loopback, as a web server and as S3 would; obstore alone brings the same
chunks and drops them. All take turns; medians, GB/s of the array.

    python benchmarks/near.py [--gib 4] [--rounds 5] [--rows 1MB,8MB,zstd-1MB] [--nginx nginx]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import gpu
import obstore
from obstore.store import HTTPStore

import chunkfold as cf

PORT, THREADS, IN_FLIGHT = 8899, len(os.sched_getaffinity(0)), 64
ROWS = gpu.GROUPS["jobs"] | gpu.GROUPS["decoded"]
CONFIGURATION = """\
worker_processes auto; daemon off; user root; pid {0}/pid; error_log {0}/errors;
events {{ worker_connections 1024; }}
http {{
    access_log off; sendfile on; keepalive_requests 1000000;
    client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;
    uwsgi_temp_path {0}/d; scgi_temp_path {0}/e;
    server {{ listen 127.0.0.1:{1}; root {2}; }}
}}
"""


@contextmanager
def served(nginx: str, folder: Path) -> Iterator[str]:
    """Serve a folder."""
    with tempfile.TemporaryDirectory() as own:
        file = Path(own, "nginx.conf")
        file.write_text(CONFIGURATION.format(own, PORT, folder))
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        with subprocess.Popen([nginx, "-c", file], **quiet, start_new_session=True) as server:
            try:
                url = f"http://127.0.0.1:{PORT}"
                answers(url)
                yield url
            finally:
                server.terminate()


def answers(url: str) -> None:
    """Wait until a server answers, 10 seconds at most."""
    for _ in range(100):
        try:
            urllib.request.urlopen(url)
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nothing answers at {url}: is nginx installed?")


def by_threads(store: HTTPStore, keys: list[str]) -> None:
    """Bring objects by threads that wait."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda key: len(obstore.get(store, key).bytes()), keys))


def by_asyncio(store: HTTPStore, keys: list[str]) -> None:
    """Bring objects by one event loop."""

    async def bring() -> None:
        turns = asyncio.Semaphore(IN_FLIGHT)

        async def one(key: str) -> int:
            async with turns:
                return len(await (await obstore.get_async(store, key)).bytes_async())

        await asyncio.gather(*map(one, keys))

    asyncio.run(bring())


def main() -> None:
    """Print a line for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default="1MB,8MB,zstd-1MB", help=", ".join(ROWS))
    parser.add_argument("--nginx", default="nginx")
    options = parser.parse_args()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{PORT}", "AWS_SKIP_SIGNATURE": "true",
        "AWS_REGION": "here",
    }  # fmt: skip
    print(f"{'row':10}{'threads':>10}{'asyncio':>10}{'http://':>10}{'s3://':>10}")
    with tempfile.TemporaryDirectory() as folder, served(options.nginx, Path(folder)) as url:
        Path(folder).chmod(0o755)
        store = HTTPStore(url, client_options={"allow_http": True})
        for row in options.rows.split(","):
            own = Path(folder, "bucket", row)
            own.mkdir(parents=True)
            path, nbytes = gpu.made(own, ROWS[row], options.gib)
            array = str(Path(path).relative_to(folder))  # which begins with the bucket
            keys = [
                str(file.relative_to(folder))
                for file in Path(path).rglob("*")
                if file.is_file() and file.name != "zarr.json"
            ]
            ways: dict[str, Callable[[], object]] = {
                "threads": lambda keys=keys: by_threads(store, keys),
                "asyncio": lambda keys=keys: by_asyncio(store, keys),
                "http": lambda array=array: cf.reduce(f"{url}/{array}", "sum"),
                "s3": lambda array=array: cf.reduce(f"s3://{array}", "sum"),
            }
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for round_ in range(options.rounds + 1):
                for name, way in ways.items():
                    began = time.perf_counter()
                    way()
                    if round_:
                        seconds[name].append(time.perf_counter() - began)
            rates = (nbytes / statistics.median(each) / 1e9 for each in seconds.values())
            print(f"{row:10}" + "".join(f"{rate:10.2f}" for rate in rates), flush=True)


if __name__ == "__main__":
    main()
