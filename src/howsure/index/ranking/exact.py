"""The k nearest items, proved: candidates from a float32 scan, distances in float64, wider until the proof holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from howsure.embeddings import Embedding, point_estimates
from howsure.index.layout import Layout
from howsure.index.ranking.keys import query_keys, scan_ceiling
from howsure.index.ranking.pairwise import PairMoments, distances, item_uncertainty, point_distances

SLACK = 16  # candidates beyond k: enough for the proof unless very many items are about equally near
WIDEN = 4
QUERIES = 256  # scanned together
VALUES = 1 << 17  # compared together: few enough to stay in the cache

Cost = Callable[[PairMoments, PairMoments], np.ndarray]  # of row with row, (N,): small = near
Records = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Items worth an exact comparison, for each of Q queries.

    `reach` is the engine's promise: an item that is not among them was scanned at a squared key distance of at least
    this. It is infinite if all items are among them, and minus infinity if the engine cannot promise anything.
    """

    numbers: np.ndarray  # (Q, c) int64 item numbers; -1 where there is none
    reach: np.ndarray  # (Q,) float64


Find = Callable[[np.ndarray, int], Candidates]  # of so many for each query key, as a `Finder` does it


class Finder(Protocol):
    """Knows candidates and their moments by item number. Numbers only grow: a later item has a larger number."""

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        """At least `count` items near each query key, or all items."""

    def candidates_by_mean(self, keys: np.ndarray, count: int) -> Candidates:
        """The same, near the keys of points, and as if items were points at their point estimates."""

    def records(self, numbers: np.ndarray) -> np.ndarray:
        """The packed moments of items that are held, in this order."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Item numbers, distances and uncertainty of the nearest, (Q, k), best first."""

    numbers: np.ndarray
    distances: np.ndarray
    uncertainty: np.ndarray
    exact: bool
    candidates: int
    likelihoods: np.ndarray | None = None  # where they were asked for
    recall: float | None = None  # estimated, where the ranking is not exact


def rank(query: Embedding, k: int, *, engine: Finder, layout: Layout) -> Ranking:
    """The k nearest of at least k items, by `rms_distance`, then by age. The query is in float64, on the CPU.

    Let t be the k-th exact distance² among the candidates. The scan reported every other item at `reach` or farther. If
    no item within t can be reported that far (`scan_ceiling`), then none of the others belongs among the k nearest.
    """
    return _rank(query, k, find=engine.candidates, cost=distances, records=engine.records, layout=layout)


def rank_by_mean(query: Embedding, k: int, *, engine: Finder, layout: Layout) -> Ranking:
    """The k nearest by the distance between point estimates; else as `rank`, and proved as there."""
    points, find = point_estimates(query), engine.candidates_by_mean
    return _rank(points, k, find=find, cost=point_distances, records=engine.records, layout=layout)


def _rank(query: Embedding, k: int, *, find: Find, cost: Cost, records: Records, layout: Layout) -> Ranking:
    blocks = (query[start : start + QUERIES] for start in range(0, len(query), QUERIES))
    parts = [_rank_block(block, k, find=find, cost=cost, records=records, layout=layout) for block in blocks]
    return Ranking(
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.uncertainty for part in parts]),
        all(part.exact for part in parts),
        max(part.candidates for part in parts),
    )


def _rank_block(query: Embedding, k: int, *, find: Find, cost: Cost, records: Records, layout: Layout) -> Ranking:
    keys, constant = query_keys(query, layout.draws)
    moments = PairMoments.from_draws(query.by_draw())
    numbers, nearest, unsure = (np.empty((len(query), k), dtype) for dtype in (np.int64, float, float))
    waiting, count, most, exact = np.arange(len(query)), k + SLACK, 0, True
    while len(waiting):
        found = find(keys[waiting], count)
        exactly, uncertainty = costs(
            moments[waiting], found.numbers, cost, item_uncertainty, records=records, layout=layout
        )
        best = np.arange(len(waiting))[:, None], np.lexsort((found.numbers, exactly))[:, :k]
        numbers[waiting], nearest[waiting], unsure[waiting] = found.numbers[best], exactly[best], uncertainty[best]
        most = max(most, found.numbers.shape[1])
        ceiling = scan_ceiling(keys[waiting], nearest[waiting, -1] ** 2, constant[waiting])
        proved = (found.reach == np.inf) | (found.reach > ceiling)
        hopeless = found.reach == -np.inf
        exact = exact and not hopeless.any()
        waiting = waiting[~(proved | hopeless)]
        count *= WIDEN
    return Ranking(numbers, nearest, unsure, exact, most)


def costs(query: PairMoments, found: np.ndarray, *each: Cost, records: Records, layout: Layout) -> list[np.ndarray]:
    """From each query to what was found for it, (Q, c), in float64; infinite where that is -1.

    `records` gives the packed moments of what was found.
    """
    step = max(1, VALUES // layout.dim)
    if len(found) == 1 and found.size <= step and found.min(initial=0) >= 0:  # where every microsecond counts
        gallery = PairMoments.from_records(records(found[0]), layout)
        return [cost(query, gallery)[None] for cost in each]
    flat, owner = found.ravel(), np.repeat(np.arange(len(found)), found.shape[1])
    pairs = np.flatnonzero(flat >= 0)
    values = [np.full(found.size, np.inf) for _ in each]
    for start in range(0, len(pairs), step):
        part = pairs[start : start + step]
        queries, gallery = query[owner[part]], PairMoments.from_records(records(flat[part]), layout)
        for value, cost in zip(values, each, strict=True):
            value[part] = cost(queries, gallery)
    return [value.reshape(found.shape) for value in values]
