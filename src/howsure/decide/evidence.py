"""What a decision looks at."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.special import logsumexp

from howsure.errors import InputError
from howsure.match import Matcher

DEPTH = 64  # matches that a decision looks at
NEIGHBOURS = 5  # of them, those whose mean distance is a feature
LEAST_P = 1e-6  # a p-value below is as good as 0
SMALLEST = 1e-6  # a distance below is as good as 0
FEATURES = 9
PLAIN = 6  # of them, the first, give P(none); the others gain nothing there, and change with the size of the gallery


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a decision looks at, one row a query; the first six speak for the best match where they are large."""

    log_odds: np.ndarray  # of the best match, as a pair
    margin: np.ndarray  # log-odds lead over the best other identity
    ratio: np.ndarray  # log of how many times as far as the best match that other one is
    support: np.ndarray  # log-odds of the best identity against all others, every match counted
    lift: np.ndarray  # how much nearer than the mean match the best one is, in standard deviations of all
    agreement: np.ndarray  # how many of the matches show the best identity
    neighbour_distance: np.ndarray  # mean over the nearest few
    uncertainty: np.ndarray  # of the query itself
    novelty: np.ndarray  # 1 - p, how unlike anything seen; 0 where the embedding keeps none
    gap: np.ndarray  # distance of means to the best match: without the variances of both; not a feature

    def features(self) -> np.ndarray:
        """(Q, FEATURES), oriented so that larger means likelier right."""
        typical = np.log(np.maximum(1 - self.novelty, LEAST_P))
        near, sure = -self.neighbour_distance, -self.uncertainty
        plain = [self.log_odds, self.margin, self.support, near, sure, typical]
        return np.column_stack([*plain, self.ratio, self.lift, self.agreement])

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
    first, ahead = distances[:, 0], lead(distances, identities)
    return Evidence(
        log_odds=matcher.offset - matcher.scale * first,
        margin=matcher.scale * ahead,
        ratio=np.log1p(ahead / np.maximum(first, SMALLEST)),
        support=_support(-matcher.scale * distances, identities),
        lift=(distances.mean(1) - first) / np.maximum(distances.std(1), SMALLEST),
        agreement=(identities == identities[:, :1]).sum(1).astype(float),
        neighbour_distance=distances[:, :NEIGHBOURS].mean(1),
        uncertainty=np.asarray(uncertainty, float),
        novelty=np.zeros(len(distances)) if novelty is None else np.asarray(novelty, float),
        gap=np.sqrt(np.maximum(first**2 - uncertainty - match_uncertainty, 0)),
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
