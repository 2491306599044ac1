"""Curves as a few points: enough to draw them, small enough for every record, on one grid for all seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from howsure import metrics
from howsure.metrics.thresholds import counts

__all__ = ["GRID", "Curves", "reliability_points", "risk_points", "roc_points"]

Curves = dict[str, dict[str, Any]]  # by curve, then by score: heights over GRID; reliability: its three columns

GRID = np.linspace(0, 1, 51)
DIGITS = 5
BINS = 15


def roc_points(known: ArrayLike, ood: ArrayLike) -> list[float]:
    """The true positive rate of OOD detection, where GRID is the share of known pictures taken for OOD.

    >>> roc_points([0.0, 1.0], [2.0, 3.0])[:3]
    [1.0, 1.0, 1.0]
    """
    score = np.concatenate([np.asarray(known), np.asarray(ood)])
    c = counts(np.arange(len(score)) >= len(np.asarray(known)), score, names=("ood", "score"))
    false_positives, true_positives = (np.append(0, n) / n[-1] for n in (c.negatives, c.positives))
    # Of several heights at one false positive rate the last: the curve goes straight up there.
    last = np.append(np.diff(false_positives) > 0, True)
    return _rounded(np.interp(GRID, false_positives[last], true_positives[last]))


def risk_points(uncertainty: ArrayLike, error: ArrayLike) -> list[float]:
    """The error at coverage GRID; the first point is that of the most certain item alone.

    >>> risk_points([0.1, 0.2], [False, True])[-1]
    0.5
    """
    curve = metrics.risk_coverage(uncertainty, error)
    return _rounded(np.interp(GRID, curve.coverage, curve.risk))


def reliability_points(probability: ArrayLike, right: ArrayLike) -> dict[str, list[float]]:
    """Mean probability, accuracy and number of cases in each of 15 bins of equal width that holds any."""
    curve = metrics.reliability(probability, right, bins=BINS)
    return {name: _rounded(getattr(curve, name)) for name in ("confidence", "accuracy", "count")}


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), DIGITS) for value in values]
