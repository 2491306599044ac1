"""Scales from the likelihood that two pictures of one class share one z (after probabilistic face embeddings)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from howsure.compare import mutual_likelihood
from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.losses.checks import all_pairs


class MutualLikelihood(nn.Module):
    """Minus the mean mutual likelihood of all pairs of one class, the means held fixed: only scales learn.

    At its best, the scales of a pair add up to its squared distance. A picture that tends to lie
    far from others of its class gets a large scale.
    """

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        first, second, same = all_pairs(labels)
        if not same.any():
            raise InputError("batch", expected="two items of one class", got="none", fix="use class-balanced batches")
        embedding.checked()  # here, because NaN is no variance either, and the error would blame the head
        held = embedding.rebuild(embedding.tensors() | {"location": embedding.mean.detach()})
        return -mutual_likelihood(held[first[same]], held[second[same]], paired=True).mean()


class SumLoss(nn.Module):
    """The sum of losses, each for its own part of the embedding."""

    def __init__(self, *parts: nn.Module):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        return torch.stack([part(embedding, labels) for part in self.parts]).sum()
