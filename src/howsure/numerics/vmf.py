"""Functions of the von Mises-Fisher distribution, accurate for every dimension and concentration.

The density on the unit sphere of R^d is C_d(k) exp(k μ·x). With ν = d/2 - 1,

    log C_d(k) = -(d/2) log 2π - ℓ_ν(k),    ℓ_ν(k) = log(I_ν(k)/k^ν)
    A_d(k) = I_{ν+1}(k)/I_ν(k) = E[μ·x],    the mean resultant length: 0 at k = 0, towards 1 as k grows

Everything runs in float64 inside, whatever the input, elementwise, on any device. An order above 20 is reached by an
asymptotic (Debye) expansion and brought down by a recurrence that is stable in that direction. Three quantities are
carried, each accurate where the others cancel: ℓ - k, ρ = A/k and q = 1 - A.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from howsure.errors import InputError

TOP = 20  # the order from which ten terms of the expansion give full accuracy
TERMS = 10
ANY_ORDER = 22  # steps down that are enough for orders from -1 up, when they differ from element to element


def scaled_log_normalizer(concentration: Tensor, dim: int) -> Tensor:
    """log C_d(k) + k, accurate also where the two are large and nearly cancel. Its derivative is 1 - A_d(k).

    >>> scaled_log_normalizer(torch.tensor(0.0), 3)                # uniform: minus the log of the sphere's area, 4π
    tensor(-2.5310)
    """
    return _smooth(concentration, dim, _LOG_C_PLUS_K)


def mean_resultant(concentration: Tensor, dim: int) -> Tensor:
    """A_d(k) in [0, 1): the expected cosine to the mean direction.

    >>> mean_resultant(torch.tensor([0.0, 1.797, 1000.0]), 3)
    tensor([0.0000, 0.5000, 0.9990])
    """
    return _smooth(concentration, dim, _A)


def mean_resultant_gap(concentration: Tensor, dim: int) -> Tensor:
    """1 - A_d(k), with full relative accuracy where A is close to 1."""
    return _smooth(concentration, dim, _GAP)


def inverse_mean_resultant(resultant: Tensor, dim: int) -> Tensor:
    """The concentration whose mean resultant length is this: Banerjee's formula, then Newton steps."""
    r = torch.as_tensor(resultant)
    if not ((r >= 0) & (r < 1)).all():
        raise InputError("resultant", expected="values from 0 to below 1", got=f"{r.min():g} to {r.max():g}")
    r = r.double()
    k = r * (dim - r**2) / ((1 - r) * (1 + r))
    for _ in range(4):
        _, rho, gap = _core(k, dim / 2 - 1)
        # Close to 1 the gaps are compared, elsewhere the resultants: no digits are lost.
        error = torch.where(r > 0.5, (1 - r) - gap, k * rho - r)
        k = (k - error / _slope(k, dim)).clamp_min(0)
    if resultant.requires_grad:
        k = _Inverse.apply(r, k, dim)
    return k.to(resultant.dtype)


def log_bessel(order: Tensor | float, x: Tensor) -> Tensor:
    """ℓ_ν(x) - x = log(I_ν(x)/x^ν) - x for real orders above -1, one for all or one for each element; float64.

    Finite at x = 0. Differentiable in x, and in the order where it is a tensor.
    """
    if isinstance(order, Tensor):
        return _core(x.double(), order.double())[0]
    return _LogBessel.apply(x.double(), order)


# Smooth functions of k, each the derivative of the one before up to sign: log C + k -> 1 - A -> A' -> A''.
_LOG_C_PLUS_K, _A, _GAP, _SLOPE, _BEND = range(5)


def _smooth(concentration: Tensor, dim: int, which: int) -> Tensor:
    if dim < 2:
        raise InputError("dim", expected="2 or more", got=str(dim))
    if not isinstance(concentration, Tensor) or not concentration.is_floating_point():
        raise InputError("concentration", expected="a floating-point tensor", got=type(concentration).__name__)
    if not ((concentration >= 0) & torch.isfinite(concentration)).all():
        raise InputError(
            "concentration", expected="finite values of 0 or more", got="a negative value, infinity or NaN"
        )
    return _Smooth.apply(concentration.double(), dim, which).to(concentration.dtype)


class _Smooth(Function):
    """One function of k with its exact derivative, so that no gradient goes through the recurrence."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, dim: int, which: int) -> Tensor:
        ctx.save_for_backward(k)
        ctx.dim, ctx.which = dim, which
        return _values(k, dim, which)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (k,) = ctx.saved_tensors
        derivative = {_LOG_C_PLUS_K: (1, _GAP), _A: (1, _SLOPE), _GAP: (-1, _SLOPE), _SLOPE: (1, _BEND)}
        if ctx.which not in derivative:
            raise NotImplementedError("the fourth derivative of log C is not available")
        sign, which = derivative[ctx.which]
        return sign * gradients[0] * _Smooth.apply(k, ctx.dim, which), None, None


class _Inverse(Function):
    """dk/dR = 1/A'(k)."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, k: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(k)
        ctx.dim = dim
        return k

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (k,) = ctx.saved_tensors
        return gradients[0] / _Smooth.apply(k, ctx.dim, _SLOPE), None, None


