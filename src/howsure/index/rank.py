"""The k nearest items, proved: candidates from a float32 scan, distances in float64, wider until the proof holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from howsure.compare import rms_distance
from howsure.embeddings import Embedding, restore
from howsure.index.engines import Finder
from howsure.index.keys import query_keys, scan_ceiling
from howsure.index.layout import Layout

SLACK = 16  # candidates beyond k: enough for the proof unless very many items are about equally near
WIDEN = 4
QUERIES = 256  # scanned together
# Values compared together: few enough to stay in the cache, and for torch to keep to one thread. For more it would wake
# others, and waiting for them costs more than all the arithmetic.
VALUES = 30_000

Cost = Callable[[Embedding, Embedding], Tensor]  # of row i of one with row i of the other, (N,): small = near


@dataclass(frozen=True, eq=False)
class Ranking:
    """Item numbers and distances of the nearest, (Q, k), best first."""

    numbers: np.ndarray
    distances: np.ndarray
    exact: bool
    candidates: int
    likelihoods: np.ndarray | None = None  # where they were asked for
    recall: float | None = None  # estimated, where the ranking is not exact


def rank(query: Embedding, k: int, *, engine: Finder, layout: Layout) -> Ranking:
    """The k nearest of at least k items, by distance, then by age. The query is in float64, on the CPU.

    Let t be the k-th exact distance² among the candidates. The scan reported every other item at `reach` or farther. If
    no item within t can be reported that far (`scan_ceiling`), then none of the others belongs among the k nearest.
    """
    if len(query) <= QUERIES:
        return _rank_block(query, k, engine, layout)
    parts = [_rank_block(query[start : start + QUERIES], k, engine, layout) for start in range(0, len(query), QUERIES)]
    return Ranking(
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.distances for part in parts]),
        all(part.exact for part in parts),
        max(part.candidates for part in parts),
    )


def _rank_block(query: Embedding, k: int, engine: Finder, layout: Layout) -> Ranking:
    keys, constant = query_keys(query, layout.draws)
    numbers, distances = np.empty((len(query), k), np.int64), np.empty((len(query), k))
    waiting, count, most, exact = np.arange(len(query)), k + SLACK, 0, True
    while len(waiting):
        found = engine.candidates(keys[waiting], count)
        (exactly,) = costs(query, waiting, found.numbers, paired_distance, engine=engine, layout=layout)
        best = np.arange(len(waiting))[:, None], np.lexsort((found.numbers, exactly))[:, :k]
        numbers[waiting], distances[waiting] = found.numbers[best], exactly[best]
        most = max(most, found.numbers.shape[1])
        ceiling = scan_ceiling(keys[waiting], distances[waiting, -1] ** 2, constant[waiting])
        proved = (found.reach == np.inf) | (found.reach > ceiling)
        hopeless = found.reach == -np.inf
        exact = exact and not hopeless.any()
        waiting = waiting[~(proved | hopeless)]
        count *= WIDEN
    return Ranking(numbers, distances, exact, most)


def costs(
    query: Embedding, rows: np.ndarray, numbers: np.ndarray, *each: Cost, engine: Finder, layout: Layout
) -> list[np.ndarray]:
    """From these rows of the query to their own candidates, (Q, c), in float64; infinite where there is none."""
    flat, owner = numbers.ravel(), np.repeat(rows, numbers.shape[1])
    values: list[np.ndarray] = [np.full(numbers.size, np.inf) for _ in each]
    pairs = np.flatnonzero(flat >= 0)
    arrays, step = query.arrays(), max(1, VALUES // layout.dim)
    for start in range(0, len(pairs), step):
        part = pairs[start : start + step]
        # Gathered with numpy, because torch wakes other threads for far fewer values here.
        repeated = restore(query.family, {name: array[owner[part]] for name, array in arrays.items()})
        gallery = layout.unpack(engine.records(flat[part]), np.float64)
        for value, cost in zip(values, each, strict=True):
            value[part] = cost(repeated, gallery).numpy()
    return [value.reshape(numbers.shape) for value in values]


def paired_distance(query: Embedding, gallery: Embedding) -> Tensor:
    """`rms_distance` of row with row."""
    return rms_distance(query, gallery, paired=True)
