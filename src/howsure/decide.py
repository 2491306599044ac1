"""From matches to an answer: match, unknown, or not sure and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from howsure.errors import InputError, ModelError
from howsure.files import write_whole
from howsure.match import Matcher
from howsure.numerics.logistic import Logistic

__all__ = ["DEPTH", "REASONS", "Answer", "Certificate", "Evidence", "Limits", "Policy", "decide", "weigh"]

DEPTH = 64  # matches that a decision looks at
NEIGHBOURS = 5  # of them, those whose mean distance says how familiar a query is
POLICY_FILE = "policy.json"

Kind = Literal["match", "unknown", "not_sure"]

REASONS = {
    "unfamiliar": "unlike anything the model knows",
    "poor_image": "the picture itself is ambiguous: take another one",
    "conflict": "several identities are about equally likely",
    "thin_gallery": "its references are few or poor: add pictures of it",
    "no_close_match": "nothing in the gallery is close enough",
    "not_calibrated": "the model has no policy yet: run howsure calibrate",
}


@dataclass(frozen=True)
class Answer:
    """What to tell the user about one query."""

    kind: Kind
    reason: str | None  # a key of REASONS; None for a match
    probability: float | None  # P(the best match is right); None while the model is not calibrated


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a decision looks at, one row a query; large `log_odds` and `margin` speak for the best match."""

    log_odds: np.ndarray  # of the best match, as a pair
    margin: np.ndarray  # log-odds lead over the best other identity
    neighbour_distance: np.ndarray  # mean over the nearest few
    uncertainty: np.ndarray  # of the query itself

    def features(self) -> np.ndarray:
        """(Q, 4), oriented so that larger means likelier right."""
        return np.column_stack([self.log_odds, self.margin, -self.neighbour_distance, -self.uncertainty])

    def __getitem__(self, rows: np.ndarray) -> Evidence:
        return Evidence(self.log_odds[rows], self.margin[rows], self.neighbour_distance[rows], self.uncertainty[rows])


def weigh(matcher: Matcher, distances: np.ndarray, identities: np.ndarray, uncertainty: np.ndarray) -> Evidence:
    """Evidence from ranked matches: (Q, k) distances, best first, and the identity of each match.

    If all k matches share one identity, the last of them bounds the margin from below.
    """
    if distances.ndim != 2 or distances.shape != identities.shape or distances.shape[1] == 0:
        raise InputError("matches", expected="(Q, k) with k of 1 or more", got=f"{distances.shape}, {identities.shape}")
    other = identities != identities[:, :1]
    second = np.where(other.any(1), other.argmax(1), distances.shape[1] - 1)
    lead = distances[np.arange(len(distances)), second] - distances[:, 0]
    return Evidence(
        log_odds=matcher.offset - matcher.scale * distances[:, 0],
        margin=matcher.scale * lead,
        neighbour_distance=distances[:, :NEIGHBOURS].mean(1),
        uncertainty=np.asarray(uncertainty, float),
    )


@dataclass(frozen=True)
class Limits:
    """What is usual among held-out queries that were answered rightly: 95 % of them lie on the good side of each."""

    neighbour_distance: float
    margin: float
    uncertainty: float | None  # None where every query has the same
    gallery_uncertainty: float | None


@dataclass(frozen=True)
class Certificate:
    """What was promised, on what evidence."""

    max_error: float
    confidence: float
    error_bound: float  # upper bound on the error among answers, at that confidence
    coverage: float  # share of the queries that get an answer: match or unknown
    match_coverage: float
    unknown_coverage: float
    n: int  # held-out queries that tested the policy
    unknown_rate: float  # share of them without a mate in the gallery
    gallery: int  # items they were searched in
    made: str  # date


@dataclass(frozen=True)
class Policy:
    """A matcher, the probability that its best match is right, and two thresholds with a guarantee.

    Thresholds are log-odds: answer `match` from `match_at` up, `unknown` from `unknown_at` down, else `not_sure`.
    """

    matcher: Matcher
    confidence: Logistic
    match_at: float
    unknown_at: float | None
    limits: Limits
    certificate: Certificate
    model: str  # fingerprint of the weights it was made for

    @property
    def threshold(self) -> float:
        """The probability from which a match is answered."""
        return float(expit(self.match_at))

    def save(self, folder: str | Path) -> None:
        """Write `policy.json` into a model directory."""
        write_whole(Path(folder) / POLICY_FILE, json.dumps(asdict(self), indent=2).encode())

    @classmethod
    def load(cls, folder: str | Path, *, model: str) -> Policy | None:
        """The policy of a model directory; None if it has none, an error if it was made for other weights."""
        file = Path(folder) / POLICY_FILE
        if not file.exists():
            return None
        try:
            policy = cls.of(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError) as error:
            raise ModelError(
                f"{file}", expected="a policy", got=str(error), fix="run howsure calibrate again"
            ) from error
        if policy.model != model:
            raise ModelError(
                f"{file}", expected=f"a policy for weights {model}", got=policy.model, fix="run howsure calibrate again"
            )
        return policy

    @classmethod
    def of(cls, keys: dict[str, Any]) -> Policy:
        """The policy that `asdict` wrote."""
        confidence = keys["confidence"]
        return cls(
            **keys
            | {
                "matcher": Matcher(**keys["matcher"]),
                "confidence": Logistic(tuple(confidence["coefficients"]), confidence["offset"]),
                "limits": Limits(**keys["limits"]),
                "certificate": Certificate(**keys["certificate"]),
            }
        )


def decide(
    policy: Policy,
    evidence: Evidence,
    *,
    references: Sequence[int] | None = None,
    match_uncertainty: np.ndarray | None = None,
) -> list[Answer]:
    """One answer a query.

    `references` is how many pictures the gallery has of the best identity; `match_uncertainty` is the best match's own.
    """
    log_odds = policy.confidence.log_odds(evidence.features())
    answers = []
    for row, value in enumerate(log_odds):
        probability = float(expit(value))
        if value >= policy.match_at:
            answers.append(Answer("match", None, probability))
        elif policy.unknown_at is not None and value <= policy.unknown_at:
            answers.append(Answer("unknown", "no_close_match", probability))
        else:
            few = references is not None and references[row] < 2
            doubt = None if match_uncertainty is None else float(match_uncertainty[row])
            answers.append(Answer("not_sure", _reason(policy.limits, evidence, row, few=few, doubt=doubt), probability))
    return answers


def _reason(limits: Limits, evidence: Evidence, row: int, *, few: bool, doubt: float | None) -> str:
    if evidence.neighbour_distance[row] > limits.neighbour_distance:
        return "unfamiliar"
    if limits.uncertainty is not None and evidence.uncertainty[row] > limits.uncertainty:
        return "poor_image"
    if evidence.margin[row] < limits.margin:
        return "conflict"
    poor = limits.gallery_uncertainty is not None and doubt is not None and doubt > limits.gallery_uncertainty
    if few or poor:
        return "thin_gallery"
    return "no_close_match"
