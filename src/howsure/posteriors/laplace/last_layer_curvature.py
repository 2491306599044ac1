"""Last-layer curvature, J^T H J, summed over batches; one accumulator for each structure of the posterior."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from howsure.errors import InputError
from howsure.posteriors.laplace.covariance import DiagonalWeights, SharedWeights, WeightPosterior
from howsure.posteriors.laplace.curvature import Curvature, root
from howsure.posteriors.laplace.low_rank import LowRank
from howsure.posteriors.laplace.prior_precision import marginal_prior, squared_length

WIDEST = 2048  # features; beyond, M x M in float64 takes more than 34 MB a copy and its factors minutes
Known = tuple[WeightPosterior, float]  # a posterior, and the precision of the prior in it


class LastLayer(ABC):
    """The curvature of a (D, M) weight matrix, z = W φ, from batches of features (B, M) and H in z.

    `scale` turns the sum over pairs into the precision that the data give; `prior` is a precision too, None for the one
    of greatest marginal likelihood.
    """

    @abstractmethod
    def add(self, features: Tensor, curvature: Curvature) -> None:
        """Another batch."""

    @abstractmethod
    def posterior(self, weight: Tensor, *, centre: Tensor, scale: float, prior: float | None) -> Known:
        """The posterior of `weight`."""


class Diagonal(LastLayer):
    """h_ij = Σ_ab φ_aj H_(ai)(bi) φ_bj for each weight. A negative sum is cut off at the end, once."""

    def __init__(self, features: int, dim: int):
        self.sum = torch.zeros(dim, features, dtype=torch.float64)

    def add(self, features: Tensor, curvature: Curvature) -> None:
        blocks = curvature.blocks().to(features.dtype)
        for row, block in zip(self.sum, blocks, strict=True):
            row += (features * (block @ features)).sum(0).cpu()

    def posterior(self, weight: Tensor, *, centre: Tensor, scale: float, prior: float | None) -> Known:
        h = (scale * self.sum).clamp_min(0)
        prior = marginal_prior(h, squared_norm=squared_length([weight])) if prior is None else prior
        return DiagonalWeights(centre, variances=(1 / (h + prior)).to(weight)), prior


class Full(LastLayer):
    """A = Φ^T S Φ, (M, M), S the block that all dimensions share. Negative eigenvalues are cut off at the end, once."""

    def __init__(self, features: int):
        if features > WIDEST:
            raise InputError(
                "structure last-full",
                expected=f"at most {WIDEST} features",
                got=str(features),
                fix="use last-low-rank",
            )
        self.sum = torch.zeros(features, features, dtype=torch.float64)

    def add(self, features: Tensor, curvature: Curvature) -> None:
        self.sum += (features.T @ (curvature.shared().to(features.dtype) @ features)).cpu()

    def posterior(self, weight: Tensor, *, centre: Tensor, scale: float, prior: float | None) -> Known:
        values, basis = torch.linalg.eigh((self.sum + self.sum.T) * (scale / 2))
        return _shared(basis, values.clamp_min(0), weight, centre=centre, prior=prior)


class LowRankRows(LastLayer):
    """The leading part of the same A, from the rows of the root of S times Φ; S must have no negative eigenvalues."""

    def __init__(self, features: int, rank: int):
        self.sketch = LowRank(features, min(rank, features))

    def add(self, features: Tensor, curvature: Curvature) -> None:
        self.sketch.add(root(curvature.shared()).to(features.dtype) @ features)

    def posterior(self, weight: Tensor, *, centre: Tensor, scale: float, prior: float | None) -> Known:
        basis, values = self.sketch.leading()
        return _shared(basis, scale * values, weight, centre=centre, prior=prior)


def _shared(basis: Tensor, values: Tensor, weight: Tensor, *, centre: Tensor, prior: float | None) -> Known:
    if prior is None:
        prior = marginal_prior(values, squared_norm=squared_length([weight]), copies=len(weight))
    along, across = 1 / (values + prior), values.new_tensor(1 / prior)
    axes = basis.T.contiguous().to(weight)
    return SharedWeights(centre, axes=axes, along=along.to(weight), across=across.to(weight)), prior
