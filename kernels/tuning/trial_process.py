"""A child process that tries kernels, kept for the next request while it does well.

Starting one costs about a second of imports. It ends when it was idle for a while, or has answered
many requests, and when its parent does, however that ends: what it reads requests from is closed
then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

IDLE_S = 10.0
"""Seconds for which an idle child is kept."""
MOST_REQUESTS = 128
"""Requests that one child answers: drivers keep some megabytes of each program."""
_PROGRAM = ("-m", "chunkfold.kernels.tuning.trial_child")


class ChildEndedError(Exception):
    """The child died of a request, or was stopped because it took too long."""

    def __init__(self, code: int | None, words: str) -> None:
        super().__init__(words)
        self.code = code
        """Its exit code, minus the signal that killed it; None if it took too long."""


class TrialProcess:
    """One child. A folder of its own takes what drivers leave in the temporary one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self.answered = 0
        """Requests."""
        self._folder = Path(tempfile.mkdtemp(prefix="chunkfold-trial-"))
        # Held open: the child removes the folder when it ends.
        self._said = (self._folder / "stderr").open("w+b")
        self._process = subprocess.Popen(
            [sys.executable, *_PROGRAM, str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=self.environment | {"TMPDIR": str(self._folder)},
            process_group=0,  # Ctrl-C in a terminal is for the parent
        )

    def ask(self, request: Any, deadline_s: float) -> bytes:
        """Send a request; return the line that answers it.

        Raises
        ------
        ChildEndedError
            If the child ended instead, or took longer than `deadline_s`.
        """
        deadline = time.monotonic() + deadline_s
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # how it ended is found out below
            self._process.stdin.write(pickle.dumps(request))
            self._process.stdin.flush()
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._read(deadline)
            if not part:
                code = self._process.wait(max(1.0, deadline - time.monotonic()))
                raise ChildEndedError(code, self._last_words())
            answer += part
        self.answered += 1
        return answer

    def _read(self, deadline: float) -> bytes:
        """Return what the child wrote, as soon as there is something; nothing at its end."""
        assert self._process.stdout is not None
        stdout = self._process.stdout.fileno()
        with selectors.DefaultSelector() as ready:  # a process may have thousands of open files
            ready.register(stdout, selectors.EVENT_READ)
            if not ready.select(max(0.0, deadline - time.monotonic())):
                raise ChildEndedError(None, "")
        return os.read(stdout, 1 << 16)

    def _last_words(self) -> str:
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()
        return said.rsplit("\n", 1)[-1]

    def stop(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()
        self._said.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class TrialProcesses:
    """Keeps the child that answered last. Safe to use from several threads."""

    def __init__(self) -> None:
        self.forget()
        atexit.register(self._kill)
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Begin without a child: one that there was is another process's."""
        self._lock = threading.Lock()
        self._kept: TrialProcess | None = None
        self._asked: TrialProcess | None = None
        self._idle = threading.Timer(0, self.stop)

    def ask(self, request: Any, environment: Mapping[str, str], deadline_s: float) -> bytes:
        """Send a request to a child that has this environment.

        Raises
        ------
        ChildEndedError
            If the child died of it, or took longer than `deadline_s`.
        """
        with self._lock:
            self._idle.cancel()
            child = self._asked = self._taken(environment)
            try:
                answer = child.ask(request, deadline_s)
            except BaseException:
                child.stop()
                raise
            finally:
                self._asked = None
            self._kept = child
            self._idle = threading.Timer(IDLE_S, self.stop)
            self._idle.daemon = True
            self._idle.start()
            return answer

    def _taken(self, environment: Mapping[str, str]) -> TrialProcess:
        kept, self._kept = self._kept, None
        if kept is not None:
            if kept.environment == environment and kept.answered < MOST_REQUESTS:
                return kept
            kept.stop()
        return TrialProcess(environment)

    def stop(self) -> None:
        """End the child that is kept, if there is one."""
        with self._lock:
            self._idle.cancel()
            kept, self._kept = self._kept, None
            if kept is not None:
                kept.stop()

    def _kill(self) -> None:
        """End every child without waiting for an answer: the process is about to exit."""
        for child in (self._kept, self._asked):
            if child is not None:
                child.stop()
