"""The shrunk rows beside an embedded engine's keys: those of the snapshot, sorted by variance, and newer ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from howsure.embeddings import Embedding
from howsure.index.layout import Layout
from howsure.index.local.ivf import Ivf
from howsure.index.local.likelihood_scan import most_likely, scores
from howsure.index.local.scan import largest_products
from howsure.index.ranking.keys import LARGEST as LONGEST
from howsure.index.ranking.pairwise import PairMoments
from howsure.index.ranking.shrunk_keys import ShrunkQuery, shrunk_rows, shrunk_width
from howsure.index.ranking.weighted_keys import Typical
from howsure.prior import Prior

# The squared length of a removed row: so far away that no search finds it.
FAR = 1e35
# Beyond k, what is compared exactly of what an IVF found: float32 may mistake the order of a few.
SLACK = 6
# Variances that float32 can work with.
SMALLEST, LARGEST = 1e-30, 1e30


class ShrunkRows:
    """Rows by the position of their item: first the positions of the snapshot, then those that came later.

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
        self.ivf: Ivf | None = None

    @classmethod
    def empty(cls, prior: Prior, layout: Layout) -> ShrunkRows:
        """No rows yet."""
        rows = np.empty((0, shrunk_width(layout.draws, layout.dim)), np.float32)
        return cls(prior, layout, rows, np.empty(0, np.int32))

    @property
    def _new(self) -> np.ndarray:
        return self._room[: self._count]

    def add(self, records: np.ndarray) -> None:
        """Append the rows of these items."""
        rows = made_rows(self._layout.unpack(records), self.prior, self._typical)
        end = self._count + len(rows)
        self._room = with_room(self._room, self._count, end)
        self._room[self._count : end] = rows
        self._count = end
        if self._typical is None:
            self._largest = max(self._largest, float(rows[:, self._column].max(initial=0)) ** 0.5)
            self._least = min(self._least, float(rows[:, self._column + 2].min(initial=np.inf)))

    def remove(self, positions: np.ndarray) -> None:
        """Forget items."""
        old = positions < len(self._old)
        far = -FAR if self._typical else FAR  # a key counts squared lengths down, and logarithms up
        self._new[positions[~old] - len(self._old), self._column] = far
        if not old.any():
            return
        if self._row_of is None or self._removed is None:
            self._row_of, self._removed = np.empty(len(self._order), np.int64), np.zeros(len(self._order), bool)
            self._row_of[self._order] = np.arange(len(self._order))
        gone = self._row_of[positions[old]]
        self._old[gone, self._column], self._removed[gone] = far, True

    def provable(self, query: ShrunkQuery) -> bool:
        """Whether `most_likely` can answer: every embedding, of both sides, has one variance, and not both none."""
        least, most = query.variance.min(initial=np.inf), query.variance.max(initial=0)
        return bool(self._least >= 0 and least >= 0 and self._least + least >= SMALLEST and most <= LARGEST)

    def most_likely(self, query: ShrunkQuery, k: int) -> np.ndarray:
        """(Q, c) positions of all that may be among the k most likely; -1 where there is none."""
        pairs = most_likely(query, k, self._old, self._new, largest=self._largest)
        # Pairs come query by query.
        lines = np.split(pairs.row, np.searchsorted(pairs.query, np.arange(1, len(query))))
        return self._positions(_padded(lines))

    def probed(self, ivf: Ivf, query: ShrunkQuery, *, k: int, count: int) -> np.ndarray:
        """(Q, c) positions of the best of what an IVF found; of all that is newer, too."""
        proved, keys = self.provable(query), self._keys(query)
        best = ivf.search(query, k, count, self._removed)
        for number, rows in enumerate(best):
            if len(rows) < k:  # the cells that were read hold no more
                best[number] = self._scan(query[number : number + 1], count, self._old, start=0)[0]
            elif proved:
                half, variance = float(query.half[number]), float(query.variance[number])
                best[number] = self._best(rows, keys[number], k + SLACK, half=half, variance=variance)
            else:
                best[number] = self._best(rows, keys[number], count)
        newer = self._scan(query, count, self._new, start=len(self._old))
        return self._positions(np.concatenate([_padded(best), newer], 1))

    def _best(
        self, rows: np.ndarray, key: np.ndarray, count: int, *, half: float = 0.0, variance: float | None = None
    ) -> np.ndarray:
        """The best of these rows for a query: by their scores, if it has one variance, and by the product elsewhere."""
        if len(rows) <= count:
            return rows
        values = self._old.take(rows, 0)
        score = values @ key
        if variance is not None:
            score = scores(score, values[:, self._column + 2], half=half, variance=variance, dim=self._layout.dim)
        return rows[score.argpartition(-count)[-count:]]

    def probed_for_one(self, ivf: Ivf, query: PairMoments, k: int, count: int) -> np.ndarray | None:
        """(1, k + SLACK) positions as `probed` finds them for one query in the common case; None elsewhere.

        A service asks for one at a time. Then each call of a function takes longer than its arithmetic, so there are as
        few as will do.
        """
        one = len(query) == len(query.means) == 1 and query.variances[0].shape == (1, 1)
        if not one or self._count or not ivf.reads_whole_cells(count):
            return None
        variance, apart = float(query.variances[0][0, 0]), query.means[0][0] - self.prior.arrays[0]
        half = 0.5 * float(apart @ apart)
        # What is out of range, NaN too, is for `ShrunkQuery` to judge.
        if not (self._least >= 0 and SMALLEST <= self._least + variance <= LARGEST and 2 * half <= LONGEST**2):
            return None
        key = np.zeros(self._old.shape[1], np.float32)
        key[: self._column], key[self._column] = apart, -0.5
        rows = ivf.near(key, self._removed, least=0)
        if len(rows) < k + SLACK:
            return None
        return self._order[self._best(rows, key, k + SLACK, half=half, variance=variance)][None]

    def nearest(self, query: ShrunkQuery, count: int) -> np.ndarray:
        """(Q, c) positions of those whose shrunk means are nearest to the query, or that about are the most likely.

        -1 where there is none.
        """
        blocks = ((self._old, 0), (self._new, len(self._old)))
        rows = [self._scan(query, count, block, start=start) for block, start in blocks]
        return self._positions(np.concatenate(rows, 1))

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

    def _positions(self, rows: np.ndarray) -> np.ndarray:
        """Positions of rows counted through both blocks; -1 stays."""
        old = (rows >= 0) & (rows < len(self._order))
        positions = rows.astype(np.int64)
        positions[old] = self._order[rows[old]]
        return positions


