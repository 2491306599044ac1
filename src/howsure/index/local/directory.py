"""The directory of a gallery: new or ours, and written to by one process at a time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from howsure.errors import GalleryError, GalleryLockedError
from howsure.index.local.store import FILE, Store, gallery_errors

__all__ = ["prepare", "take_lock", "try_lock"]

LOCK = "writer.lock"


def try_lock(path: Path) -> sqlite3.Connection | None:
    """The right to write, until the connection is closed; None while another writer holds it.

    It is an empty SQLite database held in an exclusive transaction. SQLite takes the lock from the operating system, so
    it ends with the process, however that dies; it works on every system, between two writers of one process too, and
    a forked child does not inherit it.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        connection.close()
        if error.sqlite_errorname == "SQLITE_BUSY":
            return None
        raise
    return connection


def take_lock(directory: Path) -> sqlite3.Connection:
    """The right to write to a gallery, or an error that names who has it."""
    with gallery_errors(directory / LOCK):
        lock = try_lock(directory / LOCK)
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


def prepare(directory: Path) -> None:
    """Make the directory of a new gallery, or refuse one that holds anything else."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        others = [entry.name for entry in directory.iterdir() if not entry.name.startswith((FILE, LOCK, "snapshot"))]
    except OSError as error:
        raise GalleryError(
            f"gallery {directory}", expected="a directory to write to", got=str(error), fix="choose another path"
        ) from error
    if others:
        raise GalleryError(
            f"gallery {directory}",
            expected="a new or empty directory",
            got=f"one with {others[0]}",
            fix="choose another path",
        )
