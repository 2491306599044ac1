"""The truth: every item of a gallery in one SQLite file, flushed to disk before a change is acknowledged.

Each item has a number from a clock that only moves forward. A removal, or the replaced half of a replacement, leaves a
tombstone with the time of its change. So whoever knows the state at one time gets to the present by reading what is
newer. Tombstones are purged up to the *horizon*, the time of the last snapshot; whoever is older starts from that.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from howsure.errors import GalleryError
from howsure.index.items import Item, require_present
from howsure.index.layout import Layout
from howsure.prior import Prior

FILE = "gallery.sqlite"
SCHEMA = 1
CHUNK = 500  # values bound to one statement
ROWS = 1 << 12  # rows read at a time
REMEMBERED = 1 << 17  # names in memory

_TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE items (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, label TEXT, metadata TEXT NOT NULL,
                           moments BLOB NOT NULL)""",
    "CREATE INDEX labels ON items (label)",
    "CREATE TABLE removed (number INTEGER PRIMARY KEY, time INTEGER NOT NULL)",
)

_FIXES = {
    "SQLITE_FULL": "free some disk space; nothing of this change was stored",
    "SQLITE_READONLY": "make the directory writable for this user",
    "SQLITE_CANTOPEN": "check that the directory exists and is readable and writable",
    "SQLITE_CORRUPT": "the file is damaged; restore it from a backup, or index the pictures again",
    "SQLITE_NOTADB": "the file is damaged or not ours; restore it from a backup, or index the pictures again",
    "SQLITE_IOERR": "check the disk; nothing of this change was stored",
}


@dataclass(frozen=True, eq=False)
class Change:
    """What one transaction did: the numbers of new items and of items that are gone, and the time after it."""

    added: np.ndarray
    removed: np.ndarray
    time: int


@contextmanager
def gallery_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        fix = next((fix for prefix, fix in _FIXES.items() if name.startswith(prefix)), "close and open it again")
        raise GalleryError(f"gallery {path}", expected="a usable SQLite file", got=str(error), fix=fix) from error


