"""An immutable, checksummed file of keys and records that is mapped into memory, and the manifest that names it.

    gallery/snapshot.json                      manifest: file, checksum, bytes, count, sequence, gallery
    gallery/snapshot-0000000000000042.bin      numbers, then keys, then records, each row after row

Both are written under another name, flushed, then renamed, the manifest last. So a manifest always names a whole file,
and a crash leaves the old pair or the new one. What is lost or damaged is found by its checksum.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from howsure.files import sync_folder

MANIFEST = "snapshot.json"
CHUNK = 1 << 22


class SnapshotError(Exception):
    """The snapshot cannot be used, and why. Never leaves the index: the truth is elsewhere."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Mapped privately: what is written to the arrays stays in this process."""

    sequence: int
    numbers: np.ndarray  # (N,) int64, ascending
    keys: np.ndarray  # (N, K) float32
    records: np.ndarray  # (N,) packed moments


def write_snapshot(directory: Path, manifest: dict[str, Any], sections: Iterable[Iterable[np.ndarray]]) -> None:
    """Write the sections one after the other, then the manifest with name, size and checksum; drop older files."""
    name = f"snapshot-{manifest['sequence']:016d}.bin"
    size = checksum = 0
    with (directory / f"{name}.new").open("wb") as file:
        for section in sections:
            for rows in section:
                data = np.ascontiguousarray(rows).view(np.uint8).data
                checksum = zlib.crc32(data, checksum)
                size += file.write(data)
        _publish(file, directory / name)
    whole = {**manifest, "file": name, "bytes": size, "checksum": checksum}
    with (directory / f"{MANIFEST}.new").open("wb") as file:
        file.write(json.dumps({**whole, "manifest_checksum": _fingerprint(whole)}, indent=1).encode())
        _publish(file, directory / MANIFEST)
    for old in directory.glob("snapshot-*.bin*"):
        if old.name != name:
            old.unlink(missing_ok=True)


def read_snapshot(directory: Path, gallery: str, record: np.dtype[Any], width: int) -> Snapshot | None:
    """The snapshot of this gallery if one was ever written, after a look at every byte of it."""
    manifest = _read_manifest(directory / MANIFEST)
    if manifest is None:
        return None
    if manifest["gallery"] != gallery:
        raise SnapshotError("it belongs to another gallery")
    path, count = directory / manifest["file"], manifest["count"]
    kinds: list[np.dtype[Any]] = [np.dtype("<i8"), np.dtype(("<f4", (width,))), record]  # of a row in each section
    sizes = [count * kind.itemsize for kind in kinds]
    try:
        if path.stat().st_size != sum(sizes) or manifest["bytes"] != sum(sizes):
            raise SnapshotError(f"expected {sum(sizes)} bytes, got {path.stat().st_size}")
        if _checksum(path) != manifest["checksum"]:
            raise SnapshotError("checksum mismatch")
        starts = np.cumsum([0, *sizes]).tolist()
        parts = [_map(path, kind, start, count) for kind, start in zip(kinds, starts, strict=False)]
    except FileNotFoundError as error:
        raise SnapshotError("its file is missing") from error
    return Snapshot(manifest["sequence"], *parts)


def _read_manifest(path: Path) -> dict[str, Any] | None:
    try:
        manifest = json.loads(path.read_bytes())
        checksum = manifest.pop("manifest_checksum")
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise SnapshotError("its manifest is unreadable") from error
    if checksum != _fingerprint(manifest):
        raise SnapshotError("its manifest was altered")
    return dict(manifest)


def _map(path: Path, kind: np.dtype[Any], start: int, count: int) -> np.ndarray:
    # An empty range cannot be mapped. A plain view of the map is quicker to index than the map itself.
    shape = (count, *kind.shape)
    return np.asarray(np.memmap(path, kind.base, "c", start, shape)) if count else np.empty(shape, kind.base)


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            checksum = zlib.crc32(data, checksum)
    return checksum


def _fingerprint(manifest: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())


def _publish(file: BinaryIO, path: Path) -> None:
    """Give a file its name once its bytes are safe, and make the name safe too."""
    file.flush()
    os.fsync(file.fileno())
    Path(file.name).rename(path)
    sync_folder(path.parent)
