"""The image of deploy/docker: built by buildah from a Debian of our own, run by podman."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.image

ROOT = Path(__file__).parents[2]
BASE = "debian:bookworm-slim"
OWN_CERTIFICATES = Path("/usr/local/share/ca-certificates")
ENGINE = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
cgroups = "enabled"
netns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


class Images:
    """A store of images in a folder."""

    def __init__(self, folder: Path) -> None:
        self.store = [f"--root={folder / 'store'}", f"--runroot={folder / 'run'}"]
        (folder / "containers.conf").write_text(ENGINE)
        self.environment = os.environ | {"CONTAINERS_CONF": str(folder / "containers.conf")}

    def call(self, program: str, *words: object, seconds: float = 120) -> str:
        done = subprocess.run(
            [program, "--storage-driver=vfs", *self.store, *map(str, words)],
            capture_output=True, text=True, timeout=seconds, check=False, env=self.environment,
            cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout

    def run(self, *words: object, options: Sequence[str] = ()) -> str:
        """Run chunkfold in the image: no network, nothing to write to but /tmp."""
        closed = ("--network=none", "--read-only", "--tmpfs=/tmp:size=2g", "--memory=6g")
        return self.call("podman", "run", "--rm", *closed, *options, "chunkfold", *words)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    assert os.geteuid() == 0, "make test-image needs root"
    folder = tmp_path_factory.mktemp("images")
    base, made = folder / "base", Images(folder)
    debian = ["debootstrap", "--variant=minbase", "bookworm", base]
    subprocess.run(debian, check=True, capture_output=True, timeout=600)
    container = made.call("buildah", "from", "scratch").strip()
    made.call("buildah", "add", "--quiet", container, base, "/", seconds=300)
    if OWN_CERTIFICATES.exists():  # where the way to registries has a certificate of its own
        made.call("buildah", "add", "--quiet", container, OWN_CERTIFICATES, OWN_CERTIFICATES)
        bundle = "PIP_CERT=/etc/ssl/certs/ca-certificates.crt"
        made.call("buildah", "config", "--env", bundle, container)
    made.call("buildah", "commit", "--quiet", container, BASE, seconds=300)
    made.call("buildah", "rm", container)
    recipe = ("--file=deploy/docker/Dockerfile", "--tag=chunkfold", ".")
    how = ("--isolation=chroot", "--pull=never", "--network=host")
    made.call("buildah", "bud", *how, *recipe, seconds=1200)
    yield made
    made.call("podman", "rmi", "--all", "--force")


@pytest.mark.timeout(2400)
def test_the_image_is_built_and_has_a_device(images: Images):
    assert "intel:0:cpu" in images.run("devices")


def test_the_demo_runs_in_it(images: Images):
    assert "every result agrees" in images.run("demo", "--size", "0.1", "--folder", "/tmp/demo")


def test_a_job_runs_in_it(images: Images, tmp_path: Path):
    tmp_path.chmod(0o777)
    code = "import numpy, zarr; zarr.create_array('/w/a.zarr', data=numpy.arange(9.), chunks=(2,))"
    volume = f"--volume={tmp_path}:/w"
    options = (volume, "--entrypoint=python")
    images.call("podman", "run", "--rm", "--network=none", *options, "chunkfold", "-c", code)
    (tmp_path / "job.toml").write_text(
        'schema = 1\nsources = "a.zarr"\n[reduce]\nstatistics = "sum"\n[output]\npath = "o.json"\n'
    )
    images.run("run", "/w/job.toml", options=[volume])
    assert json.loads((tmp_path / "o.json").read_text()) == {"a.zarr": {"sum": 36.0}}