class Store:
    """One connection to the truth."""

    def __init__(self, directory: Path, *, write: bool):
        self.path = directory / FILE
        self._names: dict[int, tuple[str, str | None]] = {}
        with gallery_errors(self.path):
            # One connection for all threads: the index lets one in at a time.
            uri = f"{self.path.absolute().as_uri()}?mode={'rwc' if write else 'ro'}"
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
            if write:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")

    def close(self) -> None:
        """End the connection."""
        self._db.close()

    # The gallery as a whole.

    def exists(self) -> bool:
        """Whether the file holds a gallery; an error if it is one of a later version."""
        with gallery_errors(self.path):
            if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                return False
        if (schema := self.note("schema")) != SCHEMA:
            raise GalleryError(
                f"gallery {self.path}",
                expected=f"version {SCHEMA} of the format",
                got=f"version {schema}",
                fix="update howsure",
            )
        return True

    def create(self, about: Mapping[str, Any]) -> None:
        """Lay out an empty gallery."""
        with self._writing():
            for statement in _TABLES:
                self._db.execute(statement)
            notes = {"schema": SCHEMA, "gallery": uuid.uuid4().hex, "time": 0, "horizon": 0, "family": None}
            self._write_notes({**notes, "about": dict(about), "layout": None, "writer": None})

    def note(self, name: str) -> Any:
        """One value of what is known of the gallery as a whole."""
        (value,) = self.notes(name)
        return value

    def notes(self, *names: str) -> list[Any]:
        """Several such values, of one moment."""
        found = dict(self._select("SELECT name, value FROM meta WHERE name IN", names))
        if len(found) < len(names):
            raise GalleryError(f"gallery {self.path}", expected=f"notes of {', '.join(names)}", got=", ".join(found))
        return [json.loads(found[name]) for name in names]

    def time(self) -> int:
        """The note of the time alone, which every search asks for, inside `reading`."""
        row = self._db.execute("SELECT value FROM meta WHERE name = 'time'").fetchone()
        return int(row[0]) if row else -1  # `notes` says what is wrong then

    def write_notes(self, **notes: Any) -> None:
        """Set such values, durably."""
        with self._writing():
            self._write_notes(notes)

    def _write_notes(self, notes: Mapping[str, Any]) -> None:
        rows = [(name, json.dumps(value)) for name, value in notes.items()]
        self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def prior(self) -> Prior | None:
        """The prior over identities that a search by likelihood uses; None if there is none."""
        found = dict(self._select("SELECT name, value FROM meta WHERE name IN", ["prior"]))
        return Prior.from_json(json.loads(found["prior"])) if found else None

    def set_prior(self, prior: Prior) -> int:
        """Replace it. The clock moves, so that everybody notices; the time after it."""
        with self._writing():
            time = int(self.note("time")) + 1
            self._write_notes({"prior": prior.to_json(), "time": time})
        return time

    def layout(self) -> Layout | None:
        """What the first items fixed; None before them."""
        stored = self.note("layout")
        return Layout.from_json(stored) if stored else None

    # Changes. Each is one transaction: whole or absent.

    def add(self, items: Sequence[Item], records: np.ndarray, layout: Layout) -> Change:
        """Insert items, in place of those with the same ids."""
        with self._writing():
            old = np.fromiter(self.numbers([item.id for item in items]).values(), np.int64)
            start = self.note("time") + 1
            numbers = np.arange(start, start + len(items))
            time = start + len(items)
            self._bury(old, time)
            rows = zip(numbers.tolist(), items, records, strict=True)
            self._db.executemany(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?)",
                ((n, item.id, item.label, json.dumps(dict(item.metadata)), row.tobytes()) for n, item, row in rows),
            )
            self._write_notes({"time": time, "layout": layout.to_json()})
        return Change(numbers, old, time)

    def remove(self, ids: Sequence[str]) -> Change:
        """Delete items; all of them must be there."""
        with self._writing():
            old = np.array([number for (number,) in self._columns(ids, "number")], np.int64)
            time = self.note("time") + 1
            self._bury(old, time)
            self._write_notes({"time": time})
        return Change(np.empty(0, np.int64), old, time)

    def _bury(self, numbers: np.ndarray, time: int) -> None:
        rows = [(number, time) for number in numbers.tolist()]
        self._db.executemany("INSERT INTO removed VALUES (?, ?)", rows)
        self._db.executemany("DELETE FROM items WHERE number = ?", [row[:1] for row in rows])

    def purge(self, time: int) -> None:
        """Drop the tombstones that a snapshot of this time makes needless."""
        with self._writing():
            self._db.execute("DELETE FROM removed WHERE time <= ?", (time,))
            self._write_notes({"horizon": time})

    # Reading.

    def added_since(self, time: int, record: np.dtype[Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Numbers and records of the items that came later, in chunks."""
        with gallery_errors(self.path):
            cursor = self._db.execute("SELECT number, moments FROM items WHERE number > ? ORDER BY number", (time,))
            while rows := cursor.fetchmany(ROWS):
                numbers, moments = zip(*rows, strict=True)
                yield np.array(numbers, np.int64), np.frombuffer(b"".join(moments), record)

    def removed_since(self, time: int) -> np.ndarray:
        """Numbers of the items that went later."""
        with gallery_errors(self.path):
            rows = self._db.execute("SELECT number FROM removed WHERE time > ?", (time,)).fetchall()
        return np.array([number for (number,) in rows], np.int64)

    def numbers(self, ids: Sequence[str]) -> dict[str, int]:
        """The number of each of these ids that there is an item of."""
        return dict(self._select("SELECT id, number FROM items WHERE id IN", ids))

    def _columns(self, ids: Sequence[str], names: str) -> list[Any]:
        """Some columns of each of these items; an error that names the ids that are not here."""
        rows = self._select(f"SELECT id, {names} FROM items WHERE id IN", ids)
        found = {identity: values for identity, *values in rows}
        require_present(ids, found)
        return [found[identity] for identity in ids]

    def ids(self) -> list[str]:
        """The ids of all items, in order."""
        with gallery_errors(self.path):
            return [identity for (identity,) in self._db.execute("SELECT id FROM items ORDER BY number")]

    def names(self, numbers: Iterable[int]) -> dict[int, tuple[str, str | None]]:
        """Id and label of at least these numbers. A number never changes either, so most are remembered."""
        if len(self._names) > REMEMBERED:
            self._names = {}
        if missing := {number for number in numbers if number not in self._names}:
            rows = self._select("SELECT number, id, label FROM items WHERE number IN", list(missing))
            self._names |= {number: (identity, label) for number, identity, label in rows}
        return self._names

    def items(self, ids: Sequence[str]) -> list[Item]:
        """What is known of these items."""
        rows = zip(ids, self._columns(ids, "label, metadata"), strict=True)
        return [Item(identity, label, json.loads(metadata)) for identity, (label, metadata) in rows]

    def labels(self, ids: Sequence[str]) -> list[str | None]:
        """Their labels alone."""
        return [label for (label,) in self._columns(ids, "label")]

    def records(self, ids: Sequence[str], record: np.dtype[Any]) -> np.ndarray:
        """The packed moments of these items."""
        return np.frombuffer(b"".join(moments for (moments,) in self._columns(ids, "moments")), record)

    def references(self, label: str) -> int:
        """How many items carry this label."""
        with gallery_errors(self.path):
            return int(self._db.execute("SELECT count(*) FROM items WHERE label = ?", [label]).fetchone()[0])

    def __len__(self) -> int:
        with gallery_errors(self.path):
            return int(self._db.execute("SELECT count(*) FROM items").fetchone()[0])

    def _select(self, statement: str, values: Sequence[Any]) -> Iterator[Any]:
        with gallery_errors(self.path):
            for start in range(0, len(values), CHUNK):
                part = list(values[start : start + CHUNK])
                yield from self._db.execute(f"{statement} ({','.join('?' * len(part))})", part)

    # Transactions.

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One state of the gallery for all that is read inside, whatever others write meanwhile."""
        with gallery_errors(self.path):
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with gallery_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                # SQLite ends the transaction by itself on some errors, such as a full disk.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
