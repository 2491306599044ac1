"""The k most likely items: candidates by their shrunk means, log-likelihood ratios in float64.

Where every belief has one variance for all dimensions, and the prior too, the candidates are proved to contain the k
best. Elsewhere no bound is close enough to prove much in many dimensions. So they are the items of the nearest shrunk
means; or all items, in small galleries and where an exact answer is asked for. In the largest galleries, and where an
approximate answer is asked for, they come from inverted lists.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from howsure.embeddings import Embedding
from howsure.errors import GalleryError
from howsure.index.engines.beside import ShrunkRows
from howsure.index.engines.embedded import EmbeddedEngine
from howsure.index.layout import Layout
from howsure.index.rank import QUERIES, Ranking, costs, paired_distance
from howsure.index.shrunk import ShrunkQuery
from howsure.prior import log_likelihood_ratio

CANDIDATES = 200  # re-ranked, where they are not proved
SMALL = 2000  # items that are all compared about as soon as candidates are found
# Items from which on inverted lists are used without being asked for, if they find this share of the ten most likely.
LARGE, TARGET = 500_000, 0.95


def rank_by_likelihood(
    query: Embedding, k: int, *, engine: EmbeddedEngine, layout: Layout, approximate: bool | None
) -> Ranking:
    """The k most likely of at least k items, by likelihood, then by age. The query is in float64, on the CPU."""
    shrunk = _require_prior(engine)
    asked = ShrunkQuery.of(query, shrunk.prior, layout.draws)
    way = _way(shrunk, asked, len(engine), approximate)
    count = max(shrunk.lists.count if way == "listed" and shrunk.lists else CANDIDATES, 2 * k)
    step = 1 if way == "all" else max(1, QUERIES * CANDIDATES // count)

    def cost(a: Embedding, b: Embedding) -> Tensor:
        return -log_likelihood_ratio(a, b, shrunk.prior, paired=True)

    numbers, most = np.empty((len(query), k), np.int64), 0
    unlikely, distances = np.empty((len(query), k)), np.empty((len(query), k))
    for start in range(0, len(query), step):
        rows = np.arange(start, min(start + step, len(query)))
        found = _candidates(way, asked[start : start + step], k, count, engine=engine, shrunk=shrunk)
        exactly, apart = costs(query, rows, found, cost, paired_distance, engine=engine, layout=layout)
        best = np.arange(len(rows))[:, None], np.lexsort((found, exactly))[:, :k]
        numbers[rows], unlikely[rows], distances[rows] = found[best], exactly[best], apart[best]
        most = max(most, found.shape[1])
    return Ranking(
        numbers,
        distances,
        exact=way in ("proved", "all"),
        candidates=most,
        likelihoods=-unlikely,
        recall=_recall(way, shrunk),
    )


def _require_prior(engine: EmbeddedEngine) -> ShrunkRows:
    if engine.shrunk is None:
        raise GalleryError(
            "search by likelihood",
            expected="a prior over identities",
            got="none in this gallery",
            fix="index.set_prior(Prior.fit(embedding, labels)) with pictures of known identities",
        )
    return engine.shrunk


def _way(shrunk: ShrunkRows, asked: ShrunkQuery, count: int, approximate: bool | None) -> str:
    usual = approximate is None and count >= LARGE
    if shrunk.lists and (approximate or (usual and shrunk.lists.recall >= TARGET)):
        return "listed"
    if shrunk.provable(asked):
        return "proved"
    return "all" if approximate is False or count <= SMALL else "near"


def _candidates(
    way: str, asked: ShrunkQuery, k: int, count: int, *, engine: EmbeddedEngine, shrunk: ShrunkRows
) -> np.ndarray:
    """(Q, c) numbers, about `count` where they are not proved; -1 where there is none."""
    if way == "all":
        return np.broadcast_to(engine.numbers(), (len(asked), len(engine)))
    if way == "proved":
        return engine.numbers_at(shrunk.most_likely(asked, k))
    return engine.numbers_at(shrunk.listed(asked, k, count) if way == "listed" else shrunk.nearest(asked, count))


def _recall(way: str, shrunk: ShrunkRows) -> float | None:
    if shrunk.lists is None or way in ("proved", "all"):
        return None
    return shrunk.lists.recall if way == "listed" else shrunk.lists.scan_recall
