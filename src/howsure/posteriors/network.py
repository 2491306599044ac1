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
from howsure.posteriors.curvature import Curvature

__all__ = ["Kronecker", "exact_diagonal", "kronecker_factors", "sampled_diagonal"]


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
    return [total / draws for total in _squares(z, parameters, cotangents)]


def exact_diagonal(z: Tensor, parameters: Sequence[Tensor], curvature: Curvature) -> list[Tensor]:
    """The diagonal of J^T H J itself; one backward pass for each of at most B·D cotangents."""
    return _squares(z, parameters, curvature.root())


@dataclass(frozen=True, eq=False)
class Kronecker:
    """J^T H J of one weight matrix as (outer ⊗ inner)/tr(outer), the trace kept; outer (O, O), inner (I, I)."""

    outer: Tensor
    inner: Tensor

    def dense(self) -> Tensor:
        """(O·I, O·I)."""
        return torch.kron(self.outer, self.inner) / self.outer.trace().clamp_min(torch.finfo(self.outer.dtype).tiny)


def kronecker_factors(z: Tensor, weights: Sequence[Tensor], cotangents: Tensor) -> list[Kronecker]:
    """E[G G^T] and E[G^T G] of the gradients G of each weight, a convolution's as (O, I·kh·kw); sums over `cotangents`.

    Give `curvature.root()` for the exact expectation, `curvature.cotangents(S)` and divide both by S for an estimate.
    """
    sums = [_empty(weight) for weight in weights]
    for gradients in _gradients(z, weights, cotangents):
        for (outer, inner), gradient in zip(sums, gradients, strict=True):
            flat = gradient.flatten(1).double()
            outer += flat @ flat.T
            inner += flat.T @ flat
    return [Kronecker(outer, inner) for outer, inner in sums]


def _empty(weight: Tensor) -> tuple[Tensor, Tensor]:
    if weight.ndim < 2:
        got = f"a parameter of shape {tuple(weight.shape)}"
        raise InputError("weights", expected="matrices or convolutions", got=got, fix="keep it diagonal")
    rows, columns = len(weight), weight[0].numel()
    empty = torch.zeros(rows, rows, dtype=torch.float64, device=weight.device)
    return empty, empty.new_zeros(columns, columns)


def _squares(z: Tensor, parameters: Sequence[Tensor], cotangents: Tensor) -> list[Tensor]:
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for gradients in _gradients(z, parameters, cotangents):
        for total, gradient in zip(sums, gradients, strict=True):
            total.addcmul_(gradient, gradient)
    return sums


def _gradients(z: Tensor, parameters: Sequence[Tensor], cotangents: Tensor) -> Iterator[tuple[Tensor, ...]]:
    if cotangents.shape[1:] != z.shape:
        raise InputError("z", expected=f"the embeddings {tuple(cotangents.shape[1:])}", got=str(tuple(z.shape)))
    if not z.requires_grad:
        raise InputError("z", expected="embeddings with their graph", got="none", fix="do not use torch.no_grad")
    for number, cotangent in enumerate(cotangents, 1):
        # A parameter that z does not depend on has no curvature.
        yield torch.autograd.grad(
            z, list(parameters), cotangent.to(z), retain_graph=number < len(cotangents), materialize_grads=True
        )
