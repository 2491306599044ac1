"""Classical losses on the means of embeddings: every loss and miner of pytorch-metric-learning, taken as it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from howsure.embeddings import Embedding
from howsure.errors import InputError


class OnMeans(nn.Module):
    """Apply a pytorch-metric-learning loss, and a miner before it, to `embedding.mean`.

    A batch without a matching or without a different pair teaches nothing; it is an error, not a loss of zero.
    """

    def __init__(self, loss: nn.Module, miner: nn.Module | None = None):
        super().__init__()
        self.loss, self.miner = loss, miner

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        counts = torch.unique(labels, return_counts=True)[1]
        if len(counts) < 2 or counts.max() < 2:
            raise InputError(
                "batch",
                expected="two classes or more, one of them with two items or more",
                got=f"{len(counts)} classes over {len(labels)} items",
                fix="use class-balanced batches",
            )
        found: Any = self.miner(embedding.mean, labels) if self.miner is not None else None
        return self.loss(embedding.mean, labels, found)
