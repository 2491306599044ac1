"""The distance of two Gaussians in one, two or three dimensions, by a product of Gauss-Hermite rules.

w = δ + √λ ⊙ ε, ε ~ N(0, I): fixed nodes in place of random ε. Any diagonal λ, no Bessel functions, working precision.
At 64 nodes it costs what 8 × 8 samples cost, at about a tenth of their error (link 5, 5). It suits training; where
the last digits count, use `chi`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from howsure.errors import InputError
from howsure.numerics.chi import Radius

MOST_DIMENSIONS = 3
ALONG = {1: 24, 2: 8, 3: 4}  # nodes along each axis
LEAST = 1e-12  # added to |w|², for a finite gradient at zero


def product_radius(gap: Tensor, variance: Tensor) -> Radius:
    """|w| for w ~ N(gap, diag(variance)), both (..., D) with D up to 3.

    >>> product_radius(torch.tensor([1.5, 0.0]), torch.tensor([0.2, 0.2])).log_match(5.0, 5.0).exp()
    tensor(0.1545)
    """
    dim = gap.shape[-1]
    if dim not in ALONG:
        raise InputError("dimension", expected=f"1 to {MOST_DIMENSIONS}", got=str(dim), fix="use chi.radius")
    nodes, log_weights = _grid(dim, gap.device, gap.dtype)
    # The slope of a root is infinite at 0, where a point has its variance.
    scale = variance.clamp_min(LEAST).sqrt()
    total = torch.full_like(gap[..., :1], LEAST)
    for axis in range(dim):  # axis by axis: no (..., nodes, D) in memory
        total = total + (gap[..., axis, None] + scale[..., axis, None] * nodes[:, axis]).square()
    return Radius(total.sqrt(), log_weights.expand_as(total))


@lru_cache(maxsize=32)
def _grid(dim: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Nodes (M, D) of a unit normal and the logs of their weights (M,), without the corners, which weigh nothing."""
    at, weights = np.polynomial.hermite_e.hermegauss(ALONG[dim])
    nodes = np.stack(np.meshgrid(*[at] * dim, indexing="ij"), -1).reshape(-1, dim)
    mass = np.stack(np.meshgrid(*[weights] * dim, indexing="ij"), -1).prod(-1).reshape(-1)
    kept = mass > 1e-6 * mass.max()
    log_weights = np.log(mass[kept] / mass[kept].sum())
    return torch.tensor(nodes[kept], device=device, dtype=dtype), torch.tensor(log_weights, device=device, dtype=dtype)
