"""Real servers that tests start on loopback, with their state in a folder, and stop again."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.store import S3Store

from tests.processes import finished

KEY, SECRET = "labkey", "labsecret"
CEPH = """
[global]
fsid = {fsid}
mon initial members = a
mon host = v1:127.0.0.1:{mon}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
osd class update on start = false
osd crush update on start = false
osd objectstore = memstore
memstore device bytes = 2147483648
run dir = {folder}
admin socket = {folder}/$name.asok
pid file = {folder}/$name.pid
log file = {folder}/$name.log
crash dir = {folder}
ms bind ipv6 = false
[mon.a]
mon data = {folder}/mon
mon data avail crit = 2
[osd.0]
osd data = {folder}/osd
[client]
keyring = /dev/null
[client.rgw.a]
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw enable apis = s3, admin
rgw dns name = localhost
"""
NGINX = """
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


@dataclass
class Ceph:
    """A Ceph cluster of one monitor, one OSD and one S3 gateway."""

    folder: Path
    port: int
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What clients of S3 read."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def bucket(self, name: str) -> S3Store:
        """Make a bucket."""
        store = self.store(name)
        _put(store, "")
        return store

    def publish(self, name: str, folder: Path) -> None:
        """Make a bucket of a folder's files, all of which anybody may read."""
        store, public = self.store(name), {"x-amz-acl": "public-read", "Content-Type": ""}
        _put(store, "", b"", **public)
        for file in folder.rglob("*"):
            if file.is_file():
                _put(store, str(file.relative_to(folder)), file.read_bytes(), **public)

    def store(self, name: str) -> S3Store:
        """Return a bucket's store."""
        return S3Store(
            name,
            endpoint=f"http://127.0.0.1:{self.port}",
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
        )


def _put(store: S3Store, key: str, content: bytes | None = None, **head: str) -> None:
    """Put an object, or make the bucket."""
    url = obstore.sign(store, "PUT", key, timedelta(seconds=60))
    request = urllib.request.Request(url, data=content, method="PUT", headers=head)
    with urllib.request.urlopen(request, timeout=60):
        pass


@contextlib.contextmanager
def ceph(folder: Path) -> Iterator[Ceph]:
    """Run a Ceph cluster for a while: up in some 12 s."""
    port, mon = free_port(), free_port()
    conf = folder / "ceph.conf"
    conf.write_text(CEPH.format(fsid=uuid.uuid4(), folder=folder, port=port, mon=mon))
    made = Ceph(folder, port)
    for name in ("mon", "osd"):
        (folder / name).mkdir()
    config = ["-c", conf]
    address = f"[v1:127.0.0.1:{mon}]"
    run(["monmaptool", "--create", "--clobber", "--addv", "a", address, folder / "monmap"])
    run(["ceph-mon", *config, "-i", "a", "--mkfs", "--monmap", folder / "monmap"])
    try:
        _start(made, "mon", ["ceph-mon", *config, "-i", "a", "-f"])
        identity = str(uuid.uuid4())
        asked(["ceph", *config, "osd", "new", identity])
        asked(["ceph", *config, "osd", "crush", "add", "osd.0", "1", "root=default", "host=here"])
        run(["ceph-osd", *config, "-i", "0", "--mkfs", "--osd-uuid", identity])
        _start(made, "osd", ["ceph-osd", *config, "-i", "0", "-f"])
        _start(made, "rgw", ["radosgw", *config, "-n", "client.rgw.a", "-f"])
        answering(port, 120)
        user = ["user", "create", "--uid=lab", "--display-name=lab"]
        keys = [f"--access-key={KEY}", f"--secret-key={SECRET}"]
        run(["radosgw-admin", *config, *user, *keys])
        yield made
    finally:
        for process in reversed(made.processes.values()):
            process.kill()
            process.wait(30)


@contextlib.contextmanager
def nginx(folder: Path, root: Path) -> Iterator[str]:
    """Serve a folder by nginx; yield its URL."""
    port, conf = free_port(), folder / "nginx.conf"
    conf.write_text(NGINX.format(folder=folder, root=root, port=port))
    root.chmod(0o755)
    with (folder / "out.log").open("w") as log:
        process = subprocess.Popen(
            ["nginx", "-c", str(conf), "-e", str(folder / "error.log"), "-g", "user root;"],
            stdout=log,
            stderr=log,
        )
    try:
        answering(port, 30)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _start(made: Ceph, name: str, command: Sequence[object]) -> None:
    with (made.folder / f"{name}.out").open("w") as log:
        words = [str(word) for word in command]
        made.processes[name] = subprocess.Popen(words, stdout=log, stderr=log)


def asked(command: Sequence[object], seconds: float = 60) -> None:
    """Run a command of a monitor that has just started: on a busy host it may not know it yet."""
    deadline = time.monotonic() + seconds
    while (done := finished(command, seconds)).returncode and time.monotonic() < deadline:
        time.sleep(1)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def run(command: Sequence[object], seconds: float = 60) -> None:
    """Run a command that must succeed."""
    done = finished(command, seconds)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answering(port: int, seconds: float) -> None:
    """Wait until somebody listens at a port."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens at port {port} after {seconds} s")


SLURM = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=tests Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Run Slurm on this host, as root; yield the environment of its commands. Up in 2 s."""
    host = socket.gethostname().partition(".")[0]
    megabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    conf = folder / "slurm.conf"
    conf.write_text(
        SLURM.format(
            host=host,
            folder=folder,
            controller=free_port(),
            node=free_port(),
            cpus=os.cpu_count(),
            memory=megabytes * 8 // 10,
        )
    )
    for name in ("state", "spool"):
        (folder / name).mkdir()
    for part in (folder, *folder.parents):
        part.chmod(part.stat().st_mode | 0o555)  # munge refuses a socket that others cannot reach
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    paths = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munge.pid"}
    paths |= {"log-file": "munge.log", "seed-file": "munge.seed"}
    options = [f"--{option}={folder / name}" for option, name in paths.items()]
    environment = os.environ | {"SLURM_CONF": str(conf)}
    with contextlib.ExitStack() as stack:
        for name, command in (
            ("munged", ["munged", "-F", "--force", *options]),
            ("slurmctld", ["slurmctld", "-D", "-c"]),
            ("slurmd", ["slurmd", "-D"]),
        ):
            log = stack.enter_context((folder / f"{name}.out").open("w"))
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            stack.callback(_stopped, process)
            if name == "munged":
                _until((folder / "munge.sock").exists, 30)
        try:
            _until(lambda: "idle" in _output(["sinfo", "-h", "-o", "%T"], environment), 60)
            yield environment
        finally:
            _output(["scancel", "-u", "root"], environment)
            _until(lambda: not _output(["squeue", "-h"], environment).strip(), 60)


def _stopped(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)


def _until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not after {seconds} s"
        time.sleep(0.1)


def _output(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    return done.stdout
