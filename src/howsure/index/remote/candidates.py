"""The engine of one search on a server: candidates from there, their moments kept for the comparison here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index.layout import Layout
from howsure.index.ranking.candidates import Candidates
from howsure.index.remote.contract import Hit, Row, Server, handle_of

# Candidates of one query: an approximate engine cannot say how many are enough, so there are plenty.
CANDIDATES = 200
ROWS = 1 << 12  # read at a time


@dataclass(frozen=True, eq=False)
class Remote:
    """A gallery of `known` items, searched for k. Satisfies `Finder`."""

    server: Server
    layout: Layout
    k: int
    known: int
    shrunk: str | None = None  # the place of shrunk means to look in; None for that of the items
    least: int = CANDIDATES  # candidates for a query
    doubted: bool = False  # whether that place may hold more than the items, so that each is looked up among them
    hits: dict[int, Hit] = field(default_factory=dict)  # what was found so far, by number

    def among(self, shrunk: str, least: int) -> Remote:
        """The same, with candidates by their shrunk means."""
        return replace(self, shrunk=shrunk, least=least)

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        found = self.server.nearest(keys, max(count, self.least), shrunk=self.shrunk)
        listed = self._held(found.hits) if self.doubted else found.hits
        lengths = [len(hits) for hits in listed]
        if min(lengths) < self.k:
            raise GalleryUnavailableError(
                f"gallery {self.server.place}",
                expected=f"{self.k} candidates",
                got=str(min(lengths)),
                fix="a node or a shard may be down; try again, or look at the server",
            )
        numbers = np.full((len(keys), max(lengths)), -1, np.int64)
        for row, hits in enumerate(listed):
            self.hits.update({hit.number: hit for hit in hits})
            numbers[row, : len(hits)] = [hit.number for hit in hits]
        everything = np.array(lengths) >= self.known
        return Candidates(numbers, np.where(everything, np.inf, found.reach))

    def _held(self, listed: Sequence[Sequence[Hit]]) -> list[list[Hit]]:
        names = {hit.id for hits in listed for hit in hits}
        held = {row.item.id for row in self.server.fetch([handle_of(name) for name in names])}
        return [[hit for hit in hits if hit.id in held] for hits in listed]

    def labels(self, ids: np.ndarray) -> np.ndarray:
        """The labels of items that were found, in this shape; an error if one is gone since."""
        rows = self.server.fetch([handle_of(name) for name in dict.fromkeys(ids.ravel().tolist())])
        known = {row.item.id: row.item.label for row in rows}
        if not all(name in known for name in ids.ravel().tolist()):
            raise GalleryUnavailableError(
                f"gallery {self.server.place}", expected="the items that were found", got="some gone", fix="try again"
            )
        return np.array([known[name] for name in ids.ravel().tolist()], object).reshape(ids.shape)

    def records(self, numbers: np.ndarray) -> np.ndarray:
        return unpacked([self.hits[number].moments for number in numbers.tolist()], self.layout)


def blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """A few thousand at a time."""
    iterator = iter(rows)
    while block := list(islice(iterator, ROWS)):
        yield block


def unpacked(moments: Sequence[bytes], layout: Layout) -> np.ndarray:
    """(N,) records."""
    size = layout.record.itemsize
    if any(len(one) != size for one in moments):
        raise GalleryError("moments of an item", expected=f"{size} bytes", got="another length", fix="index it again")
    return np.frombuffer(b"".join(moments), layout.record)
