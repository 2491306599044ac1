"""Expected values of a function of the distance between two Gaussians, without samples.

If w ~ N(δ, λ I) in D dimensions, r = |w| is noncentral chi with m = |δ|:

    log f(r) = (D-1) log r - (D/2) log λ - (r-m)²/(2λ) + [ℓ_ν(x) - x] + const,    x = r m/λ,    ν = D/2 - 1

(ℓ as in `vmf`). Gauss-Legendre nodes on r0 ± 7√λ, r0 = √(m² + (D-1) λ), hold all of the mass. Weights are normalised
by their own sum, so constants of f do not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from howsure.errors import InputError
from howsure.numerics.vmf import log_bessel

NODES = 24
WINDOW = 7.0  # standard deviations; |w| is sub-Gaussian with √λ
LEAST = 1e-12  # relative to m²: a smaller variance moves no probability that float64 can see


@dataclass(frozen=True, eq=False)
class Radius:
    """The distribution of |w| as nodes and their weights, along the last axis."""

    nodes: Tensor
    log_weights: Tensor

    def log_match(self, scale: Tensor | float, offset: Tensor | float) -> Tensor:
        """log E[sigmoid(offset - scale |w|)]."""
        return torch.logsumexp(self.log_weights + torch.nn.functional.logsigmoid(offset - scale * self.nodes), -1)

    def log_mismatch(self, scale: Tensor | float, offset: Tensor | float) -> Tensor:
        """log E[1 - sigmoid(offset - scale |w|)]."""
        return torch.logsumexp(self.log_weights + torch.nn.functional.logsigmoid(scale * self.nodes - offset), -1)

    def mean(self, values: Tensor) -> Tensor:
        """E[g(|w|)] from the values of g at the nodes."""
        return (self.log_weights.exp() * values).sum(-1)


def radius(gap: Tensor, variance: Tensor, dim: float | Tensor, *, nodes: int = NODES) -> Radius:
    """|w| for w ~ N(δ, variance · I): `gap` = |δ|, in `dim` dimensions, which need not be whole.

    >>> r = radius(torch.tensor(1.5), torch.tensor(0.2), 2)
    >>> r.log_match(5.0, 5.0).exp()
    tensor(0.1549)
    """
    if nodes < 2:
        raise InputError("nodes", expected="2 or more", got=str(nodes))
    dtype = gap.dtype
    m, lam = torch.broadcast_tensors(gap.double(), variance.double())
    lam = torch.maximum(lam, LEAST * m.detach().square() + 1e-30)
    at, weights = _legendre(nodes, gap.device)
    centre, half = torch.sqrt((m.square() + (dim - 1) * lam).clamp_min(0)), WINDOW * lam.sqrt()
    low, high = (centre - half).clamp_min(0), centre + half
    r = low[..., None] + (high - low)[..., None] * at
    m, lam = m[..., None], lam[..., None]
    wide = dim[..., None].double() if isinstance(dim, Tensor) else dim
    density = (wide - 1) * r.log() - (r - m).square() / (2 * lam) + _scaled_bessel(wide, r * m / lam)
    return Radius(r.to(dtype), torch.log_softmax(density + weights, -1).to(dtype))


def plane_radius(gap: Tensor, variance: Tensor, *, nodes: int = NODES) -> Radius:
    """|w| for w ~ N(gap, diag(variance)) in the plane, both (..., 2), however long the ellipse: nodes² nodes.

    The ellipse is a disc that is moved along the longer axis: w = δ + t √(λ_long - λ_short) e + √λ_short ε. Over t
    the rule is the trapezoid's, which for a normal density is as good as any.

    >>> plane_radius(torch.tensor([1.5, 0.0]), torch.tensor([0.2, 0.2])).log_match(5.0, 5.0).exp()
    tensor(0.1549)
    """
    short = variance.amin(-1, keepdim=True)
    longer = variance - short
    # The slope of a root is infinite at 0.
    reach = torch.where(longer > 0, longer.clamp_min(torch.finfo(longer.dtype).tiny).sqrt(), 0)
    t = torch.linspace(-WINDOW, WINDOW, nodes, dtype=gap.dtype, device=gap.device)
    moved = gap[..., None, :] + reach[..., None, :] * t[:, None]
    disc = radius(_norm(moved.square().sum(-1)), short, 2, nodes=nodes)
    log_weights = disc.log_weights + torch.log_softmax(-t.square() / 2, 0)[:, None]
    return Radius(disc.nodes.flatten(-2), log_weights.flatten(-2))


def surrogate(gap: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The isotropic Gaussian whose squared norm has the same mean and variance as that of N(gap, diag(variance)).

    From (..., D) to |gap|, one variance and an effective number of dimensions; exact where all variances agree.
    """
    squared = gap.square().sum(-1)
    trace = variance.sum(-1)
    second = (variance.square() + 2 * variance * gap.square()).sum(-1)  # half the variance of |w|²
    tiny = torch.finfo(gap.dtype).tiny
    effective = second / (trace + 2 * squared).clamp_min(tiny)
    return _norm(squared), effective, trace / effective.clamp_min(tiny)


def closed_form_match(gap: Tensor, variance: Tensor, *, scale: Tensor | float, offset: Tensor | float) -> Tensor:
    """E[sigmoid(offset - scale |w|)] from the first two moments of |w|², roughly: off by about .01, at no cost.

    `gap` and `variance` are (..., D).
    """
    first = (variance + gap.square()).sum(-1)
    second = 2 * (variance.square() + 2 * variance * gap.square()).sum(-1)
    mean = first.sqrt() * (1 - second / (8 * first.square()))
    rest = (first - mean.square()).clamp_min(0)  # the variance of |w|
    return torch.sigmoid((offset - scale * mean) / torch.sqrt(1 + math.pi * scale**2 * rest / 8))


def _scaled_bessel(dim: float | Tensor, x: Tensor) -> Tensor:
    """ℓ_ν(x) - x up to a constant, by the quickest accurate way."""
    if not isinstance(dim, Tensor) and dim == 2:
        return _LogI0e.apply(x)
    if not isinstance(dim, Tensor) and dim == 3:
        small = x < 1e-4
        safe = torch.where(small, torch.ones_like(x), x)
        return torch.where(small, -x, torch.log(-torch.expm1(-2 * safe) / (2 * safe)))
    return log_bessel(dim / 2 - 1, x)


class _LogI0e(Function):
    """log I_0(x) - x; torch's own derivative of i0e is off at x = 0, where the function has a corner."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.special.i0e(x).log()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradients[0] * (torch.special.i1e(x) / torch.special.i0e(x) - 1)


def _norm(squared: Tensor) -> Tensor:
    # A finite gradient at zero.
    zero = squared == 0
    return torch.where(zero, torch.zeros_like(squared), torch.where(zero, torch.ones_like(squared), squared).sqrt())


@lru_cache(maxsize=32)
def _legendre(nodes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes on [0, 1] and the logs of their weights."""
    at, weights = np.polynomial.legendre.leggauss(nodes)
    return torch.tensor((at + 1) / 2, device=device), torch.tensor(np.log(weights / 2), device=device)
