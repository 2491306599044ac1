"""The shrunk rows beside an embedded engine's keys: those of the snapshot, sorted by variance, and newer ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from howsure.embeddings import Embedding
from howsure.index.layout import Layout
from howsure.index.local.ivf import Lists
from howsure.index.local.likelihood_scan import Contenders, most_likely, scores
from howsure.index.local.scan import largest_products
from howsure.index.ranking.keys import LARGEST as LONGEST
from howsure.index.ranking.pairwise import PairMoments
from howsure.index.ranking.shrunk_keys import ShrunkQuery, shrunk_rows, shrunk_width
from howsure.index.ranking.weighted_keys import Typical
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

    def _table(self, pairs: Contenders, queries: int) -> np.ndarray:
        counts = np.bincount(pairs.query, minlength=queries)
        places = np.full((queries, counts.max(initial=0)), -1)
        # Pairs come query by query.
        places[np.arange(places.shape[1]) < counts[:, None]] = self._places(pairs.row)
        return places

    def listed(self, query: ShrunkQuery, k: int, count: int) -> np.ndarray:
        """(Q, c) places of the best of what lists found; of all that is newer, too."""
        if self.lists is None:
            return self.nearest(query, count)
        found = self.lists.found(query, k, count, self._removed)
        proved = self.provable(query)
        best = self._best_of(query, found, k + SLACK if proved else count, proved=proved)
        for place in [place for place, rows in enumerate(found) if len(rows) < k]:  # lists that were read hold no more
            best[place] = self._scan(query[place : place + 1], count, self._old, start=0)[0]
        rows = _padded(best)
        if self._count:
            rows = np.concatenate([rows, self._scan(query, count, self._new, start=len(self._old))], 1)
        return self._places(rows)

    def _best_of(
        self, query: ShrunkQuery, found: Sequence[np.ndarray], count: int, *, proved: bool
    ) -> list[np.ndarray]:
        """Up to `count` rows of those that were found for each query."""
        terms = query.half.tolist(), query.variance.tolist() if proved else [None] * len(query)
        each = zip(found, self._keys(query), *terms, strict=True)
        return [self._best(rows, key, count, half=half, variance=variance) for rows, key, half, variance in each]

    def _best(
        self, rows: np.ndarray, key: np.ndarray, count: int, *, half: float, variance: float | None
    ) -> np.ndarray:
        """The best of these rows for a query: by their scores, if it has one variance, and by the product elsewhere."""
        if len(rows) <= count:
            return rows
        values = self._old.take(rows, 0)
        score = values @ key
        if variance is not None:
            score = scores(score, values[:, self._column + 2], half=half, variance=variance, dim=self._layout.dim)
        return rows[score.argpartition(-count)[-count:]]

    def listed_for_one(self, query: PairMoments, k: int, count: int) -> np.ndarray | None:
        """(k + SLACK,) places as `listed` finds them for one query where all is as usual; None elsewhere.

        A service asks for one at a time. Then each call of a function takes longer than its arithmetic, so there are as
        few as will do, and arrays of one axis.
        """
        mean, variance = query.means[0][0], query.variances[0]
        if self.lists is None or self._count or not self.lists.whole(count):
            return None
        if len(query.means) > 1 or variance.shape != (1, 1):
            return None
        spread, apart = float(variance[0, 0]), mean - self.prior.arrays[0]
        half = 0.5 * float(apart @ apart)
        # What is out of range, NaN too, is for the others to judge.
        if not (self._least >= 0 and SMALLEST <= self._least + spread <= LARGEST and 2 * half <= LONGEST**2):
            return None
        key = np.zeros(self._old.shape[1], np.float32)
        key[: self._column], key[self._column] = apart, -0.5
        members = self.lists.members
        rows = members.near(members.products(key), self.lists.probes, self._removed)
        if len(rows) < k + SLACK:
            return None
        return np.asarray(self._order[self._best(rows, key, k + SLACK, half=half, variance=spread)])

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


def _padded(lines: Sequence[np.ndarray]) -> np.ndarray:
    """Lines of several lengths as one array, with -1 at the end of the short ones."""
    if len(lines) == 1:
        return lines[0][None]
    table = np.full((len(lines), max(map(len, lines))), -1, np.int64)
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line
    return table


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
