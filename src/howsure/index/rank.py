"""The k nearest items, proved: candidates from a float32 scan, distances in float64, wider until the proof holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from howsure.compare import rms_distance
from howsure.embeddings import Embedding
from howsure.index.engines import Engine
from howsure.index.keys import query_keys, scan_ceiling
from howsure.index.layout import Layout

SLACK = 16  # candidates beyond k: enough for the proof unless very many items are about equally near
WIDEN = 4
QUERIES = 256  # scanned together
PAIRS = 1 << 14  # compared together


@dataclass(frozen=True, eq=False)
class Ranking:
    """Item numbers and distances of the nearest, (Q, k), best first."""

    numbers: np.ndarray
    distances: np.ndarray
    exact: bool
    candidates: int


def rank(query: Embedding, k: int, *, engine: Engine, layout: Layout) -> Ranking:
    """The k nearest of at least k items, by distance, then by age.

    Let t be the k-th exact distance² among the candidates. The scan reported every other item at `reach` or farther. If
    no item within t can be reported that far (`scan_ceiling`), then none of the others belongs among the k nearest.
    """
    parts = [_rank_block(query[start : start + QUERIES], k, engine, layout) for start in range(0, len(query), QUERIES)]
    return Ranking(
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.distances for part in parts]),
        all(part.exact for part in parts),
        max(part.candidates for part in parts),
    )


def _rank_block(query: Embedding, k: int, engine: Engine, layout: Layout) -> Ranking:
    keys, constant = query_keys(query, layout.draws)
    numbers, distances = np.empty((len(query), k), np.int64), np.empty((len(query), k))
    open_queries, count, most, exact = np.arange(len(query)), k + SLACK, 0, True
    while len(open_queries):
        found = engine.candidates(keys[open_queries], count)
        near, far = _nearest(query[open_queries], found.numbers, k, engine=engine, layout=layout)
        numbers[open_queries], distances[open_queries] = near, far
        most = max(most, found.numbers.shape[1])
        ceiling = scan_ceiling(keys[open_queries], far[:, -1] ** 2, constant[open_queries])
        proved = np.isposinf(found.reach) | (found.reach > ceiling)
        hopeless = np.isneginf(found.reach)
        exact = exact and not hopeless.any()
        open_queries = open_queries[~(proved | hopeless)]
        count *= WIDEN
    return Ranking(numbers, distances, exact, most)


def _nearest(
    query: Embedding, numbers: np.ndarray, k: int, *, engine: Engine, layout: Layout
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of each query's own candidates, (Q, c): numbers and exact distances, best first."""
    flat, width = numbers.ravel(), numbers.shape[1]
    distances: np.ndarray = np.full(numbers.size, np.inf)
    pairs = np.flatnonzero(flat >= 0)
    for start in range(0, len(pairs), PAIRS):
        part = pairs[start : start + PAIRS]
        gallery = layout.unpack(engine.records(flat[part])).to(dtype=torch.float64)
        distances[part] = rms_distance(query[part // width], gallery, paired=True).numpy()
    distances = distances.reshape(numbers.shape)
    order = np.lexsort((numbers, distances), axis=-1)[:, :k]
    return np.take_along_axis(numbers, order, 1), np.take_along_axis(distances, order, 1)
