"""What a query may be: the best match, another item, or nothing in the gallery."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_expit

from howsure.decide.evidence import FEATURES, PLAIN, Evidence
from howsure.numerics.isotonic import Isotonic
from howsure.numerics.link import Link, fit_link
from howsure.numerics.logistic import Logistic, fit_logistic

WITHIN = 0.99
PRIOR_SCALE = 1.0  # of the features' coefficients: they say much the same, so none need be large
ABSENT_SCALE = 3.0


@dataclass(frozen=True, eq=False)
class Odds:
    """Log-odds, (Q,), that the best match is right, and that nothing in the gallery is it; at most one is above 0."""

    right: np.ndarray
    none: np.ndarray


@dataclass(frozen=True)
class UnknownRange:
    """The uncertainty and novelty of unknowns. A blurred picture is far from everything too, and may be known."""

    uncertainty: float
    novelty: float

    @classmethod
    def around(cls, unknown: Evidence) -> UnknownRange:
        """The range in which 99 % of these lie, in each."""
        return cls(*(float(np.quantile(values, WITHIN)) for values in (unknown.uncertainty, unknown.novelty)))

    def holds(self, evidence: Evidence) -> np.ndarray:
        """Which queries lie in the range, (Q,)."""
        return (evidence.uncertainty <= self.uncertainty) & (evidence.novelty <= self.novelty)


@dataclass(frozen=True)
class AnswerProbabilities:
    """P(right) of the best match, and P(none) = (1 - P(right)) · P(none | not right); the rest is another item."""

    right: Link
    absent: Logistic | None  # P(none | not right), from features `both_ways`; None where nothing was ever unknown
    reach: UnknownRange | None = None  # of the unknowns that were met

    def scores(self, evidence: Evidence, *, ratio: float = 1.0) -> Odds:
        """What thresholds are set on: never flat. Outside the range of the unknowns that were met, none has no odds."""
        odds = self._odds(evidence, self.right.score(evidence.features()), ratio)
        return (
            odds if self.reach is None else replace(odds, none=np.where(self.reach.holds(evidence), odds.none, -np.inf))
        )

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
        right = right - np.logaddexp(log_expit(absent) + np.log(ratio), log_expit(-absent))
        log_none = log_expit(-right) + log_expit(absent + np.log(ratio))
        return Odds(right, log_none - np.log(-np.expm1(np.minimum(log_none, -1e-300))))

    @classmethod
    def from_json(cls, keys: dict[str, Any]) -> AnswerProbabilities:
        """What `asdict` wrote."""
        right, absent, reach = keys["right"], keys["absent"], keys["reach"]
        link = Link(_logistic(right["logistic"], FEATURES), Isotonic.from_json(right["steps"]))
        return cls(
            link,
            None if absent is None else _logistic(absent, 2 * PLAIN),
            None if reach is None else UnknownRange(**reach),
        )


def fit_answer_probabilities(
    evidence: Evidence, right: np.ndarray, known: np.ndarray, folds: np.ndarray
) -> AnswerProbabilities:
    """P(the best match is right) and, of the others, P(nothing in the gallery is it)."""
    features = evidence.features()
    if right.all() or not right.any():
        # With one outcome only, the probability of the pair stands in.
        link = Link(Logistic((1.0, *[0.0] * (features.shape[1] - 1)), 0.0))
    else:
        link = fit_link(features, right, folds, prior_scale=PRIOR_SCALE)
    if known.all():
        return AnswerProbabilities(link, None)
    wrong, both, reach = ~right, both_ways(evidence), UnknownRange.around(evidence[~known])
    if known[wrong].any():
        return AnswerProbabilities(link, fit_logistic(both[wrong], ~known[wrong], prior_scale=ABSENT_SCALE), reach)
    # Another item was never right yet: the rule of succession.
    return AnswerProbabilities(link, Logistic((0.0,) * both.shape[1], float(np.log(wrong.sum() + 1))), reach)


def both_ways(evidence: Evidence) -> np.ndarray:
    """(Q, 2 PLAIN): every plain feature and its opposite, for a link that may turn either way."""
    features = evidence.features()[:, :PLAIN]
    return np.column_stack([features, -features])


def _logistic(keys: dict[str, Any], count: int) -> Logistic:
    if len(keys["coefficients"]) != count:
        raise ValueError(f"{len(keys['coefficients'])} coefficients where there should be {count}")
    return Logistic(tuple(keys["coefficients"]), keys["offset"])
