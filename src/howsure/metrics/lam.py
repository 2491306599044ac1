"""Two metrics as the code of the Laplacian metric learner computes them, to stand beside its published numbers.

Neither is what its name says: see `ece` and `aurc` for that.
"""

import numpy as np
from numpy.typing import ArrayLike

from howsure.errors import InputError
from howsure.metrics import checks

BINS = 10
CUTS = 100


def lam_ece(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Calibration error over ten half-open bins: a confidence of exactly 1 is in none of them, and is left out.

    >>> lam_ece([0.75, 0.75, 1.0], [True, False, False])
    0.25
    """
    p, right = checks.probabilities("confidence", confidence), checks.flags("correct", correct)
    checks.same_length(confidence=p, correct=right)
    kept = p < 1
    if not kept.any():
        raise InputError("confidence", expected="one below 1", got="all of them 1, which this convention leaves out")
    p, right = p[kept], right[kept]
    row = np.floor(p * BINS).astype(int)
    gaps = np.bincount(row, weights=right, minlength=BINS) - np.bincount(row, weights=p, minlength=BINS)
    return float(np.abs(gaps).sum() / len(p))


def lam_ausc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Area under accuracy while the most uncertain are left out, one per cent after the other; at most 98/99.

    Of a hundred accuracies the last is dropped; the others are a trapezoid's, 1/99 apart.

    >>> round(lam_ausc(range(100), [True] * 100), 4)
    0.9899
    """
    unsure, right = checks.scores("uncertainty", uncertainty), checks.flags("correct", correct)
    checks.same_length(uncertainty=unsure, correct=right)
    ordered = right[np.argsort(-unsure, kind="stable")]
    accuracy = [ordered[len(ordered) * cut // CUTS :].mean() for cut in range(CUTS - 1)]
    return float(np.trapezoid(accuracy, dx=1 / (CUTS - 1)))
