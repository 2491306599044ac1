"""When to answer: thresholds with a guarantee, saved with the model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scipy.special import expit

from howsure.errors import ModelError
from howsure.files import write_whole
from howsure.match import Matcher
from howsure.numerics.logistic import Logistic

POLICY_FILE = "policy.json"
FEATURES = 5  # of `Evidence`


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
        if len(confidence["coefficients"]) != FEATURES:
            raise ValueError(f"{len(confidence['coefficients'])} coefficients where there should be {FEATURES}")
        return cls(
            **keys
            | {
                "matcher": Matcher(**keys["matcher"]),
                "confidence": Logistic(tuple(confidence["coefficients"]), confidence["offset"]),
                "limits": Limits(**keys["limits"]),
                "certificate": Certificate(**keys["certificate"]),
            }
        )
