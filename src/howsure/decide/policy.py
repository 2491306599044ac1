"""When to answer: thresholds with a guarantee, kept with a gallery or with a model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from howsure.data.quality import Quality
from howsure.decide.calibration_report import CalibrationReport
from howsure.decide.certificate import Certificate
from howsure.decide.conflict import Conflict
from howsure.decide.drift import Reference
from howsure.decide.evidence import Evidence
from howsure.decide.prediction_sets import SetRule
from howsure.decide.probability import AnswerProbabilities
from howsure.decide.searched import Ranking, ranked
from howsure.decide.unknown import UnknownRule
from howsure.embeddings import Embedding
from howsure.errors import ModelError
from howsure.files import sealed, unsealed, write_whole
from howsure.index import Index
from howsure.match import Matcher

POLICY_FILE = "policy.json"
FORMAT = 2
COVERED = 2.0  # times as many identities, or as few: correcting for more than that did not keep the error small


@dataclass(frozen=True)
class Limits:
    """95 % of the known held-out queries lie on the good side of each, or more."""

    gap: float | None  # None where embeddings keep their novelty
    uncertainty: float | None  # None where every query has the same
    gallery_uncertainty: float | None
    references: int  # pictures of an identity


@dataclass(frozen=True)
class Choice:
    """The score that decides, and what was foreseen of it and of the others on items that did not test."""

    words: str
    by: Ranking  # how matches are ranked
    unit: float  # of distances in the evidence
    aurc: dict[str, float]  # area under the risk-coverage curve, of every candidate


@dataclass(frozen=True)
class Policy:
    """A matcher, the probabilities of what a query is, and when to answer, with a guarantee.

    Answer `match` where the best match is right with log-odds `match_at` or more, and that match is near enough; else
    `unknown` where the rule for it holds; else `not_sure`. No picture that is clearly poor is called unknown.
    """

    matcher: Matcher
    chances: AnswerProbabilities
    choice: Choice
    match_at: float
    match_within: float  # nearer than this
    conflict: Conflict
    unknown: UnknownRule | None
    sets: SetRule
    limits: Limits
    reference: Reference
    certificate: Certificate
    honesty: dict[str, CalibrationReport]  # same, right and, where there were unknowns, none
    model: str  # fingerprint of the weights it was made for
    quality: Quality | None = None  # of the held-out pictures; None where nobody saw them

    @property
    def threshold(self) -> float:
        """The probability from which a match is answered."""
        return float(expit(self.chances.right.log_odds(np.array(self.match_at))))

    def claims(self, evidence: Evidence, *, ratio: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Which queries are answered `match`, and which `unknown`, (Q,) each; none is both.

        A `match` goes first: its error was proved whatever the other rule says, and a query that gets one is not called
        unknown, so that promise only becomes safer.
        """
        near = evidence.remoteness < self.match_within
        match = near & (self.chances.scores(evidence, ratio=ratio).right >= self.match_at)
        if self.unknown is None:
            return match, np.zeros_like(match)
        return match, self.unknown.holds(evidence) & ~match

    def faults(self, measures: np.ndarray) -> list[str | None]:
        """(Q, M) measures of pictures to the fault of each, a key of `howsure.data.quality.CAUSES`; None where fine."""
        return [None] * len(measures) if self.quality is None else self.quality.causes(measures)

    def ranked(self, embedding: Embedding) -> Embedding:
        """Items as the policy compares them."""
        return ranked(embedding, self.choice.by)

    def identities_in(self, index: Index) -> int | None:
        """How many identities this gallery holds; None where it is the one that the policy was made in."""
        made = self.certificate
        same = len(index) == made.gallery if made.changes is None else index.changes == made.changes
        return None if same else index.count_identities()

    def stale_in(self, index: Index) -> tuple[str, ...]:
        """How this gallery differs from the one that the promise was made for; empty where it does not."""
        made = self.certificate
        if made.changes == index.changes:
            return ()
        grown = (
            (len(index) - made.gallery, "item", "items"),
            (index.count_identities() - made.identities, "identity", "identities"),
        )
        changes = [
            f"{abs(by)} {one if abs(by) == 1 else many} {'added' if by > 0 else 'removed'} since"
            for by, one, many in grown
            if by
        ]
        return tuple(changes) if changes or made.changes is None else ("items replaced since",)

    def covers(self, identities: int | None) -> bool:
        """Whether its probabilities can be corrected for a gallery of so many identities."""
        return 1 / COVERED <= self.ratio(identities) <= COVERED

    def matcher_at(self, identities: int | None) -> Matcher:
        """The matcher where a pair matches as rarely as in a gallery of so many identities."""
        if identities is None:
            return self.matcher
        rate = self.matcher.base_rate / self.ratio(identities)
        return self.matcher.at(min(rate, 0.99))  # a rate stays a rate in a gallery of one

    def ratio(self, identities: int | None) -> float:
        """How many times as many identities a gallery holds as the one that the policy was made in."""
        return 1.0 if identities is None else max(1, identities) / self.certificate.identities

    def to_json(self) -> dict[str, Any]:
        """Plain values, with a checksum over them."""
        return sealed({"format": FORMAT} | json.loads(json.dumps(asdict(self))))

    def save(self, folder: str | Path) -> None:
        """Write `policy.json` into the directory of a gallery or of a model."""
        write_whole(Path(folder) / POLICY_FILE, json.dumps(self.to_json(), indent=2).encode())

    @classmethod
    def load(cls, folder: str | Path, *, model: str) -> Policy | None:
        """The policy of a directory; None if it has none, an error if it was made for other weights."""
        file = Path(folder) / POLICY_FILE
        if not file.exists():
            return None
        try:
            keys = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise _refused(str(file), expected="JSON", got=str(error)) from error
        policy = cls.from_json(keys, str(file))
        if policy.model != model:
            raise _refused(str(file), expected=f"a policy for weights {model}", got=policy.model)
        return policy

    @classmethod
    def from_json(cls, keys: Any, what: str = "policy") -> Policy:
        """The policy that `to_json` wrote, and nobody changed."""
        known = keys.get("format") if isinstance(keys, dict) else type(keys).__name__
        if known != FORMAT:
            got = "one of an earlier version" if isinstance(keys, dict) and "matcher" in keys else str(known)
            raise _refused(what, expected=f"a policy of format {FORMAT}", got=got)
        try:
            keys = unsealed(keys, what)
        except ValueError as error:
            raise _refused(str(error)) from error
        try:
            return cls(
                matcher=Matcher.from_json(keys["matcher"]),
                chances=AnswerProbabilities.from_json(keys["chances"]),
                choice=Choice(**keys["choice"]),
                match_at=keys["match_at"],
                match_within=keys["match_within"],
                conflict=Conflict.from_json(keys["conflict"]),
                unknown=keys["unknown"] and UnknownRule(**keys["unknown"]),
                sets=SetRule.from_json(keys["sets"]),
                limits=Limits(**keys["limits"]),
                reference=Reference(**{name: tuple(values) for name, values in keys["reference"].items()}),
                certificate=Certificate.from_json(keys["certificate"]),
                honesty={name: CalibrationReport.from_json(report) for name, report in keys["honesty"].items()},
                model=keys["model"],
                quality=keys["quality"] and Quality.from_json(keys["quality"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise _refused(what, expected="a policy", got=str(error)) from error


def _refused(what: str, *, expected: str = "", got: str = "") -> ModelError:
    return ModelError(what, expected=expected, got=got, fix="run howsure calibrate again")
