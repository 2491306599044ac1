"""Files that are whole or absent: write beside, flush, rename; and JSON that shows whether it was changed."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHECKSUM = "checksum"


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file so that a reader, or a power cut, finds the old content or the new, never a part."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make a rename in this folder survive a power cut, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sealed(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Keys for a JSON file, with a checksum over all the others in place of any they had.

    >>> unsealed(sealed({"threshold": 0.9}), "policy")
    {'threshold': 0.9}
    """
    bare = {key: value for key, value in keys.items() if key != CHECKSUM}
    return bare | {CHECKSUM: _checksum(bare)}


def unsealed(keys: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The keys without their checksum; a `ValueError` where it is missing or is not theirs."""
    bare = {key: value for key, value in keys.items() if key != CHECKSUM}
    if CHECKSUM not in keys:
        raise ValueError(f"{what} has no checksum: it was changed or damaged")
    if keys[CHECKSUM] != _checksum(bare):
        raise ValueError(f"{what} does not agree with its checksum: it was changed or damaged")
    return bare


def _checksum(keys: Mapping[str, Any]) -> str:
    """Of the content, not of its layout: spaces and the order of keys may differ."""
    parsed = json.loads(json.dumps(keys))  # as it will be read: keys are text, tuples are lists
    canonical = json.dumps(parsed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
