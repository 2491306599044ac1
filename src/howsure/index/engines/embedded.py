"""The default engine: an exact scan, in this process, over a mapped snapshot and a tail of newer items in memory.

The tail holds what came after the snapshot: at most half the gallery, or a few thousand items. The snapshot is mapped,
not held. Writing a new one copies rows from both to disk in chunks, so nothing is in memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from howsure.index.engines import Candidates
from howsure.index.engines.scan import nearest
from howsure.index.engines.snapshot import Snapshot, read_snapshot, write_snapshot
from howsure.index.keys import key_width
from howsure.index.layout import Layout

ROWS = 1 << 14
# The last key coordinate of a removed row: so far away that the scan does not waste candidates on it.
FAR = 1e15


class Block:
    """Rows in the order of their numbers; removed ones stay where they are until the next snapshot."""

    def __init__(self, numbers: np.ndarray, keys: np.ndarray, records: np.ndarray):
        self.count = len(numbers)
        self.alive = np.ones(self.count, bool)
        self.numbers, self.keys, self.records = numbers, keys, records

    @classmethod
    def empty(cls, width: int, record: np.dtype[Any]) -> Block:
        """No rows yet."""
        return cls(np.empty(0, np.int64), np.empty((0, width), np.float32), np.empty(0, record))

    @property
    def dead(self) -> int:
        """Rows removed."""
        return self.count - int(np.count_nonzero(self.alive[: self.count]))

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
        self.count = end

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
        self.keys[places, -1] = FAR

    def live(self) -> Iterator[np.ndarray]:
        """Positions of the rows that are not removed, in chunks."""
        places = np.flatnonzero(self.alive[: self.count])
        return (places[start : start + ROWS] for start in range(0, len(places), ROWS))

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        """The nearest `count` rows of this block, removed ones as -1."""
        if count >= self.count:
            numbers = self.numbers[: self.count][self.alive[: self.count]]
            return Candidates(np.broadcast_to(numbers, (len(keys), len(numbers))), np.full(len(keys), np.inf))
        squared, places = nearest(keys, self.keys[: self.count], count)
        numbers = np.where((places >= 0) & self.alive[places], self.numbers[places], -1)
        return Candidates(numbers, squared[:, -1].astype(np.float64))


class EmbeddedEngine:
    """A snapshot block and a tail block. Satisfies `Engine`."""

    def __init__(self, directory: Path, gallery: str, layout: Layout):
        self._directory, self._gallery, self._layout = directory, gallery, layout
        self._width = key_width(layout.draws, layout.dim)
        self.sequence = 0  # the last change that the snapshot contains
        self._start(None)

    def load(self) -> None:
        """Map the snapshot in place of what is held; SnapshotError if it cannot be used."""
        self._start(read_snapshot(self._directory, self._gallery, self._layout.record, self._width))

    def _start(self, snapshot: Snapshot | None) -> None:
        empty = Block.empty(self._width, self._layout.record)
        self._old = Block(snapshot.numbers, snapshot.keys, snapshot.records) if snapshot else empty
        self._tail = Block.empty(self._width, self._layout.record)
        self.sequence = snapshot.sequence if snapshot else 0

    def __len__(self) -> int:
        return sum(block.count - block.dead for block in (self._old, self._tail))

    @property
    def stale(self) -> int:
        """Rows that the snapshot lacks, or holds in vain."""
        return self._tail.count + self._old.dead

    def add(self, numbers: np.ndarray, keys: np.ndarray, records: np.ndarray) -> None:
        self._tail.append(numbers, keys, records)

    def remove(self, numbers: np.ndarray) -> None:
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

    def numbers(self) -> np.ndarray:
        """All items held, in order."""
        return np.concatenate([np.empty(0, np.int64), *self._live("numbers")])

    def persist(self, sequence: int) -> None:
        """Write a new snapshot of the live rows, map it, and start an empty tail."""
        manifest = {"schema": 1, "gallery": self._gallery, "sequence": sequence, "count": len(self)}
        write_snapshot(self._directory, manifest, [self._live(name) for name in ("numbers", "keys", "records")])
        self.load()

    def _live(self, name: str) -> Iterator[np.ndarray]:
        # Removed rows are left out, so their altered keys never reach the disk.
        for block in (self._old, self._tail):
            for places in block.live():
                yield getattr(block, name)[places]
