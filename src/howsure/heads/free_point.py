"""Features to points anywhere in the space."""

from __future__ import annotations

from torch import Tensor, nn

from howsure.embeddings import Point
from howsure.heads.base import Head


class FreePointHead(Head):
    """One linear layer, z = W φ + b, at no fixed length: the baseline of hedged embeddings."""

    def __init__(self, features: int, dim: int):
        super().__init__(features, dim)
        self.location = location_layer(features, dim)

    def forward(self, features: Tensor) -> Point:
        return Point(self.location(features))


def location_layer(features: int, outputs: int) -> nn.Linear:
    """A linear layer that starts wide, so that pictures lie apart from the first step, and centred."""
    layer = nn.Linear(features, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
