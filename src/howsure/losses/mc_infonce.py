"""Contrastive learning with sampled embeddings (MCInfoNCE, Kirchhof et al. 2023)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.losses.checks import all_pairs, check_both


class MCInfoNCE(nn.Module):
    """-log mean_s [ e^{t z·z⁺} / (e^{t z·z⁺} + mean e^{t z·z⁻}) ], averaged over all ordered pairs of one class.

    z are S joint samples, brought to the unit sphere; z⁻ are the items of other classes; t is learned. The mean over
    samples is outside the ratio: an embedding is right if some of its samples are. Works with every family whose
    samples carry gradients; for points it is InfoNCE.

    >>> from howsure import Point
    >>> points = Point(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> round(MCInfoNCE(temperature=1)(points, torch.tensor([0, 0, 1])).item(), 4)   # log(1 + e⁰⁻¹)
    0.3133
    """

    def __init__(self, *, temperature: float = 16.0, samples: int = 16):
        super().__init__()
        if not (temperature > 0 and samples >= 1):
            raise InputError(
                "mc-infonce", expected="temperature above 0, samples of 1 or more", got=f"{temperature}, {samples}"
            )
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))
        self.samples = samples

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        same = labels[:, None] == labels
        first, second = (same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)).nonzero(as_tuple=True)
        check_both(all_pairs(labels)[2])
        z = F.normalize(embedding.checked().sample(self.samples), dim=-1)
        logits = self.log_temperature.exp() * z @ z.mT  # (S, N, N)
        # An item's own class, and with it the item itself, is no negative.
        against = logits.masked_fill(same, -math.inf).logsumexp(-1) - (~same).sum(-1).log()  # (S, N)
        log_ratio = F.logsigmoid(logits[:, first, second] - against[:, first])  # (S, pairs)
        return math.log(self.samples) - log_ratio.logsumexp(0).mean()
