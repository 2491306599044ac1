"""Detection: do scores tell positives from negatives? For OOD: positive = OOD, score = uncertainty."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from howsure.metrics import checks
from howsure.metrics.checks import Floats
from howsure.metrics.thresholds import Counts, counts


@dataclass(frozen=True)
class AveragePrecision:
    """Average precision, with the share of positives: what random scores would reach."""

    value: float
    base_rate: float


@dataclass(frozen=True)
class Auprc:
    """Trapezoid area under the precision-recall curve, with the share of positives."""

    value: float
    base_rate: float


def auroc(positive: ArrayLike, score: ArrayLike) -> float:
    """P(score of a positive > score of a negative) + 1/2 P(equal).

    >>> auroc([True, True, False, False], [3, 2, 2, 1])
    0.875
    """
    c = counts(positive, score, names=("positive", "score"))
    added_positives, added_negatives = np.diff(c.positives, prepend=0), np.diff(c.negatives, prepend=0)
    wins = np.sum(added_negatives * (c.positives - 0.5 * added_positives))
    return float(wins / (float(c.positives[-1]) * float(c.negatives[-1])))


def average_precision(positive: ArrayLike, score: ArrayLike) -> AveragePrecision:
    """Average precision as a step sum over distinct thresholds, highest first: `sum_n (R_n - R_{n-1}) P_n`.

    >>> average_precision([True, False, True, False], [4, 3, 2, 1])
    AveragePrecision(value=0.8333333333333333, base_rate=0.5)
    """
    recall, precision, base_rate = _precision_recall(counts(positive, score, names=("positive", "score")))
    return AveragePrecision(float(np.sum(np.diff(recall, prepend=0.0) * precision)), base_rate)


def auprc_trapezoid(positive: ArrayLike, score: ArrayLike) -> Auprc:
    """Area under the linearly interpolated precision-recall curve that starts at recall 0, precision 1.

    Some papers print this as AUPRC. It is not the average precision: no classifier lives on those lines.

    >>> auprc_trapezoid([True, False, True, False], [4, 3, 2, 1])
    Auprc(value=0.7916666666666666, base_rate=0.5)
    """
    recall, precision, base_rate = _precision_recall(counts(positive, score, names=("positive", "score")))
    recall, precision = np.append(0.0, recall), np.append(1.0, precision)
    return Auprc(float(np.sum(np.diff(recall) * (precision[1:] + precision[:-1]) / 2)), base_rate)


def _precision_recall(c: Counts) -> tuple[Floats, Floats, float]:
    """Recall and precision at every threshold, and the base rate."""
    above = c.positives + c.negatives
    return c.positives / c.positives[-1], c.positives / above, float(c.positives[-1] / above[-1])


def fpr_at_tpr(ood: ArrayLike, uncertainty: ArrayLike, tpr: float = 0.95) -> float:
    """Share of `ood` items accepted when `tpr` of the others are; 0 is best. FPR95 by default.

    The threshold t is the smallest uncertainty such that at least `tpr` of the known items have uncertainty <= t; an
    observed value, not an interpolated percentile. The result is the share of `ood` items with uncertainty <= t.

    >>> fpr_at_tpr([False, False, True, True], [1, 2, 2, 3], tpr=1.0)
    0.5
    """
    is_ood, value = checks.both_classes("ood", ood), checks.scores("uncertainty", uncertainty)
    checks.same_length(ood=is_ood, uncertainty=value)
    known = np.sort(value[~is_ood])
    # shares n/N are compared as such: tpr * N can round to just above a whole number
    shares = np.arange(1, len(known) + 1) / len(known)
    threshold = known[np.searchsorted(shares, checks.fraction("tpr", tpr, zero=False))]
    return float(np.mean(value[is_ood] <= threshold))