class _LogBessel(Function):
    """d(ℓ - x)/dx = A - 1 = -q."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: float) -> Tensor:
        value, _, gap = _core(x, order)
        ctx.save_for_backward(gap)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gap,) = ctx.saved_tensors
        return -gradients[0] * gap, None


def _values(k: Tensor, dim: int, which: int) -> Tensor:
    if which == _SLOPE:
        return _slope(k, dim)
    if which == _BEND:
        return _bend(k, dim)
    value, rho, gap = _core(k, dim / 2 - 1)
    if which == _A:
        return k * rho
    if which == _GAP:
        return gap
    return -(dim / 2) * math.log(2 * math.pi) - value


def _slope(k: Tensor, dim: int) -> Tensor:
    """A'(k) = 1 - A² - (d-1) A/k, in the form that does not cancel."""
    _, rho, gap = _core(k, dim / 2 - 1)
    _, above, _ = _core(k, dim / 2)
    small = rho * (1 - k**2 * (rho - above))
    large = gap * (2 - gap) - (dim - 1) * (1 - gap) / k.clamp_min(1e-300)
    return torch.where(k < dim / 2, small, large)


def _bend(k: Tensor, dim: int) -> Tensor:
    """A''(k) = -2 A A' - (d-1)(A' - ρ)/k."""
    _, rho, _ = _core(k, dim / 2 - 1)
    _, above, _ = _core(k, dim / 2)
    slope = _slope(k, dim)
    small = -rho * k * (rho - above)
    large = (slope - rho) / k.clamp_min(1e-300)
    return -2 * k * rho * slope - (dim - 1) * torch.where(k < dim / 2, small, large)


def _core(k: Tensor, order: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ℓ_ν(k) - k, ρ = A/k and q = 1 - A at order ν, elementwise; float64."""
    steps = ANY_ORDER if isinstance(order, Tensor) else max(0, math.ceil(TOP - order))
    mu = order + steps
    s, s1 = torch.sqrt(mu**2 + k**2), torch.sqrt((mu + 1) ** 2 + k**2)
    here, above = _debye(mu, s), _debye(mu + 1, s1)
    value = mu**2 / (s + k) - mu * torch.log(mu + s) - 0.5 * torch.log(2 * math.pi * s) + here
    ds = (2 * mu + 1) / (s + s1)
    c = ds - mu * torch.log1p((1 + ds) / (mu + s)) - 0.5 * torch.log1p(ds / s) + above - here
    rho = torch.exp(c) / (mu + 1 + s1)
    tail = torch.log1p((mu + 1 + (mu + 1) ** 2 / (s1 + k)) / k.clamp_min(1e-300))
    gap = torch.where(k > mu, -torch.expm1(c - tail), 1 - k * rho)
    for step in range(steps):
        m = mu - step
        gap = (2 * m - k * gap) / (2 * m + k * (1 - gap))
        rho = 1 / (2 * m + k**2 * rho)
        value = value - torch.log(rho)
    return value, rho, gap


def _debye(mu: float | Tensor, s: Tensor) -> Tensor:
    """log(1 + Σ P_j(t)/s^j), t = (μ/s)²."""
    t = (mu / s) ** 2
    total = torch.zeros_like(s)
    for coefficients in reversed(_DEBYE):
        polynomial = torch.zeros_like(s)
        for coefficient in reversed(coefficients):
            polynomial = polynomial * t + coefficient
        total = (total + polynomial) / s
    return torch.log1p(total)


def _debye_polynomials() -> list[list[float]]:
    """P_1 .. P_TERMS from exact fractions: U_j(p) = p^j P_j(p²), U_{j+1} from U_j term by term."""
    polynomials, u = [], {0: Fraction(1)}
    for j in range(1, TERMS + 1):
        following: dict[int, Fraction] = {}
        for a, c in u.items():
            following[a + 1] = following.get(a + 1, Fraction(0)) + c * Fraction(a, 2) + c / (8 * (a + 1))
            following[a + 3] = following.get(a + 3, Fraction(0)) - c * Fraction(a, 2) - 5 * c / (8 * (a + 3))
        u = following
        polynomials.append([float(u.get(j + 2 * i, Fraction(0))) for i in range(j + 1)])
    return polynomials


_DEBYE = _debye_polynomials()
