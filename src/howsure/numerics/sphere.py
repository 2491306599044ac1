"""Distances and samples on the unit sphere.

A von Mises-Fisher sample with direction μ and concentration k is x = cos θ · μ + sin θ · v. The tangent v at μ is
uniform; the angle θ has density proportional to e^{k cos θ} sin^{d-2} θ and is drawn by Wood's rejection (1994). One
normal vector gives both a proposal for θ and v, which are independent. Everything is carried in 1 - cos θ, so a
concentration of ten million loses no digits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from howsure.errors import InputError
from howsure.numerics.vmf import mean_resultant_gap

NODES = 32
WINDOW = 9.0  # standard deviations of the angle's tail, beyond which the density is below 1e-16 of its peak


def great_circle_distance(u: Tensor, v: Tensor, *, paired: bool = False) -> Tensor:
    """The angle between unit vectors, in [0, π]: u (N, D) and v (K, D) give (N, K), or (N,) row by row.

        θ = 2 atan2(|u - v|, |u + v|)

    Accurate at both ends, where the arc cosine loses half of its digits. The gradient is finite everywhere, and zero
    at θ = 0 and θ = π, where it has no direction.

    >>> great_circle_distance(torch.eye(2), torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    tensor([[0.0000, 3.1416],
            [1.5708, 1.5708]])
    """
    if u.shape[-1] != v.shape[-1] or (paired and u.shape != v.shape):
        expected = "the same shape" if paired else "the same number of dimensions"
        raise InputError("unit vectors", expected=expected, got=f"{tuple(u.shape)} and {tuple(v.shape)}")
    if paired:
        return 2 * torch.atan2(torch.linalg.vector_norm(u - v, dim=-1), torch.linalg.vector_norm(u + v, dim=-1))
    return 2 * torch.atan2(_gaps(u, v), _gaps(u, -v))


def _gaps(u: Tensor, v: Tensor) -> Tensor:
    # Term by term: the matrix product would cancel where the gap is small.
    return torch.cdist(u, v, compute_mode="donot_use_mm_for_euclid_dist")


def sample_vmf(direction: Tensor, concentration: Tensor, n: int, *, generator: torch.Generator | None = None) -> Tensor:
    """(n, ..., D) independent samples around directions (..., D) with concentrations (...).

    Differentiable in both. A change of direction turns the sample along, by the shortest rotation. A change of
    concentration moves the angle at its fixed quantile, whatever the rejection did.

    >>> x = sample_vmf(torch.eye(3), torch.tensor([0.0, 10.0, 1e7]), 1000)
    >>> x.shape, x[:, 2, 2].min() > 0.9999
    (torch.Size([1000, 3, 3]), tensor(True))
    """
    dim = direction.shape[-1]
    if not ((concentration >= 0) & torch.isfinite(concentration)).all():  # rejection would wait for a NaN forever
        raise InputError("concentration", expected="finite values of 0 or more", got="others")
    mu, k = direction.double(), concentration.double().expand(n, *concentration.shape)
    with torch.no_grad():
        angle, tangent = _angle_and_tangent(mu, k, generator)
    angle = _Angle.apply(k, angle, dim)[..., None]
    # The last term is zero and its gradient is not: it keeps v tangent while μ moves.
    turned = tangent - (tangent * mu).sum(-1, keepdim=True) * mu
    return (angle.cos() * mu + angle.sin() * turned).to(direction.dtype)


def _angle_and_tangent(mu: Tensor, k: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Angles like k, (n, ...), and unit tangents at μ, (n, ..., D), by rejection until every element has one."""
    shape, dim = k.shape, mu.shape[-1]
    mu, k = mu.expand(*shape, dim).reshape(-1, dim), k.reshape(-1)
    angle, tangent = torch.empty_like(k), torch.empty_like(mu)
    left = torch.arange(len(k), device=k.device)
    while len(left):
        normal = torch.randn(len(left), dim, generator=generator, dtype=k.dtype, device=k.device)
        along = (normal * mu[left]).sum(-1, keepdim=True)
        across = normal - along * mu[left]
        across = across - (across * mu[left]).sum(-1, keepdim=True) * mu[left]  # once more, for the last digits
        width = across.norm(dim=-1)
        # (1 - cos)/2 of a uniform direction is Beta((d-1)/2, (d-1)/2), Wood's proposal.
        share = 0.5 * (1 - along[:, 0] / torch.hypot(along[:, 0], width))
        gap, accepted = _wood(share, k[left], dim, generator)
        accepted &= width > 0
        where = left[accepted]
        angle[where] = 2 * torch.asin((gap[accepted] / 2).sqrt().clamp_max(1))
        tangent[where] = across[accepted] / width[accepted, None]
        left = left[~accepted]
    return angle.reshape(shape), tangent.reshape(*shape, dim)


def _wood(y: Tensor, k: Tensor, dim: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """1 - t of the proposed cosine t = (1 - (1+b) y)/(1 - (1-b) y), and whether it is accepted."""
    b = (dim - 1) / (2 * k + torch.sqrt(4 * k**2 + (dim - 1) ** 2))
    gap = 2 * b * y / (1 - y + b * y)
    x0, x0_gap = (1 - b) / (1 + b), 2 * b / (1 + b)
    envelope = k * (x0_gap - gap) + (dim - 1) * torch.log((x0_gap + x0 * gap) / (x0_gap * (1 + x0)))
    uniform = torch.rand(len(y), generator=generator, dtype=y.dtype, device=y.device)
    return gap, envelope >= torch.log1p(-uniform)


class _Angle(Function):
    """The angle as a function of k at its fixed quantile: dθ/dk = -∂F/∂k / f(θ), F the distribution function.

    With f(s) = e^{k cos s} sin^{d-2} s, this is ∫_0^θ (A - cos s) f(s) ds / f(θ), or minus the same over the rest:
    the side without a change of sign is taken, by Gauss-Legendre.
    """

    @staticmethod
    def forward(ctx: Any, k: Tensor, angle: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(k, angle)
        ctx.dim = dim
        return angle.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        k, angle = ctx.saved_tensors
        return gradients[0] * _angle_slope(k, angle, ctx.dim), None, None


def _angle_slope(k: Tensor, angle: Tensor, dim: int) -> Tensor:
    """dθ/dk, negative: more concentration is a smaller angle."""
    mean_gap = mean_resultant_gap(k, dim)
    inner = 2 * torch.sin(angle / 2) ** 2 < mean_gap  # cos θ > A
    root = torch.sqrt((dim - 2) ** 2 + 4 * k**2)
    mode = 2 * k / (dim - 2 + root).clamp_min(1e-300)
    curvature = k * mode + (dim - 2 + root) / 2  # of log f at its peak; half of it bounds the tail
    width = WINDOW / (curvature / 2).clamp_min(1e-30).sqrt()
    low = torch.where(inner, (angle - width).clamp_min(0), angle)
    high = torch.where(inner, angle, (angle + width).clamp_max(torch.pi))
    at, weights = _legendre(angle.device)
    length, centre = (high - low)[..., None], angle[..., None]
    s = low[..., None] + length * at
    ratio = k[..., None] * -2 * torch.sin((s + centre) / 2) * torch.sin((s - centre) / 2)
    tiny = 1e-300
    ratio = ratio + (dim - 2) * (s.sin().clamp_min(tiny).log() - centre.sin().clamp_min(tiny).log())
    offset = (mean_gap[..., None] - 2 * torch.sin(s / 2) ** 2).abs()  # |cos s - A|
    return -(weights * offset * ratio.exp() * length).sum(-1)


@lru_cache(maxsize=8)
def _legendre(device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [0, 1]."""
    at, weights = np.polynomial.legendre.leggauss(NODES)
    return torch.tensor((at + 1) / 2, device=device), torch.tensor(weights / 2, device=device)
