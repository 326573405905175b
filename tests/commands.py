"""Commands as tests call them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import dask.config
import pytest
from distributed import Client
from distributed.core import Status

import chunkfold as cf
from chunkfold.cluster.joining import connect
from chunkfold.workflows.cli import common_options, main
from chunkfold.workflows.job.clients import QUIET


def _inherited() -> tuple[object, ...]:
    """Return what processes that are started now would have of this one."""
    return dict(os.environ), repr(dask.config.config)


class Clusters:
    """Local clusters, each for all commands in a row that would start one like it.

    Workers have the environment and the settings of the process that starts them: a command that
    has others gets workers of its own.
    """

    def __init__(self) -> None:
        self._made: cf.LocalOpenCLCluster | None = None
        self._started_with: object = None

    def client(self, devices: list[str] | None = None) -> AbstractContextManager[Client]:
        """Stand in for what starts a cluster for a command."""
        made = self.cluster(devices)
        return connect(made.scheduler_address, security=made.security)

    def cluster(self, devices: list[str] | None = None) -> cf.LocalOpenCLCluster:
        """Return the last cluster, or another if it is not like what is asked for."""
        if (
            self._made is None
            or self._made.status != Status.running
            or self._started_with != (devices, *_inherited())
        ):
            self.close()
            levels = {one: one.level for one in logging.getLogger("distributed").handlers}
            self._made = cf.LocalOpenCLCluster(devices, silence_logs=QUIET)
            for handler, level in levels.items():  # pytest hears by these, too
                handler.setLevel(level)
            self._started_with = (devices, *_inherited())  # Dask adds to it as the first one starts
        return self._made

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    made = Clusters()
    yield made
    made.close()


@pytest.fixture
def here(
    capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, clusters: Clusters
) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: importing everything anew would be most of the suite's time.

    Returns exit code, stdout, stderr.
    """

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["chunkfold", *map(str, words)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)  # pytest's own stay
        monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
        monkeypatch.setattr(common_options, "local_client", clusters.client)
        with pytest.raises(SystemExit) as ended:
            main()
        done = capfd.readouterr()
        assert "Traceback" not in done.err
        return ended.value.code, done.out, done.err

    return run


@pytest.fixture
def command(
    here: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in this process, in a folder, and see that it ends with a code."""

    def run(*words: object, cwd: Path | None = None, code: int = 0):
        with monkeypatch.context() as there:
            if cwd is not None:
                there.chdir(cwd)
            ended, out, err = here(*words)
        assert ended == code, err
        return subprocess.CompletedProcess(words, ended, out, err)

    return run
