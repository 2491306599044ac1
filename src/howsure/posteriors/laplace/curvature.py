"""Curvature of pairwise losses in the embedding space: the Hessian of one batch, (B·D, B·D), before the network.

A generalised Gauss-Newton matrix is J^T H J, with J the derivative of the embeddings by the weights. H is made here,
once for a batch and all its pairs; repairs of its sign belong here too, never to single weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from howsure.errors import InputError
from howsure.posteriors.laplace.pairs import PairGraph, Variant, clipped

Geometry = Literal["free", "euclidean", "arccos"]

LARGEST = 4096  # B·D beyond which a dense Hessian is refused: 134 MB


class Curvature(ABC):
    """H of one batch with B items in D dimensions, summed over `count` pairs."""

    count: float

    @abstractmethod
    def blocks(self) -> Tensor:
        """The (D, B, B) diagonal blocks H[:, i, :, i]."""

    @abstractmethod
    def dense(self) -> Tensor:
        """All of it, (B, D, B, D)."""

    def shared(self) -> Tensor:
        """The mean of the blocks, (B, B): with it I ⊗ shared is as near to H as one block for all can be."""
        return self.blocks().mean(0)

    def root(self) -> Tensor:
        """Cotangents (R, B, D) whose outer products sum to H."""
        dense = self.dense()
        items, dim = dense.shape[:2]
        return root(dense.reshape(items * dim, items * dim)).reshape(-1, items, dim)

    def cotangents(self, draws: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Random cotangents (S, B, D) whose outer products are H in expectation."""
        columns = self.root()
        return torch.tensordot(_normal(columns, draws, len(columns), generator=generator), columns, 1)


@dataclass(frozen=True, eq=False)
class PairCurvature(Curvature):
    """H_ab = L_ab P_a P_b / (r_a r_b) for pairs at squared distance, P = I - u u^T; plus `own` (B, D, D) at a = b.

    A space without a sphere has u = 0 and r = 1. `own` is what the arc cosine adds to the squared distance.
    """

    laplacian: Tensor  # (B, B)
    unit: Tensor  # (B, D)
    length: Tensor  # (B,)
    count: float
    own: Tensor | None = None

    def blocks(self) -> Tensor:
        cosine = self.unit @ self.unit.T
        u = self.unit.T[:, :, None]  # (D, B, 1)
        v = self.unit.T[:, None, :]
        blocks = self._scaled() * (1 - u.square() - v.square() + cosine * u * v)
        if self.own is not None:
            torch.diagonal(blocks, dim1=1, dim2=2).add_(torch.diagonal(self.own, dim1=1, dim2=2).T)
        return blocks

    def shared(self) -> Tensor:
        dim = self.unit.shape[1]
        squared = self.unit.square().sum(1)
        cosine = self.unit @ self.unit.T
        block = self._scaled() * (1 - (squared[:, None] + squared - cosine.square()) / dim)
        if self.own is not None:
            block.diagonal().add_(torch.diagonal(self.own, dim1=1, dim2=2).mean(1))
        return block

    def dense(self) -> Tensor:
        items, dim = self.unit.shape
        _check_size(items * dim)
        eye = torch.eye(dim, dtype=self.unit.dtype, device=self.unit.device)
        across = eye - self.unit[:, :, None] * self.unit[:, None, :]  # P_a
        dense = torch.einsum("ab,aik,bkj->aibj", self._scaled(), across, across)
        if self.own is not None:
            rows = torch.arange(items)
            dense[rows, :, rows, :] += self.own
        return dense

    def root(self) -> Tensor:
        if self.own is not None:
            return super().root()
        dim = self.unit.shape[1]
        eye = torch.eye(dim, dtype=self.unit.dtype, device=self.unit.device)
        columns = root(self.laplacian)[:, None, :, None] * eye[:, None, :]  # (R, D, B, D)
        return self._through_norm(columns.flatten(0, 1))

    def cotangents(self, draws: int, *, generator: torch.Generator | None = None) -> Tensor:
        if self.own is not None:
            return super().cotangents(draws, generator=generator)
        columns = root(self.laplacian)  # (R, B)
        noise = _normal(columns, draws, len(columns), self.unit.shape[1], generator=generator)
        return self._through_norm(torch.einsum("rb,srd->sbd", columns, noise))

    def _scaled(self) -> Tensor:
        return self.laplacian / (self.length[:, None] * self.length)

    def _through_norm(self, cotangent: Tensor) -> Tensor:
        along = (cotangent * self.unit).sum(-1, keepdim=True)
        return (cotangent - along * self.unit) / self.length[:, None]


@dataclass(frozen=True, eq=False)
class DenseCurvature(Curvature):
    """H as it is, (B, D, B, D): for any loss, where B·D is small."""

    hessian: Tensor
    count: float

    def blocks(self) -> Tensor:
        return torch.diagonal(self.hessian, dim1=1, dim2=3).permute(2, 0, 1)

    def dense(self) -> Tensor:
        return self.hessian


