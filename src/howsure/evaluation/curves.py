"""Curves as a few points: enough to draw them, small enough to be kept with every result, and alike over seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from howsure import metrics
from howsure.metrics.thresholds import counts

__all__ = ["GRID", "Curves", "reliability_points", "risk_points", "roc_points"]

Curves = dict[str, dict[str, Any]]  # by kind, then by score: heights over GRID; reliability: its three columns

GRID = np.linspace(0, 1, 51)
DIGITS = 5
BINS = 15


def roc_points(known: ArrayLike, foreign: ArrayLike) -> list[float]:
    """The share of foreign pictures found, where GRID is the share of known ones that are taken for foreign.

    >>> roc_points([0.0, 1.0], [2.0, 3.0])[:3]
    [1.0, 1.0, 1.0]
    """
    score = np.concatenate([np.asarray(known), np.asarray(foreign)])
    c = counts(np.arange(len(score)) >= len(np.asarray(known)), score, names=("foreign", "score"))
    alarms, found = (np.append(0, n) / n[-1] for n in (c.negatives, c.positives))
    # Of several heights at one place the last: the curve has gone up there.
    last = np.append(np.diff(alarms) > 0, True)
    return _rounded(np.interp(GRID, alarms[last], found[last]))


def risk_points(doubt: ArrayLike, error: ArrayLike) -> list[float]:
    """The error among the surest share GRID of all; the first point is that of the surest one alone.

    >>> risk_points([0.1, 0.2], [False, True])[-1]
    0.5
    """
    curve = metrics.risk_coverage(doubt, error)
    return _rounded(np.interp(GRID, curve.coverage, curve.risk))


def reliability_points(probability: ArrayLike, right: ArrayLike) -> dict[str, list[float]]:
    """Mean probability, accuracy and number of cases in each of 15 bins of equal width that holds any."""
    curve = metrics.reliability(probability, right, bins=BINS)
    return {name: _rounded(getattr(curve, name)) for name in ("confidence", "accuracy", "count")}


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), DIGITS) for value in values]
