"""Embedding -> vector, for a search by likelihood where dimensions have variances of their own.

With a query (m, v), the shrunk moments (m~, v~) of an item, both counted from the centre of the prior, what ranks is

    s = -½ Σ ((m - m~)²/(v + v~) + log(v + v~))

1/(v + v~) does not part into the query's share and the item's. But with typical variances a of queries and b of items,

    1/(v + v~) ≈ w p,    w = (a + b)/(v + b),    p = 1/(a + v~)

which is exact where v = a or v~ = b. The logarithm counts as at v = a. Then s is an inner product of

    row = [p, p m~, p m~², Σ log p]           of an item
    key = [-½ w m², w m, -½ w, ½]             of a query

Rows end in zeros up to a multiple of 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.index.ranking.shrunk_keys import ShrunkQuery
from howsure.prior import Prior

# Of the variance between identities: a smaller one is no different from none.
LEAST = 1e-6


def weighted_width(dim: int) -> int:
    """The number of columns of a row: 3·D + 1, up to the next multiple of 4."""
    return -(-(3 * dim + 1) // 4) * 4


@dataclass(frozen=True, eq=False)
class Typical:
    """Variances in the middle of a gallery's, dimension by dimension."""

    query: np.ndarray  # (D,): of an embedding
    item: np.ndarray  # (D,): of a shrunk one

    @classmethod
    def fit(cls, embedding: Embedding, prior: Prior) -> Typical:
        """Geometric means. Queries are taken to be like the items."""
        embedding = embedding.to("cpu", torch.float64)
        least = LEAST * prior.between
        raw, shrunk = (torch.maximum(part.variance, least) for part in (embedding, prior.shrink(embedding)))
        return cls(*(part.log().mean(0).exp().numpy() for part in (raw, shrunk)))

    def rows(self, embedding: Embedding, prior: Prior) -> np.ndarray:
        """(N, weighted width) float32."""
        shrunk = prior.shrink(embedding.map(lambda tensor: tensor.detach().to("cpu", torch.float64)))
        mean, precise = (shrunk.mean - prior.centre).numpy(), 1 / (self.query + shrunk.variance.numpy())
        return _filled(precise, precise * mean, precise * np.square(mean), np.log(precise).sum(1, keepdims=True))

    def keys(self, query: ShrunkQuery) -> np.ndarray:
        """(Q, weighted width) float32."""
        mean = query.keys[:, : query.dim]
        weight = (self.query + self.item) / (query.variances + self.item)
        return _filled(-0.5 * weight * np.square(mean), weight * mean, -0.5 * weight, np.full((len(query), 1), 0.5))

    def means(self, rows: np.ndarray) -> np.ndarray:
        """(N, D): the shrunk means that rows hold."""
        dim = len(self.query)
        return np.asarray(rows[:, dim : 2 * dim] / rows[:, :dim])

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, without loss."""
        return {"query": self.query.tolist(), "item": self.item.tolist()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Typical:
        """What `to_json` wrote."""
        return cls(*(np.array(stored[name]) for name in ("query", "item")))


def _filled(*parts: np.ndarray) -> np.ndarray:
    count, dim = parts[0].shape
    rows = np.zeros((count, weighted_width(dim)), np.float32)
    rows[:, : 3 * dim + 1] = np.concatenate(parts, 1)
    return rows
