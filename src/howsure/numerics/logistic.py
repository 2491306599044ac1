"""Logistic regression with coefficients that cannot change sign: convex, regularised, a handful of parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from howsure.errors import CalibrationError, InputError


@dataclass(frozen=True)
class Logistic:
    """P(outcome) = sigmoid(offset + coefficients · features)."""

    coefficients: tuple[float, ...]
    offset: float

    def log_odds(self, features: np.ndarray) -> np.ndarray:
        """(n, p) features to (n,) log-odds."""
        return np.asarray(features, float) @ np.asarray(self.coefficients) + self.offset

    def probability(self, features: np.ndarray) -> np.ndarray:
        """(n, p) features to (n,) probabilities."""
        return expit(self.log_odds(features))

    def rescaled(self, slope: float, shift: float) -> Logistic:
        """With log-odds of slope times these, plus shift."""
        return Logistic(tuple(slope * c for c in self.coefficients), slope * self.offset + shift)


def fit_logistic(features: np.ndarray, outcome: np.ndarray, *, prior_scale: float = 10.0) -> Logistic:
    """Minimise the negative log-likelihood plus |c|²/(2 prior_scale²), every coefficient c >= 0.

    Coefficients are penalised in units of each feature's standard deviation, so scaling a feature changes nothing. The
    offset is free. Orient features so that larger means likelier; one that points the other way gets coefficient 0.
    """
    x, y = np.asarray(features, float), np.asarray(outcome, float)
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise InputError("features and outcome", expected="(n, p) and (n,)", got=f"{x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isin(y, (0, 1)).all()):
        raise InputError("features and outcome", expected="finite numbers and 0 or 1", got="something else")
    if len(np.unique(y)) < 2:
        raise CalibrationError(
            "outcome",
            expected="both kinds of outcome",
            got=f"{len(y)} examples, all {bool(y[0]) if len(y) else 'missing'}",
            fix="add held-out examples of the other kind",
        )
    centre, scale = x.mean(0), x.std(0)
    scale[scale < 1e-12 * (1 + np.abs(centre))] = np.inf  # a constant feature says nothing
    z = np.column_stack([(x - centre) / scale, np.ones(len(x))])
    ridge = np.append(np.full(x.shape[1], prior_scale**-2), 0.0)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        t = z @ w
        gradient = z.T @ (expit(t) - y) + ridge * w
        return float(np.logaddexp(0, t).sum() - y @ t + ridge @ w**2 / 2), gradient

    rate = y.mean()
    start = np.append(np.zeros(x.shape[1]), np.log(rate / (1 - rate)))
    bounds = [(0, None)] * x.shape[1] + [(None, None)]
    best = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-8}
    )
    coefficients = best.x[:-1] / scale
    return Logistic(tuple(map(float, coefficients)), float(best.x[-1] - coefficients @ centre))
