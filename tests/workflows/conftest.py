"""Commands as tests call them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import pytest

from chunkfold.workflows.cli import main


@pytest.fixture
def here(capfd: pytest.CaptureFixture, monkeypatch) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: importing everything anew would be most of the suite's time.

    Returns exit code, stdout, stderr.
    """

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["chunkfold", *map(str, words)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)  # pytest's own stay
        monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
        with pytest.raises(SystemExit) as ended:
            main()
        done = capfd.readouterr()
        assert "Traceback" not in done.err
        return ended.value.code, done.out, done.err

    return run
