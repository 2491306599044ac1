"""A belief without doubt: what a deterministic network says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from howsure.embeddings.base import Embedding, axes


@dataclass(frozen=True, eq=False)
class Point(Embedding):
    """All mass on `location`, (N, D). Variance 0, and no special case anywhere downstream.

    >>> Point(torch.zeros(2, 3)).uncertainty
    tensor([0., 0.])
    """

    name: ClassVar[str] = "point"
    location: Tensor = axes(1)

    @property
    def mean(self) -> Tensor:
        return self.location

    @property
    def variance(self) -> Tensor:
        return torch.zeros_like(self.location)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.location.expand(n, *self.location.shape)
