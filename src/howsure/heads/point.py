"""Features to points."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import Point
from howsure.heads.base import Head


class PointHead(Head):
    """One linear layer to the unit sphere: z = W φ + b, u = z/|z|."""

    def __init__(self, features: int, dim: int):
        super().__init__(features, dim)
        self.location = nn.Linear(features, dim)

    def forward(self, features: Tensor) -> Point:
        return Point(F.normalize(self.location(features), dim=-1))
