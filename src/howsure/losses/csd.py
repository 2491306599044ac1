"""Closed-form sampled distance: a soft contrastive loss on beliefs without sampling (after PCME++)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.compare import expected_squared_distance
from howsure.embeddings import Embedding
from howsure.errors import InputError


class ClosedFormSampledDistance(nn.Module):
    """Binary cross-entropy of logit = offset - scale · E|z - z'|² over all pairs of a batch, plus a pull to N(0, I).

    The pull, weight · Σ(variance - 1 - log variance)/2, keeps beliefs from becoming points.
    """

    def __init__(self, *, scale: float = 5.0, offset: float = 5.0, weight: float = 1e-4):
        super().__init__()
        self.raw_scale = nn.Parameter(torch.tensor(math.log(math.expm1(scale))))
        self.offset = nn.Parameter(torch.tensor(float(offset)))
        self.weight = weight

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        """Scalar loss of one batch."""
        variance = embedding.checked().variance
        if not (variance > 0).all():
            raise InputError(
                "csd", expected="beliefs with some variance", got=embedding.family, fix="use the gaussian head"
            )
        first, second = torch.triu_indices(len(labels), len(labels), offset=1, device=labels.device)
        same = (labels[first] == labels[second]).to(variance.dtype)
        if len(same) == 0 or same.min() == same.max():
            raise InputError(
                "batch", expected="matching and different pairs", got="one kind only", fix="use class-balanced batches"
            )
        gaps = expected_squared_distance(embedding, embedding)[first, second]
        logits = self.offset - F.softplus(self.raw_scale) * gaps
        pull = (variance - 1 - variance.log()).sum(-1).mean() / 2
        return F.binary_cross_entropy_with_logits(logits, same) + self.weight * pull
