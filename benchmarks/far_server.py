"""Serve a folder on loopback as a far server does: late, and refusing what is more than it bears.

    python benchmarks/far_server.py FOLDER LATENCY_S BEARS

It prints its port. `/-/counts` answers with requests made, refused, and most at once, and forgets.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

_RANGE = re.compile(r"(?i)range: bytes=(\d*)-(\d*)")
_ANSWER = (
    "HTTP/1.1 {}\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n{}Content-Length: {}\r\n\r\n"
)


class Far:
    """What is served, and what was asked."""

    def __init__(self, folder: str, latency_s: float, bears: int) -> None:
        self.folder, self.latency_s, self.bears = Path(folder), latency_s, bears
        self.made = self.refused = self.most = self.busy = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                await self._answer(*head.split(" ", 2), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, method: str, path: str, rest: str, writer: asyncio.StreamWriter
    ) -> None:
        if path == "/-/counts":
            told = f"{self.made} {self.refused} {self.most}"
            self.made = self.refused = self.most = 0
            writer.write((_ANSWER.format("200 OK", "", len(told)) + told).encode())
            return
        self.made += 1
        self.busy += 1
        self.most, over = max(self.most, self.busy), self.busy > self.bears
        try:
            await asyncio.sleep(self.latency_s)
        finally:
            self.busy -= 1
        file = self.folder / path.lstrip("/")
        if over or not file.is_file():
            self.refused += over
            status = "429 Too Many Requests" if over else "404 Not Found"
            writer.write(_ANSWER.format(status, "", 0).encode())
            return
        body, status, more = file.read_bytes(), "200 OK", ""
        if found := _RANGE.search(rest):
            first, last = found.groups()
            start = int(first) if first else max(0, len(body) - int(last))
            stop = min(len(body), int(last) + 1) if first and last else len(body)
            status, more = (
                "206 Partial Content",
                f"Content-Range: bytes {start}-{stop - 1}/{len(body)}\r\n",
            )
            body = body[start:stop]
        writer.write(_ANSWER.format(status, more, len(body)).encode())
        if method != "HEAD":
            writer.write(body)


async def main() -> None:
    """Serve until the process is ended."""
    folder, latency_s, bears = sys.argv[1:]
    far = Far(folder, float(latency_s), int(bears))
    server = await asyncio.start_server(far.talk, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
