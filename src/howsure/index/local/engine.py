"""The default engine: an exact scan, in this process, over a mapped snapshot and a tail of newer items in memory.

The tail holds what came after the snapshot: at most half the gallery, or a few thousand items. The snapshot is mapped,
not held. Writing a new one copies rows from both to disk in chunks, so nothing is in memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from howsure.index.layout import Layout
from howsure.index.local.ivf import FROM, Lists, read_lists, write_lists
from howsure.index.local.likelihood_rows import ShrunkRows, by_variance, made_rows
from howsure.index.local.scan import nearest, squared_norms
from howsure.index.local.snapshot import Snapshot, SnapshotError, read_snapshot, write_snapshot
from howsure.index.ranking.candidates import Candidates
from howsure.index.ranking.keys import key_width
from howsure.index.ranking.shrunk_keys import shrunk_width
from howsure.index.ranking.weighted_keys import Typical, weighted_width
from howsure.prior import Prior

ROWS = 1 << 14
# The last key coordinate of a removed row: so far away that the scan does not waste candidates on it.
FAR = 1e15


class Block:
    """Rows in the order of their numbers; removed ones stay where they are until the next snapshot."""

    def __init__(self, numbers: np.ndarray, keys: np.ndarray, records: np.ndarray):
        self.count = len(numbers)
        self.alive, self.dead = np.ones(self.count, bool), 0  # rows that are not removed, and how many are
        self.numbers, self.keys, self.records = numbers, keys, records
        self._norms: np.ndarray | None = None  # of the keys, once they are asked for

    @classmethod
    def empty(cls, width: int, record: np.dtype[Any]) -> Block:
        """No rows yet."""
        return cls(np.empty(0, np.int64), np.empty((0, width), np.float32), np.empty(0, record))

    def append(self, numbers: np.ndarray, keys: np.ndarray, records: np.ndarray) -> None:
        """Add rows; capacity doubles, so that n single rows cost O(n) in all."""
        end = self.count + len(numbers)
        if end > len(self.numbers):
            room = max(end, 2 * len(self.numbers), 64)
            for name in ("numbers", "keys", "records", "alive"):
                old = getattr(self, name)
                new = np.empty((room, *old.shape[1:]), old.dtype)
                new[: self.count] = old[: self.count]
                setattr(self, name, new)
        rows = slice(self.count, end)
        self.numbers[rows], self.keys[rows], self.records[rows], self.alive[rows] = numbers, keys, records, True
        self.count, self._norms = end, None

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """Where these numbers are; -1 for those that are not here."""
        held = self.numbers[: self.count]
        if not len(held):
            return np.full(len(numbers), -1)
        places = np.minimum(np.searchsorted(held, numbers), len(held) - 1)
        return np.where(held[places] == numbers, places, -1)

    def remove(self, numbers: np.ndarray) -> None:
        """Mark rows as removed."""
        places = self.positions(numbers)
        places = places[places >= 0]
        self.alive[places] = False
        self.dead = self.count - int(np.count_nonzero(self.alive[: self.count]))
        self.keys[places, -1] = FAR
        if self._norms is not None:
            self._norms[places] = squared_norms(self.keys[places])

    def norms(self) -> np.ndarray:
        """The squared norms of the keys."""
        if self._norms is None:
            self._norms = squared_norms(self.keys[: self.count])
        return self._norms

    def live(self) -> Iterator[np.ndarray]:
        """Positions of the rows that are not removed, in chunks."""
        places = np.flatnonzero(self.alive[: self.count])
        return (places[start : start + ROWS] for start in range(0, len(places), ROWS))

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        """The nearest `count` rows of this block, removed ones as -1."""
        if count >= self.count:
            numbers = self.numbers[: self.count][self.alive[: self.count]]
            return Candidates(np.broadcast_to(numbers, (len(keys), len(numbers))), np.full(len(keys), np.inf))
        squared, places = nearest(keys, self.keys[: self.count], count, norms=self.norms)
        numbers = np.where((places >= 0) & self.alive[places], self.numbers[places], -1)
        return Candidates(numbers, squared[:, -1].astype(np.float64))


class EmbeddedEngine:
    """A snapshot block and a tail block, and with a prior, shrunk rows beside them. Satisfies `Engine`."""

    def __init__(self, directory: Path, gallery: str, layout: Layout, prior: Prior | None = None):
        self._directory, self._gallery, self._layout = directory, gallery, layout
        self.prior = prior
        self._width = key_width(layout.draws, layout.dim)
        self.sequence = 0  # the last change that the snapshot contains
        self.lists_damage: str | None = None  # why there are no inverted lists where there should be
        self._start(None)

    def load(self) -> None:
        """Map the snapshot in place of what is held; SnapshotError if it cannot be used."""
        layout, prior = self._layout, self.prior
        snapshot = read_snapshot(
            self._directory,
            self._gallery,
            layout.record,
            width=self._width,
            shrunk=(shrunk_width(layout.draws, layout.dim), weighted_width(layout.dim)) if prior else (0, 0),
            prior=prior.version if prior else None,
        )
        self._start(snapshot)
        self.lists_damage = None
        if snapshot and self.shrunk and len(snapshot.numbers) >= FROM:
            try:
                self.shrunk.lists = read_lists(self._directory, snapshot.checksum)
            except SnapshotError as damage:
                self.lists_damage = str(damage)

    def keep(self, lists: Lists) -> None:
        """Use these lists of the snapshot that was just written, and write them beside it."""
        if self.shrunk:
            write_lists(self._directory, lists, sequence=self.sequence, of=self._checksum)
            self.shrunk.lists, self.lists_damage = lists, None

    def _start(self, snapshot: Snapshot | None) -> None:
        empty = Block.empty(self._width, self._layout.record)
        self._old = Block(snapshot.numbers, snapshot.keys, snapshot.records) if snapshot else empty
        self._tail = Block.empty(self._width, self._layout.record)
        self.sequence, self._checksum = (snapshot.sequence, snapshot.checksum) if snapshot else (0, 0)
        self.shrunk: ShrunkRows | None = None
        if self.prior and snapshot:
            typical = Typical.from_json(snapshot.typical) if snapshot.typical else None
            self.shrunk = ShrunkRows(self.prior, self._layout, snapshot.shrunk, snapshot.order, typical)
        elif self.prior:
            self.shrunk = ShrunkRows.empty(self.prior, self._layout)

    def __len__(self) -> int:
        return self._old.count - self._old.dead + self._tail.count - self._tail.dead

    @property
    def stale(self) -> int:
        """Rows that the snapshot lacks, or holds in vain."""
        return self._tail.count + self._old.dead

    def add(self, numbers: np.ndarray, keys: np.ndarray, records: np.ndarray) -> None:
        if self.shrunk:
            self.shrunk.add(records)
        self._tail.append(numbers, keys, records)

    def remove(self, numbers: np.ndarray) -> None:
        if self.shrunk:
            old, new = self._old.positions(numbers), self._tail.positions(numbers)
            self.shrunk.remove(np.concatenate([old[old >= 0], self._old.count + new[new >= 0]]))
        self._old.remove(numbers)
        self._tail.remove(numbers)

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        if not self._tail.count:
            return self._old.candidates(keys, count)
        old, new = self._old.candidates(keys, count), self._tail.candidates(keys, count)
        return Candidates(np.concatenate([old.numbers, new.numbers], 1), np.minimum(old.reach, new.reach))

    def records(self, numbers: np.ndarray) -> np.ndarray:
        places = self._old.positions(numbers)
        records = self._old.records[places] if self._old.count else np.empty(len(numbers), self._layout.record)
        newer = places < 0
        if newer.any():
            records[newer] = self._tail.records[self._tail.positions(numbers[newer])]
        return records

    def numbers_at(self, places: np.ndarray) -> np.ndarray:
        """The numbers of items by their places, as `shrunk` counts them."""
        return self._at(places, "numbers")

    def records_at(self, places: np.ndarray) -> np.ndarray:
        """The packed moments of items by their places."""
        return self._at(places, "records")

    def _at(self, places: np.ndarray, name: str) -> np.ndarray:
        if not self._tail.count:
            return np.asarray(getattr(self._old, name)[places])
        later = places >= self._old.count
        values = np.empty(places.shape, getattr(self._tail, name).dtype)
        values[~later] = getattr(self._old, name)[places[~later]]
        values[later] = getattr(self._tail, name)[places[later] - self._old.count]
        return values

    def places(self) -> np.ndarray:
        """The places of all items held, in order."""
        held = ((self._old, 0), (self._tail, self._old.count))
        return np.concatenate([start + np.flatnonzero(block.alive[: block.count]) for block, start in held])

    def numbers(self) -> np.ndarray:
        """All items held, in order."""
        return np.concatenate([np.empty(0, np.int64), *self._live("numbers")])

    def persist(self, sequence: int) -> None:
        """Write a new snapshot of the live rows, map it, and start an empty tail."""
        manifest: dict[str, Any] = {"schema": 1, "gallery": self._gallery, "sequence": sequence, "count": len(self)}
        sections = [self._live(name) for name in ("numbers", "keys", "records")]
        if self.prior:
            manifest["prior"] = self.prior.version
            numbers = self.numbers()
            order, typical = by_variance(self.prior, self._layout, self._live("records"))
            if typical:
                manifest["typical"] = typical.to_json()
            sections[2:2] = self._shrunk(numbers[order], typical), iter([order])
        write_snapshot(self._directory, manifest, sections)
        self.load()

    def use(self, prior: Prior) -> None:
        """Take another prior; there are no shrunk rows until the next snapshot."""
        self.prior, self.shrunk = prior, None

    def _shrunk(self, numbers: np.ndarray, typical: Typical | None) -> Iterator[np.ndarray]:
        for start in range(0, len(numbers), ROWS):
            embedding = self._layout.unpack(self.records(numbers[start : start + ROWS]))
            yield made_rows(embedding, cast(Prior, self.prior), typical)

    def _live(self, name: str) -> Iterator[np.ndarray]:
        # Removed rows are left out, so their altered keys never reach the disk.
        for block in (self._old, self._tail):
            for places in block.live():
                yield getattr(block, name)[places]
