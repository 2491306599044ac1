"""The k most likely items: candidates by their shrunk means, log-likelihood ratios in float64.

Where every embedding has one variance for all dimensions, and the prior too, the candidates are proved to contain the k
best. Elsewhere no bound is close enough to prove much in many dimensions. So they are the items of the nearest shrunk
means; or all items, in small galleries and where an exact answer is asked for. In the largest galleries, and where an
approximate answer is asked for, they come from an IVF.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from howsure.embeddings import Embedding
from howsure.index.layout import Layout
from howsure.index.local.engine import EmbeddedEngine
from howsure.index.local.ivf import BEST, Ivf
from howsure.index.local.likelihood_rows import ShrunkRows
from howsure.index.ranking.exact import QUERIES, Ranking
from howsure.index.ranking.likelihood import CANDIDATES, SMALL, TARGET, most_likely, no_prior
from howsure.index.ranking.pairwise import PairMoments
from howsure.index.ranking.shrunk_keys import ShrunkQuery

LARGE = 500_000  # items from which on an IVF is used without being asked for, if its recall is on target


def rank_by_likelihood(
    query: Embedding, k: int, *, engine: EmbeddedEngine, layout: Layout, approximate: bool | None
) -> Ranking:
    """The k most likely of at least k items, by likelihood, then by age."""
    shrunk = engine.shrunk
    if shrunk is None:
        raise no_prior()
    moments = PairMoments.from_draws(query.by_draw())
    ivf = _ivf(shrunk, len(engine), approximate)
    count = max(ivf.count, -(-ivf.count * k // BEST)) if ivf else max(CANDIDATES, 2 * k)
    step, exact, recall = max(1, QUERIES * CANDIDATES // max(count, CANDIDATES)), False, ivf.recall if ivf else None
    one = shrunk.probed_for_one(ivf, moments, k, count) if ivf else None
    if one is not None:
        positions, apart, unsure, likely = most_likely(moments, one, k, shrunk.prior, engine.records_at, layout)
        numbers = engine.numbers_at(positions)
        return Ranking(numbers, apart, unsure, exact, one.shape[1], likelihoods=likely, recall=recall)
    keys = ShrunkQuery.from_query(query, shrunk.prior, layout.draws)
    find: Callable[[ShrunkQuery], np.ndarray]  # (Q, c) positions; -1 where there is none
    if ivf:
        find = partial(shrunk.probed, ivf, k=k, count=count)
    elif shrunk.provable(keys):
        find, exact = partial(shrunk.most_likely, k=k), True
    elif approximate is False or len(engine) <= SMALL:
        find, exact, step = lambda part: engine.positions()[None], True, 1
    else:
        find, recall = partial(shrunk.nearest, count=count), shrunk.ivf.scan_recall if shrunk.ivf else None
    parts, most = [], 0
    for start in range(0, len(keys), step):
        rows = slice(start, start + step)
        found = find(keys[rows])
        parts.append(most_likely(moments[rows], found, k, shrunk.prior, engine.records_at, layout))
        most = max(most, found.shape[1])
    positions, apart, unsure, likely = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Ranking(engine.numbers_at(positions), apart, unsure, exact, most, likelihoods=likely, recall=recall)


def _ivf(shrunk: ShrunkRows, items: int, approximate: bool | None) -> Ivf | None:
    """The IVF if it is to be used."""
    unasked = approximate is None and items >= LARGE and shrunk.ivf and shrunk.ivf.recall >= TARGET
    return shrunk.ivf if approximate or unasked else None
