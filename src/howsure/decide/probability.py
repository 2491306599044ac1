"""What a query may be: the best match, another item, or nothing in the gallery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_expit

from howsure.decide.evidence import FEATURES, PLAIN, Evidence
from howsure.numerics.isotonic import Isotonic
from howsure.numerics.link import Link, fit_link
from howsure.numerics.logistic import Logistic, fit_logistic

ABSENT_SCALE = 3.0
FLATTEST = 1e-3  # slope from score to log-odds: a score that says nothing still orders queries


@dataclass(frozen=True, eq=False)
class Odds:
    """Log-odds, (Q,), that the best match is right, and that nothing in the gallery is it; at most one is above 0."""

    right: np.ndarray
    none: np.ndarray


@dataclass(frozen=True)
class AnswerProbabilities:
    """P(right) of the best match, and P(none) = (1 - P(right)) · P(none | not right); the rest is another item."""

    right: Link
    absent: Logistic | None  # P(none | not right), from features `both_ways`; None where nothing was ever unknown

    def scores(self, evidence: Evidence, *, ratio: float = 1.0) -> Odds:
        """What thresholds are set on: never flat."""
        return self._odds(evidence, self.right.score(evidence.features()), ratio)

    def calibrated(self, evidence: Evidence, *, ratio: float = 1.0) -> Odds:
        """What probabilities are made of."""
        return self._odds(evidence, self.right.log_odds(self.right.score(evidence.features())), ratio)

    def _odds(self, evidence: Evidence, right: np.ndarray, ratio: float) -> Odds:
        """With `ratio` times as many identities as in calibration, the prior of each of them is smaller by as much.

        For another item this is in the evidence, which comes from a search among all of them. Not so for none: against
        the best match its odds grow by `ratio`.
        """
        if self.absent is None:
            return Odds(right, np.full(len(right), -np.inf))
        absent = self.absent.log_odds(both_ways(evidence))
        # 1/odds(right) = none/right + others/right; the first part is a share P(none | not right) of it.
        if ratio != 1:
            right = right - np.logaddexp(log_expit(absent) + np.log(ratio), log_expit(-absent))
        log_none = log_expit(-right) + log_expit(absent + np.log(ratio))
        return Odds(right, log_none - np.log(-np.expm1(np.minimum(log_none, -1e-300))))

    @classmethod
    def from_json(cls, keys: dict[str, Any]) -> AnswerProbabilities:
        """What `asdict` wrote."""
        right, absent = link_from_json(keys["right"], len(FEATURES)), keys["absent"]
        return cls(right, None if absent is None else _logistic(absent, 2 * PLAIN))


def meaning_of(score: np.ndarray, right: np.ndarray, folds: np.ndarray) -> Link:
    """From a score, (n,), to the log-odds that the best match is right; the order stays what it is."""
    if right.all() or not right.any():
        return Link(Logistic((1.0,), 0.0))  # with one outcome only, the score stands as it is
    link = fit_link(score[:, None], right, folds)
    return Link(Logistic((max(link.logistic.coefficients[0], FLATTEST),), link.logistic.offset), link.steps)


def fit_absent(evidence: Evidence, right: np.ndarray, known: np.ndarray) -> Logistic | None:
    """P(nothing in the gallery is it) of wrong best matches; None where no query was unknown."""
    if known.all():
        return None
    wrong, both = ~right, both_ways(evidence)
    if known[wrong].any():
        return fit_logistic(both[wrong], ~known[wrong], prior_scale=ABSENT_SCALE)
    # Another item was never right yet: the rule of succession.
    return Logistic((0.0,) * both.shape[1], float(np.log(wrong.sum() + 1)))


def both_ways(evidence: Evidence) -> np.ndarray:
    """(Q, 2 PLAIN): every plain feature and its opposite, for a link that may turn either way."""
    features = evidence.features()[:, :PLAIN]
    return np.column_stack([features, -features])


def link_from_json(keys: dict[str, Any], count: int) -> Link:
    """What `asdict` wrote of a link over so many features."""
    return Link(_logistic(keys["logistic"], count), Isotonic.from_json(keys["steps"]))


def _logistic(keys: dict[str, Any], count: int) -> Logistic:
    if len(keys["coefficients"]) != count:
        raise ValueError(f"{len(keys['coefficients'])} coefficients where there should be {count}")
    return Logistic(tuple(keys["coefficients"]), keys["offset"])
