"""The items that may be among the k most likely, proved, where every embedding has one variance.

For a query (m, v) and an item of shrunk moments (m~, v~), with t = v + v~, what ranks is

    s = -½|m - m~|²/t - ½ D log t

1. A sample of the rows is scored. Its k-th best score, less the error of float32, is a floor: what lies below it is not
   among the k best.
2. s is at least the floor f if and only if -½|m - m~|² - f t - ½ D t log t >= 0. Now t log t is convex, so a tangent of
   it bounds the left side from above, and that is linear in the columns of a row. So one matrix product is enough, and
   its sign tells which rows to drop. Rows are sorted by variance; over a chunk of them the tangent is close.
3. The few rows left get an interval for their score. Those that reach above the k-th best lower end are returned.

Rows that are not sorted, newer than the snapshot, are scored as the sample is. About float32: a product of a row with a
key of n columns errs by at most g = (n + 8)u / (1 - (n + 8)u), u = 2⁻²⁴, times the sum of the sizes of its terms, the
rounding of row and key included. What follows it has a few roundings, of at most 16u of the size of what is summed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from howsure.index.local.scan import inner_products
from howsure.index.ranking.keys import FLOAT32
from howsure.index.ranking.shrunk_keys import ShrunkQuery

VALUES = 1 << 17  # scores at a time: what stays in the cache
# Rows in a chunk: enough to keep numpy busy, few enough to have about one variance.
MOST = 1 << 13


@dataclass(frozen=True, eq=False)
class Contenders:
    """Pairs of a query and a row that may be among its k best."""

    query: np.ndarray
    row: np.ndarray
    low: np.ndarray  # the score is not below this
    high: np.ndarray  # nor above this


def most_likely(query: ShrunkQuery, k: int, old: np.ndarray, new: np.ndarray, *, largest: float) -> Contenders:
    """All that may be among the k best of each query, of rows sorted by variance, and others, which count on from them.

    No shrunk mean is longer than `largest`.
    """
    terms = _Terms.from_query(query, largest)
    with np.errstate(over="ignore", invalid="ignore"):  # removed rows are infinitely far
        floor = _floor(terms, np.concatenate([_sample(rows, k, len(query)) for rows in (old, new)]), k)
        # Without a floor, in the smallest galleries, a tangent has no slope.
        known = bool(np.isfinite(floor).all())
        parts = [_dropped_by_sign(terms, old, floor)] if known and len(old) else [*_scored(terms, old, floor, start=0)]
        parts += _scored(terms, new, floor, start=len(old))
    columns = (np.concatenate([getattr(part, name) for part in parts]) for name in Contenders.__dataclass_fields__)
    return _best(Contenders(*columns), k)


def scores(product: np.ndarray, shrunk: np.ndarray, *, half: float, variance: float, dim: int) -> np.ndarray:
    """About s, given row · key and v~ of what was found for a query, and its ½|m|² and v. Not proved."""
    total = shrunk + np.float32(variance)
    score = (product - np.float32(half)) / total
    score -= np.float32(0.5 * dim) * np.log(total)
    return np.asarray(score)


@dataclass(frozen=True, eq=False)
class _Terms:
    """What is known of the queries, as columns (Q, 1) beside their keys."""

    keys: np.ndarray
    half: np.ndarray  # ½|m|²
    variance: np.ndarray
    size: np.ndarray  # of what is summed to ½|m - m~|², at most
    growth: float
    dim: int

    @classmethod
    def from_query(cls, query: ShrunkQuery, largest: float) -> _Terms:
        half, operations = query.half[:, None], (query.keys.shape[1] + 8) * FLOAT32
        size = 0.5 * (np.sqrt(2 * half) + largest) ** 2
        growth = operations / (1 - operations)
        return cls(query.keys, half, query.variance[:, None], size, growth, query.dim)

    def interval(
        self, product: np.ndarray, shrunk: np.ndarray, rows: np.ndarray | slice, more: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Between what the scores lie, given row · key and v~ of pairs; the product summed terms of size `more` too."""
        dtype = product.dtype
        half, variance, size = (
            part.astype(dtype) for part in (self.half[rows], self.variance[rows], self.size[rows] + more)
        )
        total = variance + shrunk
        log = np.log(total)
        score = (product - half) / total - dtype.type(0.5 * self.dim) * log
        error = dtype.type(self.growth) * size / total
        error += dtype.type(16 * FLOAT32) * (np.abs(score) + dtype.type(self.dim) * (1 + np.abs(log)))
        return score - error, score + error


