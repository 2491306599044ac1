"""Scales from the likelihood that two pictures of one class share a place (after probabilistic face embeddings)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from howsure.compare import mutual_likelihood
from howsure.embeddings import Embedding
from howsure.errors import InputError


class MutualLikelihood(nn.Module):
    """Minus the mean mutual likelihood of all pairs of one class, the means held fixed: only scales learn.

    At its best, the scales of a pair add up to its squared distance. A picture whose class mates tend to lie far away
    says so.
    """

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        """Scalar loss of one batch."""
        first, second = torch.triu_indices(len(labels), len(labels), offset=1, device=labels.device)
        same = labels[first] == labels[second]
        if not same.any():
            raise InputError("batch", expected="two items of one class", got="none", fix="use class-balanced batches")
        embedding.checked()  # here, because NaN is no variance either, and the error would blame the head
        held = embedding.rebuild(embedding.tensors() | {"location": embedding.mean.detach()})
        return -mutual_likelihood(held[first[same]], held[second[same]], paired=True).mean()


class SumLoss(nn.Module):
    """The sum of losses, each for its own part of the belief."""

    def __init__(self, *parts: nn.Module):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        """Scalar loss of one batch."""
        return torch.stack([part(embedding, labels) for part in self.parts]).sum()
