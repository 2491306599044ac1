"""An index on a server, written once for every engine with the contract `Server`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from howsure.embeddings import Embedding
from howsure.errors import GalleryError, InputError
from howsure.index.index import By, Index
from howsure.index.items import Item, checked_json, require_present
from howsure.index.layout import Layout
from howsure.index.matches import Matches
from howsure.index.ranking.exact import rank, rank_by_mean
from howsure.index.ranking.keys import item_keys, key_width
from howsure.index.remote.completeness import Completeness
from howsure.index.remote.contract import Row, Server, handle_of
from howsure.index.remote.likelihood import (
    SAMPLE,
    estimated_recall,
    rank_by_likelihood,
    recall_is_due,
    shrunk_means,
    shrunk_means_width,
)
from howsure.index.remote.search import RemoteFinder, blocks, unpacked
from howsure.match import Matcher
from howsure.prior import Prior

# 2: with a prior, the items' shrunk means are kept beside them, in a table that the notes name as `shrunk`.
SCHEMA = 2


class RemoteIndex(Index):
    """An index on a server; `howsure.index.connect` makes one.

    Distances and probabilities are those of `LocalIndex`. `exact` is true where the engine can prove it. An answer is
    for all items: where the server cannot reach some of them, the call raises `GalleryUnavailableError`.
    """

    def __init__(self, server: Server, *, write: bool):
        """Use `create` or `open`."""
        super().__init__(server.url, write=write)
        self._server, self._completeness = server, Completeness(server)

    # Opening and closing.

    @classmethod
    def create(cls, server: Server, *, about: Mapping[str, Any] | None = None) -> RemoteIndex:
        """A new gallery, open for writing."""
        if server.notes() is not None:
            raise GalleryError(f"gallery {server.url}", expected="none yet", got="a gallery", fix="open it instead")
        whole = {"schema": SCHEMA, "gallery": uuid.uuid4().hex, "time": 0, "count": 0, "family": None}
        whole |= {"layout": None, "prior": None, "shrunk": None, "recall": None}
        server.create({**whole, "about": checked_json(about or {}, "about")})
        return cls(server, write=True)

    @classmethod
    def open(cls, server: Server, *, write: bool = False) -> RemoteIndex:
        """An existing gallery."""
        notes = server.notes()
        if notes is None:
            raise GalleryError(f"gallery {server.url}", expected="a gallery", got="none", fix="create it first")
        if notes["schema"] > SCHEMA:
            raise GalleryError(
                f"gallery {server.url}",
                expected=f"version {SCHEMA} of the format, or an older one",
                got=f"version {notes['schema']}",
                fix="update howsure",
            )
        return cls(server, write=write)

    def close(self) -> None:
        """End the connection, after `compact` if this index was open for writing."""
        with self._turn:
            try:
                if self._write:
                    self.compact()
            finally:
                self._write = False
                self._server.close()

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._write = False  # the way out of an error must not meet the next one
        self.close()

    # Changing.

    @property
    def about(self) -> dict[str, Any]:
        with self._turn:
            return dict(self._completeness.notes()["about"])

    @property
    def changes(self) -> int:
        with self._turn:
            return int(self._completeness.notes()["time"])

    @property
    def prior(self) -> Prior | None:
        with self._turn:
            stored = self._completeness.notes()["prior"]
            return Prior.from_json(stored) if stored else None

    def set_prior(self, prior: Prior) -> None:
        with self._turn, self._changing() as (notes, now):
            before, layout = notes.get("shrunk"), notes["layout"]
            name = self._shrink(notes, Layout.from_json(layout), prior) if layout else None
            changed = {"schema": SCHEMA, "time": now, "prior": prior.to_json(), "shrunk": name, "recall": None}
            self._server.write_notes({**notes, **changed})
            if name:
                self._server.keep_shrunk(name, before)

    def _shrink(self, notes: dict[str, Any], layout: Layout, prior: Prior) -> str:
        """Make a new table for shrunk means, and fill it with those of all items; its name."""
        prior.require(layout.dim)
        name, count = self._make_shrunk(notes, layout), 0
        for block in blocks(self._server.scan(moments=True)):
            embedding = layout.unpack(unpacked(block, layout))
            self._server.put(block, shrunk_means(embedding, prior), shrunk=name)
            count += len(block)
        self._completeness.require_count(notes, count)
        return name

    def _make_shrunk(self, notes: dict[str, Any], layout: Layout) -> str:
        name, width = uuid.uuid4().hex[:8], shrunk_means_width(layout.draws * layout.dim)
        self._server.make_shrunk(notes, name, width=width, moments=layout.record.itemsize)
        return name

    def _describe(self, about: dict[str, Any]) -> None:
        with self._changing() as (notes, now):
            self._server.write_notes({**notes, "time": now, "about": about})

    def _add(self, items: list[Item], embedding: Embedding, layout: Layout) -> None:
        records, keys = layout.pack(embedding), item_keys(embedding)
        with self._changing() as (notes, now):
            notes = self._fit(notes, layout)
            # The number is the time: a later item has a larger one, whoever writes it.
            pairs = enumerate(zip(items, records, strict=True), start=now)
            rows = [Row(number, item, record.tobytes()) for number, (item, record) in pairs]
            old = len(self._server.fetch([row.handle for row in rows]))
            if notes.get("shrunk"):  # first: then no item is ever without its shrunk mean
                means = shrunk_means(embedding, Prior.from_json(notes["prior"]))
                self._server.put(rows, means, shrunk=notes["shrunk"])
            self._server.put(rows, keys)
            # Counted last: a crash in between leaves more items than were acknowledged, never fewer.
            self._server.write_notes({**notes, "time": now + len(rows), "count": notes["count"] + len(rows) - old})

    def _remove(self, ids: list[str]) -> None:
        with self._changing() as (notes, now):
            self._rows(ids)
            # Counted first, for the same reason.
            self._server.write_notes({**notes, "time": now, "count": notes["count"] - len(ids)})
            handles = [handle_of(name) for name in ids]
            self._server.delete(handles)
            if notes.get("shrunk"):
                self._server.delete(handles, shrunk=notes["shrunk"])

    def compact(self) -> None:
        """Build the index of a server that searches faster with one; see how much a search by likelihood then finds."""
        with self._turn:
            self._require_write()
            notes = self._completeness.notes()
            if not notes["layout"]:
                return
            built = self._server.settle(notes["count"], shrunk=notes.get("shrunk"))
            if built:
                notes["recall"] = None  # what was known is of another way to search
            due = recall_is_due(notes)
            if built or due:
                recall = self._recall() if due else None
                with self._changing() as (latest, _):
                    if latest.get("shrunk") == notes.get("shrunk"):
                        self._server.write_notes({**latest, "recall": recall})

    def _recall(self) -> dict[str, Any] | None:
        with self._server.reading():  # from here on, nobody takes an item of the sample away
            names = self.sample(SAMPLE)
            query = self.get(names).map(lambda tensor: tensor.double())
            return self._completeness.again(lambda notes: estimated_recall(self._server, notes, query, names))

    @contextmanager
    def _changing(self) -> Iterator[tuple[dict[str, Any], int]]:
        """The notes before a change of the whole gallery, and the time of the change."""
        self._require_write()
        with self._server.changing():
            notes = self._completeness.checked_notes()
            yield notes, max(notes["time"] + 1, time.time_ns())

    def _fit(self, notes: dict[str, Any], layout: Layout) -> dict[str, Any]:
        """The notes with this layout; room for items if these are the first."""
        if notes["layout"]:
            Layout.from_json(notes["layout"]).require(layout)
            return notes
        if notes["prior"]:
            Prior.from_json(notes["prior"]).require(layout.dim)
        self._server.make_room(notes, width=key_width(layout.draws, layout.dim), moments=layout.record.itemsize)
        if notes["prior"]:
            notes = {**notes, "schema": SCHEMA, "shrunk": self._make_shrunk(notes, layout)}
        notes = {**notes, "layout": layout.to_json()}
        self._server.write_notes(notes)
        return notes

    # Reading.

    def _search(
        self, query: Embedding, k: int, *, matcher: Matcher | None, by: By, approximate: bool | None
    ) -> Matches:
        if by != "likelihood" and approximate is not None:
            raise InputError(
                "approximate",
                expected=f"None by {by}",
                got=str(approximate),
                fix="the server decides; `exact` tells",
            )

        def search(notes: dict[str, Any]) -> Matches:
            found = min(k, notes["count"])
            if not found or not len(query):
                return Matches.none(len(query), found, matcher)
            layout = Layout.from_json(notes["layout"])
            layout.require_dim(query)
            finder = RemoteFinder(self._server, layout, k=found, known=notes["count"])
            if by == "likelihood":
                ranking = rank_by_likelihood(query, finder, notes, approximate=approximate)
            else:
                ranked = rank_by_mean if by == "mean" else rank
                ranking = ranked(query, found, engine=finder, layout=layout)
                self._completeness.require(notes)
            names = finder.names(ranking.numbers)
            references = self._references(names[::found, 1].tolist())
            return Matches.from_ranking(ranking, names, references=references, matcher=matcher)

        with self._server.reading():
            return self._completeness.again(search)

    def __len__(self) -> int:
        with self._turn:
            return int(self._completeness.checked_notes()["count"])

    def ids(self) -> list[str]:
        with self._turn:
            return [row.item.id for row in self._scan(moments=False)]

    def sample(self, count: int) -> list[str]:
        with self._turn:
            return self._server.sample(count) if self._completeness.checked_notes()["layout"] else []

    def present(self, ids: Sequence[str]) -> set[str]:
        with self._turn:
            found = {row.item.id for row in self._fetch(ids)}
            if len(found) < len(set(ids)):
                self._completeness.checked_notes()  # nothing is called absent while a part is out of reach
            return found

    def items(self, ids: Sequence[str]) -> list[Item]:
        with self._turn:
            return [row.item for row in self._rows(ids)]

    def labels(self, ids: Sequence[str]) -> list[str | None]:
        return [item.label for item in self.items(ids)]

    def references(self, labels: Sequence[str | None]) -> list[int]:
        with self._turn:
            if self._completeness.checked_notes()["layout"]:
                return self._references(labels)
        return [int(label is None) for label in labels]

    def _references(self, labels: Sequence[str | None]) -> list[int]:
        counts = self._server.label_counts({label for label in labels if label is not None})
        return [1 if label is None else counts.get(label, 0) for label in labels]

    def get(self, ids: Sequence[str]) -> Embedding:
        with self._turn:
            layout = self._require_items(self._layout())
            return layout.unpack(unpacked(self._rows(ids, moments=True), layout))

    def embedding(self) -> tuple[list[str], Embedding]:
        with self._turn:
            layout = self._require_items(self._layout())
            rows = self._scan(moments=True)
            return [row.item.id for row in rows], layout.unpack(unpacked(rows, layout))

    def _layout(self) -> Layout | None:
        stored = self._completeness.notes()["layout"]
        return Layout.from_json(stored) if stored else None

    def _scan(self, *, moments: bool) -> list[Row]:
        def whole(notes: dict[str, Any]) -> list[Row]:
            rows = list(self._server.scan(moments=moments)) if notes["layout"] else []
            self._completeness.require_count(notes, len(rows))
            return sorted(rows, key=lambda row: row.number)

        with self._server.reading():
            return self._completeness.again(whole)

    def _fetch(self, ids: Sequence[str], *, moments: bool = False) -> list[Row]:
        if not ids or not self._completeness.notes()["layout"]:
            return []
        return self._server.fetch([handle_of(name) for name in dict.fromkeys(ids)], moments=moments)

    def _rows(self, ids: Sequence[str], *, moments: bool = False) -> list[Row]:
        """The rows of these items; an error that names those that are not here."""
        found = {row.item.id: row for row in self._fetch(ids, moments=moments)}
        if len(found) < len(set(ids)):
            self._completeness.checked_notes()
        require_present(ids, found)
        return [found[name] for name in ids]
