"""Curvature of pairwise losses in the embedding space: the Hessian of one batch, (B·D, B·D), before the network.

A generalised Gauss-Newton matrix is J^T H J, with J the derivative of the embeddings by the weights. H is made here,
once for a batch and all its pairs; repairs of its sign belong here too, never to single weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from howsure.errors import InputError
from howsure.posteriors.laplace.pairs import PairGraph, Variant

Geometry = Literal["free", "euclidean"]


@dataclass(frozen=True, eq=False)
class Curvature:
    """H_ab = L_ab P_a P_b / (r_a r_b) of one batch with B items, P = I - u u^T, summed over `count` pairs.

    A space without a sphere has u = 0 and r = 1.
    """

    laplacian: Tensor  # (B, B)
    unit: Tensor  # (B, D)
    length: Tensor  # (B,)
    count: float

    def blocks(self) -> Tensor:
        """The (D, B, B) diagonal blocks H[:, i, :, i]."""
        cosine = self.unit @ self.unit.T
        u = self.unit.T[:, :, None]  # (D, B, 1)
        v = self.unit.T[:, None, :]
        return self._scaled() * (1 - u.square() - v.square() + cosine * u * v)

    def shared(self) -> Tensor:
        """The mean of the blocks, (B, B): with it I ⊗ shared is as near to H as one block for all can be."""
        dim = self.unit.shape[1]
        squared = self.unit.square().sum(1)
        cosine = self.unit @ self.unit.T
        return self._scaled() * (1 - (squared[:, None] + squared - cosine.square()) / dim)

    def root(self) -> Tensor:
        """Cotangents (R, B, D) whose outer products sum to H."""
        dim = self.unit.shape[1]
        eye = torch.eye(dim, dtype=self.unit.dtype, device=self.unit.device)
        columns = root(self.laplacian)[:, None, :, None] * eye[:, None, :]  # (R, D, B, D)
        return self._through_norm(columns.flatten(0, 1))

    def cotangents(self, draws: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Random cotangents (S, B, D) whose outer products are H in expectation."""
        columns = root(self.laplacian)  # (R, B)
        shape = draws, len(columns), self.unit.shape[1]
        noise = torch.randn(shape, generator=generator, dtype=columns.dtype, device=columns.device)
        return self._through_norm(torch.einsum("rb,srd->sbd", columns, noise))

    def _scaled(self) -> Tensor:
        return self.laplacian / (self.length[:, None] * self.length)

    def _through_norm(self, cotangent: Tensor) -> Tensor:
        along = (cotangent * self.unit).sum(-1, keepdim=True)
        return (cotangent - along * self.unit) / self.length[:, None]


def pair_curvature(
    z: Tensor, pairs: PairGraph, *, variant: Variant = "pos", geometry: Geometry = "euclidean"
) -> Curvature:
    """The curvature of a batch's pairs at embeddings z, (B, D), before any normalisation; float64.

    | geometry | loss of a pair | |
    |---|---|---|
    | `free` | |z - z'|²/2 | for embeddings at no fixed length |
    | `euclidean` | |u - u'|²/2, u = z/|z| | the norm is a layer of the network: Gauss-Newton through it |

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> pair_curvature(z, PairGraph.from_labels(torch.tensor([0, 0])), geometry="free").shared()
    tensor([[ 1., -1.],
            [-1.,  1.]], dtype=torch.float64)
    """
    if geometry not in get_args(Geometry):
        raise InputError("geometry", expected=" or ".join(get_args(Geometry)), got=repr(geometry))
    if z.ndim != 2 or len(z) != len(pairs.positive):
        raise InputError("z", expected=f"({len(pairs.positive)}, D), one row for each item", got=str(tuple(z.shape)))
    z, laplacian, count = z.detach().double(), pairs.laplacian(variant), pairs.count(variant)
    if geometry == "free":
        return Curvature(laplacian, torch.zeros_like(z), torch.ones_like(z[:, 0]), count)
    length = z.norm(dim=1)
    if not (length > 0).all():
        raise InputError("z", expected="vectors with a direction", got="a zero", fix="use geometry free, or look at it")
    return Curvature(laplacian, z / length[:, None], length, count)


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
