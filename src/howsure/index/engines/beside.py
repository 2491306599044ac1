"""The shrunk rows beside an embedded engine's keys: those of the snapshot, sorted by variance, and newer ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from howsure.index.engines.likely import Pairs, most_likely, refine
from howsure.index.engines.lists import Lists
from howsure.index.engines.scan import largest_products
from howsure.index.layout import Layout
from howsure.index.shrunk import ShrunkQuery, shrunk_rows, shrunk_width
from howsure.prior import Prior

# The squared length of a removed row: so far away that no search finds it.
FAR = 1e35
# Variances that float32 can work with.
SMALLEST, LARGEST = 1e-30, 1e30


class ShrunkRows:
    """Rows by the place of their item: first the places of the snapshot, then those that came later."""

    def __init__(self, prior: Prior, layout: Layout, rows: np.ndarray, order: np.ndarray):
        self.prior, self._layout = prior, layout
        self._column = layout.draws * layout.dim  # of the squared length; then come a one and the variance
        self._old, self._order = rows, order
        self._row_of: np.ndarray | None = None
        self._room, self._count = np.empty((0, rows.shape[1]), np.float32), 0
        self._largest = float(rows[:, self._column].max(initial=0)) ** 0.5
        self._least = float(rows[0, self._column + 2]) if len(rows) else np.inf  # variance; -1 if not all have one
        self._removed: np.ndarray | None = None
        self.lists: Lists | None = None

    @classmethod
    def empty(cls, prior: Prior, layout: Layout) -> ShrunkRows:
        """No rows yet."""
        rows = np.empty((0, shrunk_width(layout.draws, layout.dim)), np.float32)
        return cls(prior, layout, rows, np.empty(0, np.int32))

    @property
    def _new(self) -> np.ndarray:
        return self._room[: self._count]

    def add(self, records: np.ndarray) -> None:
        """Append the rows of these items; capacity doubles."""
        rows = shrunk_rows(self._layout.unpack(records), self.prior)
        end = self._count + len(rows)
        if end > len(self._room):
            room = np.empty((max(end, 2 * len(self._room), 64), rows.shape[1]), np.float32)
            room[: self._count] = self._new
            self._room = room
        self._room[self._count : end] = rows
        self._count = end
        self._largest = max(self._largest, float(rows[:, self._column].max(initial=0)) ** 0.5)
        self._least = min(self._least, float(rows[:, self._column + 2].min(initial=np.inf)))

    def remove(self, places: np.ndarray) -> None:
        """Forget items."""
        old = places < len(self._old)
        self._new[places[~old] - len(self._old), self._column] = FAR
        if not old.any():
            return
        if self._row_of is None or self._removed is None:
            self._row_of, self._removed = np.empty(len(self._order), np.int64), np.zeros(len(self._order), bool)
            self._row_of[self._order] = np.arange(len(self._order))
        gone = self._row_of[places[old]]
        self._old[gone, self._column], self._removed[gone] = FAR, True

    def provable(self, query: ShrunkQuery) -> bool:
        """Whether `most_likely` can answer: every belief here and in the query has one variance, and not both none."""
        least, most = query.variance.min(initial=np.inf), query.variance.max(initial=0)
        return self._least >= 0 and least >= 0 and self._least + least >= SMALLEST and most <= LARGEST

    def most_likely(self, query: ShrunkQuery, k: int) -> np.ndarray:
        """(Q, c) places of all that may be among the k most likely; -1 where there is none."""
        return self._table(most_likely(query, k, self._old, self._new, largest=self._largest), len(query))

    def _table(self, pairs: Pairs, queries: int) -> np.ndarray:
        counts = np.bincount(pairs.query, minlength=queries)
        places = np.full((queries, counts.max(initial=0)), -1)
        # Pairs come query by query.
        places[np.arange(places.shape[1]) < counts[:, None]] = self._places(pairs.row)
        return places

    def listed(self, query: ShrunkQuery, k: int, count: int) -> np.ndarray:
        """(Q, c) places of `count` or more that lists found, or of those of them that may be among the k best."""
        if self.lists is None:
            return self.nearest(query, count)
        listed = self.lists.nearest(query.keys[:, : self._column], count, self._removed)
        few = np.flatnonzero((listed >= 0).sum(1) < k)  # the lists that were read hold no more
        if len(few):
            found = self._scan(query[few], count, self._old, start=0)
            listed[few[:, None], np.arange(found.shape[1])] = found
        rows = np.concatenate([listed, self._scan(query, count, self._new, start=len(self._old))], 1)
        if not self.provable(query):
            return self._places(rows)
        values = self._old[np.clip(rows, 0, len(self._old) - 1)]
        later = rows >= len(self._old)
        values[later] = self._new[rows[later] - len(self._old)]
        return self._table(refine(query, k, rows, values, largest=self._largest), len(query))

    def nearest(self, query: ShrunkQuery, count: int) -> np.ndarray:
        """(Q, c) places of those whose shrunk means are nearest to the query; -1 where there is none."""
        blocks = ((self._old, 0), (self._new, len(self._old)))
        rows = [self._scan(query, count, block, start=start) for block, start in blocks]
        return self._places(np.concatenate(rows, 1))

    def _scan(self, query: ShrunkQuery, count: int, block: np.ndarray, *, start: int) -> np.ndarray:
        if not len(block):
            return np.empty((len(query), 0), np.int64)
        values, rows = largest_products(query.keys, block, min(count, len(block)))
        return np.where(values > -FAR / 4, rows + start, -1)

    def means(self) -> np.ndarray:
        """(N, S·D): the shrunk means of the snapshot, row by row."""
        return self._old[:, : self._column]

    def _places(self, rows: np.ndarray) -> np.ndarray:
        """Places of rows counted through both blocks; -1 stays."""
        old = (rows >= 0) & (rows < len(self._order))
        places = rows.astype(np.int64)
        places[old] = self._order[rows[old]]
        return places


def by_variance(prior: Prior, layout: Layout, records: Iterator[np.ndarray]) -> np.ndarray:
    """(N,) int32: the places of these records, sorted by shrunk variance."""
    column = layout.draws * layout.dim + 2
    spread = [shrunk_rows(layout.unpack(part), prior)[:, column] for part in records]
    return np.argsort(np.concatenate([np.empty(0), *spread]), kind="stable").astype(np.int32)
