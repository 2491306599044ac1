"""Features to von Mises-Fisher beliefs: the concentration from a layer of its own, or from the length of z."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import VonMisesFisher
from howsure.errors import InputError
from howsure.numerics.vmf import inverse_mean_resultant


class VonMisesFisherHead(nn.Module):
    """Direction z/|z| with z = W φ + b; concentration k₀ e^h |z|²/r², k₀ = A⁻¹(0.5), at most A⁻¹(0.9999).

    Little evidence, a short z, is a wide belief, as for a Gaussian z brought to the sphere; r² is the running mean of
    |z|² over training. h is linear in the direction of the features. It listens to them and does not shape them: what
    it says about a picture costs no accuracy, and no picture is moved to make it easy to judge.
    """

    typical: Tensor

    def __init__(self, features: int, dim: int):
        super().__init__()
        _check_dim(dim)
        self.dim = dim
        self.location = nn.Linear(features, dim)
        self.log_concentration = nn.Linear(features, 1)
        # Start with one opinion about everything: an expected cosine of 0.5 at the typical length.
        nn.init.zeros_(self.log_concentration.weight)
        nn.init.zeros_(self.log_concentration.bias)
        self.register_buffer("typical", torch.tensor(0.0))  # r²; 0 until the first batch
        bounds = torch.tensor([0.5, 0.9999], dtype=torch.float64)
        self.log_unit, self.log_cap = inverse_mean_resultant(bounds, dim).log().tolist()

    def forward(self, features: Tensor) -> VonMisesFisher:
        """(N, M) features to directions and concentrations."""
        z = self.location(features)
        squared = z.detach().square().sum(-1)
        if self.training:
            self._remember(squared.mean())
        typical = torch.where(self.typical > 0, self.typical, 1.0)
        ratio = (squared / typical).clamp_min(torch.finfo(z.dtype).tiny)
        opinion = self.log_concentration(F.normalize(features.detach(), dim=-1))[:, 0]
        log_k = self.log_unit + opinion + ratio.log()
        # Capped in value alone, so that a concentration above the cap can still come down.
        log_k = log_k - (log_k - self.log_cap).clamp_min(0).detach()
        return VonMisesFisher(F.normalize(z, dim=-1), log_k.exp())

    def _remember(self, mean: Tensor) -> None:
        if torch.isfinite(mean):  # a broken batch is found by what reads the belief
            self.typical = torch.where(self.typical > 0, 0.9 * self.typical + 0.1 * mean, mean)


class NormHead(nn.Module):
    """z = W φ + b as it is: direction z/|z|, concentration |z|. Little evidence, a short z, is a wide belief."""

    def __init__(self, features: int, dim: int):
        super().__init__()
        _check_dim(dim)
        self.dim = dim
        self.location = nn.Linear(features, dim)

    def forward(self, features: Tensor) -> VonMisesFisher:
        """(N, M) features to directions and concentrations."""
        z = self.location(features)
        return VonMisesFisher(F.normalize(z, dim=-1), torch.linalg.vector_norm(z, dim=-1))


def _check_dim(dim: int) -> None:
    if dim < 2:
        raise InputError("dim", expected="2 or more, for a direction", got=str(dim), fix="use the point head")
