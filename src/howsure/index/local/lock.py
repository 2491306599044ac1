"""One writer at a time.

The lock is an empty SQLite database held in an exclusive transaction. SQLite takes the lock from the operating system,
so it ends with the process, however that dies; it works on every system, between two writers of one process too, and a
forked child does not inherit it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path


class WriterLock:
    """The right to write to one gallery; `take` gives None while another writer holds it."""

    def __init__(self, connection: sqlite3.Connection):
        self._connection = connection

    @classmethod
    def take(cls, path: Path) -> WriterLock | None:
        """Try once, without waiting."""
        connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            connection.close()
            if error.sqlite_errorname == "SQLITE_BUSY":
                return None
            raise
        return cls(connection)

    def release(self) -> None:
        """Let the next writer in."""
        self._connection.close()
