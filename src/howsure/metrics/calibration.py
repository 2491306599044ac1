"""Calibration: does an event with probability p happen in a share p of the cases?

State what is predicted, the number of bins and how they are cut. ECE alone is gamed by a constant: print `brier` and
`nll` beside it.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from howsure.metrics import checks
from howsure.metrics.checks import Bools, Floats, Ints

Binning: TypeAlias = Literal["equal_width", "equal_mass"]


@dataclass(frozen=True, eq=False)
class Reliability:
    """Mean confidence, accuracy and number of items of each bin that holds any, in rising order."""

    confidence: Floats
    accuracy: Floats
    count: Ints


def reliability(
    confidence: ArrayLike, correct: ArrayLike, *, bins: int = 15, binning: Binning = "equal_width"
) -> Reliability:
    """The reliability diagram; empty bins are left out.

    `equal_width`: bins [b/B, (b+1)/B), the last one closed, so that a confidence of 1 counts. `equal_mass`: bins of N/B
    items each; equal confidences stay together in the bin of the first of them, which can empty a bin.

    >>> reliability([0.1, 0.3, 0.9, 1.0], [False, True, True, True], bins=2)
    Reliability(confidence=array([0.2 , 0.95]), accuracy=array([0.5, 1. ]), count=array([2, 2]))
    """
    p, hit = _checked(confidence, correct, names=("confidence", "correct"))
    bins = checks.positive_int("bins", bins)
    checks.choice("binning", binning, Binning)
    if binning == "equal_width":
        # edges as quotients: 58/100 is exactly the float 0.58, while 0.58 * 100 is below 58
        which = np.searchsorted(np.arange(1, bins) / bins, p, side="right")
    else:
        which = np.searchsorted(np.sort(p), p, side="left") * bins // len(p)
    _, group, count = np.unique(which, return_inverse=True, return_counts=True)
    mean, accuracy = np.bincount(group, weights=p) / count, np.bincount(group, weights=hit) / count
    return Reliability(mean, accuracy, count.astype(np.int64))


def ece(confidence: ArrayLike, correct: ArrayLike, *, bins: int = 15, binning: Binning = "equal_width") -> float:
    """Expected calibration error: `sum_b (n_b / N) |accuracy_b - mean confidence_b|`, bins as in `reliability`.

    >>> ece([1.0, 1.0, 1.0, 1.0], [True, True, True, False])
    0.25
    """
    r = reliability(confidence, correct, bins=bins, binning=binning)
    return float(np.sum(r.count * np.abs(r.accuracy - r.confidence)) / r.count.sum())


def brier(probability: ArrayLike, outcome: ArrayLike) -> float:
    """Brier score of an event: `mean (p - y)^2`; 0 is best, a constant 1/2 has 1/4.

    >>> brier([1.0, 0.5], [True, False])
    0.125
    """
    p, y = _checked(probability, outcome, names=("probability", "outcome"))
    return float(np.mean((p - y) ** 2))


def nll(probability: ArrayLike, outcome: ArrayLike) -> float:
    """Negative log-likelihood of an event, in nats: `-mean log p(y)`; 0 is best.

    Nothing is clipped: one outcome that was given probability 0 makes it infinite.

    >>> round(nll([0.5, 0.5], [True, False]), 4)
    0.6931
    """
    p, y = _checked(probability, outcome, names=("probability", "outcome"))
    with np.errstate(divide="ignore"):  # log 0 is the documented infinity
        return float(-np.mean(np.log(np.where(y, p, 1.0 - p))))


def _checked(probability: ArrayLike, outcome: ArrayLike, *, names: tuple[str, str]) -> tuple[Floats, Bools]:
    p, y = checks.probabilities(names[0], probability), checks.flags(names[1], outcome)
    checks.same_length(**dict(zip(names, (p, y), strict=True)))
    return p, y
