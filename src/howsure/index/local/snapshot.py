"""An immutable, checksummed file of keys and records that is mapped into memory, and the manifest that names it.

    gallery/snapshot.json                      manifest: file, checksum, bytes, count, sequence, gallery, prior, and
                                               what is typical where shrunk rows are weighted
    gallery/snapshot-0000000000000042.bin      numbers, keys and records, one after the other; with a prior, before the
                                               records, shrunk rows sorted by variance and the position of each

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
    checksum: int
    typical: dict[str, Any] | None  # variances by which the shrunk rows are weighted; None if they are not
    numbers: np.ndarray  # (N,) int64, ascending
    keys: np.ndarray  # (N, K) float32
    shrunk: np.ndarray  # (N, W) float32; W = 0 without a prior
    order: np.ndarray  # (N,) int32: the position among the numbers of each shrunk row; (0,) without a prior
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
        publish(file, directory / name)
    write_manifest(directory / MANIFEST, {**manifest, "file": name, "bytes": size, "checksum": checksum})
    drop_others(directory, "snapshot-*.bin*", name)


def drop_others(directory: Path, pattern: str, name: str) -> None:
    """Delete the files of this pattern but for the named one."""
    for old in directory.glob(pattern):
        if old.name != name:
            old.unlink(missing_ok=True)


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write JSON with a checksum of its own."""
    with path.with_name(f"{path.name}.new").open("wb") as file:
        file.write(json.dumps({**manifest, "manifest_checksum": _fingerprint(manifest)}, indent=1).encode())
        publish(file, path)


def read_snapshot(
    directory: Path, gallery: str, record: np.dtype[Any], *, width: int, shrunk: tuple[int, int], prior: str | None
) -> Snapshot | None:
    """The snapshot of this gallery if one was ever written, after a look at every byte of it.

    Keys have `width` columns, shrunk rows the first of `shrunk`, or the second if they are weighted. `prior` is the
    version that they must be of.
    """
    manifest = read_manifest(directory / MANIFEST)
    if manifest is None:
        return None
    if manifest["gallery"] != gallery:
        raise SnapshotError("it belongs to another gallery")
    if manifest.get("prior") != prior:
        raise SnapshotError("it was made with another prior")
    path, count = directory / manifest["file"], manifest["count"]
    typical = manifest.get("typical")
    # Type and number of the rows in each section.
    sections: list[tuple[np.dtype[Any], int]] = [
        (np.dtype("<i8"), count),
        (np.dtype(("<f4", (width,))), count),
        (np.dtype(("<f4", (shrunk[bool(typical)],))), count),
        (np.dtype("<i4"), count if prior else 0),
        (record, count),
    ]
    sizes = [dtype.itemsize * rows for dtype, rows in sections]
    try:
        if path.stat().st_size != sum(sizes) or manifest["bytes"] != sum(sizes):
            raise SnapshotError(f"expected {sum(sizes)} bytes, got {path.stat().st_size}")
        if _checksum(path) != manifest["checksum"]:
            raise SnapshotError("checksum mismatch")
        starts = np.cumsum([0, *sizes]).tolist()
        parts = [_map(path, *section, start) for section, start in zip(sections, starts, strict=False)]
    except FileNotFoundError as error:
        raise SnapshotError("its file is missing") from error
    return Snapshot(manifest["sequence"], manifest["checksum"], typical, *parts)


def read_manifest(path: Path) -> dict[str, Any] | None:
    """The manifest that `write_manifest` wrote, if there is one."""
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


def _map(path: Path, dtype: np.dtype[Any], count: int, start: int) -> np.ndarray:
    # An empty range cannot be mapped. A plain view of the map is quicker to index than the map itself.
    shape = (count, *dtype.shape)
    empty = count * dtype.itemsize == 0
    return np.empty(shape, dtype.base) if empty else np.asarray(np.memmap(path, dtype.base, "c", start, shape))


def _checksum(path: Path) -> int:
    """CRC-32 of a file."""
    checksum = 0
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            checksum = zlib.crc32(data, checksum)
    return checksum


def _fingerprint(manifest: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())


def publish(file: BinaryIO, path: Path) -> None:
    """Give a file its name once its bytes are safe, and make the name safe too."""
    file.flush()
    os.fsync(file.fileno())
    Path(file.name).replace(path)
    sync_folder(path.parent)
