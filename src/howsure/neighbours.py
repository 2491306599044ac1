"""The one exhaustive k-nearest search: every query compared with every item, block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from howsure.compare import rms_distance
from howsure.embeddings import Embedding
from howsure.metrics import rank

__all__ = ["Neighbours", "neighbours"]

DEPTH = 64  # neighbours looked at
BLOCK = 256  # queries compared together

Hidden = Callable[[np.ndarray], np.ndarray]  # rows of queries, (B,), to the items that they do not see, (B, N) bool


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest items of every query, best first; of two at the same distance, the one that comes first."""

    positions: np.ndarray  # (Q, k)
    distances: np.ndarray  # (Q, k)


def neighbours(
    query: Embedding,
    gallery: Embedding,
    *,
    leave_one_out: bool = False,
    depth: int = DEPTH,
    hidden: Hidden | None = None,
    dtype: torch.dtype = torch.float64,
    before_block: Callable[[], None] = lambda: None,
) -> Neighbours:
    """By `rms_distance`; with `leave_one_out` query i does not see item i, nor the items that `hidden` hides from it.

    Where fewer than `depth` items are seen, the farthest of them is repeated. Float32 takes half the time, and may
    mistake the order of items at nearly the same distance. `before_block` may raise, to stop.

    >>> from howsure.embeddings import Point
    >>> line = Point(torch.tensor([[0.0], [1.0], [3.0]]))
    >>> neighbours(line, line, leave_one_out=True, depth=1).positions[:, 0]
    array([1, 0, 1])
    """
    items = gallery.map(lambda tensor: tensor.detach().to("cpu", dtype))
    depth = min(depth, len(gallery) - leave_one_out)
    positions, distances = [np.empty((0, depth), int)], [np.empty((0, depth))]
    for start in range(0, len(query), BLOCK):
        before_block()
        part = query[start : start + BLOCK].map(lambda tensor: tensor.detach().to("cpu", dtype))
        block = rms_distance(part, items).numpy()
        rows = np.arange(start, start + len(block))
        unseen = None if hidden is None else hidden(rows)
        if unseen is not None:
            block[unseen] = 2 * block.max() + 1  # behind all that are seen
        found = rank(block, depth, exclude=rows if leave_one_out else None)
        near = np.take_along_axis(block, found, 1)
        if unseen is not None:
            near[np.take_along_axis(unseen, found, 1)] = np.inf
            last = np.maximum(np.isfinite(near).sum(1) - 1, 0)[:, None]
            seen = np.minimum(np.arange(depth), last)
            found, near = np.take_along_axis(found, seen, 1), np.take_along_axis(near, seen, 1)
        positions.append(found)
        distances.append(near)
    return Neighbours(np.concatenate(positions), np.concatenate(distances))
