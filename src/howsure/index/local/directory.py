"""The directory of a gallery: new or ours, and written to by one process at a time."""

from __future__ import annotations

from pathlib import Path

from howsure.errors import GalleryError, GalleryLockedError
from howsure.index.local.lock import WriterLock
from howsure.index.local.store import FILE, Store, said_plainly

__all__ = ["prepare", "take_lock"]

LOCK = "writer.lock"


def prepare(directory: Path) -> None:
    """Make the directory of a new gallery, or refuse one that holds anything else."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        strangers = [entry.name for entry in directory.iterdir() if not entry.name.startswith((FILE, LOCK, "snapshot"))]
    except OSError as error:
        raise GalleryError(
            f"gallery {directory}", expected="a directory to write to", got=str(error), fix="choose another path"
        ) from error
    if strangers:
        raise GalleryError(
            f"gallery {directory}",
            expected="a new or empty directory",
            got=f"one with {strangers[0]}",
            fix="choose another path",
        )


def take_lock(directory: Path) -> WriterLock:
    """The right to write to a gallery, or an error that names who has it."""
    with said_plainly(directory / LOCK):
        lock = WriterLock.take(directory / LOCK)
    if lock is None:
        raise GalleryLockedError(
            f"gallery {directory}",
            expected="no other writer",
            got=f"process {_holder(directory) or 'unknown'} writing to it",
            fix="wait for it or end it; reading is possible meanwhile",
        )
    return lock


def _holder(directory: Path) -> int | None:
    reader = Store(directory, write=False)
    try:
        return reader.note("writer") if reader.exists() else None
    finally:
        reader.close()
