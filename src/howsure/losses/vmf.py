"""Softmax of expected likelihoods: pictures and classes are both von Mises-Fisher (after Scott et al. 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import Embedding, VonMisesFisher
from howsure.losses.checks import check_classes, check_dim, check_labels
from howsure.numerics.vmf import inverse_mean_resultant, scaled_log_normalizer


class ExpectedLikelihood(nn.Module):
    """Cross-entropy of P(class | picture) ∝ ∫ vMF(z; f) vMF(z; w) dz, with f = k μ and one learned w per class.

        log ∫ = log C(|f|) + log C(|w|) - log C(|f + w|)

    The first term is the same for every class. A long f commits itself to the nearest class; a short one stays with
    the prior, and loses little where the picture says little.
    """

    def __init__(self, classes: int, dim: int):
        super().__init__()
        check_classes(classes)
        start = inverse_mean_resultant(torch.tensor(0.9, dtype=torch.float64), dim).item()
        self.weight = nn.Parameter(start * F.normalize(torch.randn(classes, dim), dim=-1))

    def logits(self, embedding: Embedding) -> Tensor:
        """(N, classes) log-probabilities up to a constant for each picture; float64."""
        vmf = VonMisesFisher.require(embedding, asker="vmf loss").checked()
        dim = self.weight.shape[1]
        check_dim(vmf, dim, like="the classes have")
        f = vmf.concentration.double()[:, None] * vmf.direction.double()
        w = self.weight.double()
        alone, joined = _length(w), _length(f[:, None] + w)
        # log C = scaled - k: the large parts are subtracted as lengths, before they can cancel.
        return scaled_log_normalizer(alone, dim) - scaled_log_normalizer(joined, dim) + (joined - alone)

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        check_labels(labels, items=len(embedding), classes=len(self.weight))
        return F.cross_entropy(self.logits(embedding), labels).to(embedding.dtype)


def _length(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=-1)
