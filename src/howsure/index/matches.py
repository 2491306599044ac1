"""The result of a search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.index.layout import Layout
from howsure.match import Matcher


@dataclass(frozen=True, eq=False)
class Matches:
    """The k nearest, or most likely, items of each of Q queries, best first; all of one state of the index.

    A smaller index gives a smaller k; nothing is padded. Items at the same distance come in the order in which they
    were added.
    """

    ids: np.ndarray  # (Q, k) of str
    labels: np.ndarray  # (Q, k) of str, or None where an item has none
    distances: np.ndarray  # (Q, k) float64: rms_distance, small = near
    probabilities: np.ndarray | None  # (Q, k) float64: P(same) of the matcher given, None without one
    uncertainty: np.ndarray  # (Q,) float64: of the best match's embedding; empty if k is 0
    references: np.ndarray  # (Q,) int: items that carry the best match's label; empty if k is 0
    exact: bool  # every ranking is proved to be the one of a full comparison in float64
    candidates: int  # items compared exactly for one query, at most
    likelihoods: np.ndarray | None = None  # (Q, k) float64: log_likelihood_ratio, large = match; None by distance
    recall: float | None = None  # estimated share of the true best k that is found; None if exact or unknown

    @classmethod
    def none(cls, queries: int, k: int, matcher: Matcher | None) -> Matches:
        """What a search finds where there is no query, or no item."""
        empty = np.empty((queries, k))
        names, probabilities = empty.astype(object), empty.copy() if matcher else None
        return cls(names, names.copy(), empty, probabilities, np.empty(0), np.empty(0, int), exact=True, candidates=0)

    def __len__(self) -> int:
        return len(self.ids)


def pair_probabilities(
    matcher: Matcher | None, distances: np.ndarray, likelihoods: np.ndarray | None
) -> np.ndarray | None:
    """P(same) of each match, by the evidence that the search went by."""
    evidence = distances if likelihoods is None else -likelihoods
    return matcher.probability(torch.from_numpy(evidence)).numpy() if matcher else None


def require_dim(query: Embedding, layout: Layout) -> None:
    """Refuse a query of another dimension."""
    if query.dim != layout.dim:
        raise InputError(
            "dimension of the query",
            expected=f"{layout.dim}, as in the gallery",
            got=str(query.dim),
            fix="embed both with one model",
        )
