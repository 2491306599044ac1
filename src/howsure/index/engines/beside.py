"""The shrunk rows beside an embedded engine's keys: those of the snapshot, sorted by variance, and newer ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from howsure.embeddings import Embedding
from howsure.index.engines.likely import Pairs, most_likely, scores
from howsure.index.engines.lists import Found, Lists
from howsure.index.engines.scan import largest_products
from howsure.index.layout import Layout
from howsure.index.shrunk import ShrunkQuery, shrunk_rows, shrunk_width
from howsure.index.weighted import Typical
from howsure.prior import Prior

# The squared length of a removed row: so far away that no search finds it.
FAR = 1e35
# Beyond k, what is compared exactly of what lists found: float32 may mistake the order of a few.
SLACK = 6
# Variances that float32 can work with.
SMALLEST, LARGEST = 1e-30, 1e30


class ShrunkRows:
    """Rows by the place of their item: first the places of the snapshot, then those that came later.

    Rows are as `shrunk_rows` makes them; given typical variances, as these do.
    """

    def __init__(
        self, prior: Prior, layout: Layout, rows: np.ndarray, order: np.ndarray, typical: Typical | None = None
    ):
        self.prior, self._layout, self._typical = prior, layout, typical
        # Of the squared length, and then come a one and the variance; or of the logarithm.
        self._column = 3 * layout.dim if typical else layout.draws * layout.dim
        self._old, self._order = rows, order
        self._row_of: np.ndarray | None = None
        self._room, self._count = np.empty((0, rows.shape[1]), np.float32), 0
        self._largest = float(rows[:, self._column].max(initial=0)) ** 0.5
        # The least variance; -1 if not all have one.
        self._least = -1.0 if typical else float(rows[0, self._column + 2]) if len(rows) else np.inf
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
        rows = made_rows(self._layout.unpack(records), self.prior, self._typical)
        end = self._count + len(rows)
        if end > len(self._room):
            room = np.empty((max(end, 2 * len(self._room), 64), rows.shape[1]), np.float32)
            room[: self._count] = self._new
            self._room = room
        self._room[self._count : end] = rows
        self._count = end
        if self._typical is None:
            self._largest = max(self._largest, float(rows[:, self._column].max(initial=0)) ** 0.5)
            self._least = min(self._least, float(rows[:, self._column + 2].min(initial=np.inf)))

    def remove(self, places: np.ndarray) -> None:
        """Forget items."""
        old = places < len(self._old)
        far = -FAR if self._typical else FAR  # a key counts squared lengths down, and logarithms up
        self._new[places[~old] - len(self._old), self._column] = far
        if not old.any():
            return
        if self._row_of is None or self._removed is None:
            self._row_of, self._removed = np.empty(len(self._order), np.int64), np.zeros(len(self._order), bool)
            self._row_of[self._order] = np.arange(len(self._order))
        gone = self._row_of[places[old]]
        self._old[gone, self._column], self._removed[gone] = far, True

    def provable(self, query: ShrunkQuery) -> bool:
        """Whether `most_likely` can answer: every belief here and in the query has one variance, and not both none."""
        least, most = query.ends
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
        """(Q, c) places of the best of what lists found; of all that is newer, too."""
        if self.lists is None:
            return self.nearest(query, count)
        means = query.keys[:, : self._layout.draws * self._layout.dim]
        found = self.lists.found(means, k, count, self._removed)
        rows = self._best_of(query, found, k + SLACK if self.provable(query) else count)
        few = np.flatnonzero(found.counts < k)  # the lists that were read hold no more
        if len(few):
            scanned = self._scan(query[few], count, self._old, start=0)
            rows = np.pad(rows, ((0, 0), (0, max(0, scanned.shape[1] - rows.shape[1]))), constant_values=-1)
            rows[few] = -1
            rows[few, : scanned.shape[1]] = scanned
        if self._count:
            rows = np.concatenate([rows, self._scan(query, count, self._new, start=len(self._old))], 1)
        return self._places(rows)

    def _best_of(self, query: ShrunkQuery, found: Found, count: int) -> np.ndarray:
        """(Q, count) rows of those that were found; -1 where there are no more."""
        ends, proved = np.cumsum(found.counts), self.provable(query)
        score, spread = np.empty((2, len(found.rows)), np.float32)
        parts = [slice(end - own, end) for own, end in zip(found.counts.tolist(), ends.tolist(), strict=True)]
        for part, key in zip(parts, self._keys(query), strict=True):
            values = self._old.take(found.rows[part], 0)  # of one query, so that they stay in the cache
            np.dot(values, key, out=score[part])
            if proved:
                spread[part] = values[:, self._column + 2]
        if proved:
            score = scores(query, score, spread, np.repeat(np.arange(len(query)), found.counts))
        best = np.full((len(query), count), -1, np.int64)
        for line, part in zip(best, parts, strict=True):
            rows = found.rows[part]
            chosen = rows if len(rows) <= count else rows[score[part].argpartition(-count)[-count:]]
            line[: len(chosen)] = chosen
        return best

    def nearest(self, query: ShrunkQuery, count: int) -> np.ndarray:
        """(Q, c) places of those whose shrunk means are nearest to the query, or that about are the most likely.

        -1 where there is none.
        """
        blocks = ((self._old, 0), (self._new, len(self._old)))
        rows = [self._scan(query, count, block, start=start) for block, start in blocks]
        return self._places(np.concatenate(rows, 1))

    def _scan(self, query: ShrunkQuery, count: int, block: np.ndarray, *, start: int) -> np.ndarray:
        if not len(block):
            return np.empty((len(query), 0), np.int64)
        values, rows = largest_products(self._keys(query), block, min(count, len(block)))
        return np.where(values > -FAR / 4, rows + start, -1)

    def _keys(self, query: ShrunkQuery) -> np.ndarray:
        return self._typical.keys(query) if self._typical else query.keys

    def means(self) -> np.ndarray:
        """(N, S·D): the shrunk means of the snapshot, row by row."""
        return self._typical.means(self._old) if self._typical else self._old[:, : self._column]

    def _places(self, rows: np.ndarray) -> np.ndarray:
        """Places of rows counted through both blocks; -1 stays."""
        if not self._count and rows.min(initial=0) >= 0:
            return self._order[rows]
        old = (rows >= 0) & (rows < len(self._order))
        places = rows.astype(np.int64)
        places[old] = self._order[rows[old]]
        return places


def made_rows(embedding: Embedding, prior: Prior, typical: Typical | None) -> np.ndarray:
    """(N, width) float32."""
    return typical.rows(embedding, prior) if typical else shrunk_rows(embedding, prior)


def by_variance(prior: Prior, layout: Layout, records: Iterator[np.ndarray]) -> tuple[np.ndarray, Typical | None]:
    """(N,) int32: the places of these records, sorted by shrunk variance; and what is typical, where some have several.

    Draws are compared one by one, which no single row can do, so nothing is typical of them.
    """
    column, spread, typical = layout.draws * layout.dim + 2, [np.empty(0)], None
    for part in records:
        embedding = layout.unpack(part)
        spread.append(shrunk_rows(embedding, prior)[:, column])
        if typical is None and layout.draws == 1 and spread[-1].min() < 0:
            typical = Typical.of(embedding, prior)  # some thousands are enough to know
    return np.argsort(np.concatenate(spread), kind="stable").astype(np.int32), typical
