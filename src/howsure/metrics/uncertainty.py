"""Does uncertainty predict performance? Each number is large when it does.

Kendall's correlation compares bins of about equal size, from the most certain items to the least. Items of equal
uncertainty share a bin, so that no result depends on the order of the input; bins that stay empty are left out.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from howsure.errors import InputError
from howsure.metrics import checks
from howsure.metrics.checks import Floats, Ints
from howsure.metrics.detection import auroc, average_precision


def r_auroc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """P(a wrong answer is more uncertain than a correct one) + 1/2 P(equal); 0.5 is useless, 1 is best.

    For retrieval `correct` says whether the query's nearest neighbour, itself left out, has its label.

    >>> r_auroc([0.1, 0.3, 0.2, 0.4], [True, True, False, False])
    0.75
    """
    right, unsure = checks.both_classes("correct", correct), checks.scores("uncertainty", uncertainty)
    checks.same_length(uncertainty=unsure, correct=right)
    return auroc(~right, unsure)


def crop_test(uncertainty_full: ArrayLike, uncertainty_crop: ArrayLike) -> float:
    """P(a crop of a picture is more uncertain than the picture) + 1/2 P(equal), pair by pair; state the crop's size.

    >>> crop_test([0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 0.3, 0.1])
    0.625
    """
    full = checks.scores("uncertainty_full", uncertainty_full)
    crop = checks.scores("uncertainty_crop", uncertainty_crop)
    checks.same_length(uncertainty_full=full, uncertainty_crop=crop)
    return float(np.mean(crop > full) + 0.5 * np.mean(crop == full))


def kendall_over_bins(uncertainty: ArrayLike, performance: ArrayLike, *, bins: int = 20) -> float:
    """Kendall's tau-b between uncertainty and mean performance over bins; +1: performance falls in every next bin.

    `performance` is one finite number per item, large = good: for the accuracy of nearest neighbours 1 where they
    are right and 0 where they are wrong.

    >>> kendall_over_bins([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 0], bins=2)
    1.0
    """
    unsure, value = checks.scores("uncertainty", uncertainty), checks.scores("performance", performance)
    checks.same_length(uncertainty=unsure, performance=value)
    if not np.isfinite(value).all():
        raise InputError("performance", expected="finite numbers", got="infinity")
    return _kendall(unsure, bins, lambda rows: float(value[rows].mean()))


def kendall_over_bins_ap(uncertainty: ArrayLike, same: ArrayLike, similarity: ArrayLike, *, bins: int = 20) -> float:
    """The same over pairs, with the average precision of verification in each bin.

    `uncertainty` is the sum of those of the two items. The share of `same` pairs may differ from bin to bin, and
    average precision with it: draw the pairs without regard to uncertainty. Each bin needs pairs of both kinds.

    >>> kendall_over_bins_ap([1, 1, 2, 2], [True, False, True, False], [0.9, 0.1, 0.2, 0.8], bins=2)
    1.0
    """
    unsure, pair = checks.scores("uncertainty", uncertainty), checks.both_classes("same", same)
    value = checks.scores("similarity", similarity)
    checks.same_length(uncertainty=unsure, same=pair, similarity=value)

    def precision(rows: Ints) -> float:
        if pair[rows].all() or not pair[rows].any():
            got = f"a bin of {len(rows)} with only {'same' if pair[rows[0]] else 'different'} pairs"
            raise InputError("same", expected="pairs of both kinds in each bin", got=got, fix="use fewer bins")
        return average_precision(pair[rows], value[rows]).value

    return _kendall(unsure, bins, precision)


def _kendall(unsure: Floats, bins: int, performance: Callable[[Ints], float]) -> float:
    members = _members(unsure, bins)
    reached = np.array([performance(rows) for rows in members])
    step = np.sign(reached[:, None] - reached[None, :])  # (B, B): 1 where the more certain bin did better
    later = np.triu_indices(len(reached), 1)
    untied = np.count_nonzero(step[later])
    if not untied:
        got = f"{reached[0]:g} in all {len(reached)} bins"
        raise InputError("performance", expected="some that differs between bins", got=got)
    # tau-b; uncertainty itself never ties, one bin is always above the next
    return float(step[later].sum() / np.sqrt(untied * len(later[0])))


def _members(unsure: Floats, bins: int) -> list[Ints]:
    """The items of each bin, most certain bin first; by the mean rank of those with the same uncertainty."""
    if checks.positive_int("bins", bins) < 2 or bins > len(unsure):
        fix = "use fewer bins or more items"
        raise InputError("bins", expected=f"2 to {len(unsure)}, the number of items", got=str(bins), fix=fix)
    _, group, size = np.unique(unsure, return_inverse=True, return_counts=True)
    middle = np.cumsum(size) - size / 2  # of the group's ranks, in 0..N
    bin_of = np.floor(middle * bins / len(unsure)).astype(np.int64)[group]
    found = [np.flatnonzero(bin_of == which) for which in np.unique(bin_of)]
    if len(found) < 2:
        got = f"{len(size)} distinct value{'s' * (len(size) != 1)} in {len(unsure)} items"
        raise InputError("uncertainty", expected="values that fill two bins or more", got=got)
    return found
