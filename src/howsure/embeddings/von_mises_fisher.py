"""A von Mises-Fisher distribution on the unit sphere: a direction and a concentration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from howsure.embeddings.base import Embedding, axes, group_sums
from howsure.errors import InputError
from howsure.numerics.sphere import sample_vmf
from howsure.numerics.vmf import mean_resultant, mean_resultant_gap


@dataclass(frozen=True, eq=False)
class VonMisesFisher(Embedding):
    """z on the unit sphere with density C_D(k) exp(k μ·z): `direction` μ (N, D) of length 1, `concentration` k (N,).

    With A = A_D(k), the mean resultant length, ρ = A/k and A' = dA/dk,

        mean = A μ,    variance_i = ρ (1 - μ_i²) + A' μ_i²,    uncertainty = 1 - A²

    >>> embedding = VonMisesFisher(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([1.797]))
    >>> embedding.mean, embedding.uncertainty
    (tensor([[0.0000, 0.0000, 0.5000]]), tensor([0.7500]))
    """

    name: ClassVar[str] = "vmf"
    direction: Tensor = axes(1)
    concentration: Tensor = axes(0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction.shape[-1] < 2:
            raise InputError("vmf direction", expected="two dimensions or more", got=str(self.direction.shape[-1]))

    @classmethod
    def require(cls, embedding: Embedding, *, asker: str) -> VonMisesFisher:
        """The embedding itself if it is of this family; otherwise an error in the name of who needs it."""
        if not isinstance(embedding, cls):
            raise InputError(
                asker,
                expected="embeddings with a direction and a concentration",
                got=embedding.family,
                fix="use the vmf or the norm head",
            )
        return embedding

    @property
    def dim(self) -> int:
        return self.direction.shape[-1]

    @property
    def confidence(self) -> Tensor:
        """A_D(k), (N,): the expected cosine to the direction, in [0, 1], which means the same in every dimension."""
        return mean_resultant(self.concentration, self.dim)

    @property
    def point_estimate(self) -> Tensor:
        return self.direction  # the mean is shorter the less certain, and so nearer to everything

    @property
    def mean(self) -> Tensor:
        resultant = mean_resultant(self.concentration.double(), self.dim)
        return (resultant[..., None] * self.direction.double()).to(self.dtype)

    @property
    def variance(self) -> Tensor:
        k, mu = self.concentration.double(), self.direction.double()
        gap = mean_resultant_gap(k, self.dim)
        across = _resultant_over_concentration(k, self.dim)
        # The sum over coordinates is 1 - A², so this is A', up to the rounding of that sum.
        along = (gap * (2 - gap) - (self.dim - 1) * across).clamp_min(0)
        square = mu.square().clamp_max(1)
        return (across[..., None] * (1 - square) + along[..., None] * square).to(self.dtype)

    def covariances(self, axes: np.ndarray) -> np.ndarray:
        """ρ (I - μμᵀ) + A' μμᵀ."""
        k, direction = (tensor.detach().double().numpy() for tensor in (self.concentration, self.direction))
        gap = mean_resultant_gap(self.concentration.double(), self.dim).detach().numpy()
        across = np.divide(1 - gap, k, out=np.full_like(k, 1 / self.dim), where=k > 0)
        along = np.clip(gap * (2 - gap) - (self.dim - 1) * across, 0, None)
        flat = direction @ axes.T
        round_part = across[:, None, None] * (axes @ axes.T)
        covariances: np.ndarray = round_part + (along - across)[:, None, None] * (flat[:, :, None] * flat[:, None, :])
        return covariances[:, None]

    @property
    def circular_deviation(self) -> Tensor | None:
        """(-2 log A)^½, at most π, in two dimensions."""
        if self.dim != 2:
            return None
        return (-2 * torch.log1p(-mean_resultant_gap(self.concentration.double(), 2))).sqrt().clamp_max(torch.pi)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return sample_vmf(self.direction, self.concentration, n, generator=generator)

    def rotated(self, rotation: Tensor) -> Self:
        return replace(self, direction=self.direction @ rotation)

    def fused(self, groups: Tensor) -> VonMisesFisher:
        total = group_sums(self.concentration[:, None] * self.direction, groups)
        length = total.norm(dim=1)
        first = torch.zeros_like(total)
        first[:, 0] = 1  # at concentration 0 one direction is as good as another
        return VonMisesFisher(torch.where(length[:, None] > 0, total / length[:, None], first), length)

    def checked(self) -> VonMisesFisher:
        """As everywhere, and directions of length 1, and no negative concentration."""
        super().checked()
        if (self.concentration < 0).any():
            raise InputError(
                "vmf concentration", expected="values of 0 or more", got=f"{self.concentration.min().item():g}"
            )
        length = self.direction.double().norm(dim=-1)
        off = (length - 1).abs() > max(1e-4, 4 * torch.finfo(self.dtype).eps)
        if off.any():
            first = off.nonzero()[0]
            raise InputError(
                "vmf direction",
                expected="vectors of length 1",
                got=f"length {length[tuple(first)].item():g} in item {int(first[0])}",
                fix="divide by the length; a vector of zeros has no direction",
            )
        return self


def _resultant_over_concentration(k: Tensor, dim: int) -> Tensor:
    """ρ = A/k, with its limit 1/d and its derivative at k = 0."""
    small = k < 1e-3
    safe = torch.where(small, torch.ones_like(k), k)
    series = (1 - k**2 / (dim * (dim + 2)) * (1 - 2 * k**2 / (dim * (dim + 4)))) / dim
    return torch.where(small, series, mean_resultant(safe, dim) / safe)
