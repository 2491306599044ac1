"""Does a probability mean what it says?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from howsure.decide.evidence import Evidence
from howsure.decide.held_out import HeldOut
from howsure.decide.probability import ABSENT_SCALE, PRIOR_SCALE, AnswerProbabilities, both_ways
from howsure.embeddings import Embedding
from howsure.match import Matcher
from howsure.metrics import brier, ece, reliability
from howsure.numerics.link import crossed

SAME = "a query and an item show the same, where half of the pairs do"
RIGHT = "the best match is right"
NONE = "nothing in the gallery is it"
BINS = 15


@dataclass(frozen=True)
class CalibrationReport:
    """How well the probability of an event agrees with how often it happens."""

    event: str
    link: str  # logistic or isotonic
    ece: float  # 15 equal-width bins, the last closed
    brier: float
    rate: float  # how often the event happened
    n: int
    reliability: tuple[tuple[float, float, int], ...]  # of each bin: mean probability, how often it happened, cases

    @classmethod
    def judged(
        cls, event: str, probability: np.ndarray, outcome: np.ndarray, *, isotonic: bool
    ) -> CalibrationReport | None:
        """From (n,) probabilities and what happened; NaN is left out, and if nothing else is there, None."""
        finite = np.isfinite(probability)
        if not finite.any():
            return None
        p, y = probability[finite], outcome[finite]
        curve = reliability(p, y, bins=BINS)
        points = zip(curve.confidence.tolist(), curve.accuracy.tolist(), curve.count.tolist(), strict=True)
        return cls(
            event=event,
            link="isotonic" if isotonic else "logistic",
            ece=ece(p, y, bins=BINS),
            brier=brier(p, y),
            rate=float(y.mean()),
            n=len(y),
            reliability=tuple(points),
        )

    @classmethod
    def from_json(cls, keys: dict[str, Any]) -> CalibrationReport:
        """What `asdict` wrote."""
        return cls(**keys | {"reliability": tuple((p, share, count) for p, share, count in keys["reliability"])})


def pair_report(
    held: HeldOut, gallery: Embedding, names: np.ndarray, *, matcher: Matcher, rng: np.random.Generator
) -> CalibrationReport | None:
    """P(same) of pairs half of which match, as `answer_reports` judges the other probabilities."""
    fitted, asked = (held.pairs(rows, gallery, names, different=1, rng=rng) for rows in (held.fit, held.test))
    row, distance, same = (
        np.concatenate([getattr(part, name) for part in (fitted, asked)]) for name in ("row", "distance", "same")
    )
    fit, test = np.split(np.arange(len(row)), [len(fitted.row)])
    steps = matcher.steps is not None
    found = crossed(-distance[:, None], same, held.folds[row], fit=fit, test=test, steps=steps)
    return CalibrationReport.judged(SAME, found, asked.same, isotonic=steps)


def answer_reports(
    held: HeldOut, evidence: Evidence, right: np.ndarray, *, chances: AnswerProbabilities
) -> dict[str, CalibrationReport | None]:
    """Each probability on queries that tested the policy, from links refitted without their identities.

    The links are of the kind that the policy uses.
    """
    link = partial(crossed, folds=held.folds, test=held.test)
    steps = chances.right.steps is not None
    best = link(evidence.features(), right, fit=held.fit, steps=steps, prior_scale=PRIOR_SCALE)
    reports = {"right": CalibrationReport.judged(RIGHT, best, right[held.test], isotonic=steps)}
    if chances.absent is not None:
        wrong = held.fit[~right[held.fit]]
        absent = link(both_ways(evidence), ~held.known, fit=wrong, steps=False, prior_scale=ABSENT_SCALE)
        reports["none"] = CalibrationReport.judged(NONE, (1 - best) * absent, ~held.known[held.test], isotonic=steps)
    return reports
