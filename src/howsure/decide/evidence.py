"""What a decision looks at."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from howsure.errors import InputError
from howsure.match import Matcher

DEPTH = 64  # matches that a decision looks at
NEIGHBOURS = 5  # of them, those whose mean distance says how familiar a query is
LEAST_P = 1e-6  # a p-value below is as good as 0


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a decision looks at, one row a query; large `log_odds` and `margin` speak for the best match."""

    log_odds: np.ndarray  # of the best match, as a pair
    margin: np.ndarray  # log-odds lead over the best other identity
    neighbour_distance: np.ndarray  # mean over the nearest few
    uncertainty: np.ndarray  # of the query itself
    novelty: np.ndarray  # 1 - p, how unlike anything seen; 0 where the belief does not say

    def features(self) -> np.ndarray:
        """(Q, 5), oriented so that larger means likelier right."""
        usual = np.log(np.maximum(1 - self.novelty, LEAST_P))
        return np.column_stack([self.log_odds, self.margin, -self.neighbour_distance, -self.uncertainty, usual])

    def __getitem__(self, rows: np.ndarray) -> Evidence:
        return Evidence(*(getattr(self, field.name)[rows] for field in fields(self)))


def weigh(
    matcher: Matcher,
    distances: np.ndarray,
    identities: np.ndarray,
    uncertainty: np.ndarray,
    novelty: np.ndarray | None = None,
) -> Evidence:
    """Evidence from ranked matches: (Q, k) distances, best first, and the identity of each match."""
    if distances.ndim != 2 or distances.shape != identities.shape or distances.shape[1] == 0:
        raise InputError("matches", expected="(Q, k) with k of 1 or more", got=f"{distances.shape}, {identities.shape}")
    return Evidence(
        log_odds=matcher.offset - matcher.scale * distances[:, 0],
        margin=matcher.scale * lead(distances, identities),
        neighbour_distance=distances[:, :NEIGHBOURS].mean(1),
        uncertainty=np.asarray(uncertainty, float),
        novelty=np.zeros(len(distances)) if novelty is None else np.asarray(novelty, float),
    )


def lead(distances: np.ndarray, identities: np.ndarray) -> np.ndarray:
    """How much farther than the best match the nearest match of another identity lies, (Q,).

    If all k matches share one identity, the last of them bounds it from below.
    """
    other = identities != identities[:, :1]
    second = np.where(other.any(1), other.argmax(1), distances.shape[1] - 1)
    return distances[np.arange(len(distances)), second] - distances[:, 0]