def pair_curvature(
    z: Tensor, pairs: PairGraph, *, variant: Variant = "pos", geometry: Geometry = "euclidean"
) -> Curvature:
    """The curvature of a batch's pairs at embeddings z, (B, D), before any normalisation; float64.

    | geometry | loss of a pair | |
    |---|---|---|
    | `free` | |z - z'|²/2 | for embeddings at no fixed length |
    | `euclidean` | |u - u'|²/2, u = z/|z| | the norm is a layer of the network: Gauss-Newton through it |
    | `arccos` | 1 - cos(z, z') | the exact Hessian in z; indefinite even for positive pairs |

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> pair_curvature(z, PairGraph.from_labels(torch.tensor([0, 0])), geometry="free").shared()
    tensor([[ 1., -1.],
            [-1.,  1.]], dtype=torch.float64)
    """
    if geometry not in get_args(Geometry):
        raise InputError("geometry", expected=" or ".join(get_args(Geometry)), got=repr(geometry))
    if z.ndim != 2 or len(z) != len(pairs.positive):
        raise InputError("z", expected=f"({len(pairs.positive)}, D), one row for each item", got=str(tuple(z.shape)))
    z, count = z.detach().double(), pairs.count(variant)
    if geometry == "free":
        return PairCurvature(pairs.laplacian(variant), torch.zeros_like(z), torch.ones_like(z[:, 0]), count)
    length = z.norm(dim=1)
    if not (length > 0).all():
        raise InputError("z", expected="vectors with a direction", got="a zero", fix="use geometry free, or look at it")
    unit = z / length[:, None]
    if geometry == "euclidean":
        return PairCurvature(pairs.laplacian(variant), unit, length, count)
    weights = pairs.signed(variant)
    own = _arccos_own(unit, length, weights)
    if variant != "psd":
        return PairCurvature(pairs.laplacian(variant), unit, length, count, own)
    items, dim = z.shape
    plain = PairCurvature(pairs.laplacian("full"), unit, length, count, own).dense()
    flat = clipped(plain.reshape(items * dim, items * dim))
    return DenseCurvature(flat.reshape(items, dim, items, dim), count)


def loss_curvature(loss: Callable[[Tensor], Tensor], z: Tensor, *, count: float = 1.0) -> DenseCurvature:
    """The curvature of any twice differentiable loss of a whole batch z, (B, D), its negative part cut off.

    `count` is the number of pairs the loss sums over; 1 for a loss that is a mean already.
    """
    items, dim = z.shape
    _check_size(items * dim)
    with _TwiceDifferentiable():
        hessian = torch.autograd.functional.hessian(loss, z.detach().double())
    if not isinstance(hessian, Tensor) or not torch.isfinite(hessian).all():
        raise InputError("Hessian of the loss", expected="finite values", got="others", fix="use a smooth loss")
    flat = clipped(hessian.reshape(items * dim, items * dim))
    return DenseCurvature(flat.reshape(items, dim, items, dim), count)


class _TwiceDifferentiable(TorchFunctionMode):
    """torch.cdist has a first derivative only; pytorch-metric-learning's Euclidean losses call it."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not torch.cdist:
            return function(*args, **(kwargs or {}))
        return _distances(*args, **(kwargs or {}))


def _distances(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    gaps = (x1[..., :, None, :] - x2[..., None, :, :]).abs()
    if p != 2:
        return torch.linalg.vector_norm(gaps, ord=p, dim=-1)
    squared = gaps.square().sum(-1)
    apart = squared > 0
    return torch.where(apart, torch.where(apart, squared, 1).sqrt(), 0)  # flat where the root has no slope


def root(matrix: Tensor) -> Tensor:
    """Rows (R, n) with rows^T rows = matrix; R is its rank. A matrix with negative eigenvalues has none."""
    values, vectors = torch.linalg.eigh(matrix)
    tiny = 1e-12 * values.abs().max() * len(values)
    if (values < -tiny).any():
        raise InputError(
            "curvature",
            expected="no negative eigenvalues",
            got=f"{int((values < -tiny).sum())} of {len(values)}",
            fix="use variant psd or pos",
        )
    kept = values > tiny
    return (vectors[:, kept] * values[kept].sqrt()).T


def _arccos_own(unit: Tensor, length: Tensor, weights: Tensor) -> Tensor:
    """(B, D, D): the diagonal blocks of 1 - cos, minus those of the Euclidean Gauss-Newton matrix."""
    pull = weights @ unit  # Σ_b W_ab u_b
    cosine = (pull * unit).sum(1)[:, None, None]
    outer = unit[:, :, None] * unit[:, None, :]
    cross = unit[:, :, None] * pull[:, None, :]
    eye = torch.eye(unit.shape[1], dtype=unit.dtype, device=unit.device)
    bend = cosine * (eye - 3 * outer) + cross + cross.transpose(1, 2)
    return (bend - weights.sum(1)[:, None, None] * (eye - outer)) / length.square()[:, None, None]


def _normal(like: Tensor, *shape: int, generator: torch.Generator | None) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise InputError(
            "batch", expected=f"at most {LARGEST} items x dimensions", got=str(size), fix="smaller batches"
        )
