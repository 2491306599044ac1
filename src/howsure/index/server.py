"""A gallery on a server: the operations of `Index`, written once for every engine with the contract `Server`."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.errors import GalleryError, GalleryUnavailableError, InputError
from howsure.index.engines.server import Row, Server, handle_of
from howsure.index.items import Item, checked_ids, checked_items, checked_json, short
from howsure.index.keys import item_keys, key_width
from howsure.index.layout import Layout
from howsure.index.matches import Matches
from howsure.index.rank import rank
from howsure.index.remote import Remote, unpacked
from howsure.match import Matcher
from howsure.prior import Prior

SCHEMA = 1

T = TypeVar("T")


class ServerIndex:
    """`Index` on a server; `howsure.index.connect` makes one.

    Distances and probabilities are those of `Index`. `exact` is true where the engine can prove it. An answer is for
    all items: where the server cannot reach some of them, the call raises `GalleryUnavailableError`.
    """

    recovered: str | None = None

    def __init__(self, server: Server, *, write: bool):
        """Use `create` or `open`."""
        self._server, self._write = server, write
        self._turn = threading.RLock()

    # Opening and closing.

    @classmethod
    def create(
        cls, server: Server, *, family: str | None = None, about: Mapping[str, Any] | None = None
    ) -> ServerIndex:
        """A new gallery, open for writing."""
        if server.notes() is not None:
            raise GalleryError(f"gallery {server.place}", expected="none yet", got="a gallery", fix="open it instead")
        whole = {"schema": SCHEMA, "gallery": uuid.uuid4().hex, "time": 0, "count": 0, "family": family}
        server.create({**whole, "layout": None, "prior": None, "about": checked_json(about or {}, "about")})
        return cls(server, write=True)

    @classmethod
    def open(cls, server: Server, *, write: bool = False) -> ServerIndex:
        """An existing gallery."""
        notes = server.notes()
        if notes is None:
            raise GalleryError(f"gallery {server.place}", expected="a gallery", got="none", fix="create it first")
        if notes["schema"] != SCHEMA:
            raise GalleryError(
                f"gallery {server.place}",
                expected=f"version {SCHEMA} of the format",
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._write = False  # the way out of an error must not meet the next one
        self.close()

    # Changing.

    @property
    def about(self) -> dict[str, Any]:
        """The JSON notes kept with the gallery."""
        with self._turn:
            return dict(self._notes()["about"])

    @property
    def changes(self) -> int:
        """A number that grows whenever items come or go."""
        with self._turn:
            return int(self._notes()["time"])

    @property
    def prior(self) -> Prior | None:
        """The prior over identities that is kept with the gallery."""
        with self._turn:
            stored = self._notes()["prior"]
            return Prior.from_json(stored) if stored else None

    def set_prior(self, prior: Prior) -> None:
        """Keep this prior with the gallery."""
        with self._turn, self._changing() as (notes, now):
            if notes["layout"]:
                prior.require(notes["layout"]["dim"])
            self._server.take_notes({**notes, "time": now, "prior": prior.to_json()})

    def describe(self, about: Mapping[str, Any]) -> None:
        """Replace the notes."""
        with self._turn, self._changing() as (notes, now):
            self._server.take_notes({**notes, "time": now, "about": checked_json(about, "about")})

    def add(
        self,
        ids: Sequence[str],
        embedding: Embedding,
        *,
        labels: Sequence[str | None] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Add items, in place of those with the same ids. They are durable on return."""
        items = checked_items(ids, len(embedding), labels=labels, metadata=metadata)
        with self._turn:
            self._require_write()
            if not items:
                return
            embedding = embedding.detach().checked()
            layout = Layout.of(embedding)
            records, keys = layout.pack(embedding), item_keys(embedding)
            with self._changing() as (notes, now):
                notes = self._fit(notes, layout)
                # The number is the time: a later item has a larger one, whoever writes it.
                pairs = enumerate(zip(items, records, strict=True), start=now)
                rows = [Row(number, item, record.tobytes()) for number, (item, record) in pairs]
                old = len(self._server.fetch([row.handle for row in rows]))
                self._server.put(rows, keys)
                # Counted last: a crash in between leaves more items than were acknowledged, never fewer.
                self._server.take_notes({**notes, "time": now + len(rows), "count": notes["count"] + len(rows) - old})

    def remove(self, ids: Sequence[str]) -> int:
        """Remove items; how many. An unknown id is an error."""
        gone = checked_ids(ids)
        with self._turn:
            self._require_write()
            if not gone:
                return 0
            with self._changing() as (notes, now):
                self._rows(gone)
                # Counted first, for the same reason.
                self._server.take_notes({**notes, "time": now, "count": notes["count"] - len(gone)})
                self._server.delete([handle_of(name) for name in gone])
            return len(gone)

    def compact(self) -> None:
        """Build the index of a server that searches faster with one."""
        with self._turn:
            self._require_write()
            notes = self._notes()
            if notes["layout"]:
                self._server.settle(notes["count"])

    @contextmanager
    def _changing(self) -> Iterator[tuple[dict[str, Any], int]]:
        """The notes before a change of the whole gallery, and the time of the change."""
        self._require_write()
        with self._server.changing():
            notes = self._whole_notes()
            yield notes, max(notes["time"] + 1, time.time_ns())

    def _fit(self, notes: dict[str, Any], layout: Layout) -> dict[str, Any]:
        """The notes with this layout; room for items if these are the first."""
        if notes["layout"]:
            Layout.from_json(notes["layout"]).require(layout)
            return notes
        if notes["family"] not in (None, layout.family):
            raise GalleryError(
                "items for this gallery",
                expected=f"family {notes['family']}",
                got=layout.family,
                fix="use the gallery's model",
            )
        width = key_width(layout.draws, layout.dim)
        self._server.make_room(notes, width=width, moments=layout.record.itemsize)
        notes = {**notes, "layout": layout.to_json()}
        self._server.take_notes(notes)
        return notes

    def _require_write(self) -> None:
        if not self._write:
            raise GalleryError(
                f"gallery {self._server.place}",
                expected="an index open for writing",
                got="one for reading, or closed",
                fix="use connect(url, write=True)",
            )

    # Reading.

    def search(
        self,
        query: Embedding,
        k: int = 5,
        *,
        matcher: Matcher | None = None,
        by: Literal["distance", "likelihood"] = "distance",
    ) -> Matches:
        """The nearest items of each query by `rms_distance` among the engine's candidates; see `Index.search`."""
        if by != "distance":
            raise GalleryError(
                f"search by {by}",
                expected="a gallery in a directory",
                got=self._server.place,
                fix="search by distance, or export the gallery and import it into a directory",
            )
        if k < 1:
            raise InputError("k", expected="1 or more", got=str(k))
        query = query.map(lambda tensor: tensor.detach().to("cpu", torch.float64))
        with self._turn, self._server.reading():
            return self._again(lambda notes: self._search(query, k, matcher=matcher, notes=notes))

    def _search(self, query: Embedding, k: int, *, matcher: Matcher | None, notes: dict[str, Any]) -> Matches:
        k = min(k, notes["count"])
        if not k or not len(query):
            none = np.empty((len(query), k))
            return Matches(none.astype(object), none, none.copy() if matcher else None, True, 0)
        layout = Layout.from_json(notes["layout"])
        if query.dim != layout.dim:
            raise InputError(
                "dimension of the query",
                expected=f"{layout.dim}, as in the gallery",
                got=str(query.dim),
                fix="embed both with one model",
            )
        engine = Remote(self._server, layout, k=k, known=notes["count"])
        ranking = rank(query, k, engine=engine, layout=layout)
        self._require_whole(notes)
        names = [engine.hits[number].id for number in ranking.numbers.ravel().tolist()]
        ids = np.array(names, object).reshape(ranking.numbers.shape)
        distances = ranking.distances
        probabilities = matcher.probability(torch.from_numpy(distances)).numpy() if matcher else None
        return Matches(ids, distances, probabilities, ranking.exact, ranking.candidates)

    def __len__(self) -> int:
        with self._turn:
            return int(self._whole_notes()["count"])

    def __contains__(self, identity: object) -> bool:
        return isinstance(identity, str) and bool(self.present([identity]))

    def ids(self) -> list[str]:
        """All ids, in the order in which they were added."""
        with self._turn:
            return [row.item.id for row in self._scan(moments=False)]

    def present(self, ids: Sequence[str]) -> set[str]:
        """Those of these ids that are items of the gallery."""
        with self._turn:
            found = {row.item.id for row in self._fetch(ids)}
            if len(found) < len(set(ids)):
                self._whole_notes()  # nothing is called absent while a part is out of reach
            return found

    def items(self, ids: Sequence[str]) -> list[Item]:
        """Id, label and metadata of these items."""
        with self._turn:
            return [row.item for row in self._rows(ids)]

    def labels(self, ids: Sequence[str]) -> list[str | None]:
        """The labels of these items."""
        return [item.label for item in self.items(ids)]

    def references(self, labels: Sequence[str | None]) -> list[int]:
        """How many items carry each of these labels; an item without one stands alone."""
        with self._turn:
            held = bool(self._whole_notes()["layout"])
            known = self._server.label_counts({label for label in labels if label is not None}) if held else {}
        return [1 if label is None else known.get(label, 0) for label in labels]

    def get(self, ids: Sequence[str]) -> Embedding:
        """The embedding of these items, bit for bit as it was added."""
        with self._turn:
            layout = self._require_items()
            return layout.unpack(unpacked([row.moments for row in self._rows(ids, moments=True)], layout))

    def embedding(self) -> tuple[list[str], Embedding]:
        """All ids and their embedding, in the order in which they were added."""
        with self._turn:
            layout = self._require_items()
            rows = self._scan(moments=True)
            return [row.item.id for row in rows], layout.unpack(unpacked([row.moments for row in rows], layout))

    def _notes(self) -> dict[str, Any]:
        notes = self._server.notes()
        if notes is None:
            raise GalleryError(f"gallery {self._server.place}", expected="a gallery", got="none any more")
        return notes

    def _again(self, read: Callable[[dict[str, Any]], T]) -> T:
        """What `read` makes of the notes. If a change came between them and the items, it looks again.

        That ends: nobody changes a gallery without seeing all of it.
        """
        while True:
            notes = self._notes()
            try:
                return read(notes)
            except GalleryUnavailableError:
                if self._notes()["time"] == notes["time"]:
                    raise

    def _whole_notes(self) -> dict[str, Any]:
        """The notes of a gallery all of which is in reach; the count is of what is there."""
        return self._again(lambda notes: {**notes, "count": self._require_whole(notes)})

    def _require_whole(self, notes: dict[str, Any]) -> int:
        """How many items there are, or an error if the server reaches fewer than were acknowledged."""
        count = int(notes["count"])
        reachable = self._server.reachable() if notes["layout"] else None
        if reachable is not None and reachable < count:
            raise self._out_of_reach(count, reachable)
        return count if reachable is None else reachable

    def _out_of_reach(self, expected: int, got: int) -> GalleryUnavailableError:
        return GalleryUnavailableError(
            f"gallery {self._server.place}",
            expected=f"all of its {expected} items",
            got=f"{got} that the server can reach",
            fix="a node or a shard may be down; try again, or look at the server",
        )

    def _require_items(self) -> Layout:
        notes = self._notes()
        if not notes["layout"]:
            raise GalleryError(
                f"gallery {self._server.place}", expected="items", got="an empty gallery", fix="add some first"
            )
        return Layout.from_json(notes["layout"])

    def _scan(self, *, moments: bool) -> list[Row]:
        def whole(notes: dict[str, Any]) -> list[Row]:
            rows = list(self._server.scan(moments=moments)) if notes["layout"] else []
            if len(rows) < notes["count"]:
                raise self._out_of_reach(notes["count"], len(rows))
            return sorted(rows, key=lambda row: row.number)

        with self._server.reading():
            return self._again(whole)

    def _fetch(self, ids: Sequence[str], *, moments: bool = False) -> list[Row]:
        if not ids or not self._notes()["layout"]:
            return []
        return self._server.fetch([handle_of(name) for name in dict.fromkeys(ids)], moments=moments)

    def _rows(self, ids: Sequence[str], *, moments: bool = False) -> list[Row]:
        """The rows of these items; an error that names those that are not here."""
        found = {row.item.id: row for row in self._fetch(ids, moments=moments)}
        missing = [name for name in ids if name not in found]
        if missing:
            self._whole_notes()
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise GalleryError(
                "ids",
                expected="items of the gallery",
                got=", ".join(map(short, missing[:3])) + more,
                fix="index.ids() lists them all",
            )
        return [found[name] for name in ids]
