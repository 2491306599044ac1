"""Curvature of a whole network, or of any of its parameters, by plain autograd: any module that can be trained.

H in the embedding space is a sum of outer products of cotangents V; the gradient of the embeddings along one of them,
g = J^T V, gives J^T H J = Σ g g^T. Random cotangents give the same in expectation, at the price of one backward pass
each, with every cross term between items kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from howsure.errors import InputError
from howsure.posteriors.laplace.covariance import DiagonalCovariance, KroneckerCovariance, ParameterCovariance


@dataclass(frozen=True, eq=False)
class CurvatureSpectrum:
    """The curvature of a parameter: values along axes of its own, or along those of a Kronecker product."""

    values: Tensor
    axes: tuple[Tensor, Tensor] | None = None

    def covariance(self, prior: float, parameter: Tensor) -> ParameterCovariance:
        """The posterior of the parameter."""
        along = (1 / (self.values + prior)).to(parameter)
        if self.axes is None:
            return DiagonalCovariance(along)
        outer, inner = (axes.to(parameter).contiguous() for axes in self.axes)  # as they are after loading
        return KroneckerCovariance(along, outer=outer, inner=inner, shape=parameter.shape)


class ParameterCurvature(ABC):
    """J^T H J of one parameter, summed over gradients."""

    @abstractmethod
    def add(self, gradient: Tensor) -> None:
        """Another gradient."""

    @abstractmethod
    def spectrum(self, scale: float) -> CurvatureSpectrum:
        """The sum, times `scale`."""


class Diagonal(ParameterCurvature):
    """The diagonal: a sum of squared gradients, like the parameter."""

    def __init__(self, parameter: Tensor):
        self.squares = torch.zeros_like(parameter, requires_grad=False)

    def add(self, gradient: Tensor) -> None:
        self.squares.addcmul_(gradient, gradient)

    def spectrum(self, scale: float) -> CurvatureSpectrum:
        return CurvatureSpectrum(scale * self.squares)


class Kronecker(ParameterCurvature):
    """A weight matrix as (outer ⊗ inner)/tr(outer), the trace kept: Σ G G^T (O, O) and Σ G^T G (I, I).

    A convolution is a matrix (O, I·kh·kw).
    """

    def __init__(self, weight: Tensor):
        rows, columns = len(weight), weight[0].numel()
        self.outer = torch.zeros(rows, rows, dtype=torch.float64, device=weight.device)
        self.inner = self.outer.new_zeros(columns, columns)

    def add(self, gradient: Tensor) -> None:
        flat = gradient.flatten(1).double()
        self.outer.addmm_(flat, flat.T)
        self.inner.addmm_(flat.T, flat)

    def spectrum(self, scale: float) -> CurvatureSpectrum:
        outside, outer = torch.linalg.eigh(self.outer)
        inside, inner = torch.linalg.eigh(self.inner)
        total = outside.sum().clamp_min(torch.finfo(outside.dtype).tiny)
        values = scale / total * torch.outer(outside.clamp_min(0), inside.clamp_min(0))
        return CurvatureSpectrum(values, (outer, inner))


def gradients(z: Tensor, parameters: Sequence[Tensor], cotangents: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """J^T V for each of the cotangents V, (R, B, D): one tensor like each parameter. Frees the graph of z."""
    if cotangents.shape[1:] != z.shape:
        raise InputError("z", expected=f"the embeddings {tuple(cotangents.shape[1:])}", got=str(tuple(z.shape)))
    for number, cotangent in enumerate(cotangents, 1):
        # A parameter that z does not depend on has no curvature.
        yield torch.autograd.grad(
            z, list(parameters), cotangent.to(z), retain_graph=number < len(cotangents), materialize_grads=True
        )
