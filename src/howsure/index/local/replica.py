"""The engine, kept up with the truth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from howsure.errors import GalleryError
from howsure.index.layout import Layout
from howsure.index.local.engine import EmbeddedEngine
from howsure.index.local.ivf_tuning import make_ivf
from howsure.index.local.snapshot import SnapshotError
from howsure.index.local.store import Change, Store
from howsure.index.ranking.keys import item_keys
from howsure.prior import Prior

# A writer may replace the snapshot while a reader opens it; the reader then looks again.
TRIES = 3


class Replica:
    """An engine that holds what the store held at `time`. It starts from the snapshot and reads what is newer."""

    def __init__(self, directory: Path, store: Store):
        self._directory, self._store = directory, store
        self.engine: EmbeddedEngine | None = None
        self.layout: Layout | None = None
        self.time = 0
        self.damage: str | None = None  # why the snapshot could not be used

    @contextmanager
    def current(self) -> Iterator[None]:
        """Inside, engine and store are in the same, newest state."""
        for tries in range(TRIES + 1):
            with self._store.reading():
                if self._catch_up(last=tries == TRIES):
                    yield
                    return
            self._load()

    def _catch_up(self, *, last: bool) -> bool:
        """Read what is newer; False if that needs the snapshot first."""
        if self.engine is None or self.layout is None:
            return self._store.layout() is None
        if self.time == self._store.time():
            return True
        time, horizon = self._store.notes("time", "horizon")
        prior = self._store.prior()
        other = _version(prior) != _version(self.engine.prior)
        lost = self.time > time or 0 < self.time < horizon or other
        if lost and not last:
            return False
        if lost:
            self._start_over(f"it is of time {self.time}, the gallery of {horizon} to {time}")
        engine, layout = self.engine, self.layout
        self.engine = None  # an interruption below leaves nothing half read: the next call starts from the snapshot
        engine.remove(self._store.removed_since(self.time))
        for numbers, records in self._store.added_since(self.time, layout.record):
            engine.add(numbers, item_keys(layout.unpack(records)), records)
        self.engine, self.time = engine, time
        return True

    def _load(self) -> None:
        self._start_over(None)
        engine = self.engine
        if engine is None:
            return
        for _ in range(TRIES):
            try:
                engine.load()
            except SnapshotError as damage:
                self.damage = str(damage)
                continue
            # A horizon says that a snapshot was written.
            self.damage = "it is missing" if not engine.sequence and self._store.note("horizon") else None
            if self.damage is None:
                break
        self.time = engine.sequence

    def _start_over(self, damage: str | None) -> None:
        """Hold nothing: from here, all items are newer."""
        self.layout, self.time, self.damage = self._store.layout(), 0, damage
        if self.layout is not None:
            self.engine = EmbeddedEngine(self._directory, self._store.note("gallery"), self.layout, self._store.prior())

    def set_prior(self, prior: Prior) -> None:
        """Use another prior from here on: noted first, then in a new snapshot, made from the moments that are held."""
        with self.current():
            engine = self.engine
        time = self._store.set_prior(prior)
        self.engine = None  # whatever goes wrong below, the next call reads what was noted
        if engine is None:
            return
        engine.use(prior)
        self.engine, self.time = engine, time
        try:
            self.persist()
        except BaseException:
            self.engine = None
            raise

    def make_ivf(self) -> None:
        """Make an IVF for the snapshot, where it is large enough."""
        if self.engine and self.layout:
            make_ivf(self.engine, self.layout)

    def apply(self, change: Change, keys: np.ndarray | None = None, records: np.ndarray | None = None) -> None:
        """Take in a change that this process has just made."""
        if self.engine is None:
            with self.current():
                return
        engine, self.engine = self.engine, None
        engine.remove(change.removed)
        if keys is not None and records is not None:
            engine.add(change.added, keys, records)
        self.engine, self.time = engine, change.time

    @property
    def stale(self) -> float:
        """The share of the gallery that a new snapshot would change."""
        return self.engine.stale / max(len(self.engine), 1) if self.engine else 0.0

    def persist(self) -> None:
        """Write a snapshot of the present state."""
        if self.engine is None:
            return
        try:
            self.engine.persist(self.time)
            self.make_ivf()
        except (OSError, SnapshotError) as error:
            raise GalleryError(
                f"snapshot in {self._directory}",
                expected="to be written",
                got=str(error),
                fix="all items are safe in the database; free some disk space or check the disk, then compact()",
            ) from error
        self._store.purge(self.time)


def _version(prior: Prior | None) -> str | None:
    return prior.version if prior else None
