"""Losses that look at more than the belief."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from howsure.embeddings import Embedding


class ReadsFeatures(nn.Module, ABC):
    """A loss that also reads the features the head was given, (N, M); every other loss takes the belief and labels."""

    @abstractmethod
    def forward(self, embedding: Embedding, labels: Tensor, features: Tensor) -> Tensor:
        """Scalar loss of one batch."""