def _sample(rows: np.ndarray, k: int, queries: int) -> np.ndarray:
    """Rows at equal steps: as many as to leave about as many others above the floor, and fewer for few queries."""
    return rows[:: max(1, int((len(rows) / k) ** 0.5 * max(0.5, 1 / queries**0.5)))]


def _floor(terms: _Terms, rows: np.ndarray, k: int) -> np.ndarray:
    """(Q, 1): the k-th best score is not below it."""
    if len(rows) < k:
        return np.full_like(terms.half, -np.inf)
    low, _ = terms.interval(terms.keys @ rows.T, rows[:, terms.dim + 2], slice(None))
    return np.partition(low, -k, 1)[:, [-k]].astype(np.float64)


def _step(terms: _Terms) -> int:
    return min(MOST, max(256, VALUES // len(terms.keys)))


def _scored(terms: _Terms, rows: np.ndarray, floor: np.ndarray, *, start: int) -> Iterator[Contenders]:
    step = _step(terms)
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        low, high = terms.interval(terms.keys @ part.T, part[:, terms.dim + 2], slice(None))
        query, row = np.nonzero(high >= floor)
        yield Contenders(query, start + first + row, low[query, row], high[query, row])


def _dropped_by_sign(terms: _Terms, rows: np.ndarray, floor: np.ndarray) -> Contenders:
    keys, column, step = terms.keys.copy(), terms.dim + 1, _step(terms)
    firsts = np.arange(0, len(rows), step)
    least, most = (rows[ends, column + 1].astype(np.float64) for ends in (firsts, np.append(firsts[1:], len(rows)) - 1))
    # One column for each chunk, (Q, C).
    middle = terms.variance + 0.5 * (least + most)
    slope = floor + 0.5 * terms.dim * (1 + np.log(middle))
    constant = 0.5 * terms.dim * middle - slope * terms.variance - terms.half
    more = np.abs(constant) + np.abs(slope) * most
    tilt = np.stack([constant + terms.growth * (terms.size + more), -slope], 2).astype(np.float32)
    hits, room = [], np.empty((len(keys), min(step, len(rows))), np.float32)
    for chunk, first in enumerate(firsts.tolist()):
        part = rows[first : first + step]
        keys[:, column : column + 2] = tilt[:, chunk]
        product = inner_products(keys, part, room[:, : len(part)])
        values = product.ravel()
        hit = np.flatnonzero(values >= 0)
        query, row = np.divmod(hit, len(part))
        hits.append((query, first + row, values[hit]))
    query, row, product = (np.concatenate(part) for part in zip(*hits, strict=True))
    tilted, shrunk = tilt[query, row // step].astype(np.float64), rows[row, column + 1].astype(np.float64)
    bare = product - tilted[:, 0] - tilted[:, 1] * shrunk
    low, high = terms.interval(bare[:, None], shrunk[:, None], query, more[query, row // step, None])
    return Contenders(query, row, low[:, 0], high[:, 0])


def _best(pairs: Contenders, k: int) -> Contenders:
    """Those that reach above the k-th best lower end of their query."""
    order = np.lexsort((-pairs.low, pairs.query))
    query = pairs.query[order]
    starts = np.searchsorted(query, np.arange(query[-1] + 1 if len(query) else 0))
    kth = np.minimum(starts + k - 1, np.append(starts[1:], len(query)) - 1)
    keep = order[pairs.high[order] >= pairs.low[order][kth][query]]
    return Contenders(*(getattr(pairs, name)[keep] for name in Contenders.__dataclass_fields__))
