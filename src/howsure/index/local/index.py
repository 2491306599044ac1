"""The door to a gallery."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.errors import GalleryError, InputError
from howsure.files import sync_folder
from howsure.index.items import Item, checked_ids, checked_items, checked_json
from howsure.index.layout import Layout
from howsure.index.local.directory import prepare, take_lock
from howsure.index.local.replica import Replica
from howsure.index.local.store import FILE, Store
from howsure.index.matches import Matches
from howsure.index.ranking.exact import rank
from howsure.index.ranking.keys import item_keys
from howsure.index.ranking.likelihood import rank_by_likelihood
from howsure.match import Matcher
from howsure.prior import Prior

# A new snapshot pays once it replaces this share of the gallery and so many rows; at close, a smaller share.
SHARE, LEAST, SHARE_AT_CLOSE = 0.5, 4096, 0.02


class Index:
    """Items with an id, an embedding, a label and metadata, in a directory.

    One writer at a time, any number of readers; a reader sees a change at its next call. A change returns once it is
    on disk, and is there whole or not at all. One index may be shared by threads; their calls take turns.

    >>> from tempfile import mkdtemp
    >>> from howsure import Point
    >>> with Index.create(mkdtemp() + "/gallery") as index:
    ...     index.add(["cat", "dog"], Point(torch.tensor([[0.0, 0.0], [3.0, 4.0]])), labels=["animal", None])
    ...     matches = index.search(Point(torch.tensor([[3.0, 3.0]])), k=2)
    >>> matches.ids.tolist(), matches.distances.round(2).tolist(), matches.exact
    ([['dog', 'cat']], [[1.0, 4.24]], True)
    """

    recovered: str | None = None
    """What opening had to repair; None if nothing."""

    def __init__(self, directory: Path, *, write: bool):
        """Use `create` or `open`."""
        self._directory = directory
        self._lock = take_lock(directory) if write else None
        self._turn = threading.RLock()
        try:
            self._store = Store(directory, write=write)
        except BaseException:
            self._unlock()
            raise
        self._replica = Replica(directory, self._store)

    # Opening and closing.

    @classmethod
    def create(cls, path: str | Path, *, family: str | None = None, about: Mapping[str, Any] | None = None) -> Index:
        """A new gallery, open for writing. `about` is JSON to keep with it; a `family` refuses all others."""
        directory = Path(path)
        notes = checked_json(about or {}, "about")
        prepare(directory)
        index = cls(directory, write=True)
        try:
            if index._store.exists():
                raise GalleryError(
                    f"gallery {path}", expected="none yet", got="a gallery", fix="use Index.open(path, write=True)"
                )
            index._store.create(family, notes)
            index._store.take_note(writer=os.getpid())
            sync_folder(directory)
            sync_folder(directory.absolute().parent)
        except BaseException:
            index._disconnect()
            raise
        return index

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False) -> Index:
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
                index._store.take_note(writer=os.getpid())
            if damage and write:
                index._replica.persist()
                index.recovered = f"rebuilt the snapshot: {damage}"
            elif damage:
                index.recovered = f"read all items from the database, the snapshot is of no use: {damage}"
            else:
                index._mend_lists(write)
        except BaseException:
            index._disconnect()
            raise
        return index

    def _mend_lists(self, write: bool) -> None:
        damage = self._replica.engine.lists_damage if self._replica.engine else None
        if damage and write:
            self._replica.make_lists()
            self.recovered = f"rebuilt the inverted lists: {damage}"
        elif damage:
            self.recovered = f"searches read all items, the inverted lists are of no use: {damage}"

    def close(self) -> None:
        """Write a snapshot if much has changed, and let the next writer in. Durability does not depend on it."""
        with self._turn:
            try:
                if self._lock and self._replica.stale > SHARE_AT_CLOSE:
                    self._replica.persist()
                if self._lock:
                    self._store.take_note(writer=None)
            finally:
                self._disconnect()

    def _disconnect(self) -> None:
        self._store.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock:
            self._lock.release()
        self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Changing.

    @property
    def about(self) -> dict[str, Any]:
        """The JSON notes kept with the gallery."""
        with self._turn:
            return dict(self._store.note("about"))

    @property
    def changes(self) -> int:
        """A number that grows whenever items come or go."""
        with self._turn:
            return int(self._store.note("time"))

    def describe(self, about: Mapping[str, Any]) -> None:
        """Replace the notes."""
        with self._turn:
            self._require_write()
            self._store.take_note(about=checked_json(about, "about"))

    @property
    def prior(self) -> Prior | None:
        """The prior over identities that a search by likelihood uses."""
        with self._turn:
            return self._store.prior()

    def set_prior(self, prior: Prior) -> None:
        """Search by likelihood under this prior from here on. Moments are kept as they are; keys are made anew."""
        with self._turn:
            self._require_write()
            layout = self._store.layout()
            if layout is not None:
                prior.require(layout.dim)
            self._replica.set_prior(prior)

    def add(
        self,
        ids: Sequence[str],
        embedding: Embedding,
        *,
        labels: Sequence[str | None] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Add items, in place of those with the same ids: all of them, durably, or none.

        A replaced item counts as new: it comes last among items at the same distance.
        """
        items = checked_items(ids, len(embedding), labels=labels, metadata=metadata)
        with self._turn:
            self._require_write()
            if not items:
                return
            embedding = embedding.detach().checked()
            layout = Layout.of(embedding)
            self._require_layout(layout)
            records, keys = layout.pack(embedding), item_keys(embedding)
            self._replica.apply(self._store.add(items, records, layout), keys, records)
            self._compact_if_due()

    def remove(self, ids: Sequence[str]) -> int:
        """Remove items, all or none; how many. An unknown id is an error."""
        gone = checked_ids(ids)
        with self._turn:
            self._require_write()
            if gone:
                self._replica.apply(self._store.remove(gone))
                self._compact_if_due()
            return len(gone)

    def compact(self) -> None:
        """Write a snapshot now, so that the gallery opens and searches at its quickest."""
        with self._turn:
            self._require_write()
            self._replica.persist()

    def _compact_if_due(self) -> None:
        engine = self._replica.engine
        if engine and engine.stale >= LEAST and self._replica.stale > SHARE:
            self._replica.persist()

    def _require_write(self) -> None:
        if self._lock is None:
            raise GalleryError(
                f"gallery {self._directory}",
                expected="an index open for writing",
                got="one for reading, or closed",
                fix="use Index.open(path, write=True)",
            )

    def _require_layout(self, layout: Layout) -> None:
        family = self._store.note("family")
        if self._replica.layout:
            self._replica.layout.require(layout)
            return
        if prior := self._store.prior():
            prior.require(layout.dim)
        if family is not None and layout.family != family:
            raise GalleryError(
                "items for this gallery", expected=f"family {family}", got=layout.family, fix="use the gallery's model"
            )

    # Reading.

    def search(
        self,
        query: Embedding,
        k: int = 5,
        *,
        matcher: Matcher | None = None,
        by: Literal["distance", "likelihood"] = "distance",
        approximate: bool | None = None,
    ) -> Matches:
        """The k best items of each query; with a matcher, P(same) of each.

        By `distance`, the nearest by `rms_distance`, proved exact. By `likelihood`, the largest `log_likelihood_ratio`
        under the gallery's prior; a matcher is then one that was fitted on its negative. That is proved exact where
        every belief has one variance, and the prior too. Elsewhere it is found among the items with the nearest shrunk
        means. From half a million items on, if they find enough, or with `approximate=True`, inverted lists name the
        candidates; with `approximate=False` the answer is always exact. `Matches` says what it was, and what share it
        is likely to find.
        """
        _require_ways(k, by, approximate)
        with self._turn, self._replica.current():
            engine, layout = self._replica.engine, self._replica.layout
            k = 0 if engine is None else min(k, len(engine))
            if engine is None or layout is None or k == 0 or len(query) == 0:
                none = np.empty((len(query), k))
                nothing = none.astype(object)
                return Matches(nothing, none, none.copy() if matcher else None, True, 0, labels=nothing.copy())
            _require_dim(query.dim, layout.dim)
            if by == "likelihood":
                ranking = rank_by_likelihood(query, k, engine=engine, layout=layout, approximate=approximate)
            else:
                query = query.map(lambda tensor: tensor.detach().to("cpu", torch.float64))
                ranking = rank(query, k, engine=engine, layout=layout)
            numbers = ranking.numbers.ravel().tolist()
            names = self._store.names(numbers)
            named = np.array([names[number] for number in numbers], object)  # (Q·k, 2)
        distances = ranking.distances
        ids, labels = (column.reshape(distances.shape) for column in named.T)
        evidence = distances if ranking.likelihoods is None else -ranking.likelihoods
        return Matches(
            ids,
            distances,
            matcher.probability(torch.from_numpy(evidence)).numpy() if matcher else None,
            ranking.exact,
            ranking.candidates,
            likelihoods=ranking.likelihoods,
            recall=ranking.recall,
            labels=labels,
        )

    def __len__(self) -> int:
        with self._turn:
            return len(self._store)

    def __contains__(self, identity: object) -> bool:
        with self._turn:
            return isinstance(identity, str) and self._store.contains(identity)

    def ids(self) -> list[str]:
        """All ids, in the order in which they were added."""
        with self._turn:
            return list(self._store.ids().values())

    def sample(self, count: int) -> list[str]:
        """So many ids by lot, or all if there are fewer; the same ones each time."""
        ids = self.ids()
        return [ids[place] for place in np.random.default_rng(0).permutation(len(ids))[:count]]

    def present(self, ids: Sequence[str]) -> set[str]:
        """Those of these ids that are items of the gallery."""
        with self._turn:
            return self._store.present(ids)

    def items(self, ids: Sequence[str]) -> list[Item]:
        """Id, label and metadata of these items."""
        with self._turn:
            return self._store.items(ids)

    def labels(self, ids: Sequence[str]) -> list[str | None]:
        """The labels of these items."""
        with self._turn:
            return self._store.labels(ids)

    def references(self, labels: Sequence[str | None]) -> list[int]:
        """How many items carry each of these labels; an item without one stands alone."""
        with self._turn:
            counts = {label: 1 if label is None else self._store.references(label) for label in set(labels)}
        return [counts[label] for label in labels]

    def get(self, ids: Sequence[str]) -> Embedding:
        """The embedding of these items, bit for bit as it was added."""
        with self._turn:
            layout = self._require_items()
            return layout.unpack(self._store.records(ids, layout.record))

    def embedding(self) -> tuple[list[str], Embedding]:
        """All ids and their embedding, in the order in which they were added."""
        with self._turn, self._replica.current():
            layout, engine = self._require_items(), self._replica.engine
            numbers = engine.numbers() if engine else np.empty(0, np.int64)
            records = engine.records(numbers) if engine else np.empty(0, layout.record)
            return list(self._store.ids().values()), layout.unpack(records)

    def _require_items(self) -> Layout:
        layout = self._store.layout()
        if layout is None:
            raise GalleryError(
                f"gallery {self._directory}", expected="items", got="an empty gallery", fix="add some first"
            )
        return layout


def _require_ways(k: int, by: str, approximate: bool | None) -> None:
    if k < 1:
        raise InputError("k", expected="1 or more", got=str(k))
    if by not in ("distance", "likelihood"):
        raise InputError("by", expected="distance or likelihood", got=repr(by))
    if approximate and by == "distance":
        raise InputError(
            "approximate", expected="None or False by distance", got="True", fix='search by="likelihood"; it scales'
        )


def _require_dim(got: int, expected: int) -> None:
    if got != expected:
        raise InputError(
            "dimension of the query",
            expected=f"{expected}, as in the gallery",
            got=str(got),
            fix="embed both with one model",
        )
