"""What one run found, as data: enough to make the same run again."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from howsure import __version__
from howsure.files import write_whole

__all__ = ["versions", "write_record"]


def versions() -> dict[str, str]:
    """What the digits of a result may depend on."""
    return {
        "howsure": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write JSON, whole or not at all, with the versions."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**record, "versions": versions()}, indent=1, sort_keys=True)
    write_whole(file, (text + "\n").encode())
