"""Time counts while a process is awake, and not while it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

_WAITS = """
import time
from chunkfold.deadline import with_deadline
from chunkfold.errors import ClusterError

began = time.monotonic()
print("begun", flush=True)
try:
    with_deadline(2.5, "nothing", lambda: time.sleep(60))
except ClusterError:
    print(time.monotonic() - began)
"""


def test_a_deadline_does_not_pass_while_the_process_is_stopped():
    process = subprocess.Popen([sys.executable, "-c", _WAITS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(4)
    os.kill(process.pid, signal.SIGCONT)
    told, _ = process.communicate(timeout=60)
    assert 4 + 0.4 < float(told) < 20  # 2 s of those it was stopped count, at most
