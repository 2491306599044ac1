"""An index in a directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from howsure.embeddings import Embedding
from howsure.errors import GalleryError
from howsure.files import sync_folder
from howsure.index.index import By, Index
from howsure.index.items import Item, checked_json
from howsure.index.layout import Layout
from howsure.index.local.directory import prepare, take_lock
from howsure.index.local.likelihood import rank_by_likelihood
from howsure.index.local.replica import Replica
from howsure.index.local.store import FILE, Store
from howsure.index.matches import Matches
from howsure.index.ranking.exact import rank, rank_by_mean
from howsure.index.ranking.keys import item_keys
from howsure.match import Matcher
from howsure.prior import Prior

# A new snapshot pays once it replaces this share of the gallery and so many rows; at close, a smaller share.
SHARE, LEAST, SHARE_AT_CLOSE = 0.5, 4096, 0.02


class LocalIndex(Index):
    """An index in a directory.

    One writer at a time, any number of readers; a reader sees a change at its next call. A change returns once it is
    on disk, and is there whole or not at all.

    >>> import torch
    >>> from tempfile import mkdtemp
    >>> from howsure import Point
    >>> with LocalIndex.create(mkdtemp() + "/gallery") as index:
    ...     index.add(["cat", "dog"], Point(torch.tensor([[0.0, 0.0], [3.0, 4.0]])), labels=["animal", None])
    ...     matches = index.search(Point(torch.tensor([[3.0, 3.0]])), k=2)
    >>> matches.ids.tolist(), matches.distances.round(2).tolist(), matches.exact
    ([['dog', 'cat']], [[1.0, 4.24]], True)
    """

    def __init__(self, directory: Path, *, write: bool):
        """Use `create` or `open`."""
        super().__init__(str(directory), write=write)
        self._lock = take_lock(directory) if write else None
        try:
            self._store = Store(directory, write=write)
        except BaseException:
            self._unlock()
            raise
        self._replica = Replica(directory, self._store)

    # Opening and closing.

    @classmethod
    def create(cls, path: str | Path, *, about: Mapping[str, Any] | None = None) -> LocalIndex:
        """A new gallery, open for writing. `about` is JSON to keep with it."""
        directory = Path(path)
        notes = checked_json(about or {}, "about")
        prepare(directory)
        index = cls(directory, write=True)
        try:
            if index._store.exists():
                raise GalleryError(
                    f"gallery {path}", expected="none yet", got="a gallery", fix="open it with write=True"
                )
            index._store.create(notes)
            index._store.write_notes(writer=os.getpid())
            sync_folder(directory)
            sync_folder(directory.absolute().parent)
        except BaseException:
            index._disconnect()
            raise
        return index

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False) -> LocalIndex:
        """An existing gallery; with `write`, for this index alone until it is closed."""
        directory = Path(path)
        if not (directory / FILE).is_file():
            raise GalleryError(
                f"gallery {path}", expected=f"a directory with {FILE}", got="none", fix="create it first"
            )
        index = cls(directory, write=write)
        try:
            if not index._store.exists():
                raise GalleryError(f"gallery {path}", expected="a gallery", got="an empty file", fix="create it first")
            with index._replica.current():
                damage = index._replica.damage
            if write:
                index._store.write_notes(writer=os.getpid())
            if damage and write:
                index._replica.persist()
                index.recovered = f"rebuilt the snapshot: {damage}"
            elif damage:
                index.recovered = f"read all items from the database, the snapshot is of no use: {damage}"
            else:
                index._mend_ivf(write)
        except BaseException:
            index._disconnect()
            raise
        return index

    def _mend_ivf(self, write: bool) -> None:
        damage = self._replica.engine.ivf_damage if self._replica.engine else None
        if damage and write:
            self._replica.make_ivf()
            self.recovered = f"rebuilt the IVF: {damage}"
        elif damage:
            self.recovered = f"searches read all items, the IVF is of no use: {damage}"

    def close(self) -> None:
        """Write a snapshot if much has changed, and let the next writer in. Durability does not depend on it."""
        with self._turn:
            try:
                if self._lock and self._replica.stale > SHARE_AT_CLOSE:
                    self._replica.persist()
                if self._lock:
                    self._store.write_notes(writer=None)
            finally:
                self._disconnect()

    def _disconnect(self) -> None:
        self._store.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock:
            self._lock.close()
        self._lock, self._write = None, False

    # Changing.

    @property
    def about(self) -> dict[str, Any]:
        with self._turn:
            return dict(self._store.note("about"))

    @property
    def changes(self) -> int:
        with self._turn:
            return int(self._store.note("time"))

    def _describe(self, about: dict[str, Any]) -> None:
        self._store.write_notes(about=about)

    @property
    def prior(self) -> Prior | None:
        with self._turn:
            return self._store.prior()

    def set_prior(self, prior: Prior) -> None:
        with self._turn:
            self._require_write()
            layout = self._store.layout()
            if layout is not None:
                prior.require(layout.dim)
            self._replica.set_prior(prior)

    def _add(self, items: list[Item], embedding: Embedding, layout: Layout) -> None:
        self._require_layout(layout)
        records, keys = layout.pack(embedding), item_keys(embedding)
        self._replica.apply(self._store.add(items, records, layout), keys, records)
        self._compact_if_due()

    def _remove(self, ids: list[str]) -> None:
        self._replica.apply(self._store.remove(ids))
        self._compact_if_due()

    def compact(self) -> None:
        """Write a snapshot now, so that the gallery opens and searches at its quickest."""
        with self._turn:
            self._require_write()
            self._replica.persist()

    def _compact_if_due(self) -> None:
        engine = self._replica.engine
        if engine and engine.stale >= LEAST and self._replica.stale > SHARE:
            self._replica.persist()

    def _require_layout(self, layout: Layout) -> None:
        if self._replica.layout:
            self._replica.layout.require(layout)
        elif prior := self._store.prior():
            prior.require(layout.dim)

    # Reading.

    def _search(
        self, query: Embedding, k: int, *, matcher: Matcher | None, by: By, approximate: bool | None
    ) -> Matches:
        with self._replica.current():
            engine, layout = self._replica.engine, self._replica.layout
            k = 0 if engine is None else min(k, len(engine))
            if engine is None or layout is None or not k or not len(query):
                return Matches.none(len(query), k, matcher)
            layout.require_dim(query)
            if by == "likelihood":
                ranking = rank_by_likelihood(query, k, engine=engine, layout=layout, approximate=approximate)
            elif by == "mean":
                ranking = rank_by_mean(query, k, engine=engine, layout=layout)
            else:
                ranking = rank(query, k, engine=engine, layout=layout)
            numbers = ranking.numbers.ravel().tolist()
            known = self._store.names(numbers)
            names = np.array([known[number] for number in numbers], object)  # (Q·k, 2)
            references = self.references(names[::k, 1].tolist())
        return Matches.from_ranking(ranking, names, references=references, matcher=matcher)

    def __len__(self) -> int:
        with self._turn:
            return len(self._store)

    def ids(self) -> list[str]:
        with self._turn:
            return self._store.ids()

    def sample(self, count: int) -> list[str]:
        ids = self.ids()
        return [ids[position] for position in np.random.default_rng(0).permutation(len(ids))[:count]]

    def present(self, ids: Sequence[str]) -> set[str]:
        with self._turn:
            return set(self._store.numbers(ids))

    def items(self, ids: Sequence[str]) -> list[Item]:
        with self._turn:
            return self._store.items(ids)

    def labels(self, ids: Sequence[str]) -> list[str | None]:
        with self._turn:
            return self._store.labels(ids)

    def references(self, labels: Sequence[str | None]) -> list[int]:
        with self._turn:
            counts = {label: 1 if label is None else self._store.references(label) for label in set(labels)}
        return [counts[label] for label in labels]

    def get(self, ids: Sequence[str]) -> Embedding:
        with self._turn:
            layout = self._require_items(self._store.layout())
            return layout.unpack(self._store.records(ids, layout.record))

    def embedding(self) -> tuple[list[str], Embedding]:
        with self._turn, self._replica.current():
            layout, engine = self._require_items(self._replica.layout), self._replica.engine
            records = engine.records_at(engine.positions()) if engine else np.empty(0, layout.record)
            return self._store.ids(), layout.unpack(records)
