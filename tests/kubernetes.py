"""As much of Kubernetes' API as a job needs, with the operator's part played on this host.

What is made as a DaskCluster runs: its containers' own commands, as processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tornado import web, websocket

from tests.processes import BIN

CLUSTERS = "/apis/kubernetes.dask.org/v1/namespaces/([^/]+)/daskclusters"


class Api:
    """What is there, and what was asked for."""

    def __init__(self, *, operator: bool = True, ready: bool = True) -> None:
        self.operator, self.ready = operator, ready
        self.made: list[dict[str, Any]] = []
        self.removed: list[str] = []
        self.processes: list[subprocess.Popen] = []
        self.address = ("", 0)
        """Of the scheduler."""

    def start(self, manifest: dict[str, Any]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = free.getsockname()
        spec, port = manifest["spec"], str(self.address[1])
        (scheduler,) = spec["scheduler"]["spec"]["containers"]
        self._run([*scheduler["command"], "--host", "127.0.0.1", "--port", port, "--no-dashboard"])
        (worker,) = spec["worker"]["spec"]["containers"]
        for number in range(spec["worker"]["replicas"]):
            name = f"worker-{number}"
            self._run(
                [word.replace("$(DASK_WORKER_NAME)", name) for word in worker["command"]],
                DASK_SCHEDULER_ADDRESS=f"tcp://127.0.0.1:{port}",
            )

    def _run(self, command: list[str], **environment: str) -> None:
        self.processes.append(
            subprocess.Popen(
                [BIN / command[0], *command[1:]],
                env=os.environ | environment,
                stderr=subprocess.DEVNULL,
            )
        )

    def is_ready(self) -> bool:
        """What the scheduler's readiness probe says."""
        with socket.socket() as probe:
            return self.ready and probe.connect_ex(self.address) == 0

    def stop(self) -> None:
        """As Kubernetes does: ask, and after a while do not."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(3)


class _Handler(web.RequestHandler):
    def initialize(self, api: Api) -> None:
        self.api = api

    def refuse(self, code: int, message: str) -> None:
        self.set_status(code)
        self.finish({"kind": "Status", "message": message, "code": code})


class _Version(_Handler):
    def get(self) -> None:
        self.finish({"major": "1", "minor": "33", "gitVersion": "v1.33.0"})


class _Versions(_Handler):
    def get(self) -> None:
        resources = [
            {"name": f"{name}s", "singularName": name, "kind": name.title(), "namespaced": True}
            for name in ("service", "pod")
        ]
        self.finish({"versions": ["v1"], "groups": [], "resources": resources})


class _Clusters(_Handler):
    def post(self, namespace: str) -> None:
        if not self.api.operator:
            self.refuse(404, "the server could not find the requested resource")
            return
        manifest = json.loads(self.request.body)
        manifest["metadata"]["namespace"] = namespace
        self.api.made.append(manifest)
        self.api.start(manifest)
        self.set_status(201)
        self.finish(manifest)


class _Cluster(_Handler):
    async def delete(self, namespace: str, name: str) -> None:
        self.api.removed.append(name)
        await asyncio.to_thread(self.api.stop)
        self.finish({})


class _Objects(_Handler):
    """Services and pods: lists, and one by its name."""

    def initialize(self, api: Api, kind: str) -> None:
        self.api, self.kind = api, kind

    def get(self, namespace: str, name: str | None = None) -> None:
        items = [self.item(made, namespace) for made in self.api.made]
        wanted = self.get_argument("fieldSelector", "")
        found = [one for one in items if not wanted or f"={one['metadata']['name']}" in wanted]
        if name is None:
            self.finish({"kind": f"{self.kind}List", "items": found})
        else:
            self.finish(next(one for one in items if one["metadata"]["name"] == name))

    def item(self, made: dict[str, Any], namespace: str) -> dict[str, Any]:
        metadata = {"name": f"{made['metadata']['name']}-scheduler", "namespace": namespace}
        if self.kind == "Service":
            spec = made["spec"]["scheduler"]["service"]
            return {"kind": self.kind, "metadata": metadata, "spec": spec}
        status = str(self.api.is_ready())
        conditions = [{"type": name, "status": status} for name in ("Ready", "ContainersReady")]
        status = {"phase": "Running", "conditions": conditions}
        return {"kind": self.kind, "metadata": metadata, "status": status}


class _Forward(websocket.WebSocketHandler):
    """Channel 0 carries data, channel 1 errors; each begins with the port."""

    def initialize(self, api: Api) -> None:
        self.api = api

    async def open(self, namespace: str, name: str) -> None:
        port = int(self.get_argument("ports")).to_bytes(2, "little")
        self.reader, self.writer = await asyncio.open_connection(*self.api.address)
        for channel in (b"\0", b"\1"):
            await self.write_message(channel + port, binary=True)
        self.copying = asyncio.create_task(self.copy())

    async def copy(self) -> None:
        while data := await self.reader.read(1 << 16):
            await self.write_message(b"\0" + data, binary=True)
        self.close()

    async def on_message(self, message: str | bytes) -> None:
        assert isinstance(message, bytes)
        self.writer.write(message[1:])
        await self.writer.drain()

    def on_close(self) -> None:
        self.writer.close()


def written_config(folder: Path, port: int) -> Path:
    """Write a kubeconfig for an API on this host."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "me", "user": {"token": "secret-token"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "science"}}
        ],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@contextmanager
def serving(api: Api, folder: Path) -> Iterator[Path]:
    """Serve it for a while; yield a kubeconfig that says where."""
    core = "/api/v1/namespaces/([^/]+)"
    given = {"api": api}
    rules = [
        ("/version/?", _Version, given),
        ("/apis?(?:/v1)?/?", _Versions, given),
        (CLUSTERS, _Clusters, given),
        (f"{CLUSTERS}/([^/]+)", _Cluster, given),
        (f"{core}/services(?:/([^/]+))?", _Objects, given | {"kind": "Service"}),
        (f"{core}/pods(?:/([^/]+))?", _Objects, given | {"kind": "Pod"}),
        (f"{core}/pods/([^/]+)/portforward", _Forward, given),
    ]
    started, loop = threading.Event(), asyncio.new_event_loop()
    ports: list[int] = []

    async def serve() -> None:
        server = web.Application(rules).listen(0, "127.0.0.1")
        ports.extend(one.getsockname()[1] for one in server._sockets.values())
        started.set()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(10)
    path = written_config(folder, ports[0])
    try:
        yield path
    finally:
        api.stop()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
