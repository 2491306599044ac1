"""Verification: do pairs of the same identity score higher than pairs of different ones?

Every function takes one flag and one similarity (or match probability) per pair. TAR is the share of `same` pairs
that are accepted (similarity >= threshold), FAR the share of different pairs that are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from howsure.metrics import checks
from howsure.metrics.checks import Floats
from howsure.metrics.detection import AveragePrecision, average_precision
from howsure.metrics.thresholds import counts


@dataclass(frozen=True, eq=False)
class RocCurve:
    """False and true accept rates at falling thresholds: from (0, 0) at infinity to (1, 1) at the lowest similarity."""

    far: Floats
    tar: Floats
    threshold: Floats


def verification_ap(same: ArrayLike, similarity: ArrayLike) -> AveragePrecision:
    """Average precision of finding the `same` pairs. Its base rate is the share of `same` pairs: state both.

    >>> verification_ap([True, True, False, False], [0.9, 0.8, 0.3, 0.1])
    AveragePrecision(value=1.0, base_rate=0.5)
    """
    pair, value = checks.both_classes("same", same), checks.scores("similarity", similarity)
    checks.same_length(same=pair, similarity=value)
    return average_precision(pair, value)


def roc_curve(same: ArrayLike, similarity: ArrayLike) -> RocCurve:
    """One point per distinct similarity; pairs with equal similarity are accepted together.

    >>> curve = roc_curve([True, False, True], [0.9, 0.5, 0.5])
    >>> curve.far.tolist(), curve.tar.tolist(), curve.threshold.tolist()
    ([0.0, 0.0, 1.0], [0.0, 0.5, 1.0], [inf, 0.9, 0.5])
    """
    c = counts(same, similarity, names=("same", "similarity"))
    far, tar = c.negatives / c.negatives[-1], c.positives / c.positives[-1]
    return RocCurve(np.append(0.0, far), np.append(0.0, tar), np.append(np.inf, c.threshold))


def tar_at_far(same: ArrayLike, similarity: ArrayLike, far: float) -> float:
    """The highest TAR among thresholds with FAR <= `far`; nothing is interpolated.

    With fewer than 1/`far` different pairs this is the TAR without any false accept.

    >>> tar_at_far([True, True, False, False], [0.9, 0.4, 0.5, 0.1], far=0.1)
    0.5
    """
    limit = checks.fraction("far", far, zero=True)
    curve = roc_curve(same, similarity)
    return float(curve.tar[curve.far <= limit].max())


def equal_error_rate(same: ArrayLike, similarity: ArrayLike) -> float:
    """The error rate where FAR = 1 - TAR, on the ROC curve with straight lines between its points; 0 is best.

    >>> equal_error_rate([True, True, False, False], [0.9, 0.4, 0.5, 0.1])
    0.5
    """
    curve = roc_curve(same, similarity)
    return float(np.interp(0.0, curve.far + curve.tar - 1.0, curve.far))
