"""Does a score predict which answers are wrong, and what is the probability of being right? The same in every table."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from howsure import metrics
from howsure.evaluation.metric import defined
from howsure.numerics.logistic import fit_logistic

__all__ = ["FAILURE_METRICS", "failure_prediction", "probability_right"]

BINS = 20
FAILURE_METRICS = ("aurc", "augrc", "r_auroc", "kendall")


def failure_prediction(uncertainty: ArrayLike, right: np.ndarray) -> dict[str, float]:
    """AURC, AUGRC, R-AUROC, and Kendall's tau over bins; what the answers do not define is left out.

    >>> failure_prediction([0.1, 0.2, 0.3, 0.4], np.array([True, True, True, False]))["r_auroc"]
    1.0
    """
    measures = {
        "aurc": partial(metrics.aurc, uncertainty, ~right),
        "augrc": partial(metrics.augrc, uncertainty, ~right),
        "r_auroc": partial(metrics.r_auroc, uncertainty, right),
        "kendall": partial(metrics.kendall_over_bins, uncertainty, right, bins=BINS),
    }
    values = {name: defined(name, measure, "").value for name, measure in measures.items()}
    return {name: value for name, value in values.items() if value is not None}


def probability_right(uncertainty: ArrayLike, *, held: tuple[ArrayLike, np.ndarray]) -> np.ndarray:
    """P(an answer is right): a logistic of the log of its uncertainty, fitted on held-out uncertainties and answers.

    >>> held = [0.1, 0.2, 0.4, 0.8], np.array([True, True, False, False])
    >>> sure, unsure = probability_right([0.1, 0.8], held=held)
    >>> bool(sure > 0.9 > 0.1 > unsure)
    True
    """
    return fit_logistic(_log_certainty(held[0]), held[1]).probability(_log_certainty(uncertainty))


def _log_certainty(uncertainty: ArrayLike) -> np.ndarray:
    return -np.log(np.maximum(np.asarray(uncertainty, float), 1e-30))[:, None]  # finite where it is 0
