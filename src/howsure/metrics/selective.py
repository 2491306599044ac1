"""Selective prediction: does the error fall when the uncertain items are left out?

Items are answered from the most certain to the least. Items of equal uncertainty are taken in random order and the
expected risk is reported: each counts with the mean error of its group. So no result depends on the order of the input,
and a constant uncertainty has the plain error rate at every coverage.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from howsure.errors import InputError
from howsure.metrics import checks
from howsure.metrics.checks import Floats


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Mean error (`risk`) among the n most certain of N items, at `coverage` n/N for n = 1..N."""

    coverage: Floats  # (N,)
    risk: Floats  # (N,)


def risk_coverage(uncertainty: ArrayLike, error: ArrayLike) -> RiskCoverage:
    """The risk-coverage curve. `error` is 0/1 (wrong or not) or any finite loss per item.

    >>> risk_coverage([0.1, 0.2, 0.3], [0, 1, 1]).risk.round(3).tolist()
    [0.0, 0.5, 0.667]
    >>> risk_coverage([0.1, 0.2, 0.2], [0, 1, 0]).risk.round(3).tolist()
    [0.0, 0.25, 0.333]
    """
    unsure, loss = _checked(uncertainty, error)
    # np.unique sorts: group 0 holds the most certain items
    _, group, size = np.unique(unsure, return_inverse=True, return_counts=True)
    expected = np.repeat(np.bincount(group, weights=loss) / size, size)
    n = np.arange(1, len(loss) + 1)
    return RiskCoverage(n / len(loss), np.cumsum(expected) / n)


def aurc(uncertainty: ArrayLike, error: ArrayLike) -> float:
    """Area under the risk-coverage curve: the mean of its N risks; small is good.

    >>> aurc([0.1, 0.2], [0, 1]), aurc([0.2, 0.1], [0, 1])
    (0.25, 0.75)
    """
    return float(risk_coverage(uncertainty, error).risk.mean())


def augrc(uncertainty: ArrayLike, error: ArrayLike) -> float:
    """Area under the generalised risk-coverage curve; small is good.

    The share of all items that are answered and wrong, its mean over thresholds. Each item is a threshold, and those of
    equal uncertainty are half answered there:

        (1 - R) a (1 - a) + (1 - a)²/2        for accuracy a and R-AUROC R

    So a wrong answer counts as much at any coverage; AURC gives most weight to the few that are surest. (Traub et al.,
    2024)

    >>> augrc([0.1, 0.2], [0, 1]), augrc([0.2, 0.1], [0, 1])
    (0.125, 0.375)
    """
    unsure, loss = _checked(uncertainty, error)
    _, group, size = np.unique(unsure, return_inverse=True, return_counts=True)
    answered = 1 - (np.cumsum(size) - size / 2) / len(loss)  # how often an item of each group is, over thresholds
    return float((loss * answered[group]).mean())


def e_aurc(uncertainty: ArrayLike, error: ArrayLike) -> float:
    """Excess AURC: `aurc` minus that of the oracle, which leaves out the largest errors first; 0 is best.

    >>> e_aurc([0.1, 0.2], [0, 1]), e_aurc([0.2, 0.1], [0, 1])
    (0.0, 0.5)
    """
    return aurc(uncertainty, error) - aurc(error, error)


def accuracy_at_coverage(uncertainty: ArrayLike, correct: ArrayLike, coverage: float) -> float:
    """Accuracy of the ceil(`coverage` N) most certain items.

    >>> accuracy_at_coverage([0.1, 0.2, 0.3, 0.4], [True, True, True, False], 0.75)
    1.0
    """
    wanted = checks.fraction("coverage", coverage, zero=False)
    curve = risk_coverage(uncertainty, ~checks.flags("correct", correct))
    # the smallest n with n/N >= coverage; ceil(coverage * N) would trip over 0.55 * 100 = 55.000...01
    return float(1.0 - curve.risk[np.searchsorted(curve.coverage, wanted)])


def _checked(uncertainty: ArrayLike, error: ArrayLike) -> tuple[Floats, Floats]:
    unsure, loss = checks.scores("uncertainty", uncertainty), checks.scores("error", error)
    checks.same_length(uncertainty=unsure, error=loss)
    if not np.isfinite(loss).all():
        raise InputError("error", expected="finite numbers", got="infinity")
    return unsure, loss
