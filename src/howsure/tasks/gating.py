"""Ask the expensive model only where the cheap one is uncertain: accuracy against cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from howsure.errors import InputError
from howsure.metrics import checks


@dataclass(frozen=True, eq=False)
class GateCurve:
    """Accuracy when the most uncertain share of all items goes to the expensive model, from none to all of them."""

    share: np.ndarray  # (N + 1,) of items that the expensive model sees
    accuracy: np.ndarray  # (N + 1,)

    def at(self, share: float) -> float:
        """Accuracy at that share, interpolated."""
        return float(np.interp(share, self.share, self.accuracy))

    @property
    def gain(self) -> float:
        """Mean height above asking at random, which goes straight from one model to the other; large is good."""
        straight = self.accuracy[0] + self.share * (self.accuracy[-1] - self.accuracy[0])
        return float(np.trapezoid(self.accuracy - straight, self.share))


def gate_curve(uncertainty: ArrayLike, cheap_right: ArrayLike, expensive_right: ArrayLike) -> GateCurve:
    """Accuracy when the more uncertain items are asked first; items of equal uncertainty share their mean.

    >>> gate_curve([0.1, 0.9], [True, False], [True, True]).accuracy
    array([0.5, 1. , 1. ])
    """
    unsure = checks.scores("uncertainty", uncertainty)
    cheap, expensive = checks.flags("cheap_right", cheap_right), checks.flags("expensive_right", expensive_right)
    checks.same_length(uncertainty=unsure, cheap_right=cheap, expensive_right=expensive)
    change = expensive.astype(float) - cheap
    _, group, size = np.unique(-unsure, return_inverse=True, return_counts=True)  # the most uncertain first
    gained = np.cumsum(np.repeat(np.bincount(group, weights=change) / size, size))
    count = len(unsure)
    return GateCurve(np.arange(count + 1) / count, (cheap.sum() + np.append(0, gained)) / count)


def gate_for(uncertainty: ArrayLike, *, share: float) -> float:
    """The uncertainty above which at most this share of items like these goes to the expensive model.

    With a budget b for an item, and costs c of the cheap model and e of the expensive one, the share is (b - c) / e:
    the cheap one sees everything.

    >>> gate_for([0.1, 0.4, 0.2, 0.3], share=0.5)
    0.2
    """
    unsure = np.sort(checks.scores("uncertainty", uncertainty))
    if not 0 <= share <= 1:
        raise InputError("share", expected="a number from 0 to 1", got=str(share))
    allowed = int(np.floor(share * len(unsure) + 1e-9))
    return float(unsure[-allowed - 1]) if allowed < len(unsure) else -np.inf
