"""What every threshold curve is made of: how many items lie at or above each distinct score."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from howsure.metrics.checks import Floats, Ints, both_classes, same_length, scores


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts at T distinct thresholds, highest first: items with score >= threshold, by class.

    Items with equal scores pass together, so nothing computed from the counts depends on the order of the input.
    """

    threshold: Floats  # (T,)
    positives: Ints  # (T,)
    negatives: Ints  # (T,)


def counts(positive: ArrayLike, score: ArrayLike, *, names: tuple[str, str]) -> Counts:
    """Count both classes at every distinct score; `names` are the caller's argument names, for messages."""
    is_positive, value = both_classes(names[0], positive), scores(names[1], score)
    same_length(**dict(zip(names, (is_positive, value), strict=True)))
    order = np.argsort(-value, kind="stable")
    value, is_positive = value[order], is_positive[order]
    # != instead of a difference: inf - inf is NaN
    last = np.flatnonzero(np.append(value[1:] != value[:-1], True))
    positives = np.cumsum(is_positive, dtype=np.int64)[last]
    return Counts(value[last], positives, last.astype(np.int64) + 1 - positives)
