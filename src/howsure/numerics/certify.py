"""Thresholds with a proved error rate: exact binomial tests in a fixed sequence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, binom

__all__ = ["Certified", "certify", "foreseen_p", "least_count", "widest_threshold"]


@dataclass(frozen=True)
class Certified:
    """The widest threshold whose error rate is proved small enough."""

    threshold: float
    accepted: int
    errors: int
    error_bound: float


def certify(
    uncertainty: np.ndarray,
    error: np.ndarray,
    grid: np.ndarray,
    *,
    max_error: float,
    confidence: float,
    starts: Sequence[int] = (0,),
) -> Certified | None:
    """The largest threshold t of `grid` such that, among items with uncertainty <= t, errors are at most `max_error`.

    From each start the walk goes up while P(Binomial(accepted, max_error) <= errors) is at most its share of
    1 - confidence, and ends at the first failure; so one confidence covers all thresholds and starts together. Neither
    grid nor starts may depend on these items. None if every walk fails at once.
    """
    accepted, errors = _accepted(np.asarray(uncertainty, float), np.asarray(error, bool), np.asarray(grid, float))
    level = (1 - confidence) / len({*starts})
    passes = (accepted > 0) & (binom.cdf(errors, accepted, max_error) <= level)
    ends = [start + int(np.argmin(np.append(passes[start:], False))) - 1 for start in starts if passes[start]]
    if not ends:
        return None
    n, k = int(accepted[max(ends)]), int(errors[max(ends)])
    bound = float(beta.ppf(1 - level, k + 1, n - k)) if k < n else 1.0
    return Certified(float(grid[max(ends)]), n, k, bound)


def widest_threshold(
    uncertainty: np.ndarray,
    error: np.ndarray,
    *,
    fit: np.ndarray,
    test: np.ndarray,
    max_error: float,
    confidence: float,
    ceiling: float = math.inf,
) -> Certified | None:
    """`certify` on the items `test`; the items `fit` fix where walks start, and thresholds, none above `ceiling`."""
    plan = _plan(uncertainty, error, fit=fit, test=test, max_error=max_error, ceiling=ceiling)
    if plan is None:
        return None
    grid, accepted, log_p = plan
    # Where the clearest proof is foreseen; and half-way, in case the fitting items were lucky.
    starts = [int(np.argmin(log_p)), int(np.searchsorted(accepted, accepted[-1] / 2))]
    return certify(uncertainty[test], error[test], grid, max_error=max_error, confidence=confidence, starts=starts)


def foreseen_p(
    uncertainty: np.ndarray,
    error: np.ndarray,
    *,
    fit: np.ndarray,
    test: np.ndarray,
    max_error: float,
    ceiling: float = math.inf,
) -> float:
    """The p-value of the clearest proof that the items `fit` foresee; 1 if there is no threshold at all.

    It looks at no item of `test`, so a rule that has no hope may be left out before anything is tested.
    """
    plan = _plan(uncertainty, error, fit=fit, test=test, max_error=max_error, ceiling=ceiling)
    return 1.0 if plan is None else float(np.exp(plan[2].min()))


def _plan(
    uncertainty: np.ndarray, error: np.ndarray, *, fit: np.ndarray, test: np.ndarray, max_error: float, ceiling: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Thresholds, how many items of `fit` each accepts, and the log p-value it should have among the items `test`."""
    low = uncertainty[fit][uncertainty[fit] <= ceiling]
    if not len(low):
        return None
    grid = np.unique(np.append(np.quantile(low, np.arange(0.02, 1, 0.02)), min(ceiling, low.max())))
    accepted, errors = _accepted(uncertainty[fit], error[fit], grid)
    share = len(test) / len(fit)
    return grid, accepted, binom.logcdf((errors + 0.5) * share, np.maximum(accepted * share, 1).astype(int), max_error)


def least_count(max_error: float, confidence: float) -> int:
    """How many answers without a single error it takes to prove the error rate.

    >>> least_count(0.05, 0.95), least_count(0.01, 0.95)
    (59, 299)
    """
    return math.ceil(math.log(1 - confidence) / math.log(1 - max_error))


def _accepted(uncertainty: np.ndarray, error: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many items each threshold accepts, and how many of them are errors."""
    order = np.argsort(uncertainty, kind="stable")
    accepted = np.searchsorted(uncertainty[order], grid, side="right")
    return accepted, np.concatenate([[0], np.cumsum(error[order])])[accepted]
