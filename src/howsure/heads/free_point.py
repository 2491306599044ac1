"""Features to points anywhere in the space."""

from __future__ import annotations

from torch import Tensor, nn

from howsure.embeddings import Point


class FreePointHead(nn.Module):
    """One linear layer, z = W φ + b, at no fixed length: what hedged beliefs are compared with."""

    def __init__(self, features: int, dim: int):
        super().__init__()
        self.dim = dim
        self.location = nn.Linear(features, dim)

    def forward(self, features: Tensor) -> Point:
        """(N, M) features to points."""
        return Point(self.location(features))