def _padded(lines: list[np.ndarray]) -> np.ndarray:
    """Lines of several lengths as one array, with -1 at the end of the short ones."""
    table = np.full((len(lines), max(map(len, lines), default=0)), -1, np.int64)
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line
    return table


def with_room(array: np.ndarray, count: int, end: int) -> np.ndarray:
    """The array, or its first `count` rows in a larger one that has room for `end`.

    Capacity doubles, so that n single rows cost O(n) in all.
    """
    if end <= len(array):
        return array
    larger = np.empty((max(end, 2 * len(array), 64), *array.shape[1:]), array.dtype)
    larger[:count] = array[:count]
    return larger


def made_rows(embedding: Embedding, prior: Prior, typical: Typical | None) -> np.ndarray:
    """(N, width) float32."""
    return typical.rows(embedding, prior) if typical else shrunk_rows(embedding, prior)


def by_variance(prior: Prior, layout: Layout, records: Iterator[np.ndarray]) -> tuple[np.ndarray, Typical | None]:
    """(N,) int32: the positions of these records by shrunk variance; and what is typical, where some have several.

    Draws are compared one by one, which no single row can do, so nothing is typical of them.
    """
    column, variances, typical = layout.draws * layout.dim + 2, [np.empty(0)], None
    for part in records:
        embedding = layout.unpack(part)
        variances.append(shrunk_rows(embedding, prior)[:, column])
        if typical is None and layout.draws == 1 and variances[-1].min() < 0:
            typical = Typical.fit(embedding, prior)  # some thousands are enough to know
    return np.argsort(np.concatenate(variances), kind="stable").astype(np.int32), typical
