"""The result of a search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Matches:
    """The k nearest, or most likely, items of each of Q queries, best first.

    A smaller gallery gives a smaller k; nothing is padded. Items at the same distance come in the order in which they
    were added.
    """

    ids: np.ndarray  # (Q, k) of str
    distances: np.ndarray  # (Q, k) float64: rms_distance, small = near
    probabilities: np.ndarray | None  # (Q, k) float64: P(same) of the matcher given, None without one
    exact: bool  # every ranking is proved to be the one of a full comparison in float64
    candidates: int  # items compared exactly for one query, at most
    likelihoods: np.ndarray | None = None  # (Q, k) float64: log_likelihood_ratio, large = match; None by distance
    recall: float | None = (
        None  # share of the true best k that is found, estimated on a sample; None if exact or unknown
    )

    labels: np.ndarray | None = None  # (Q, k) of str, or None where an item has none; None if the engine does not say

    def __len__(self) -> int:
        return len(self.ids)
