"""Thresholds with a proved error rate: exact binomial tests in a fixed sequence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, binom


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

    Every start brings its share of 1 - confidence. The walk goes up from the first one while
    P(Binomial(accepted, max_error) <= errors) is at most what it carries. Where it meets another start it takes that
    share along; where it fails it drops all that it carries, and begins anew at the next one.

    So one confidence covers all thresholds (the fallback procedure): before the first threshold that is accepted though
    its error is too large, the walk failed at every other such one. It can carry no more than the shares of the starts
    in between, so no share is at risk twice. Neither grid nor starts may depend on these items. None if nothing passes.
    """
    accepted, errors = _accepted(np.asarray(uncertainty, float), np.asarray(error, bool), np.asarray(grid, float))
    p = np.where(accepted > 0, binom.cdf(errors, accepted, max_error), 1.0)
    share, level, best = (1 - confidence) / len({*starts}), 0.0, None
    for position in range(len(p)):
        level += share if position in starts else 0.0
        if level and p[position] <= level:
            best = position, level
        else:
            level = 0.0
    if best is None:
        return None
    n, k = int(accepted[best[0]]), int(errors[best[0]])
    bound = float(beta.ppf(1 - best[1], k + 1, n - k)) if k < n else 1.0
    return Certified(float(grid[best[0]]), n, k, bound)


def widest_threshold(
    uncertainty: np.ndarray,
    error: np.ndarray,
    *,
    fit: np.ndarray,
    test: np.ndarray,
    max_error: float,
    confidence: float,
) -> Certified | None:
    """`certify` on the items `test`; the items `fit` fix thresholds, and where walks start."""
    plan = _plan(uncertainty, error, fit=fit, test=test, max_error=max_error)
    # Where the clearest proof is expected, where it is if the fitting items were lucky, and half-way to it.
    clearest, cautious = int(np.argmin(plan.log_p)), int(np.argmin(plan.log_p_unlucky))
    starts = [clearest, cautious, int(np.searchsorted(plan.accepted, plan.accepted[clearest] / 2))]
    return certify(uncertainty[test], error[test], plan.grid, max_error=max_error, confidence=confidence, starts=starts)


def expected_share(
    uncertainty: np.ndarray,
    error: np.ndarray,
    *,
    fit: np.ndarray,
    test: np.ndarray,
    max_error: float,
    confidence: float,
) -> float:
    """The share of the items `fit` below the widest threshold that would be proved, were the items `test` like them.

    It looks at no item of `test`, so one rule may be preferred to another before anything is tested.
    """
    plan = _plan(uncertainty, error, fit=fit, test=test, max_error=max_error)
    hopeful = plan.accepted[plan.log_p <= math.log(1 - confidence)]
    return float(hopeful[-1] / len(fit)) if len(hopeful) else 0.0


@dataclass(frozen=True, eq=False)
class _Plan:
    """Thresholds, how many of the fitting items each accepts, and the p-value to expect."""

    grid: np.ndarray
    accepted: np.ndarray
    log_p: np.ndarray
    log_p_unlucky: np.ndarray  # with as many errors more as chance may have spared


def _plan(uncertainty: np.ndarray, error: np.ndarray, *, fit: np.ndarray, test: np.ndarray, max_error: float) -> _Plan:
    grid = np.unique(np.quantile(uncertainty[fit], np.arange(1, 51) / 50))
    accepted, errors = _accepted(uncertainty[fit], error[fit], grid)
    share, seen = len(test) / len(fit), errors + 0.5
    count = np.maximum(accepted * share, 1).astype(int)
    log_p = (binom.logcdf(wrong * share, count, max_error) for wrong in (seen, seen + np.sqrt(seen)))
    return _Plan(grid, accepted, *log_p)


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
