"""The k most likely items on a server: candidates by their shrunk means there, log-likelihood ratios in float64 here.

A server searches by plain L2 among shrunk means, counted from the centre of the prior, with S draws

    [m~_1/√S, ..., m~_S/√S]           of an item,           [m_1/√S, ..., m_S/√S]           of a query,

which ranks about as the likelihood does. Nothing proves it, so an exact answer is one that compared all items.

How many candidates it takes is found out by a sample of the items: they are searched for with their own embeddings,
among candidates and among all, each left out of its own results. Where every embedding has one variance, few candidates
are enough; elsewhere shrunk means tell less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from howsure.embeddings import Embedding
from howsure.errors import GalleryError
from howsure.index.layout import Layout
from howsure.index.ranking.exact import QUERIES, Ranking
from howsure.index.ranking.likelihood import CANDIDATES, SMALL, TARGET, most_likely, no_prior
from howsure.index.ranking.pairwise import PairMoments
from howsure.index.ranking.shrunk_keys import ShrunkQuery, shrunk_rows
from howsure.index.remote.completeness import Completeness
from howsure.index.remote.contract import Server
from howsure.index.remote.search import RemoteFinder, blocks, unpacked
from howsure.prior import Prior

SAMPLE, BEST = 32, 10  # items asked for, and how many of the most likely of each are looked for
COUNTS = (CANDIDATES, 4 * CANDIDATES)  # candidates: the first number that finds enough, or the last
# All items are read for it, so it is done again only when there are so many times as many, and not for more than these.
GROWN, LARGEST = 1.5, 1_000_000


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
    query: Embedding,
    finder: RemoteFinder,
    notes: dict[str, Any],
    *,
    approximate: bool | None,
    candidates: int | None = None,
) -> Ranking:
    """The k most likely, by likelihood, then by age; among as many candidates as are noted, if not given."""
    if not notes["prior"]:
        raise no_prior()
    prior, layout, whole = Prior.from_json(notes["prior"]), finder.layout, Completeness(finder.server)
    moments = PairMoments.from_draws(query.by_draw())
    keys = _means(ShrunkQuery.from_query(query, prior, layout.draws).keys, layout.draws * layout.dim)
    if approximate is False or (not approximate and notes["count"] <= SMALL):
        ranking = _rank_all(moments, finder, prior)
        whole.require_count(notes, ranking.candidates)
        return ranking
    known = notes.get("recall") or {"value": None, "candidates": CANDIDATES}
    finder.shrunk, finder.least = _shrunk(notes), candidates or known["candidates"]
    ranking = _rank_candidates(moments, keys, finder, prior, known["value"])
    if whole.require(notes, shrunk=finder.shrunk) > whole.require(notes):
        # A change that failed has left some among the shrunk means that are no items.
        finder.look_up = True
        ranking = _rank_candidates(moments, keys, finder, prior, known["value"])
    return ranking


def _shrunk(notes: dict[str, Any]) -> str:
    if not notes.get("shrunk"):
        raise GalleryError(
            "search by likelihood",
            expected="shrunk means of the items",
            got=f"none in a gallery of version {notes['schema']} of the format",
            fix="open it with connect(url, write=True) and make them once: index.set_prior(index.prior)",
        )
    return str(notes["shrunk"])


def _rank_candidates(
    query: PairMoments, keys: np.ndarray, finder: RemoteFinder, prior: Prior, recall: float | None
) -> Ranking:
    best, exact, most = [], True, 0
    for start in range(0, len(query), QUERIES):
        rows = slice(start, start + QUERIES)
        found = finder.candidates(keys[rows], 2 * finder.k)
        best.append(most_likely(query[rows], found.numbers, finder.k, prior, finder.records, finder.layout))
        most, exact = max(most, found.numbers.shape[1]), exact and bool((found.reach == np.inf).all())
    numbers, apart, unsure, likely = (np.concatenate(part) for part in zip(*best, strict=True))
    return Ranking(numbers, apart, unsure, exact, most, likelihoods=likely, recall=None if exact else recall)


def _rank_all(query: PairMoments, finder: RemoteFinder, prior: Prior) -> Ranking:
    """All items are read, a few thousand at a time, and only the best are kept."""
    parts = [query[start : start + QUERIES] for start in range(0, len(query), QUERIES)]
    best = [tuple(np.empty((len(part), 0), dtype) for dtype in (int, float, float, float)) for part in parts]
    count = 0
    for block in blocks(finder.server.scan(moments=True)):
        block.sort(key=lambda row: row.number)
        records, numbers = unpacked(block, finder.layout), np.array([row.number for row in block])
        for n, part in enumerate(parts):
            everything = np.broadcast_to(np.arange(len(block)), (len(part), len(block)))
            found, *rest = most_likely(part, everything, finder.k, prior, records.take, finder.layout)
            pairs = zip(best[n], (numbers[found], *rest), strict=True)
            both = [np.concatenate(pair, 1) for pair in pairs]
            order = np.lexsort((both[0], -both[-1]))[:, : finder.k]
            best[n] = tuple(np.take_along_axis(one, order, 1) for one in both)
        kept = {number for numbers, *_ in best for number in numbers.ravel().tolist()}
        finder.rows |= {row.number: row for row in block}
        finder.rows = {number: row for number, row in finder.rows.items() if number in kept}
        count += len(block)
    numbers, apart, unsure, likely = (np.concatenate(part) for part in zip(*best, strict=True))
    return Ranking(numbers, apart, unsure, True, count, likelihoods=likely)


# How many candidates it takes.


def recall_is_due(notes: dict[str, Any]) -> bool:
    """Whether what is noted is of too small a gallery, or nothing is; False where nothing is needed, or too much."""
    if not notes.get("shrunk") or not SMALL < notes["count"] <= LARGEST:
        return False
    known = notes.get("recall")
    return known is None or bool(notes["count"] >= GROWN * known["count"])


def estimated_recall(
    server: Server, notes: dict[str, Any], query: Embedding, names: Sequence[str]
) -> dict[str, Any] | None:
    """For the notes: candidates, recall and of how many items. None where two points have no likelihood."""
    if not all((draw.variance > 0).all() for draw in query.by_draw()):
        return None

    def found(*, approximate: bool, candidates: int | None = None) -> list[set[str]]:
        k, layout = min(BEST + 1, notes["count"]), Layout.from_json(notes["layout"])
        finder = RemoteFinder(server, layout, k=k, known=notes["count"])
        ranking = rank_by_likelihood(query, finder, notes, approximate=approximate, candidates=candidates)
        ids = [{finder.rows[number].item.id for number in row} for row in ranking.numbers.tolist()]
        return [row - {own} for row, own in zip(ids, names, strict=True)]

    best, value, candidates = found(approximate=False), 0.0, 0
    for candidates in COUNTS:
        pairs = zip(found(approximate=True, candidates=candidates), best, strict=True)
        value = float(np.mean([len(ours & most) / len(most) for ours, most in pairs]))
        if value >= TARGET:
            break
    return {"value": value, "candidates": candidates, "count": notes["count"]}
