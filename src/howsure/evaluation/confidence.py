"""Is a confidence the probability of being right? As it is, and calibrated on one half of the queries for the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from howsure import metrics
from howsure.evaluation.metric import Metric, defined
from howsure.numerics.logistic import fit_logistic

__all__ = ["confidence_metrics"]

Calibrator = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _logistic(fitted: np.ndarray, right: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    return fit_logistic(fitted[:, None], right).probability(confidence[:, None])


def _isotonic(fitted: np.ndarray, right: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    from sklearn.isotonic import IsotonicRegression

    least = 1 / (len(right) + 2)  # never quite 0 or 1: so few examples cannot know
    steps = IsotonicRegression(y_min=least, y_max=1 - least, out_of_bounds="clip").fit(fitted, right)
    return steps.predict(confidence)


CALIBRATORS: dict[str, tuple[Calibrator, str]] = {
    "raw": (lambda fitted, right, confidence: confidence, "as it is"),
    "logistic": (_logistic, "sigmoid(offset + scale · confidence)"),
    "isotonic": (_isotonic, "isotonic regression, clipped to [1/(n + 2), 1 - 1/(n + 2)]"),
}


def confidence_metrics(confidence: np.ndarray, correct: np.ndarray, *, seed: int) -> list[Metric]:
    """ECE and Brier score of a confidence in [0, 1], (Q,), as the probability that a query's answer is correct, (Q,).

    Half of the queries, drawn at random, fit the calibration; all numbers are those of the other half.
    """
    fit, test = np.array_split(np.random.default_rng(seed).permutation(len(correct)), 2)
    rule = f"fitted on {len(fit)} queries, judged on {len(test)}"

    def score(metric: Callable[[np.ndarray, np.ndarray], float], calibrator: Calibrator) -> float:
        return metric(calibrator(confidence[fit], correct[fit], confidence[test]), correct[test])

    out = []
    for name, (calibrator, what) in CALIBRATORS.items():
        how = f"confidence as P(nearest neighbour is right), {what}; {rule}"
        ece, brier = partial(score, metrics.ece, calibrator), partial(score, metrics.brier, calibrator)
        out.append(defined(f"confidence_ece_{name}", ece, f"15 equal-width bins, last closed; {how}"))
        out.append(defined(f"confidence_brier_{name}", brier, how))
    return out
