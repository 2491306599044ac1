"""One belief about a class, from a few pictures of it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from howsure.embeddings import Draws, Embedding, Gaussian
from howsure.errors import InputError

__all__ = ["prototypes"]

LEAST = 1e-12  # a variance: points that weigh alike, not infinitely


def prototypes(support: Embedding, groups: ArrayLike, *, weighted: bool = True) -> Embedding:
    """Row g is the belief about group g, (G, D), draw by draw; `groups` says 0 to G - 1 for every item.

    Weighted by confidence, it is the product of the beliefs, so that an uncertain picture counts little:

        mean = Σ mean_i / v_i · v,    v = 1 / Σ 1/v_i,    v_i the variance of item i, in each dimension

    Unweighted it is their mean, with the variance that the mean then has: Σ v_i / n².

    >>> firm_and_vague = Gaussian(torch.tensor([[0.0], [4.0]]), torch.tensor([[1.0], [3.0**0.5]]))
    >>> prototypes(firm_and_vague, [0, 0]).mean, prototypes(firm_and_vague, [0, 0], weighted=False).mean
    (tensor([[1.]]), tensor([[2.]]))
    """
    codes = np.asarray(groups)
    if codes.shape != (len(support),) or codes.dtype.kind not in "iu":
        raise InputError("groups", expected=f"{len(support)} whole numbers", got=f"{codes.dtype} {codes.shape}")
    if not len(codes) or codes.min() < 0 or not np.bincount(codes).all():
        raise InputError("groups", expected="every number from 0 to the largest", got="one is missing or below 0")
    rows = torch.from_numpy(codes.astype(np.int64)).to(support.device)
    fused = [_fused(draw, rows, weighted=weighted) for draw in support.by_draw()]
    return fused[0] if len(fused) == 1 else Draws.stack(fused)


def _fused(support: Embedding, rows: Tensor, *, weighted: bool) -> Gaussian:
    variance = support.variance.clamp_min(LEAST)
    weight = 1 / variance if weighted else torch.ones_like(variance)

    def total(values: Tensor) -> Tensor:
        return values.new_zeros(int(rows.max()) + 1, support.dim).index_add(0, rows, values)

    sums = total(weight)
    return Gaussian(total(weight * support.mean) / sums, (total(weight**2 * variance) / sums**2).sqrt())
