"""Gaussian posteriors of one parameter around its estimate: diagonal, Kronecker-factored, or shared by rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ParameterCovariance(nn.Module, ABC):
    """Deviations of a parameter from its estimate: a Gaussian of mean 0; `kind` is its key in `COVARIANCES`."""

    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def blank(cls, parameter: Tensor) -> ParameterCovariance:
        """One for that parameter, with tensors still to be loaded."""

    @abstractmethod
    def squared(self, slope: Tensor) -> Tensor:
        """slope^T Cov slope, (N,), of slopes (N, ...) like the parameter: its part in the variance of a value."""

    @abstractmethod
    def squared_product(self, left: Tensor, right: Tensor) -> Tensor:
        """The same for slopes Σ_t left_t ⊗ right_t of a matrix, from (N, T, O) and (N, T, I)."""

    @abstractmethod
    def deviation(self, generator: torch.Generator) -> Tensor:
        """One draw, like the parameter."""


class DiagonalCovariance(ParameterCovariance):
    """Every weight on its own: variances like the parameter."""

    kind: ClassVar[str] = "diagonal"
    along: Tensor

    def __init__(self, along: Tensor):
        super().__init__()
        self.register_buffer("along", along)

    @classmethod
    def blank(cls, parameter: Tensor) -> DiagonalCovariance:
        return cls(torch.zeros_like(parameter, requires_grad=False))

    def squared(self, slope: Tensor) -> Tensor:
        return (slope.square() * self.along).flatten(1).sum(1)

    def squared_product(self, left: Tensor, right: Tensor) -> Tensor:
        if left.shape[1] > 1:
            return self.squared((left.transpose(1, 2) @ right).view(-1, *self.along.shape))
        return (F.linear(right[:, 0].square(), self.along.flatten(1)) * left[:, 0].square()).sum(1)

    def deviation(self, generator: torch.Generator) -> Tensor:
        return _noise(self.along, generator) * self.along.sqrt()


class KroneckerCovariance(ParameterCovariance):
    """A weight matrix W = outer Z inner^T with independent Z of variances `along`, (O, I); outer and inner orthogonal.

        Var (W x)_o = Σ_ji outer_oj² along_ji (inner^T x)_i²

    A convolution is a matrix with rows for its filters; `shape` is its own.
    """

    kind: ClassVar[str] = "kronecker"
    along: Tensor
    outer: Tensor
    inner: Tensor

    def __init__(self, along: Tensor, *, outer: Tensor, inner: Tensor, shape: torch.Size):
        super().__init__()
        self.shape = shape
        self.register_buffer("along", along)
        self.register_buffer("outer", outer)
        self.register_buffer("inner", inner)

    @classmethod
    def blank(cls, parameter: Tensor) -> KroneckerCovariance:
        rows, columns, empty = len(parameter), parameter[0].numel(), parameter.new_zeros
        shape, outer, inner = parameter.shape, empty(rows, rows), empty(columns, columns)
        return cls(empty(rows, columns), outer=outer, inner=inner, shape=shape)

    def squared(self, slope: Tensor) -> Tensor:
        return ((self.outer.T @ slope.flatten(2) @ self.inner).square() * self.along).sum((1, 2))

    def squared_product(self, left: Tensor, right: Tensor) -> Tensor:
        if left.shape[1] > 1:
            return self.squared(left.transpose(1, 2) @ right)
        return (F.linear((right[:, 0] @ self.inner).square(), self.along) * (left[:, 0] @ self.outer).square()).sum(1)

    def deviation(self, generator: torch.Generator) -> Tensor:
        turned = _noise(self.along, generator) * self.along.sqrt()
        return (self.outer @ turned @ self.inner.T).view(self.shape)


COVARIANCES: dict[str, type[ParameterCovariance]] = {
    kind.kind: kind for kind in (DiagonalCovariance, KroneckerCovariance)
}


def _noise(like: Tensor, generator: torch.Generator) -> Tensor:
    # On the CPU: the same draws on every device.
    return torch.randn(like.shape, generator=generator, dtype=like.dtype).to(like.device)


class WeightPosterior(nn.Module, ABC):
    """Deviations of a (D, M) weight matrix from its estimate: a Gaussian of mean 0."""

    centre: Tensor  # (M,)

    def __init__(self, centre: Tensor):
        super().__init__()
        self.register_buffer("centre", centre)

    @abstractmethod
    def variance(self, features: Tensor) -> Tensor:
        """Of z, from (N, M) features: (N, D), or (N, 1) if it is the same in every dimension."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What `LastLayerLaplace.around` needs besides the tensors."""

    @abstractmethod
    def deviations(self, draws: int, dim: int, generator: torch.Generator) -> Tensor:
        """(S, D, M) joint draws."""


class SharedWeights(WeightPosterior):
    """Full covariance over the features, the same for each of the D rows of the matrix.

    `axes` (R, M) are orthonormal, with variances `along` (R,); every direction across them has the variance `across`.

        Var z_i = Σ_j along_j (a_j·g)² + across |g - Σ_j a_j (a_j·g)|²,        g = φ - centre
    """

    axes: Tensor
    along: Tensor
    across: Tensor

    CANCELS = 1e4

    def __init__(self, centre: Tensor, *, axes: Tensor, along: Tensor, across: Tensor, careful: bool | None = None):
        super().__init__(centre)
        # A difference of squares loses some 1e-7 of the length. That matters for features nearly in the span where
        # directions across are much wider; then the remainder itself is made, at twice the cost.
        self.careful = bool(across > self.CANCELS * along.min()) if careful is None else careful
        self.register_buffer("axes", axes)
        self.register_buffer("along", along)
        self.register_buffer("across", across)

    def variance(self, features: Tensor) -> Tensor:
        axes = self.axes
        gap = features - self.centre
        parts = F.linear(gap, axes)
        squares = parts * parts
        if axes.shape[0] == axes.shape[1]:
            return torch.mv(squares, self.along).unsqueeze(1)
        if self.careful:
            gap, beyond = torch.addmm(gap, parts, axes, alpha=-1), self.along
        else:
            beyond = self.along - self.across  # |g|² has counted `across` once; CANCELS keeps the sum positive
        return torch.addmv(torch.linalg.vecdot(gap, gap), squares, beyond, beta=float(self.across)).unsqueeze(1)

    def describe(self) -> dict[str, Any]:
        return {"axes": len(self.axes), "careful": self.careful}

    def deviations(self, draws: int, dim: int, generator: torch.Generator) -> Tensor:
        noise = torch.randn(draws * dim, len(self.centre), generator=generator, dtype=self.centre.dtype)
        noise = noise.to(self.centre.device)
        scale = self.across.sqrt()
        rows = scale * noise + (F.linear(noise, self.axes) * (self.along.sqrt() - scale)) @ self.axes
        return rows.view(draws, dim, -1)


class DiagonalWeights(WeightPosterior):
    """Every weight on its own, with variances v (D, M): Var z_i = Σ_j v_ij g_j², g = φ - centre."""

    spread: Tensor  # v, under the name it has in saved models

    def __init__(self, centre: Tensor, *, variances: Tensor):
        super().__init__(centre)
        self.register_buffer("spread", variances)

    def variance(self, features: Tensor) -> Tensor:
        return F.linear((features - self.centre).square(), self.spread)

    def describe(self) -> dict[str, Any]:
        return {"axes": None}

    def deviations(self, draws: int, dim: int, generator: torch.Generator) -> Tensor:
        noise = torch.randn(draws, *self.spread.shape, generator=generator, dtype=self.centre.dtype)
        return noise.to(self.centre.device) * self.spread.sqrt()
