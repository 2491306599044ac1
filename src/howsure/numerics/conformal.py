"""Conformal p-values: how unusual a score is among scores of pictures that are known to be usual."""

from __future__ import annotations

import torch
from torch import Tensor

from howsure.errors import InputError

__all__ = ["two_sided_p"]


def two_sided_p(score: Tensor, usual: Tensor) -> Tensor:
    """p = min(1, 2 min(p_up, p_low)) of each score; p_up = (1 + how many of the n usual are as large) / (n + 1).

    If a picture is exchangeable with those that gave `usual`, P(p <= a) <= a for every a, whatever the score is: an
    alarm at p <= a is false at most that often, over the choice of `usual` too. `usual` is sorted, smallest first.

    >>> two_sided_p(torch.tensor([-5.0, 0.55, 9.0]), torch.linspace(0, 1, 99))
    tensor([0.0200, 0.9200, 0.0200])
    """
    if usual.ndim != 1 or not len(usual):
        raise InputError("usual scores", expected="at least one, (n,)", got=str(tuple(usual.shape)))
    below = torch.searchsorted(usual, score.contiguous(), right=False)
    upto = torch.searchsorted(usual, score.contiguous(), right=True)
    fewest = torch.minimum(len(usual) - below, upto)  # as large, as small
    return (2 * (1 + fewest.to(score.dtype)) / (len(usual) + 1)).clamp_max(1)
