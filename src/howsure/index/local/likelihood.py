"""The k most likely items: candidates by their shrunk means, log-likelihood ratios in float64.

Where every belief has one variance for all dimensions, and the prior too, the candidates are proved to contain the k
best. Elsewhere no bound is close enough to prove much in many dimensions. So they are the items of the nearest shrunk
means; or all items, in small galleries and where an exact answer is asked for. In the largest galleries, and where an
approximate answer is asked for, they come from inverted lists.
"""

from __future__ import annotations

import numpy as np

from howsure.embeddings import Embedding
from howsure.errors import GalleryError
from howsure.index.layout import Layout
from howsure.index.local.engine import EmbeddedEngine
from howsure.index.local.ivf import BEST
from howsure.index.local.likelihood_rows import ShrunkRows
from howsure.index.ranking.exact import QUERIES, Ranking, costs
from howsure.index.ranking.pairwise import PairMoments, distances, log_likelihood_ratios
from howsure.index.ranking.shrunk_keys import ShrunkQuery

CANDIDATES = 200  # re-ranked, where they are not proved
SMALL = 2000  # items that are all compared about as soon as candidates are found
# Items from which on inverted lists are used without being asked for, if they find this share of the ten most likely.
LARGE, TARGET = 500_000, 0.95


def rank_by_likelihood(
    query: Embedding, k: int, *, engine: EmbeddedEngine, layout: Layout, approximate: bool | None
) -> Ranking:
    """The k most likely of at least k items, by likelihood, then by age."""
    shrunk = _require_prior(engine)
    moments = PairMoments.of(query.by_draw())
    listed = _use_lists(shrunk, len(engine), approximate)
    if listed and len(moments) == 1:
        places = shrunk.listed_for_one(moments, k, _count("listed", k, shrunk))
        if places is not None:
            return _rank_one(moments, places, k, engine=engine, layout=layout)
    asked = ShrunkQuery.of(query, shrunk.prior, layout.draws, moments)
    way = "listed" if listed else _way(shrunk, asked, len(engine), approximate)
    count = _count(way, k, shrunk)
    step = 1 if way == "all" else max(1, QUERIES * CANDIDATES // max(count, CANDIDATES))
    parts, most = [], 0

    def unlikeliness(a: PairMoments, b: PairMoments) -> np.ndarray:
        return -log_likelihood_ratios(a, b, shrunk.prior)

    for start in range(0, len(asked), step):
        rows = slice(start, start + step)
        part, own = (asked, moments) if len(asked) <= step else (asked[rows], moments[rows])
        found = _candidates(way, part, k, count, engine=engine, shrunk=shrunk)
        unlikely, apart = costs(own, found, unlikeliness, distances, records=engine.records_at, layout=layout)
        # Places are in the order of age.
        best = np.arange(len(part))[:, None], np.lexsort((found, unlikely))[:, :k]
        parts.append((engine.numbers_at(found[best]), apart[best], -unlikely[best]))
        most = max(most, found.shape[1])
    numbers, apart, likely = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    exact = way in ("proved", "all")
    return Ranking(numbers, apart, exact, candidates=most, likelihoods=likely, recall=_recall(way, shrunk))


def _rank_one(query: PairMoments, places: np.ndarray, k: int, *, engine: EmbeddedEngine, layout: Layout) -> Ranking:
    """The k most likely of what lists found for a single query."""
    shrunk, gallery = _require_prior(engine), PairMoments.read(engine.records_at(places), layout)
    likely, apart = log_likelihood_ratios(query, gallery, shrunk.prior), distances(query, gallery)
    best = np.lexsort((places, -likely))[:k]
    numbers = engine.numbers_at(places[best])
    return Ranking(
        numbers[None],
        apart[best][None],
        exact=False,
        candidates=len(places),
        likelihoods=likely[best][None],
        recall=_recall("listed", shrunk),
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


def _use_lists(shrunk: ShrunkRows, count: int, approximate: bool | None) -> bool:
    usual = approximate is None and count >= LARGE
    return bool(shrunk.lists and (approximate or (usual and shrunk.lists.recall >= TARGET)))


def _way(shrunk: ShrunkRows, asked: ShrunkQuery, count: int, approximate: bool | None) -> str:
    if shrunk.provable(asked):
        return "proved"
    return "all" if approximate is False or count <= SMALL else "near"


def _count(way: str, k: int, shrunk: ShrunkRows) -> int:
    """How many candidates there are where they are not proved."""
    if way == "listed" and shrunk.lists:
        return max(shrunk.lists.count, -(-shrunk.lists.count * k // BEST))
    return max(CANDIDATES, 2 * k)


def _candidates(
    way: str, asked: ShrunkQuery, k: int, count: int, *, engine: EmbeddedEngine, shrunk: ShrunkRows
) -> np.ndarray:
    """(Q, c) places, about `count` where they are not proved; -1 where there is none."""
    if way == "all":
        return np.broadcast_to(engine.places(), (len(asked), len(engine)))
    if way == "proved":
        return shrunk.most_likely(asked, k)
    return shrunk.listed(asked, k, count) if way == "listed" else shrunk.nearest(asked, count)


def _recall(way: str, shrunk: ShrunkRows) -> float | None:
    if shrunk.lists is None or way in ("proved", "all"):
        return None
    return shrunk.lists.recall if way == "listed" else shrunk.lists.scan_recall
