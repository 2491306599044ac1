"""Features to Gaussians on the unit sphere."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import Gaussian
from howsure.heads.base import Head


class GaussianHead(Head):
    """A Gaussian z ~ N(W φ + b, s² I), brought to the unit sphere: u = z/|z|, scale = s/|z| to first order.

    So little evidence, a short z, gives a large scale wherever s was learned. log s² is linear in the direction of the
    features and passes no gradient to them, so it cannot trade accuracy for a small variance.
    """

    LOG_VARIANCE = (-14.0, 4.0)

    def __init__(self, features: int, dim: int):
        super().__init__(features, dim)
        self.location = nn.Linear(features, dim)
        self.log_variance = nn.Linear(features, 1)
        # Start with one variance for all: 0.05 in total where |z| = 1.
        nn.init.zeros_(self.log_variance.weight)
        nn.init.constant_(self.log_variance.bias, math.log(0.05 / dim))

    @torch.no_grad()
    def scale_variance(self, factor: float) -> None:
        self.log_variance.bias.add_(math.log(factor))

    def forward(self, features: Tensor) -> Gaussian:
        z = self.location(features)
        length = z.detach().norm(dim=-1, keepdim=True).clamp_min(1e-6)
        log_variance = self.log_variance(F.normalize(features.detach(), dim=-1)) - 2 * length.log()
        return Gaussian(F.normalize(z, dim=-1), torch.exp(0.5 * log_variance.clamp(*self.LOG_VARIANCE)))
