"""Losses that read the features besides the embedding."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from howsure.embeddings import Embedding


class ReadsFeatures(nn.Module, ABC):
    """A loss that also reads the features the head was given, (N, M); all others take the embedding and labels."""

    @abstractmethod
    def forward(self, embedding: Embedding, labels: Tensor, features: Tensor) -> Tensor:
        """Scalar loss of one batch."""


def batch_loss(loss: nn.Module, embedding: Embedding, labels: Tensor, features: Tensor) -> Tensor:
    """The loss of one batch, whether it reads the features or not."""
    value: Tensor = loss(embedding, labels, *([features] if isinstance(loss, ReadsFeatures) else []))
    return value
