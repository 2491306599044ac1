"""What a decision looks at."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.special import logsumexp

from howsure.errors import InputError

DEPTH = 64  # matches that a decision looks at
NEIGHBOURS = 5  # of them, those whose mean distance is a feature, and says how far off a query is
NEAREST = 10  # of them, those whose identities are compared
LEAST_P = 1e-6  # a p-value below is as good as 0
SMALLEST = 1e-6  # a distance below is as good as 0

FEATURES = (
    "distance",
    "margin",
    "support",
    "neighbour distance",
    "uncertainty",
    "novelty",
    "ratio",
    "lift",
    "agreement",
    "neighbour agreement",
    "member agreement",
)
PLAIN = 6  # of them, the first, give P(none); the others gain nothing there, and change with the size of the gallery
POSTERIOR = ("uncertainty", "novelty", "member agreement")  # those that points do not have


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a decision looks at, one row a query."""

    distance: np.ndarray  # to the best match
    margin: np.ndarray  # how much farther the best other identity is
    ratio: np.ndarray  # log of how many times as far as the best match that other one is
    support: np.ndarray  # log-odds of the best identity against all others, every match counted
    lift: np.ndarray  # how much nearer than the mean match the best one is, in standard deviations of all
    agreement: np.ndarray  # how many of the matches show the best identity
    neighbour_agreement: np.ndarray  # how many of the nearest ten do
    member_agreement: np.ndarray  # how many of them by the mean member of an ensemble; 0 where there is one network
    neighbour_distance: np.ndarray  # mean over the nearest five
    uncertainty: np.ndarray  # of the query itself
    novelty: np.ndarray  # 1 - p, how unlike anything seen; 0 where the embedding keeps none
    gap: np.ndarray  # distance of means to the best match: without the variances of both; not a feature
    remoteness: np.ndarray  # geometric mean of the expected distances of the nearest five; not a feature

    def features(self) -> np.ndarray:
        """(Q, FEATURES), oriented so that larger means likelier right."""
        return np.column_stack(
            [
                -self.distance,
                self.margin,
                self.support,
                -self.neighbour_distance,
                -self.uncertainty,
                np.log(np.maximum(1 - self.novelty, LEAST_P)),
                self.ratio,
                self.lift,
                self.agreement,
                self.neighbour_agreement,
                self.member_agreement,
            ]
        )

    def __getitem__(self, rows: np.ndarray) -> Evidence:
        return Evidence(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Own:
    """What a query brings besides its matches; arrays are (Q,)."""

    uncertainty: np.ndarray
    novelty: np.ndarray | None = None
    spread: np.ndarray | float = 0.0  # variance of query and best match together
    members: np.ndarray | None = None  # (Q, S, k) identities of the nearest to each member of an ensemble
    between_means: bool = False  # the distances of the matches, which then lack the spread


def second_best(identities: np.ndarray) -> np.ndarray:
    """Of (Q, k) identities, best first, the second one of each query, (Q,); the best itself where it is alone."""
    rows, other = np.arange(len(identities)), identities != identities[:, :1]
    return identities[rows, other.argmax(1)]


def two_as_one(identities: np.ndarray, own: Own) -> tuple[np.ndarray, Own]:
    """(Q, k) identities and what queries bring, as if the two best identities of each query were one."""
    best, second = identities[:, :1], second_best(identities)[:, None]

    def joined(names: np.ndarray, best: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.where(names == second, best, names)

    members = None if own.members is None else joined(own.members, best[:, None], second[:, None])
    return joined(identities, best, second), replace(own, members=members)


def weigh(distances: np.ndarray, identities: np.ndarray, own: Own, *, unit: float) -> Evidence:
    """Evidence from ranked matches: (Q, k) distances, best first, and the identity of each match.

    `unit` is the difference in distance that makes a match e times as likely, roughly: that of the gallery's own items.
    """
    if distances.ndim != 2 or distances.shape != identities.shape or distances.shape[1] == 0:
        raise InputError("matches", expected="(Q, k) with k of 1 or more", got=f"{distances.shape}, {identities.shape}")
    first, ahead, best = distances[:, 0], lead(distances, identities), identities[:, :1]
    uncertainty, members = np.asarray(own.uncertainty, float), own.members
    near = np.exp(np.log(np.maximum(distances[:, :NEIGHBOURS], SMALLEST)).mean(1))
    nothing = np.zeros(len(distances))
    return Evidence(
        distance=first,
        margin=ahead,
        ratio=np.log1p(ahead / np.maximum(first, SMALLEST)),
        support=_support(-distances / unit, identities),
        lift=(distances.mean(1) - first) / np.maximum(distances.std(1), SMALLEST),
        agreement=(identities == best).sum(1).astype(float),
        neighbour_agreement=(identities[:, :NEAREST] == best).sum(1).astype(float),
        member_agreement=nothing if members is None else (members == best[:, None]).sum(2).mean(1),
        neighbour_distance=distances[:, :NEIGHBOURS].mean(1),
        uncertainty=uncertainty,
        novelty=nothing if own.novelty is None else np.asarray(own.novelty, float),
        gap=first if own.between_means else np.sqrt(np.maximum(first**2 - own.spread, 0)),
        remoteness=np.sqrt(near**2 + own.spread) if own.between_means else near,
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
