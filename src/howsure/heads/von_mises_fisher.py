"""Features to von Mises-Fisher embeddings: the concentration from weights of its own, or from the length of z."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import VonMisesFisher
from howsure.errors import InputError
from howsure.heads.base import Head
from howsure.numerics.vmf import inverse_mean_resultant

HASTE = 10.0  # log k must travel some ten units, and Adam moves a parameter by the learning rate a step
POWER = 3.0  # of strength, to begin with
PULL = 0.06  # of the gradient of strength reaches the network, a dimension: the likelihood grows with D


class VonMisesFisherHead(Head):
    """Direction z/|z| with z = W φ + b; concentration k₀ e^a |z|²/s² (Σ w φ² / r²)^p, at most A⁻¹(0.9999).

    Little evidence is a low concentration, and there are two kinds of it. A short z: the features do not agree on a
    direction, as for an unknown class. Weak features, each with a weight w > 0 of its own: the picture is OOD. s² and
    r² are running means of |z|² and |φ|² over training, k₀ = A⁻¹(0.5). p is learned, but begins at POWER: pictures of
    training cannot show how weak OOD features are.

    The length passes no gradient to the network. Strength passes a little: PULL/D of its gradient goes on to the
    features, so that pictures of known classes learn strong features, and those of OOD pictures stay weak. A loss of
    directions alone leaves that to chance. With all of the gradient the network would learn strength before classes.
    """

    typical: Tensor

    def __init__(self, features: int, dim: int):
        super().__init__(features, dim)
        _check_dim(dim)
        self.location = nn.Linear(features, dim)
        # Start with one concentration for all: an expected cosine of 0.5 where both kinds of evidence are typical.
        self.level = nn.Parameter(torch.zeros(()))  # a / HASTE
        self.log_power = nn.Parameter(torch.tensor(math.log(POWER)))  # log p
        self.log_weight = nn.Parameter(torch.zeros(features))  # log w
        self.register_buffer("typical", torch.zeros(2))  # s² and r²; 0 until the first batch
        bounds = torch.tensor([0.5, 0.9999], dtype=torch.float64)
        self.log_unit, self.log_cap = inverse_mean_resultant(bounds, dim).log().tolist()

    def forward(self, features: Tensor) -> VonMisesFisher:
        z = self.location(features)
        length, squares = z.detach().square().sum(-1), _damped(features, PULL / self.dim).square()
        if self.training:
            self._update(torch.stack([length.mean(), squares.detach().sum(-1).mean()]))
        typical = torch.where(self.typical > 0, self.typical, 1.0)
        log_length = _log(length / typical[0])
        log_strength = _log((squares / typical[1]) @ self.log_weight.exp())
        log_k = self.log_unit + HASTE * self.level + log_length + self.log_power.exp() * log_strength
        # Capped in value alone, so that a concentration above the cap can still come down.
        log_k = log_k - (log_k - self.log_cap).clamp_min(0).detach()
        return VonMisesFisher(F.normalize(z, dim=-1), log_k.exp())

    def _update(self, means: Tensor) -> None:
        if torch.isfinite(means).all():  # `checked` reports a broken batch
            self.typical = torch.where(self.typical > 0, 0.9 * self.typical + 0.1 * means, means)


class NormHead(Head):
    """z = W φ + b as it is: direction z/|z|, concentration |z|. Little evidence, a short z, is a low concentration."""

    def __init__(self, features: int, dim: int):
        super().__init__(features, dim)
        _check_dim(dim)
        self.location = nn.Linear(features, dim)

    def forward(self, features: Tensor) -> VonMisesFisher:
        z = self.location(features)
        return VonMisesFisher(F.normalize(z, dim=-1), torch.linalg.vector_norm(z, dim=-1))


def _check_dim(dim: int) -> None:
    if dim < 2:
        raise InputError("dim", expected="2 or more, for a direction", got=str(dim), fix="use the point head")


def _damped(x: Tensor, part: float) -> Tensor:
    """The same values, with only a part of the gradient."""
    return x.detach().lerp(x, part)


def _log(positive: Tensor) -> Tensor:
    return positive.clamp_min(torch.finfo(positive.dtype).tiny).log()
