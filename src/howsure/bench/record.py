"""The record of a run: its results, and enough to repeat it."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from howsure import __version__
from howsure.files import write_whole

__all__ = ["commit", "write_record"]


def commit() -> str | None:
    """The commit of these very files, with `-dirty` if some were changed since; None outside a working copy."""
    here = Path(__file__)
    try:
        _git(here.parent, "ls-files", "--error-unmatch", here.name)  # a working copy of something else may be around
        return _git(here.parent, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write JSON, whole or not at all, with the versions that the digits may depend on."""
    file.parent.mkdir(parents=True, exist_ok=True)
    versions = {
        "howsure": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    text = json.dumps({**record, "versions": versions}, indent=1, sort_keys=True)
    write_whole(file, (text + "\n").encode())
