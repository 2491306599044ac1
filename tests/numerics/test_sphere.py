"""Against closed forms, quadrature of the density, and exact moments."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch import Tensor
from torch.nn.functional import normalize

from howsure.errors import InputError
from howsure.numerics.sphere import _angle_slope, great_circle_distance, sample_vmf
from howsure.numerics.vmf import mean_resultant


def unit(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(*shape, generator=rng, dtype=torch.float64), dim=-1)


def on_circle(angles: list[float], dtype: torch.dtype) -> Tensor:
    return torch.tensor([[math.cos(a), math.sin(a)] for a in angles], dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-14), (torch.float32, 3e-7)])
def test_angles_are_right_at_both_ends(dtype: torch.dtype, error: float, paired: bool) -> None:
    angles = [0.0, 1e-4, 0.5, 1.0, math.pi / 2, 3.0, 3.1415, math.pi]
    zero = on_circle([0.0] * len(angles), dtype)
    got = great_circle_distance(zero, on_circle(angles, dtype), paired=paired).double()
    wanted = torch.tensor(angles, dtype=torch.float64)
    assert ((got if paired else got[0]) - wanted).abs().max() <= error


def test_matrix_and_rows_agree_with_the_arc_cosine() -> None:
    u, v = unit(6, 5), unit(4, 5, seed=1)
    wanted = torch.arccos(u @ v.T)
    assert torch.allclose(great_circle_distance(u, v), wanted, atol=1e-12)
    assert torch.allclose(great_circle_distance(u[:4], v, paired=True), wanted.diagonal(), atol=1e-12)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_are_finite_where_vectors_meet_or_oppose(sign: int, paired: bool) -> None:
    u = unit(3, 4).requires_grad_()
    v = (sign * u.detach()).clone().requires_grad_()
    great_circle_distance(u, v, paired=paired).sum().backward()
    assert torch.isfinite(u.grad).all()
    assert torch.isfinite(v.grad).all()


def test_gradient_points_away() -> None:
    u, v = unit(1, 3).requires_grad_(), unit(1, 3, seed=1)
    distance = great_circle_distance(u, v)
    (gradient,) = torch.autograd.grad(distance.sum(), u)
    after = great_circle_distance(normalize((u - 0.1 * gradient).detach(), dim=-1), v)
    assert after.item() == pytest.approx(distance.item() - 0.1, abs=5e-3)  # its slope on the sphere is 1


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="dimensions"):
        great_circle_distance(unit(2, 3), unit(2, 4))
    with pytest.raises(InputError, match="same shape"):
        great_circle_distance(unit(2, 3), unit(1, 3), paired=True)


# Samples


@pytest.mark.parametrize("k", [0.0, 0.5, 20.0, 3000.0, 1e7])
@pytest.mark.parametrize("dim", [2, 3, 16, 512])
def test_cosines_have_the_exact_mean_and_variance(dim: int, k: float) -> None:
    mu = unit(1, dim, seed=2)
    n = 4000 if dim > 100 else 20_000
    x = sample_vmf(mu, torch.tensor([k], dtype=torch.float64), n, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(x.norm(dim=-1), torch.ones(n, 1, dtype=torch.float64), atol=1e-12)
    gap = (x[:, 0] - mu[0]).square().sum(-1) / 2  # 1 - cos, without cancellation
    leaf = torch.tensor(k, dtype=torch.float64, requires_grad=True)
    resultant = mean_resultant(leaf, dim)
    (slope,) = torch.autograd.grad(resultant, leaf)
    wanted = 1 - resultant.item() if k < 1e5 else (dim - 1) / (2 * k)
    assert gap.mean().item() == pytest.approx(wanted, abs=5 * gap.std().item() / n**0.5)
    spread = (gap - gap.mean()).square()
    assert spread.mean().item() == pytest.approx(slope.item(), abs=5 * spread.std().item() / n**0.5)


def test_samples_are_symmetric_about_the_direction() -> None:
    mu = unit(1, 4, seed=3)
    x = sample_vmf(mu, torch.tensor([2.0], dtype=torch.float64), 40_000, generator=torch.Generator().manual_seed(1))
    tangent = x[:, 0] - (x[:, 0] @ mu[0])[:, None] * mu[0]
    assert tangent.mean(0).abs().max() < 0.015
    across = torch.eye(4, dtype=torch.float64) - mu.T @ mu
    share = tangent.T @ tangent / tangent.square().sum()
    assert torch.allclose(share, across / 3, atol=0.01)


@pytest.mark.parametrize("k", [0.5, 5.0, 100.0, 1e4, 1e7])
def test_slope_of_the_angle_has_a_closed_form_in_three_dimensions(k: float) -> None:
    share = torch.linspace(1e-4, 1 - 1e-4, 21, dtype=torch.float64)
    leaf = torch.full_like(share, k).requires_grad_()
    gap = -torch.log(share + (1 - share) * torch.exp(-2 * leaf)) / leaf
    angle = 2 * torch.asin((gap / 2).sqrt())
    (wanted,) = torch.autograd.grad(angle.sum(), leaf)
    got = _angle_slope(leaf.detach(), angle.detach(), 3)
    assert torch.allclose(got, wanted, rtol=1e-10, atol=0)
    assert (got < 0).all()


@pytest.mark.parametrize(("dim", "k"), [(2, 0.3), (2, 40.0), (5, 2.0), (64, 30.0), (512, 500.0), (8, 0.0)])
def test_slope_of_the_angle_keeps_its_quantile(dim: int, k: float) -> None:
    """Against the definition: -(∂F/∂k)/f by adaptive quadrature."""
    mode = math.acos(2 * k / (dim - 2 + math.hypot(dim - 2, 2 * k))) if dim > 2 else 0.0
    spread = 1 / math.sqrt(max(dim - 2 + k, 1))
    resultant = mean_resultant(torch.tensor(k, dtype=torch.float64), dim).item()
    for angle in np.clip(mode + spread * np.array([-2, -0.3, 0.4, 2.5]), 0.05, 3.0):

        def density(s: float, angle: float = angle) -> float:
            ratio = k * (math.cos(s) - math.cos(angle)) + (dim - 2) * (
                math.log(math.sin(s)) - math.log(math.sin(angle))
            )
            return (resultant - math.cos(s)) * math.exp(ratio)

        breaks = [p for p in (mode - 5 * spread, mode - spread) if 0 < p < angle]
        integral = quad(density, 1e-12, angle, points=breaks or None, epsabs=1e-13, limit=200)[0]
        ours = _angle_slope(torch.tensor([k], dtype=torch.float64), torch.tensor([angle]), dim).item()
        assert ours == pytest.approx(integral, rel=1e-5, abs=1e-10)


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_gradients_of_samples_are_those_of_exact_moments(dim: int) -> None:
    """E[(a·x)²] = ρ + (1 - D ρ)(a·μ)², ρ = A/k: its derivatives in k and in μ, against means over samples."""
    a, n = unit(dim, seed=4), 60_000
    raw = unit(1, dim, seed=5).requires_grad_()
    k = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)

    def moment(direction: Tensor) -> Tensor:
        rho = mean_resultant(k, dim) / k
        return rho + (1 - dim * rho) * (direction @ a).square()

    wanted = torch.autograd.grad(moment(normalize(raw, dim=-1)).sum(), (raw, k))
    # Each sample its own leaf, so that every gradient, and their spread, is seen.
    many, ks = raw.detach().expand(n, dim).clone().requires_grad_(), k.detach().expand(n).clone().requires_grad_()
    x = sample_vmf(normalize(many, dim=-1), ks, 1, generator=torch.Generator().manual_seed(2))[0]
    for got, exact in zip(torch.autograd.grad((x @ a).square().sum(), (many, ks)), wanted, strict=True):
        error = 5 * got.std(0) / n**0.5
        assert ((got.mean(0) - exact[0]).abs() <= error + 1e-12).all()
        assert error.max() < 0.05


def test_concentrations_that_are_none() -> None:
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="concentration"):
            sample_vmf(unit(1, 3), torch.tensor([bad], dtype=torch.float64), 2)
