"""Thresholds with a proved error rate: exact binomial tests in a fixed sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, binom

QUANTILES, EVEN = 200, 1_000  # thresholds of a grid: at quantiles of the fitting scores, and evenly over their range
STEP = 0.02  # of the items come in between two thresholds that are tested
SHARES = (0.75, 0.15, 0.1)  # of the risk: at twice the least count that can pass, twice that, and half of all items
LEAST_SHARE = 1 / 16  # of the items at the first start: the very surest of many may be outliers
ROOM = 0.9  # of the items at most are needed at the first start


@dataclass(frozen=True)
class Certified:
    """The widest threshold whose error rate is proved small enough."""

    threshold: float
    accepted: int
    errors: int
    error_bound: float


@dataclass(frozen=True, eq=False)
class FalseMatches:
    """A second promise on the same thresholds: of the unknown items at most a share `at_most` is accepted."""

    unknown: np.ndarray  # (n,) bool
    at_most: float


def certify(
    uncertainty: np.ndarray, error: np.ndarray, grid: np.ndarray, *, max_error: float, starts: Mapping[int, float]
) -> Certified | None:
    """The largest threshold t of `grid` such that, among items with uncertainty <= t, errors are at most `max_error`.

    `starts` are positions in the grid, each with the risk it brings; together they are 1 - confidence. The walk goes up
    from the first one while P(Binomial(accepted, max_error) <= errors) is at most what it carries. Where it meets
    another start it takes that share along; where it fails it drops all that it carries, and begins anew at the next.

    So one confidence covers all thresholds (the fallback procedure): before the first threshold that is accepted though
    its error is too large, the walk failed at every other such one. It can carry no more than the shares of the starts
    in between, so no share is at risk twice. The grid must not depend on these items. None if nothing passes.
    """
    accepted, errors = _accepted(np.asarray(uncertainty, float), np.asarray(error, bool), np.asarray(grid, float))
    levels = _levels(np.where(accepted > 0, binom.cdf(errors, accepted, max_error), 1.0), starts)
    return _widest(grid, accepted, errors, levels)


def widest_threshold(
    uncertainty: np.ndarray,
    error: np.ndarray,
    grid: np.ndarray,
    *,
    max_error: float,
    confidence: float,
    false_matches: FalseMatches | None = None,
    cap: float = np.inf,
) -> Certified | None:
    """`certify` with starts by how many items a threshold accepts, whatever their errors.

    Of the grid, thresholds are tested between which a share `STEP` of the items lies. With `false_matches` the risk is
    halved, and a threshold must be proved in both respects; the share of accepted unknowns only grows with it, so its
    walk begins at the first one. Of those that are proved, all at once, the widest up to `cap` is taken, or the
    narrowest beyond it; so the cap may be chosen after looking.
    """
    unsure, wrong = np.asarray(uncertainty, float), np.asarray(error, bool)
    grid = _spaced(unsure, np.asarray(grid, float))
    accepted, errors = _accepted(unsure, wrong, grid)
    risk = (1 - confidence) / (1 if false_matches is None else 2)
    starts = _starts(accepted, len(unsure), max_error=max_error, risk=risk)
    levels = _levels(np.where(accepted > 0, binom.cdf(errors, accepted, max_error), 1.0), starts)
    if false_matches is not None:
        unknown = false_matches.unknown
        let_in = _accepted(unsure[unknown], np.ones(int(unknown.sum()), bool), grid)[0]
        few = _levels(binom.cdf(let_in, unknown.sum(), false_matches.at_most), {0: risk})
        levels = np.where(few > 0, levels, 0.0)
    return _widest(grid, accepted, errors, levels, cap=cap)


def grid_of(uncertainty: np.ndarray) -> np.ndarray:
    """Thresholds from scores that fitted: at their quantiles, and evenly over three times their range.

    Evenly too, and beyond, because the items that test may score otherwise than those that fitted.
    """
    low, high = float(uncertainty.min()), float(uncertainty.max())
    quantiles = np.quantile(uncertainty, np.arange(1, QUANTILES + 1) / QUANTILES)
    return np.unique([*quantiles, *np.linspace(2 * low - high, 2 * high - low, EVEN)])


def least_count(max_error: float, confidence: float) -> int:
    """How many answers without a single error it takes to prove the error rate.

    >>> least_count(0.05, 0.95), least_count(0.01, 0.95)
    (59, 299)
    """
    return math.ceil(math.log(1 - confidence) / math.log(1 - max_error))


def upper_bound(events: int, n: int, *, risk: float) -> float:
    """The Clopper-Pearson bound on a rate, after `events` in `n` cases, that is too low with probability `risk`.

    >>> round(upper_bound(0, 59, risk=0.05), 4), upper_bound(0, 0, risk=0.05)
    (0.0495, 1.0)
    """
    return float(beta.ppf(1 - risk, events + 1, n - events)) if events < n else 1.0


def _spaced(uncertainty: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The first threshold of every `STEP` of the items."""
    counts = np.searchsorted(np.sort(uncertainty), grid, side="right")
    steps = np.floor(counts / max(1.0, STEP * len(uncertainty)))
    first = np.flatnonzero(np.diff(steps, prepend=0) > 0)
    return grid[first] if len(first) else grid[-1:]


def _starts(accepted: np.ndarray, n: int, *, max_error: float, risk: float) -> dict[int, float]:
    first = min(max(2 * least_count(max_error, 1 - risk), LEAST_SHARE * n), ROOM * n)
    starts: dict[int, float] = {}
    for count, share in zip((first, min(2 * first, ROOM * n), max(first, n / 2)), SHARES, strict=True):
        position = min(int(np.searchsorted(accepted, count)), len(accepted) - 1)
        starts[position] = starts.get(position, 0.0) + share * risk
    return starts


def _levels(p: np.ndarray, starts: Mapping[int, float]) -> np.ndarray:
    """(G,) the risk at which each threshold passed; 0 where it did not."""
    level, passed = 0.0, np.zeros(len(p))
    for position in range(len(p)):
        level += starts.get(position, 0.0)
        level = level if p[position] <= level else 0.0
        passed[position] = level
    return passed


def _widest(
    grid: np.ndarray, accepted: np.ndarray, errors: np.ndarray, levels: np.ndarray, *, cap: float = np.inf
) -> Certified | None:
    passed = np.flatnonzero(levels)
    if not len(passed):
        return None
    within = passed[grid[passed] <= cap]
    best = within[-1] if len(within) else passed[0]
    n, k = int(accepted[best]), int(errors[best])
    return Certified(float(grid[best]), n, k, upper_bound(k, n, risk=float(levels[best])))


def _accepted(uncertainty: np.ndarray, error: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many items each threshold accepts, and how many of them are errors."""
    order = np.argsort(uncertainty, kind="stable")
    accepted = np.searchsorted(uncertainty[order], grid, side="right")
    return accepted, np.concatenate([[0], np.cumsum(error[order])])[accepted]
