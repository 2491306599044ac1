"""The k most likely items: candidates by their shrunk means, log-likelihood ratios in float64.

Where every embedding has one variance for all dimensions, and the prior too, the candidates are proved to contain the k
best. Elsewhere no bound is close enough to prove much in many dimensions. So they are the items of the nearest shrunk
means; or all items, in small galleries and where an exact answer is asked for. In the largest galleries, and where an
approximate answer is asked for, they come from an IVF.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from howsure.embeddings import Embedding
from howsure.index.layout import Layout
from howsure.index.local.engine import EmbeddedEngine
from howsure.index.local.ivf import BEST
from howsure.index.local.likelihood_rows import ShrunkRows
from howsure.index.ranking.exact import QUERIES, Ranking
from howsure.index.ranking.likelihood import CANDIDATES, SMALL, TARGET, most_likely, no_prior
from howsure.index.ranking.pairwise import PairMoments
from howsure.index.ranking.shrunk_keys import ShrunkQuery

LARGE = 500_000  # items from which on an IVF is used without being asked for, if its recall is on target


@dataclass(frozen=True, eq=False)
class _Way:
    """One way to find candidates."""

    find: Callable[[ShrunkQuery], np.ndarray]  # (Q, c) positions; -1 where there is none
    step: int  # queries at a time
    exact: bool = False
    recall: float | None = None


def rank_by_likelihood(
    query: Embedding, k: int, *, engine: EmbeddedEngine, layout: Layout, approximate: bool | None
) -> Ranking:
    """The k most likely of at least k items, by likelihood, then by age."""
    shrunk = engine.shrunk
    if shrunk is None:
        raise no_prior()
    moments = PairMoments.from_draws(query.by_draw())
    keys = ShrunkQuery.from_query(query, shrunk.prior, layout.draws)
    way = _way(shrunk, keys, k, engine, approximate)
    parts, most = [], 0
    for start in range(0, len(keys), way.step):
        rows = slice(start, start + way.step)
        found = way.find(keys[rows])
        parts.append(most_likely(moments[rows], found, k, shrunk.prior, engine.records_at, layout))
        most = max(most, found.shape[1])
    positions, apart, likely = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Ranking(engine.numbers_at(positions), apart, way.exact, most, likelihoods=likely, recall=way.recall)


def _way(shrunk: ShrunkRows, query: ShrunkQuery, k: int, engine: EmbeddedEngine, approximate: bool | None) -> _Way:
    ivf, count = shrunk.ivf, max(CANDIDATES, 2 * k)
    unasked = approximate is None and len(engine) >= LARGE
    if ivf and (approximate or (unasked and ivf.recall >= TARGET)):
        count = max(ivf.count, -(-ivf.count * k // BEST))
        return _Way(lambda part: shrunk.probed(ivf, part, k, count), _step(count), recall=ivf.recall)
    if shrunk.provable(query):
        return _Way(lambda part: shrunk.most_likely(part, k), _step(count), exact=True)
    if approximate is False or len(engine) <= SMALL:
        everything = engine.positions()
        return _Way(lambda part: np.broadcast_to(everything, (len(part), len(everything))), 1, exact=True)
    return _Way(lambda part: shrunk.nearest(part, count), _step(count), recall=ivf.scan_recall if ivf else None)


def _step(count: int) -> int:
    return max(1, QUERIES * CANDIDATES // max(count, CANDIDATES))
