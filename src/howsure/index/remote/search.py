"""The engine of one search on a server: candidates from there, their moments kept for the comparison here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index.layout import Layout
from howsure.index.ranking.exact import Candidates
from howsure.index.ranking.likelihood import CANDIDATES
from howsure.index.remote.contract import Row, Server, handle_of

ROWS = 1 << 12  # read at a time


@dataclass(eq=False)
class RemoteFinder:
    """A gallery of `known` items, searched for k. Satisfies `Finder`."""

    server: Server
    layout: Layout
    k: int
    known: int
    shrunk: str | None = None  # the name of the shrunk means to search; None for the items
    # Candidates of one query, at least: an approximate engine cannot say how many are enough, so there are plenty.
    least: int = CANDIDATES
    look_up: bool = False  # whether the shrunk means may hold more than the items, so that each is looked up among them
    rows: dict[int, Row] = field(default_factory=dict)  # what was found so far, by number

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        found, reach = self.server.nearest(keys, max(count, self.least), shrunk=self.shrunk)
        if self.look_up:
            held = self._items(row.item.id for rows in found for row in rows)
            found = [[row for row in rows if row.item.id in held] for rows in found]
        lengths = [len(rows) for rows in found]
        if min(lengths) < self.k:
            raise GalleryUnavailableError(
                f"gallery {self.server.url}",
                expected=f"{self.k} candidates",
                got=str(min(lengths)),
                fix="a node or a shard may be down; try again, or look at the server",
            )
        numbers = np.full((len(keys), max(lengths)), -1, np.int64)
        for line, rows in zip(numbers, found, strict=True):
            self.rows.update({row.number: row for row in rows})
            line[: len(rows)] = [row.number for row in rows]
        return Candidates(numbers, np.where(np.array(lengths) >= self.known, np.inf, reach))

    def candidates_by_mean(self, keys: np.ndarray, count: int) -> Candidates:
        found = self.candidates(keys, max(count, 2 * self.k))
        if not self.layout.has_variance:
            return found
        # An item that is far by expected distance may be an uncertain one with a near mean.
        return Candidates(found.numbers, np.where(found.reach == np.inf, np.inf, -np.inf))

    def records(self, numbers: np.ndarray) -> np.ndarray:
        return unpacked([self.rows[number] for number in numbers.tolist()], self.layout)

    def names(self, numbers: np.ndarray) -> np.ndarray:
        """(N, 2): ids and labels of items that were found; an error if one is gone since."""
        ids = [self.rows[number].item.id for number in numbers.ravel().tolist()]
        labels = self._items(ids)
        if not all(name in labels for name in ids):
            raise GalleryUnavailableError(
                f"gallery {self.server.url}", expected="the items that were found", got="some gone", fix="try again"
            )
        return np.array([(name, labels[name]) for name in ids], object)

    def _items(self, ids: Iterable[str]) -> dict[str, str | None]:
        """The labels of those of these ids that are items."""
        rows = self.server.fetch([handle_of(name) for name in dict.fromkeys(ids)])
        return {row.item.id: row.item.label for row in rows}


def blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """A few thousand at a time."""
    iterator = iter(rows)
    while block := list(islice(iterator, ROWS)):
        yield block


def unpacked(rows: Sequence[Row], layout: Layout) -> np.ndarray:
    """(N,) records."""
    size = layout.record.itemsize
    if any(len(row.moments) != size for row in rows):
        raise GalleryError("moments of an item", expected=f"{size} bytes", got="another length", fix="index it again")
    return np.frombuffer(b"".join(row.moments for row in rows), layout.record)
