import math

import pytest
import torch
from torch.autograd import gradcheck

from howsure.errors import InputError
from howsure.numerics import chi
from howsure.numerics.hermite import product_radius

DOUBLE = torch.float64


def pairs(dim: int, n: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    gap = torch.randn(n, dim, generator=generator, dtype=DOUBLE)
    return gap, torch.exp(3 * torch.rand(n, 1, generator=generator, dtype=DOUBLE) - 4).expand(n, dim)


@pytest.mark.parametrize(("dim", "rms"), [(2, 5e-3), (3, 1e-2)])
def test_against_the_noncentral_chi(dim: int, rms: float) -> None:
    gap, variance = pairs(dim)
    exact = chi.radius(gap.norm(dim=-1), variance[:, 0], dim, nodes=200)
    ours = product_radius(gap, variance)
    assert (ours.log_match(5.0, 5.0).exp() - exact.log_match(5.0, 5.0).exp()).square().mean().sqrt() < rms


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_far_nearer_than_as_many_samples(dim: int) -> None:
    """The same 64 distances, drawn at random, miss by three times as much and more."""
    gap, variance = pairs(dim)
    variance = variance * torch.linspace(0.5, 2, dim, dtype=DOUBLE)
    noise = torch.randn(200_000, 1, dim, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    some = slice(0, 20)
    drawn = (gap[some] + variance[some].sqrt() * noise).norm(dim=-1)
    wanted = torch.sigmoid(5 - 5 * drawn).mean(0)
    ours = product_radius(gap[some], variance[some]).log_match(5.0, 5.0).exp()
    by_64 = torch.sigmoid(5 - 5 * drawn[:64]).mean(0)
    assert (ours - wanted).square().mean().sqrt() < 0.35 * (by_64 - wanted).square().mean().sqrt()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_carries_the_second_moment(dim: int) -> None:
    gap, variance = pairs(dim)
    radius = product_radius(gap, variance)
    assert torch.allclose(radius.log_weights.exp().sum(-1), torch.ones(len(gap), dtype=DOUBLE))
    assert torch.allclose(radius.mean(radius.nodes.square()), (gap.square() + variance).sum(-1), rtol=1e-3)


def test_gradients() -> None:
    gap, variance = (t[:3].clone().requires_grad_() for t in pairs(2))
    assert gradcheck(lambda g, v: product_radius(g, v).log_match(3.0, 2.0), (gap, variance))


def test_points_at_one_point_have_finite_gradients() -> None:
    gap, variance = torch.zeros(1, 2, requires_grad=True), torch.zeros(1, 2, requires_grad=True)
    value = product_radius(gap, variance).log_match(5.0, 5.0)
    value.backward()
    assert value.item() == pytest.approx(-math.log1p(math.exp(-5)), abs=1e-4)
    assert gap.grad is not None
    assert variance.grad is not None
    assert torch.isfinite(torch.cat([gap.grad, variance.grad])).all()


def test_more_dimensions_are_another_rule() -> None:
    with pytest.raises(InputError, match=r"chi\.radius"):
        product_radius(torch.zeros(1, 4), torch.ones(1, 4))
