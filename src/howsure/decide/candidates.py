"""Scores that could decide what is answered, and which of them is foreseen to answer best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from howsure.decide.evidence import FEATURES, POSTERIOR
from howsure.decide.searched import Ranking
from howsure.metrics import aurc
from howsure.numerics.link import turns
from howsure.numerics.logistic import Logistic, fit_logistic

PRIOR_SCALE = 1.0  # of the coefficients: the features say much the same, so none need be large
AGREEMENT = ("neighbour agreement", "ratio")
OF_DISTANCES = tuple(name for name in FEATURES if name not in POSTERIOR)


@dataclass(frozen=True)
class Candidate:
    """Some of the features, as a search that ranks in this way gives them."""

    words: str
    by: Ranking
    features: tuple[str, ...]

    def columns(self, features: np.ndarray) -> np.ndarray:
        """(n, FEATURES) to those that count."""
        return features[:, [FEATURES.index(name) for name in self.features]]

    def fit(self, features: np.ndarray, right: np.ndarray) -> Logistic:
        """log-odds of a right answer, over all features."""
        fitted = fit_logistic(self.columns(features), right, prior_scale=PRIOR_SCALE)
        of = dict(zip(self.features, fitted.coefficients, strict=True))
        return Logistic(tuple(of.get(name, 0.0) for name in FEATURES), fitted.offset)


FITTED = (
    Candidate("all evidence, by expected distance", "distance", FEATURES),
    Candidate("all evidence, by means", "mean", FEATURES),
)


def candidates(*, points: bool) -> tuple[Candidate, ...]:
    """Those that make sense, the likeliest to win first; points have nothing but their distances."""
    by: Ranking = "distance" if points else "mean"
    free = (
        Candidate("evidence of distances", by, OF_DISTANCES),
        Candidate("neighbour agreement", by, AGREEMENT),
        Candidate("distance ratio", by, ("ratio",)),
        Candidate("distance", by, ("distance",)),
    )
    return free if points else (*FITTED, *free)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a candidate is fitted to: (n, FEATURES), which answers were right, folds by identity, and weights."""

    features: np.ndarray
    right: np.ndarray
    folds: np.ndarray

    def repeated(self, times: int) -> Lesson:
        """Every row so many times, so that few rows count as much as many others."""
        return Lesson(*(np.repeat(part, times, axis=0) for part in (self.features, self.right, self.folds)))

    def joined(self, other: Lesson) -> Lesson:
        """Both."""
        pairs = ((self.features, other.features), (self.right, other.right), (self.folds, other.folds))
        return Lesson(*(np.concatenate(pair) for pair in pairs))


def foreseen_aurc(candidate: Candidate, lesson: Lesson) -> float:
    """Area under the risk-coverage curve, each fold scored by a fit to the others; small is good."""
    score = np.zeros(len(lesson.right))
    for rest, held in turns(lesson.folds):
        if len(np.unique(lesson.right[rest])) == 2:
            score[held] = candidate.fit(lesson.features[rest], lesson.right[rest]).log_odds(lesson.features[held])
    return aurc(-score, ~lesson.right)


def choose(lessons: Mapping[Candidate, Lesson]) -> tuple[Candidate, dict[str, float]]:
    """The candidate with the least foreseen AURC, the first among equals; and what was foreseen of each."""
    foreseen = {candidate: foreseen_aurc(candidate, lesson) for candidate, lesson in lessons.items()}
    best = min(foreseen, key=lambda candidate: foreseen[candidate])
    return best, {candidate.words: value for candidate, value in foreseen.items()}


def steadied(chosen: Candidate, lesson: Lesson) -> Logistic:
    """The fit of the chosen candidate, its log-odds averaged with those of neighbour agreement alone.

    Hidden identities of a gallery are not quite like unknown ones: where distances tell the first and not the second,
    what was learned from many features misleads. Agreement misleads less, and the mean of both loses little elsewhere.
    """
    own = chosen.fit(lesson.features, lesson.right)
    plain = Candidate("", chosen.by, AGREEMENT).fit(lesson.features, lesson.right)
    weights = tuple((a + b) / 2 for a, b in zip(own.coefficients, plain.coefficients, strict=True))
    return Logistic(weights, (own.offset + plain.offset) / 2)
