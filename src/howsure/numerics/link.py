"""From features to the probability of an event: logistic, or isotonic where held-out data ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from scipy.special import expit

from howsure.numerics.isotonic import Isotonic, fit_isotonic
from howsure.numerics.logistic import Logistic, fit_logistic

FOLDS = 5


@dataclass(frozen=True)
class Link:
    """A logistic score that is never flat, so that it can rank, and what it means as log-odds of the event."""

    logistic: Logistic
    steps: Isotonic | None = None  # None: the score is the log-odds

    def score(self, features: np.ndarray) -> np.ndarray:
        """(n, p) features to (n,): what thresholds are set on."""
        return self.logistic.log_odds(features)

    def log_odds(self, score: np.ndarray) -> np.ndarray:
        """What a score means."""
        return score if self.steps is None else self.steps.log_odds(score)

    def probability(self, features: np.ndarray) -> np.ndarray:
        """(n, p) features to (n,) probabilities."""
        return expit(self.log_odds(self.score(features)))


def fit_link(features: np.ndarray, outcome: np.ndarray, folds: np.ndarray, *, prior_scale: float = 10.0) -> Link:
    """The logistic link, with isotonic steps on top if that makes outcomes of held-out folds likelier.

    `folds`, (n,), come from `folds_of`. Where a fold leaves one outcome only, the logistic link it is.
    """
    logistic = fit_logistic(features, outcome, prior_scale=prior_scale)
    gain = 0.0
    for rest, held in turns(folds):
        if len(np.unique(outcome[rest])) < 2:
            return Link(logistic)
        fitted = fit_logistic(features[rest], outcome[rest], prior_scale=prior_scale)
        score = fitted.log_odds(features)
        steps = fit_isotonic(score[rest], outcome[rest])
        gain += _log_likelihood(steps.log_odds(score[held]), outcome[held])
        gain -= _log_likelihood(score[held], outcome[held])
    return Link(logistic, fit_isotonic(logistic.log_odds(features), outcome) if gain > 0 else None)


def crossed(
    features: np.ndarray,
    outcome: np.ndarray,
    folds: np.ndarray,
    *,
    fit: np.ndarray,
    test: np.ndarray,
    steps: bool,
    prior_scale: float = 10.0,
) -> np.ndarray:
    """P(outcome) of the items `test`, each by a link fitted to those of `fit` in other folds; NaN where none can be."""
    found = np.full(len(outcome), np.nan)
    for rest, held in turns(folds):
        known, asked = fit[rest[fit]], test[held[test]]
        if len(np.unique(outcome[known])) < 2:
            continue
        logistic = fit_logistic(features[known], outcome[known], prior_scale=prior_scale)
        curve = fit_isotonic(logistic.log_odds(features[known]), outcome[known]) if steps else None
        found[asked] = Link(logistic, curve).probability(features[asked])
    return found[test]


def folds_of(groups: Sequence[str | None]) -> np.ndarray:
    """A fold for every item, (n,), the same for all items of one group; every None is a group of its own.

    >>> folds_of(["ann", "bob", "ann"]).tolist()
    [1, 0, 1]
    """
    names = [f"item {row}" if name is None else f"group {name}" for row, name in enumerate(groups)]
    # In an order that means nothing, as if drawn at random, but the same every time.
    mixed = sorted(set(names), key=lambda name: (crc32(name.encode()), name))
    fold = {name: position % FOLDS for position, name in enumerate(mixed)}
    return np.array([fold[name] for name in names], int)


def turns(folds: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For every fold, masks of the items in the others and of its own."""
    for fold in np.unique(folds):
        yield folds != fold, folds == fold


def _log_likelihood(log_odds: np.ndarray, outcome: np.ndarray) -> float:
    return float(-np.logaddexp(0, np.where(outcome, -log_odds, log_odds)).sum())
