"""The result of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from howsure.index.ranking.exact import Ranking
from howsure.match import Matcher


@dataclass(frozen=True, eq=False)
class Matches:
    """The k nearest, or most likely, items of each of Q queries, best first; all of one state of the index.

    A smaller index gives a smaller k; nothing is padded. Items at the same distance come in the order in which they
    were added.
    """

    ids: np.ndarray  # (Q, k) of str
    labels: np.ndarray  # (Q, k) of str, or None where an item has none
    distances: np.ndarray  # (Q, k) float64: rms_distance, small = near; by mean, that of point estimates
    probabilities: np.ndarray | None  # (Q, k) float64: P(same) of the matcher given, None without one
    uncertainty: np.ndarray  # (Q, k) float64: of each match's embedding
    references: np.ndarray  # (Q,) int: items that carry the best match's label; empty if k is 0
    exact: bool  # every ranking is proved to be the one of a full comparison in float64
    candidates: int  # items compared exactly for one query, at most
    likelihoods: np.ndarray | None = None  # (Q, k) float64: log_likelihood_ratio, large = match; None otherwise
    recall: float | None = None  # estimated share of the true best k that is found; None if exact or unknown

    @classmethod
    def none(cls, queries: int, k: int, matcher: Matcher | None) -> Matches:
        """What a search finds where there is no query, or no item."""
        empty = np.empty((queries, k))
        names, probabilities = empty.astype(object), empty.copy() if matcher else None
        return cls(names, names.copy(), empty, probabilities, empty.copy(), np.empty(0, int), exact=True, candidates=0)

    @classmethod
    def from_ranking(
        cls, ranking: Ranking, names: np.ndarray, *, references: Sequence[int], matcher: Matcher | None
    ) -> Matches:
        """Of a ranking: ids and labels in order (Q·k, 2), and the references of the best matches."""
        ids, labels = (column.reshape(ranking.numbers.shape) for column in names.T)
        evidence = ranking.distances if ranking.likelihoods is None else -ranking.likelihoods
        return cls(
            ids,
            labels,
            ranking.distances,
            matcher.probability(torch.from_numpy(evidence)).numpy() if matcher else None,
            ranking.uncertainty,
            np.array(references),
            ranking.exact,
            ranking.candidates,
            likelihoods=ranking.likelihoods,
            recall=ranking.recall,
        )

    def __len__(self) -> int:
        return len(self.ids)
