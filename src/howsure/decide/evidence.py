"""What a decision looks at."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.special import logsumexp

from howsure.errors import InputError
from howsure.match import Matcher

DEPTH = 64  # matches that a decision looks at
NEIGHBOURS = 5  # of them, those whose mean distance says how familiar a query is
LEAST_P = 1e-6  # a p-value below is as good as 0
FEATURES = 6


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a decision looks at, one row a query; large log-odds, `margin` and `support` speak for the best match."""

    log_odds: np.ndarray  # of the best match, as a pair
    margin: np.ndarray  # log-odds lead over the best other identity
    support: np.ndarray  # log-odds of the best identity against all others, every match counted
    neighbour_distance: np.ndarray  # mean over the nearest few
    uncertainty: np.ndarray  # of the query itself
    novelty: np.ndarray  # 1 - p, how unlike anything seen; 0 where the belief does not say
    gap: np.ndarray  # distance of places to the best match: without the variances of both; not a feature

    def features(self) -> np.ndarray:
        """(Q, FEATURES), oriented so that larger means likelier right."""
        usual = np.log(np.maximum(1 - self.novelty, LEAST_P))
        near, sure = -self.neighbour_distance, -self.uncertainty
        return np.column_stack([self.log_odds, self.margin, self.support, near, sure, usual])

    def __getitem__(self, rows: np.ndarray) -> Evidence:
        return Evidence(*(getattr(self, field.name)[rows] for field in fields(self)))


def weigh(
    matcher: Matcher,
    distances: np.ndarray,
    identities: np.ndarray,
    uncertainty: np.ndarray,
    novelty: np.ndarray | None = None,
    *,
    match_uncertainty: np.ndarray | float = 0.0,
) -> Evidence:
    """Evidence from ranked matches: (Q, k) distances, best first, and the identity of each match.

    `uncertainty` and `novelty` are the queries' own, `match_uncertainty` is that of each best match.
    The matcher's line is what counts, not its steps: where they are flat, two queries could not be told apart.
    """
    if distances.ndim != 2 or distances.shape != identities.shape or distances.shape[1] == 0:
        raise InputError("matches", expected="(Q, k) with k of 1 or more", got=f"{distances.shape}, {identities.shape}")
    return Evidence(
        log_odds=matcher.offset - matcher.scale * distances[:, 0],
        margin=matcher.scale * lead(distances, identities),
        support=_support(-matcher.scale * distances, identities),
        neighbour_distance=distances[:, :NEIGHBOURS].mean(1),
        uncertainty=np.asarray(uncertainty, float),
        novelty=np.zeros(len(distances)) if novelty is None else np.asarray(novelty, float),
        gap=np.sqrt(np.maximum(distances[:, 0] ** 2 - uncertainty - match_uncertainty, 0)),
    )


def lead(distances: np.ndarray, identities: np.ndarray) -> np.ndarray:
    """How much farther than the best match the nearest match of another identity lies, (Q,).

    If all k matches share one identity, the last of them bounds it from below.
    """
    other = identities != identities[:, :1]
    second = np.where(other.any(1), other.argmax(1), distances.shape[1] - 1)
    return distances[np.arange(len(distances)), second] - distances[:, 0]


def _support(log_odds: np.ndarray, identities: np.ndarray) -> np.ndarray:
    """log of the odds of the best identity over those of all others, among k matches of (Q, k) log-odds."""
    own = identities == identities[:, :1]
    mine = logsumexp(np.where(own, log_odds, -np.inf), axis=1)
    theirs = logsumexp(np.where(own, -np.inf, log_odds), axis=1)
    return mine - np.maximum(theirs, log_odds[:, -1])  # the next item may be another's, and no nearer than the last
