"""Closed-form sampled distance: a soft contrastive loss on embeddings without sampling (after PCME++)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.compare import expected_squared_distance
from howsure.embeddings import Embedding
from howsure.losses.checks import all_pairs, check_both, check_variance


class ClosedFormSampledDistance(nn.Module):
    """Binary cross-entropy of logit = offset - scale · E|z - z'|² over all pairs of a batch, plus a pull to N(0, I).

    The pull, weight · Σ(variance - 1 - log variance)/2, keeps embeddings from becoming points.
    """

    def __init__(self, *, scale: float = 5.0, offset: float = 5.0, weight: float = 1e-4):
        super().__init__()
        self.raw_scale = nn.Parameter(torch.tensor(math.log(math.expm1(scale))))
        self.offset = nn.Parameter(torch.tensor(float(offset)))
        self.weight = weight

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        variance = embedding.checked().variance
        check_variance(variance, embedding.family, loss="csd", head="gaussian")
        first, second, same = all_pairs(labels)
        check_both(same)
        gaps = expected_squared_distance(embedding, embedding)[first, second]
        logits = self.offset - F.softplus(self.raw_scale) * gaps
        pull = (variance - 1 - variance.log()).sum(-1).mean() / 2
        return F.binary_cross_entropy_with_logits(logits, same.to(variance.dtype)) + self.weight * pull
