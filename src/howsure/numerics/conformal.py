"""Conformal p-values: how unusual a score is among scores of pictures that are known to be usual."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from howsure.errors import InputError

__all__ = ["Usual"]


@dataclass(frozen=True, eq=False)
class Usual:
    """Scores of usual pictures, (n,) sorted, and how far each is from its k-th nearest other, (n,) sorted; k = √n.

    A score is unusual where usual ones are sparse: too large, too small, or between two heaps of them.
    """

    scores: Tensor
    gaps: Tensor
    nearest: int

    @classmethod
    def of(cls, scores: Tensor) -> Usual:
        """From (n,) scores in any order."""
        if scores.ndim != 1 or len(scores) < 2:
            raise InputError("usual scores", expected="at least two, (n,)", got=str(tuple(scores.shape)))
        known, nearest = scores.sort().values, max(1, math.isqrt(len(scores)))
        # Each is its own nearest, so one more is asked for.
        gaps = _gap(known, known, min(nearest + 1, len(known)))
        return cls(known, gaps.sort().values, nearest)

    def p(self, score: Tensor) -> Tensor:
        """p = (1 + how many of the n usual have a gap as wide) / (n + 1) of each score.

        If a picture is exchangeable with the usual ones, P(p <= a) <= a for every a, whatever the score is: an alarm at
        p <= a is false at most that often, over the choice of the usual ones too. (Were the new score among them, their
        gaps could only be narrower, and p smaller.)

        >>> Usual.of(torch.linspace(0, 1, 99)).p(torch.tensor([-5.0, 0.55, 9.0]))
        tensor([0.0100, 1.0000, 0.0100])
        """
        gap = _gap(score.to(self.scores.dtype), self.scores, self.nearest)
        narrower = torch.searchsorted(self.gaps, gap)
        return (1 + len(self.gaps) - narrower).to(score.dtype) / (len(self.gaps) + 1)


def _gap(score: Tensor, known: Tensor, nearest: int) -> Tensor:
    """The distance from each score to the k-th nearest of the sorted ones: the best of k + 1 windows around it."""
    place = torch.searchsorted(known, score.contiguous())
    shift = torch.arange(nearest + 1, device=known.device)
    first = (place[:, None] - nearest + shift).clamp(0, len(known) - nearest)
    ends = torch.maximum((score[:, None] - known[first]).abs(), (known[first + nearest - 1] - score[:, None]).abs())
    return ends.amin(1)
