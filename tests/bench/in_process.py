"""A stand-in for the processes that the runner starts: the same command line, read and obeyed in this one."""

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

from howsure.bench import run_cell


def stay_in_process(patch: pytest.MonkeyPatch) -> None:
    """Runs need no process of their own from here on, which costs seconds each."""
    patch.setattr("howsure.bench.runner.subprocess", SimpleNamespace(Popen=_Child, PIPE=subprocess.PIPE))


class _Child:
    """What the runner uses of a process. It has ended before anybody looks."""

    def __init__(self, command: Sequence[str], *, stderr: int, **_: Any):
        assert list(command[:3]) == [sys.executable, "-m", "howsure.bench.run_cell"]
        self.stdout, self.returncode = io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(self.stdout), threadpool_limits(1):
            patch.setattr(sys, "argv", list(command[2:]))
            patch.setattr(run_cell, "_end_with_the_parent", lambda: None)
            try:
                run_cell.main()
            except SystemExit as stop:
                os.write(stderr, f"{stop}\n".encode())
                self.returncode = 1
        self.stdout.seek(0)

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        pass
