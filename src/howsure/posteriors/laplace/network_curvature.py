"""Curvature of a whole network, or of any of its parameters, by plain autograd: any module that can be trained.

H in the embedding space is a sum of outer products of cotangents V; the gradient of the embeddings along one of them,
g = J^T V, gives J^T H J = Σ g g^T. Random cotangents give the same in expectation, at the price of one backward pass
each, with every cross term between items kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from howsure.errors import InputError
from howsure.posteriors.laplace.curvature import Curvature

__all__ = ["Diagonal", "Kronecker", "exact_diagonal", "gradients", "kronecker_factors", "sampled_diagonal"]


@dataclass(frozen=True, eq=False)
class Diagonal:
    """The diagonal of J^T H J of one parameter: a sum of squared gradients, like the parameter."""

    squares: Tensor

    @classmethod
    def empty(cls, parameter: Tensor) -> Diagonal:
        return cls(torch.zeros_like(parameter, requires_grad=False))

    def add(self, gradient: Tensor) -> None:
        """Another gradient."""
        self.squares.addcmul_(gradient, gradient)


@dataclass(frozen=True, eq=False)
class Kronecker:
    """J^T H J of one weight matrix as (outer ⊗ inner)/tr(outer), the trace kept: Σ G G^T (O, O) and Σ G^T G (I, I).

    A convolution is a matrix (O, I·kh·kw).
    """

    outer: Tensor
    inner: Tensor

    @classmethod
    def empty(cls, weight: Tensor) -> Kronecker:
        if weight.ndim < 2:
            got = f"a parameter of shape {tuple(weight.shape)}"
            raise InputError("weights", expected="matrices or convolutions", got=got, fix="keep it diagonal")
        rows, columns = len(weight), weight[0].numel()
        outer = torch.zeros(rows, rows, dtype=torch.float64, device=weight.device)
        return cls(outer, outer.new_zeros(columns, columns))

    def add(self, gradient: Tensor) -> None:
        """Another gradient."""
        flat = gradient.flatten(1).double()
        self.outer.addmm_(flat, flat.T)
        self.inner.addmm_(flat.T, flat)

    def dense(self) -> Tensor:
        """(O·I, O·I)."""
        return torch.kron(self.outer, self.inner) / self.outer.trace().clamp_min(torch.finfo(self.outer.dtype).tiny)


def gradients(z: Tensor, parameters: Sequence[Tensor], cotangents: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """J^T V for each of the cotangents V, (R, B, D): one tensor like each parameter. Frees the graph of z."""
    if cotangents.shape[1:] != z.shape:
        raise InputError("z", expected=f"the embeddings {tuple(cotangents.shape[1:])}", got=str(tuple(z.shape)))
    if not z.requires_grad:
        raise InputError("z", expected="embeddings with their graph", got="none", fix="do not use torch.no_grad")
    for number, cotangent in enumerate(cotangents, 1):
        # A parameter that z does not depend on has no curvature.
        yield torch.autograd.grad(
            z, list(parameters), cotangent.to(z), retain_graph=number < len(cotangents), materialize_grads=True
        )


def sampled_diagonal(
    z: Tensor,
    parameters: Sequence[Tensor],
    curvature: Curvature,
    *,
    draws: int = 1,
    generator: torch.Generator | None = None,
) -> list[Tensor]:
    """An unbiased estimate of the diagonal of J^T H J, one tensor like each parameter; one backward pass a draw.

    z (B, D) are the embeddings before normalisation, with their graph; `curvature` is that of `z.detach()`.
    """
    cotangents = curvature.cotangents(draws, generator=generator)
    return [squares / draws for squares in _squares(z, parameters, cotangents)]


def exact_diagonal(z: Tensor, parameters: Sequence[Tensor], curvature: Curvature) -> list[Tensor]:
    """The diagonal of J^T H J itself; one backward pass for each of at most B·D cotangents."""
    return _squares(z, parameters, curvature.root())


def kronecker_factors(z: Tensor, weights: Sequence[Tensor], cotangents: Tensor) -> list[Kronecker]:
    """The factors of each weight, summed over `cotangents`.

    Give `curvature.root()` for the exact expectation, `curvature.cotangents(S)` and divide both by S for an estimate.
    """
    sums = [Kronecker.empty(weight) for weight in weights]
    for found in gradients(z, weights, cotangents):
        for total, gradient in zip(sums, found, strict=True):
            total.add(gradient)
    return sums


def _squares(z: Tensor, parameters: Sequence[Tensor], cotangents: Tensor) -> list[Tensor]:
    sums = [Diagonal.empty(parameter) for parameter in parameters]
    for found in gradients(z, parameters, cotangents):
        for total, gradient in zip(sums, found, strict=True):
            total.add(gradient)
    return [total.squares for total in sums]
