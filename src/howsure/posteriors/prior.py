"""The prior precision of the weights, chosen by the evidence of the data."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from torch import Tensor

from howsure.errors import InputError

__all__ = ["marginal_prior"]


def marginal_prior(curvature: Tensor, *, squared_norm: float, copies: int = 1) -> float:
    """The λ of greatest marginal likelihood for weights of squared length |w|² and curvature h, each `copies` times.

        λ |w|² = Σ h/(h + λ)

    The left side grows with λ and the right side falls, so there is one such λ. It follows the scale of the weights:
    w → c w with h → h/c² gives λ → λ/c².

    >>> import torch
    >>> round(marginal_prior(torch.tensor([2.0, 0.0]), squared_norm=0.25), 6)   # λ/4 = 2/(2 + λ)
    2.0
    """
    h = np.asarray(curvature.detach().double().cpu()).ravel()
    if not squared_norm > 0 or not np.isfinite(h).all() or (h < 0).any() or not h.any():
        raise InputError(
            "prior",
            expected="weights that are not all zero, and curvature of 0 or more, not all zero",
            got=f"|w|² = {squared_norm:g}, curvature {h.min(initial=0):g} to {h.max(initial=0):g}",
            fix="give a prior precision yourself, or look at the pairs",
        )

    def surplus(log_prior: float) -> float:
        prior = math.exp(log_prior)
        return prior * squared_norm - copies * float(np.sum(h / (h + prior)))

    # At most, every weight is determined by the data.
    highest = math.log(copies * np.count_nonzero(h) / squared_norm)
    lowest = highest
    while surplus(lowest) >= 0:
        lowest -= 2.0
    return math.exp(brentq(surplus, lowest, highest + 1e-9, xtol=1e-12, rtol=1e-12))
