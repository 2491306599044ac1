"""When to answer: thresholds with a guarantee, kept with a gallery or with a model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from howsure.decide.calibration_report import CalibrationReport
from howsure.decide.drift import Reference
from howsure.decide.probability import AnswerProbabilities, Odds
from howsure.errors import ModelError
from howsure.files import write_whole
from howsure.index import Index
from howsure.match import Matcher

POLICY_FILE = "policy.json"


@dataclass(frozen=True)
class Limits:
    """95 % of the held-out queries that were answered rightly lie on the good side of each."""

    gap: float | None  # None where embeddings keep their novelty
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
    identities: int  # of these items
    data: str  # hash of the held-out queries, names and labels
    made: str  # date
    changes: int | None = None  # state of the gallery that it was made in; None where it is not known


@dataclass(frozen=True)
class Policy:
    """A matcher, the probabilities of what a query is, and two thresholds with a guarantee.

    Thresholds are log-odds: answer `match` where the best match is right with `match_at` or more, `unknown` where
    nothing in the gallery is it with `unknown_at` or more, where both are so the likelier, else `not_sure`.
    """

    matcher: Matcher
    chances: AnswerProbabilities
    match_at: float
    unknown_at: float | None
    limits: Limits
    reference: Reference
    certificate: Certificate
    honesty: dict[str, CalibrationReport]  # same, right and, where there were unknowns, none
    model: str  # fingerprint of the weights it was made for

    @property
    def threshold(self) -> float:
        """The probability from which a match is answered."""
        return float(expit(self.chances.right.log_odds(np.array(self.match_at))))

    def claims(self, odds: Odds) -> tuple[np.ndarray, np.ndarray]:
        """Which queries are answered `match`, and which `unknown`, (Q,) each; none is both."""
        match = odds.right >= self.match_at
        if self.unknown_at is None:
            return match, np.zeros_like(match)
        nearer = odds.right >= odds.none
        return match & nearer, (odds.none >= self.unknown_at) & ~nearer

    def identities_in(self, index: Index) -> int | None:
        """How many identities this gallery holds; None where it is the one that the policy was made in."""
        made = self.certificate
        same = len(index) == made.gallery if made.changes is None else index.changes == made.changes
        return None if same else index.count_identities()

    def stale_in(self, index: Index) -> tuple[str, ...]:
        """How this gallery differs from the one that the policy was made in; empty where it does not."""
        made = self.certificate
        if made.changes == index.changes:
            return ()
        counts = {"items": (made.gallery, len(index)), "identities": (made.identities, index.count_identities())}
        changes = [f"{what}: {then} at calibration, {now} now" for what, (then, now) in counts.items() if then != now]
        return tuple(changes) if changes or made.changes is None else ("items were replaced since calibration",)

    def matcher_at(self, identities: int | None) -> Matcher:
        """The matcher where a pair matches as rarely as in a gallery of so many identities."""
        if identities is None:
            return self.matcher
        rate = self.matcher.base_rate / self.ratio(identities)
        return self.matcher.at(min(rate, 0.99))  # a rate stays a rate in a gallery of one

    def ratio(self, identities: int | None) -> float:
        """How many times as many identities a gallery holds as the one that the policy was made in."""
        return 1.0 if identities is None else max(1, identities) / self.certificate.identities

    def save(self, folder: str | Path) -> None:
        """Write `policy.json` into the directory of a gallery or of a model."""
        write_whole(Path(folder) / POLICY_FILE, json.dumps(asdict(self), indent=2).encode())

    @classmethod
    def load(cls, folder: str | Path, *, model: str) -> Policy | None:
        """The policy of a directory; None if it has none, an error if it was made for other weights."""
        file = Path(folder) / POLICY_FILE
        if not file.exists():
            return None
        try:
            policy = cls.from_json(json.loads(file.read_text(encoding="utf-8")))
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
    def from_json(cls, keys: dict[str, Any]) -> Policy:
        """The policy that `asdict` wrote."""
        reference = keys["reference"]
        return cls(
            **keys
            | {
                "matcher": Matcher.from_json(keys["matcher"]),
                "chances": AnswerProbabilities.from_json(keys["chances"]),
                "limits": Limits(**keys["limits"]),
                "reference": Reference(tuple(reference["uncertainty"]), tuple(reference["novelty"])),
                "certificate": Certificate(**keys["certificate"]),
                "honesty": {name: CalibrationReport.from_json(report) for name, report in keys["honesty"].items()},
            }
        )
