"""Conformal p-values: how extreme a score is among reference scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from howsure.errors import InputError


@dataclass(frozen=True, eq=False)
class ConformalReference:
    """Reference scores, (n,) sorted, and how far each is from its k-th nearest other, (n,) sorted; k = √n.

    A score is extreme where reference scores are sparse: too large, too small, or between two modes.
    """

    scores: np.ndarray
    gaps: np.ndarray
    nearest: int

    @classmethod
    def fit(cls, scores: np.ndarray) -> ConformalReference:
        """From (n,) scores in any order."""
        if scores.ndim != 1 or len(scores) < 2:
            raise InputError("reference scores", expected="at least two, (n,)", got=str(scores.shape))
        known, nearest = np.sort(scores), max(1, math.isqrt(len(scores)))
        # Each is its own nearest, so one more is asked for.
        gaps = _gap(known, known, min(nearest + 1, len(known)))
        return cls(known, np.sort(gaps), nearest)

    def p(self, score: np.ndarray) -> np.ndarray:
        """p = (1 + how many of the n references have a gap as wide) / (n + 1) of each score.

        If a picture is exchangeable with the reference, P(p <= a) <= a for every a, whatever the score is: an alarm at
        p <= a is false at most that often, over the choice of the reference too. (Were the new score among them, their
        gaps could only be narrower, and p smaller.) That is proved for every a from 1/(n + 1) on. A gap wider than all
        of them has 1/(n + 1) times the widest over its own: smaller p only say which of the extreme ones are more so.

        >>> ConformalReference.fit(np.linspace(0, 1, 99)).p(np.array([0.55, 1.0, 9.0])).round(5).tolist()
        [1.0, 0.03, 0.00011]
        """
        count, gap, widest = len(self.gaps), _gap(score, self.scores, self.nearest), self.gaps[-1]
        shares: np.ndarray = (1 + count - self.gaps.searchsorted(gap)) / (count + 1)
        return shares * np.where(gap > widest, widest, 1.0) / np.where(gap > widest, gap, 1.0)


def upper_p(score: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """p = (1 + how many of the n reference scores are as large) / (n + 1): for scores where only large is extreme.

    >>> upper_p(np.array([0.0, 2.5, 9.0]), reference=np.array([3.0, 1.0, 2.0])).tolist()
    [1.0, 0.5, 0.25]
    """
    shares: np.ndarray = (1 + len(reference) - np.sort(reference).searchsorted(score)) / (len(reference) + 1)
    return shares


def _gap(score: np.ndarray, known: np.ndarray, nearest: int) -> np.ndarray:
    """The distance from each score to the k-th nearest of the sorted ones: the best of k + 1 windows around it."""
    first = known.searchsorted(score)[:, None] - nearest + np.arange(nearest + 1)
    first = np.minimum(np.maximum(first, 0), len(known) - nearest)
    return np.maximum(score[:, None] - known[first], known[first + nearest - 1] - score[:, None]).min(1)
