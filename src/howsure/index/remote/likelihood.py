"""The k most likely items on a server: candidates by their shrunk means there, log-likelihood ratios in float64 here.

A server searches by plain L2 among shrunk means, counted from the centre of the prior, with S draws

    [m~_1/√S, ..., m~_S/√S]           of an item,           [m_1/√S, ..., m_S/√S]           of a query,

which ranks about as the likelihood does. Nothing proves it, so an exact answer is one that compared all items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from howsure.embeddings import Embedding
from howsure.index.ranking.exact import QUERIES, Ranking
from howsure.index.ranking.pairwise import PairMoments, distances, log_likelihood_ratios
from howsure.index.ranking.shrunk_keys import ShrunkQuery, shrunk_rows
from howsure.index.remote.candidates import Remote, blocks, unpacked
from howsure.index.remote.contract import Hit, Row
from howsure.prior import Prior

SMALL = 2000  # items that are all read about as soon as the candidates of some queries


def shrunk_means(embedding: Embedding, prior: Prior) -> np.ndarray:
    """(N, S·D up to the next multiple of 4) float32."""
    return _means(shrunk_rows(embedding, prior), len(embedding.by_draw()) * embedding.dim)


def _means(rows: np.ndarray, columns: int) -> np.ndarray:
    means = rows[:, : shrunk_means_width(columns)].copy()
    means[:, columns:] = 0
    return means


def shrunk_means_width(columns: int) -> int:
    """The number of dimensions of S·D columns on a server."""
    return -(-columns // 4) * 4


def rank_by_likelihood(
    query: Embedding, k: int, *, engine: Remote, prior: Prior, rows: Iterable[Row] | None
) -> Ranking:
    """The k most likely, by likelihood, then by age: of all these rows, or else of the engine's candidates."""
    moments, layout = PairMoments.of(query.by_draw()), engine.layout
    asked = ShrunkQuery.of(query, prior, layout.draws, moments)
    best = [Best(moments[np.array([row])], prior, k) for row in range(len(query))]
    if rows is not None:
        exact, most = True, _meet_all(best, rows, engine)
    else:
        exact, most = _meet_candidates(best, _means(asked.keys, layout.draws * layout.dim), engine)
    numbers, apart, likely = (np.stack(part) for part in zip(*(one.found for one in best), strict=True))
    return Ranking(numbers, apart, exact, most, likelihoods=likely)


class Best:
    """The k most likely for one query, of all that it has met."""

    def __init__(self, query: PairMoments, prior: Prior, k: int):
        self._query, self._prior, self._k = query, prior, k
        self.found = np.empty(0, np.int64), np.empty(0), np.empty(0)
        """Numbers, distances and log-likelihood ratios, best first."""

    def meet(self, numbers: np.ndarray, items: PairMoments) -> None:
        """Compare with these, in float64."""
        new = numbers, distances(self._query, items), log_likelihood_ratios(self._query, items, self._prior)
        numbers, apart, likely = (np.concatenate(pair) for pair in zip(self.found, new, strict=True))
        order = np.lexsort((numbers, -likely))[: self._k]
        self.found = numbers[order], apart[order], likely[order]


def _meet_candidates(best: Sequence[Best], keys: np.ndarray, engine: Remote) -> tuple[bool, int]:
    """Whether every query met all items, and how many it met at most."""
    exact, most = True, 0
    for start in range(0, len(best), QUERIES):
        found = engine.candidates(keys[start : start + QUERIES], 2 * engine.k)
        for one, numbers in zip(best[start : start + QUERIES], found.numbers, strict=True):
            numbers = numbers[numbers >= 0]
            one.meet(numbers, PairMoments.read(engine.records(numbers), engine.layout))
        most, exact = max(most, found.numbers.shape[1]), exact and bool((found.reach == np.inf).all())
    return exact, most


def _meet_all(best: Sequence[Best], rows: Iterable[Row], engine: Remote) -> int:
    """How many there are. They are read a few thousand at a time, and only the best are kept."""
    count, hits = 0, engine.hits
    for block in blocks(rows):
        items = PairMoments.read(unpacked([row.moments for row in block], engine.layout), engine.layout)
        numbers = np.array([row.number for row in block])
        for one in best:
            one.meet(numbers, items)
        hits.update({row.number: Hit(row.number, row.item.id, row.moments) for row in block})
        for number in hits.keys() - {number for one in best for number in one.found[0].tolist()}:
            del hits[number]
        count += len(block)
    return count
