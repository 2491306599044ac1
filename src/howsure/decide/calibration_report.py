"""Does a probability mean what it says?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from howsure.decide.evidence import Evidence
from howsure.decide.held_out import HeldOut
from howsure.decide.probability import ABSENT_SCALE, AnswerProbabilities, both_ways
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
    """P(same) of pairs half of which match, each by a link refitted without its identity."""
    pairs = held.pairs(gallery, names, different=1, rng=rng)
    steps, every = matcher.steps is not None, np.arange(len(pairs.row))
    folds = held.folds[pairs.row]
    found = crossed(-pairs.distance[:, None], pairs.same, folds, fit=every, test=every, steps=steps)
    return CalibrationReport.judged(SAME, found, pairs.same, isotonic=steps)


def answer_reports(
    held: HeldOut, evidence: Evidence, right: np.ndarray, *, scores: np.ndarray, chances: AnswerProbabilities
) -> dict[str, CalibrationReport | None]:
    """Each probability of every query, by links refitted without its identity, of the kind that the policy uses."""
    every, steps = np.arange(len(right)), chances.right.steps is not None
    link = partial(crossed, folds=held.folds, test=every)
    best = link(scores[:, None], right, fit=every, steps=steps)
    reports = {"right": CalibrationReport.judged(RIGHT, best, right, isotonic=steps)}
    if chances.absent is not None:
        wrong = np.flatnonzero(~right)
        absent = link(both_ways(evidence), ~held.known, fit=wrong, steps=False, prior_scale=ABSENT_SCALE)
        reports["none"] = CalibrationReport.judged(NONE, (1 - best) * absent, ~held.known, isotonic=steps)
    return reports
