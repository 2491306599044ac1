"""The prior precision of the weights, by marginal likelihood or by the match loss of held-out pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn import functional as F

from howsure.compare import rms_distance
from howsure.embeddings import Embedding
from howsure.errors import CalibrationError, InputError
from howsure.match import Matcher

RELATIVE = tuple(10.0**power for power in range(-3, 5))  # prior precisions to try, in units of 1 / mean of w²


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


def natural_prior(layer: str, weights: Sequence[Tensor]) -> float:
    """The precision at which the prior is as wide as the weights of a layer are: 1 / mean of w²."""
    squared = squared_length(weights)
    if not squared > 0:
        fix = "give a prior precision yourself, or leave its parameters out"
        raise InputError(f"layer {layer}", expected="weights that are not all zero", got="zeros", fix=fix)
    return sum(weight.numel() for weight in weights) / squared


def squared_length(weights: Iterable[Tensor]) -> float:
    """|w|² of all weights together."""
    return sum(float(weight.detach().double().square().sum()) for weight in weights)


def match_loss(embedding: Embedding, labels: Tensor) -> float:
    """The log loss of match probabilities from distances, in nats a pair: small = good; log 2 is chance.

    Over pairs of pictures, positive and negative ones at equal weight, where the link from distance to probability was
    fitted to the other half of the pictures. Infinite where no link can be fitted, as for distances in the wrong order.
    """
    rows = torch.from_numpy(np.random.default_rng(0).permutation(len(labels)))
    halves = [(embedding[part], labels[part]) for part in (rows[::2], rows[1::2])]
    pairs = [_pairs(*half) for half in halves]
    return (_loss(fitted=pairs[0], judged=pairs[1]) + _loss(fitted=pairs[1], judged=pairs[0])) / 2


def _pairs(embedding: Embedding, labels: Tensor) -> tuple[Tensor, Tensor]:
    first, second = torch.triu_indices(len(labels), len(labels), offset=1)
    return rms_distance(embedding, embedding).double()[first, second], labels[first] == labels[second]


def _loss(*, fitted: tuple[Tensor, Tensor], judged: tuple[Tensor, Tensor]) -> float:
    distance, same = judged
    try:
        log_odds = Matcher.fit(*fitted).at(0.5).log_odds(distance)
    except CalibrationError:
        return math.inf
    return float(F.softplus(-log_odds[same]).mean() + F.softplus(log_odds[~same]).mean()) / 2
