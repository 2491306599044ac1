"""Features to Gaussians anywhere in the space (after hedged instance embeddings)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from howsure.embeddings import Gaussian
from howsure.heads.base import Head
from howsure.heads.free_point import location_layer

LOG_VARIANCE = (-10.0, 6.0)
START = -2.0


class HedgedHead(Head):
    """z ~ N(W φ + b, diag(s²)), log s² linear in φ, one for each dimension; all pictures start with one variance."""

    def __init__(self, features: int, dim: int):
        super().__init__(features, dim)
        self.location = location_layer(features, dim)
        self.log_variance = log_variance_layer(features, dim)

    def forward(self, features: Tensor) -> Gaussian:
        return Gaussian(self.location(features), scale_of(self.log_variance(features)))


def log_variance_layer(features: int, outputs: int) -> nn.Linear:
    """A linear layer that starts at one value for all features."""
    layer = nn.Linear(features, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, START)
    return layer


def scale_of(log_variance: Tensor) -> Tensor:
    """A standard deviation within bounds that keep every loss finite."""
    return torch.exp(0.5 * log_variance.clamp(*LOG_VARIANCE))
