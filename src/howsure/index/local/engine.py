"""The default engine: an exact scan, in this process, over a mapped snapshot and a tail of newer items in memory.

The tail holds what came after the snapshot: at most half the gallery, or a few thousand items. The snapshot is mapped,
not held. Writing a new one copies rows from both to disk in chunks, so nothing is in memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from howsure.index.layout import Layout
from howsure.index.local.block import ROWS, Block
from howsure.index.local.ivf import FROM, Ivf, read_ivf, write_ivf
from howsure.index.local.likelihood_rows import ShrunkRows, by_variance, made_rows
from howsure.index.local.snapshot import Snapshot, SnapshotError, read_snapshot, write_snapshot
from howsure.index.ranking.exact import Candidates
from howsure.index.ranking.keys import key_width
from howsure.index.ranking.shrunk_keys import shrunk_width
from howsure.index.ranking.weighted_keys import Typical, weighted_width
from howsure.prior import Prior


class EmbeddedEngine:
    """A snapshot block and a tail block, and with a prior, shrunk rows beside them. Satisfies `Finder`."""

    def __init__(self, directory: Path, gallery: str, layout: Layout, prior: Prior | None = None):
        self._directory, self._gallery, self._layout = directory, gallery, layout
        self.prior = prior
        self.ivf_damage: str | None = None  # why there is no IVF where there should be one
        self._start(None)

    def load(self) -> None:
        """Map the snapshot in place of what is held; SnapshotError if it cannot be used."""
        layout, prior = self._layout, self.prior
        snapshot = read_snapshot(
            self._directory,
            self._gallery,
            layout.record,
            width=key_width(layout.draws, layout.dim),
            shrunk=(shrunk_width(layout.draws, layout.dim), weighted_width(layout.dim)) if prior else (0, 0),
            prior=prior.version if prior else None,
        )
        self._start(snapshot)
        self.ivf_damage = None
        if snapshot and self.shrunk and len(snapshot.numbers) >= FROM:
            try:
                self.shrunk.ivf = read_ivf(self._directory, snapshot.checksum)
            except SnapshotError as damage:
                self.ivf_damage = str(damage)

    def keep(self, ivf: Ivf) -> None:
        """Use this IVF of the snapshot that was just written, and write it beside it."""
        if self.shrunk:
            write_ivf(self._directory, ivf, sequence=self.sequence, of=self._checksum)
            self.shrunk.ivf, self.ivf_damage = ivf, None

    def _start(self, snapshot: Snapshot | None) -> None:
        layout = self._layout
        self._old, self._tail = Block.empty(layout), Block.empty(layout)
        if snapshot:
            self._old = Block(layout, snapshot.numbers, snapshot.keys, snapshot.records)
        # The last change that the snapshot contains, and its checksum.
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
        """Take new items in, in the order of their numbers."""
        if self.shrunk:
            self.shrunk.add(records)
        self._tail.append(numbers, keys, records)

    def remove(self, numbers: np.ndarray) -> None:
        """Forget items; a number that is not held is not an error."""
        if self.shrunk:
            positions = self._positions(numbers)
            self.shrunk.remove(positions[positions >= 0])
        self._old.remove(numbers)
        self._tail.remove(numbers)

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        return _joined([block.candidates(keys, count) for block in self._blocks()])

    def candidates_by_mean(self, keys: np.ndarray, count: int) -> Candidates:
        return _joined([block.candidates_by_mean(keys, count) for block in self._blocks()])

    def _blocks(self) -> list[Block]:
        return [self._old, self._tail] if self._tail.count else [self._old]

    # An item's position: first come the rows of the snapshot, then those of the tail, as in `shrunk`.

    def _positions(self, numbers: np.ndarray) -> np.ndarray:
        """Of items by their numbers; -1 for those that are not held."""
        old = self._old.positions(numbers)
        if not self._tail.count:
            return old
        new = self._tail.positions(numbers)
        return np.where(old >= 0, old, np.where(new >= 0, self._old.count + new, -1))

    def positions(self) -> np.ndarray:
        """The positions of all items held, in order."""
        return np.concatenate([self._old.live(), self._old.count + self._tail.live()])

    def numbers_at(self, positions: np.ndarray) -> np.ndarray:
        """The numbers of items by their positions."""
        return self._at(positions, "numbers")

    def records_at(self, positions: np.ndarray) -> np.ndarray:
        """The packed moments of items by their positions."""
        return self._at(positions, "records")

    def _at(self, positions: np.ndarray, name: str) -> np.ndarray:
        old, new = getattr(self._old, name), getattr(self._tail, name)
        if not self._tail.count:
            return np.asarray(old[positions])
        later = positions >= self._old.count
        values = np.empty((*positions.shape, *new.shape[1:]), new.dtype)
        values[~later] = old[positions[~later]]
        values[later] = new[positions[later] - self._old.count]
        return values

    def records(self, numbers: np.ndarray) -> np.ndarray:
        return self.records_at(self._positions(numbers))

    def numbers(self) -> np.ndarray:
        """All items held, in order."""
        return self.numbers_at(self.positions())

    def persist(self, sequence: int) -> None:
        """Write a snapshot of the live rows, all changes up to `sequence`; map it, and start an empty tail."""
        manifest: dict[str, Any] = {"schema": 1, "gallery": self._gallery, "sequence": sequence, "count": len(self)}
        # Removed rows are left out, so their altered keys never reach the disk.
        live = self.positions()
        sections = [self._chunks(live, name) for name in ("numbers", "keys", "records")]
        if self.prior:
            manifest["prior"] = self.prior.version
            order, typical = by_variance(self.prior, self._layout, self._chunks(live, "records"))
            if typical:
                manifest["typical"] = typical.to_json()
            sections[2:2] = self._shrunk(live[order], self.prior, typical), iter([order])
        write_snapshot(self._directory, manifest, sections)
        self.load()

    def _chunks(self, positions: np.ndarray, name: str) -> Iterator[np.ndarray]:
        return (self._at(positions[start : start + ROWS], name) for start in range(0, len(positions), ROWS))

    def _shrunk(self, positions: np.ndarray, prior: Prior, typical: Typical | None) -> Iterator[np.ndarray]:
        for records in self._chunks(positions, "records"):
            yield made_rows(self._layout.unpack(records), prior, typical)

    def use(self, prior: Prior) -> None:
        """Take another prior; there are no shrunk rows until the next snapshot."""
        self.prior, self.shrunk = prior, None


def _joined(found: list[Candidates]) -> Candidates:
    """Of all blocks together."""
    if len(found) == 1:
        return found[0]
    numbers = np.concatenate([part.numbers for part in found], 1)
    return Candidates(numbers, np.minimum.reduce([part.reach for part in found]))
