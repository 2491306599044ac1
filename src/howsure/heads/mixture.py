"""Features to mixtures of Gaussians."""

from __future__ import annotations

import torch
from torch import Tensor

from howsure.embeddings import GaussianMixture
from howsure.heads.base import Head
from howsure.heads.free_point import location_layer
from howsure.heads.hedged import log_variance_layer, scale_of


class TwoModesHead(Head):
    """Two Gaussians of equal weight, each with its own linear location and log variance.

    They start close together: a picture with two modes for no reason cannot match anything well, not even itself.
    """

    COMPONENTS = 2
    APART = 0.1  # of a start at random

    def __init__(self, features: int, dim: int):
        super().__init__(features, dim)
        self.location = location_layer(features, self.COMPONENTS * dim)
        self.log_variance = log_variance_layer(features, self.COMPONENTS * dim)
        with torch.no_grad():
            for parameter in self.location.parameters():
                first, second = parameter.view(self.COMPONENTS, dim, -1)
                second.copy_(first + self.APART * (second - first))

    def forward(self, features: Tensor) -> GaussianMixture:
        shape = (len(features), self.COMPONENTS, self.dim)
        location, log_variance = self.location(features).view(shape), self.log_variance(features).view(shape)
        return GaussianMixture(location.new_zeros(shape[:2]), location, scale_of(log_variance))
