"""Conformal p-values: how unusual a score is among scores of pictures that are known to be usual."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from howsure.errors import InputError

__all__ = ["ConformalReference", "upper_p"]

FEW = 2**15  # windows that are sooner looked at than chosen from


@dataclass(frozen=True, eq=False)
class ConformalReference:
    """Scores of usual pictures, (n,) sorted, and how far each is from its k-th nearest other, (n,) sorted; k = √n.

    A score is unusual where usual ones are sparse: too large, too small, or between two heaps of them.
    """

    scores: np.ndarray
    gaps: np.ndarray
    nearest: int

    @classmethod
    def of(cls, scores: Tensor) -> ConformalReference:
        """From (n,) scores in any order."""
        if scores.ndim != 1 or len(scores) < 2:
            raise InputError("usual scores", expected="at least two, (n,)", got=str(tuple(scores.shape)))
        known, nearest = np.sort(_array(scores)), max(1, math.isqrt(len(scores)))
        # Each is its own nearest, so one more is asked for.
        gaps = _gap(known, known, min(nearest + 1, len(known)))
        return cls(known, np.sort(gaps), nearest)

    def p(self, score: Tensor) -> Tensor:
        """p = (1 + how many of the n usual have a gap as wide) / (n + 1) of each score.

        If a picture is exchangeable with the usual ones, P(p <= a) <= a for every a, whatever the score is: an alarm at
        p <= a is false at most that often, over the choice of the usual ones too. (Were the new score among them, their
        gaps could only be narrower, and p smaller.)

        >>> ConformalReference.of(torch.linspace(0, 1, 99)).p(torch.tensor([-5.0, 0.55, 9.0]))
        tensor([0.0100, 1.0000, 0.0100])
        """
        return torch.from_numpy(self.shares(_array(score))).to(score)

    def shares(self, score: np.ndarray) -> np.ndarray:
        """The same of an array: numpy takes a picture alone through its small arrays several times as fast."""
        count = len(self.gaps)
        narrower = self.gaps.searchsorted(_gap(score, self.scores, self.nearest))
        return (1 + count - narrower) / (count + 1)


def upper_p(score: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """p = (1 + how many of the n usual scores are as large) / (n + 1): for scores that only say "strange" upwards.

    >>> upper_p(np.array([0.0, 2.5, 9.0]), usual=np.array([3.0, 1.0, 2.0])).tolist()
    [1.0, 0.5, 0.25]
    """
    shares: np.ndarray = (1 + len(usual) - np.sort(usual).searchsorted(score)) / (len(usual) + 1)
    return shares


def _array(scores: Tensor) -> np.ndarray:
    return scores.detach().to("cpu", torch.float64).numpy()


def _gap(score: np.ndarray, known: np.ndarray, nearest: int) -> np.ndarray:
    """The distance from each score to the k-th nearest of the sorted ones: the best of k + 1 windows around it."""
    last = len(known) - nearest
    if len(score) * len(known) <= FEW:
        low, high = known[: last + 1], known[nearest - 1 :]  # the best of all windows is one of those
    else:
        first = known.searchsorted(score)[:, None] - nearest + np.arange(nearest + 1)
        first = np.minimum(np.maximum(first, 0), last)
        low, high = known[first], known[first + nearest - 1]
    return np.maximum(score[:, None] - low, high - score[:, None]).min(1)
