"""One embedding for a class, from a few pictures of it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike

from howsure.embeddings import Embedding, Gaussian
from howsure.embeddings.base import group_sums
from howsure.embeddings.draws import draw_by_draw

LEAST = 1e-12  # a variance: points get equal, finite weights


def prototypes(support: Embedding, groups: ArrayLike, *, weighted: bool = True) -> Embedding:
    """Row g is the embedding of group g, (G, D), draw by draw; `groups` says 0 to G - 1 for every item.

    Weighted by precision, it is the product of the items' densities, so that an uncertain picture counts little:

        mean = Σ mean_i / v_i · v,    v = 1 / Σ 1/v_i,    v_i the variance of item i, in each dimension

    Unweighted it is their mean, with the variance that the mean then has: Σ v_i / n².

    >>> support = Gaussian(torch.tensor([[0.0], [4.0]]), torch.tensor([[1.0], [3.0**0.5]]))
    >>> prototypes(support, [0, 0]).mean, prototypes(support, [0, 0], weighted=False).mean
    (tensor([[1.]]), tensor([[2.]]))
    """
    codes = torch.from_numpy(np.asarray(groups))

    def prototype(draw: Embedding) -> Gaussian:
        variance = draw.variance.clamp_min(LEAST)
        weight = 1 / variance if weighted else torch.ones_like(variance)
        total = group_sums(weight, codes)
        mean = group_sums(weight * draw.mean, codes) / total
        return Gaussian(mean, (group_sums(weight**2 * variance, codes) / total**2).sqrt())

    return draw_by_draw(support, prototype)
