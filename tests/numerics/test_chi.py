"""The distance of two Gaussian embeddings: against many nodes, against plain integration, against samples."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from howsure.errors import InputError
from howsure.numerics import chi

DOUBLE = torch.float64


def pairs(dim: int, n: int = 200, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    gap = 2 * torch.rand(n, generator=generator, dtype=DOUBLE)
    variance = torch.exp(5 * torch.rand(n, generator=generator, dtype=DOUBLE) - 5) / math.sqrt(dim)
    return gap, variance


@pytest.mark.parametrize(("dim", "error"), [(2, 5e-5), (3, 5e-5), (16, 5e-6), (128, 5e-5)])
def test_default_nodes_are_enough_for_a_soft_link(dim: int, error: float) -> None:
    gap, variance = pairs(dim)
    got = chi.radius(gap, variance, dim).log_match(5.0, 5.0).exp()
    wanted = chi.radius(gap, variance, dim, nodes=400).log_match(5.0, 5.0).exp()
    assert (got - wanted).abs().max() < error


def test_two_dimensions_against_polar_integration() -> None:
    gap, variance = torch.tensor([0.0, 0.7, 1.5], dtype=DOUBLE), torch.tensor([0.3, 0.05, 0.65], dtype=DOUBLE)
    axis = torch.linspace(-8, 8, 1601, dtype=DOUBLE)
    x, y = torch.meshgrid(axis, axis, indexing="ij")
    for m, lam, got in zip(
        gap, variance, chi.radius(gap, variance, 2, nodes=64).log_match(5.0, 5.0).exp(), strict=True
    ):
        density = torch.exp(-((x - m) ** 2 + y**2) / (2 * lam)) / (2 * math.pi * lam)
        wanted = (density * torch.sigmoid(5 - 5 * torch.sqrt(x**2 + y**2))).sum() * 0.01**2
        assert got.item() == pytest.approx(wanted.item(), abs=1e-6)


@pytest.mark.parametrize("dim", [2, 3, 7])
def test_the_nodes_carry_the_moments_of_the_distance(dim: int) -> None:
    gap, variance = pairs(dim, n=20)
    r = chi.radius(gap, variance, dim, nodes=64)
    assert torch.allclose(r.log_weights.exp().sum(-1), torch.ones(20, dtype=DOUBLE))
    assert torch.allclose(r.mean(r.nodes**2), gap**2 + dim * variance, rtol=1e-6)


def test_match_and_mismatch_are_complements_and_fall_with_distance() -> None:
    gap = torch.linspace(0, 3, 50, dtype=DOUBLE)
    r = chi.radius(gap, torch.full_like(gap, 0.1), 5)
    match, mismatch = r.log_match(4.0, 3.0).exp(), r.log_mismatch(4.0, 3.0).exp()
    assert torch.allclose(match + mismatch, torch.ones_like(gap))
    assert (match.diff() < 0).all()


def test_points_are_the_plain_link() -> None:
    gap = torch.tensor([0.0, 0.5, 2.0], dtype=DOUBLE)
    got = chi.radius(gap, torch.zeros_like(gap), 8).log_match(5.0, 5.0).exp()
    assert torch.allclose(got, torch.sigmoid(5 - 5 * gap), atol=1e-5)


def test_uncertainty_can_raise_the_probability_of_a_far_pair() -> None:
    near, wide = (chi.radius(torch.tensor(1.5).double(), torch.tensor(v).double(), 2) for v in (0.0, 0.65))
    assert near.log_match(5.0, 5.0).exp().item() == pytest.approx(0.076, abs=1e-3)
    assert wide.log_match(5.0, 5.0).exp().item() == pytest.approx(0.187, abs=1e-3)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_gradients(dim: int) -> None:
    gap = torch.tensor([0.01, 0.5, 1.0], dtype=DOUBLE, requires_grad=True)
    variance = torch.tensor([0.1, 0.2, 0.3], dtype=DOUBLE, requires_grad=True)
    assert gradcheck(lambda m, v: chi.radius(m, v, dim, nodes=48).log_match(5.0, 5.0), (gap, variance))
    at_zero = torch.zeros(2, dtype=DOUBLE, requires_grad=True)
    r = chi.radius(at_zero, torch.full((2,), 0.1, dtype=DOUBLE), dim)
    (slope,) = torch.autograd.grad(r.log_match(5.0, 5.0).sum(), at_zero)
    assert slope.abs().max() < 1e-9


@pytest.mark.parametrize(("dim", "error"), [(2, 0.006), (8, 0.004), (128, 0.002)])
def test_diagonal_surrogate_against_samples(dim: int, error: float) -> None:
    generator = torch.Generator().manual_seed(0)
    n, samples = 40, 20_000 if dim < 100 else 2_000
    gap = torch.randn(n, dim, generator=generator, dtype=DOUBLE) / dim**0.5
    ratio = torch.exp(0.5 * torch.randn(n, dim, generator=generator, dtype=DOUBLE))
    variance = ratio * torch.exp(4 * torch.rand(n, 1, generator=generator, dtype=DOUBLE) - 4) / dim
    w = gap + variance.sqrt() * torch.randn(samples, n, dim, generator=generator, dtype=DOUBLE)
    wanted = torch.sigmoid(5 - 5 * w.norm(dim=-1)).mean(0)
    got = chi.radius(*chi.surrogate(gap, variance)).log_match(5.0, 5.0).exp()
    assert (got - wanted).square().mean().sqrt() < error
    quick = chi.closed_form_match(gap, variance, scale=5.0, offset=5.0)
    assert (quick - wanted).square().mean().sqrt() < 0.02


def test_surrogate_is_exact_where_all_variances_agree() -> None:
    gap = torch.randn(5, 6, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
    length, variance, dim = chi.surrogate(gap, torch.full((5, 6), 0.2, dtype=DOUBLE))
    assert torch.allclose(length, gap.norm(dim=-1))
    assert torch.allclose(variance, torch.full((5,), 0.2, dtype=DOUBLE))
    assert torch.allclose(dim, torch.full((5,), 6.0, dtype=DOUBLE))


def test_surrogate_gradients_also_at_zero_distance() -> None:
    gap = torch.rand(4, 3, dtype=DOUBLE, requires_grad=True)
    variance = (0.1 + torch.rand(4, 3, dtype=DOUBLE)).requires_grad_()
    assert gradcheck(lambda g, v: chi.radius(*chi.surrogate(g, v)).log_match(5.0, 5.0), (gap, variance))
    zero = torch.zeros(2, 4, dtype=DOUBLE, requires_grad=True)
    p = chi.radius(*chi.surrogate(zero, torch.full((2, 4), 0.1, dtype=DOUBLE))).log_match(5.0, 5.0)
    assert torch.isfinite(torch.autograd.grad(p.sum(), zero)[0]).all()


def test_one_node_is_not_a_rule() -> None:
    with pytest.raises(InputError, match="2 or more"):
        chi.radius(torch.zeros(1), torch.ones(1), 2, nodes=1)


@pytest.mark.parametrize(("link", "nodes", "error"), [(5.0, 24, 1e-3), (5.0, 48, 2e-6), (15.0, 64, 1e-4)])
def test_ellipses_in_the_plane_against_a_fine_grid(link: float, nodes: int, error: float) -> None:
    """Axes as long as 1 to 10 and more, where the isotropic stand-in is off by some .05."""
    generator = torch.Generator().manual_seed(0)
    gap = 1.5 * torch.randn(30, 2, generator=generator, dtype=DOUBLE)
    variance = torch.exp(5 * torch.rand(30, 2, generator=generator, dtype=DOUBLE) - 4.5)
    t = torch.linspace(-8, 8, 1601, dtype=DOUBLE)
    mass = torch.softmax(-t.square() / 2, 0)
    x, y = (gap[:, axis, None] + variance[:, axis, None].sqrt() * t for axis in (0, 1))
    wanted = torch.stack(
        [mass @ torch.sigmoid(link - link * torch.hypot(a[:, None], b)) @ mass for a, b in zip(x, y, strict=True)]
    )
    got = chi.plane_radius(gap, variance, nodes=nodes).log_match(link, link).exp()
    assert (got - wanted).abs().max() < error
    stand_in = chi.radius(*chi.surrogate(gap, variance), nodes=nodes).log_match(link, link).exp()
    assert (stand_in - wanted).abs().max() > 0.02


def test_a_disc_is_an_ellipse_too() -> None:
    gap = torch.tensor([[0.3, -0.4], [0.0, 0.0]], dtype=DOUBLE, requires_grad=True)
    variance = torch.full((2, 2), 0.2, dtype=DOUBLE, requires_grad=True)
    plane = chi.plane_radius(gap, variance).log_match(5.0, 5.0)
    assert torch.allclose(plane, chi.radius(gap.norm(dim=-1), variance[:, 0], 2).log_match(5.0, 5.0))
    slopes = torch.autograd.grad(plane.sum(), (gap, variance))
    assert torch.isfinite(torch.cat(slopes)).all()


def test_gradients_of_an_ellipse() -> None:
    gap = torch.tensor([[0.3, -0.4], [1.0, 0.2]], dtype=DOUBLE, requires_grad=True)
    variance = torch.tensor([[0.2, 0.05], [0.1, 0.6]], dtype=DOUBLE, requires_grad=True)
    assert gradcheck(lambda g, v: chi.plane_radius(g, v, nodes=12).log_match(5.0, 5.0), (gap, variance))
