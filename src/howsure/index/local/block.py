"""Rows of the local engine, those of a snapshot or of the tail, scanned by expected distance or by mean.

A key holds the mean of an item, and last its uncertainty, where a query has 0. So a scan by mean reads the same keys;
all it needs beside them are the squared lengths of the means. Only where the point estimate of a family is not its mean
(von Mises-Fisher) it reads keys of the point estimates. Both are made when first asked for, and held in memory.
"""

from __future__ import annotations

import numpy as np

from howsure.embeddings import point_estimates
from howsure.index.layout import Layout
from howsure.index.local.likelihood_rows import with_room
from howsure.index.local.scan import nearest, nearest_means
from howsure.index.ranking.exact import Candidates
from howsure.index.ranking.keys import item_keys, key_width
from howsure.index.ranking.pairwise import squared_lengths

ROWS = 1 << 14  # read at a time
# The last key coordinate of a removed row: so far away that the scan does not waste candidates on it.
FAR = 1e15


class Block:
    """Rows in the order of their numbers; removed ones stay where they are until the next snapshot."""

    def __init__(self, layout: Layout, numbers: np.ndarray, keys: np.ndarray, records: np.ndarray):
        self.count, self._layout = len(numbers), layout
        self.alive, self.dead = np.ones(self.count, bool), 0  # rows that are not removed, and how many are
        self.numbers, self.keys, self.records = numbers, keys, records
        # For a scan by mean, of as many rows as were asked for: squared lengths, infinite for removed rows, and the
        # keys of point estimates where `keys` do not hold them.
        self._lengths, self._points = np.empty(0, np.float32), np.empty((0, keys.shape[1]), np.float32)

    @classmethod
    def empty(cls, layout: Layout) -> Block:
        """No rows yet."""
        keys = np.empty((0, key_width(layout.draws, layout.dim)), np.float32)
        return cls(layout, np.empty(0, np.int64), keys, np.empty(0, layout.record))

    def append(self, numbers: np.ndarray, keys: np.ndarray, records: np.ndarray) -> None:
        """Add rows."""
        end = self.count + len(numbers)
        for name in ("numbers", "keys", "records", "alive"):
            setattr(self, name, with_room(getattr(self, name), self.count, end))
        rows = slice(self.count, end)
        self.numbers[rows], self.keys[rows], self.records[rows], self.alive[rows] = numbers, keys, records, True
        self.count = end

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """Where these numbers are; -1 for those that are not here."""
        held = self.numbers[: self.count]
        if not len(held):
            return np.full(len(numbers), -1)
        positions = np.minimum(np.searchsorted(held, numbers), len(held) - 1)
        return np.where(held[positions] == numbers, positions, -1)

    def remove(self, numbers: np.ndarray) -> None:
        """Mark rows as removed."""
        positions = self.positions(numbers)
        positions = positions[positions >= 0]
        self.alive[positions] = False
        self.dead = self.count - int(np.count_nonzero(self.alive[: self.count]))
        self.keys[positions, -1] = FAR
        self._lengths[positions[positions < len(self._lengths)]] = np.inf

    def live(self) -> np.ndarray:
        """Positions of the rows that are not removed."""
        return np.flatnonzero(self.alive[: self.count])

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        """The nearest `count` rows of this block, removed ones as -1."""
        if count >= self.count:
            return self._everything(len(keys))
        return self._found(*nearest(keys, self.keys[: self.count], count))

    def candidates_by_mean(self, keys: np.ndarray, count: int) -> Candidates:
        """The same by the distance between point estimates."""
        if count >= self.count:
            return self._everything(len(keys))
        rows = self._mean_rows()
        return self._found(*nearest_means(keys, rows, count, lengths=self._lengths))

    def _everything(self, queries: int) -> Candidates:
        numbers = self.numbers[: self.count][self.alive[: self.count]]
        return Candidates(np.broadcast_to(numbers, (queries, len(numbers))), np.full(queries, np.inf))

    def _found(self, squared: np.ndarray, positions: np.ndarray) -> Candidates:
        numbers = np.where((positions >= 0) & self.alive[positions], self.numbers[positions], -1)
        return Candidates(numbers, squared[:, -1].astype(np.float64))

    def _mean_rows(self) -> np.ndarray:
        """The rows that hold point estimates; their lengths are known from here on."""
        known, end, in_keys = len(self._lengths), self.count, self._layout.mean_is_point_estimate
        if known < end and not in_keys:
            self._points = with_room(self._points, known, end)
            for start in range(known, end, ROWS):
                rows = slice(start, min(start + ROWS, end))
                self._points[rows] = item_keys(point_estimates(self._layout.unpack(self.records[rows])))
        held = (self.keys if in_keys else self._points)[:end]
        if known < end:
            lengths = squared_lengths(held[known:, : self._layout.draws * self._layout.dim])
            lengths[~self.alive[known:end]] = np.inf
            self._lengths = np.concatenate([self._lengths, lengths])
        return held
