import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from howsure.embeddings import Draws, Gaussian, VonMisesFisher, point_estimates
from howsure.errors import InputError
from howsure.numerics.vmf import mean_resultant_gap

GRID = torch.tensor([0.0, 1e-6, 9.99e-4, 1.01e-3, 1.0, 30.0, 1e4, 1e7], dtype=torch.float64)


def embedding(dim: int, concentration: Tensor = GRID, *, dtype: torch.dtype = torch.float64) -> VonMisesFisher:
    rng = torch.Generator().manual_seed(dim)
    direction = normalize(torch.randn(len(concentration), dim, generator=rng, dtype=torch.float64), dim=-1)
    return VonMisesFisher(direction.to(dtype), concentration.to(dtype))


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("dim", [2, 3, 64, 1024])
def test_uncertainty_is_one_minus_the_squared_resultant(dim: int, dtype: torch.dtype, error: float) -> None:
    e = embedding(dim, dtype=dtype)
    gap = mean_resultant_gap(GRID.to(dtype).double(), dim)
    wanted = gap * (2 - gap)
    assert ((e.uncertainty.double() - wanted).abs() / wanted).max() < error
    assert (e.variance >= 0).all()


def test_no_variance_is_negative_where_a_direction_is_an_axis() -> None:
    axis = torch.tensor([[1.0 + 6e-8, 0.0]]).expand(len(GRID), 2)
    e = VonMisesFisher(axis.clone(), GRID.float())
    assert (e.variance >= 0).all()


def test_moments_in_three_dimensions_are_elementary() -> None:
    """A = coth k - 1/k, and the variance along the direction is 1/k² - 1/sinh² k."""
    k = 2.5
    e = VonMisesFisher(torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64), torch.tensor([k], dtype=torch.float64))
    resultant = 1 / math.tanh(k) - 1 / k
    assert e.mean[0].tolist() == pytest.approx([0, 0, resultant], abs=1e-14)
    along = 1 / k**2 - 1 / math.sinh(k) ** 2
    assert e.variance[0].tolist() == pytest.approx([resultant / k, resultant / k, along], rel=1e-12)


def test_no_concentration_is_the_uniform_sphere() -> None:
    e = embedding(5, torch.zeros(2, dtype=torch.float64))
    assert not e.mean.any()
    assert torch.allclose(e.variance, torch.full((2, 5), 0.2, dtype=torch.float64))
    assert not e.confidence.any()


@pytest.mark.parametrize("dim", [2, 16])
def test_moments_are_differentiable_down_to_no_concentration(dim: int) -> None:
    k = torch.tensor([1e-12, 5e-4, 2e-3, 1.0, 50.0], dtype=torch.float64, requires_grad=True)
    direction = embedding(dim, k.detach()).direction
    weights = torch.arange(1.0, dim + 1, dtype=torch.float64)
    slopes = torch.autograd.grad((VonMisesFisher(direction, k).variance @ weights).sum(), k)[0]
    step = 1e-4 * torch.ones_like(k)
    with torch.no_grad():
        up, down = (VonMisesFisher(direction, (k + s).abs()).variance @ weights for s in (step, -step))
    assert torch.allclose(slopes[1:], ((up - down) / (2 * step))[1:], rtol=1e-4, atol=1e-9)
    assert slopes[0].abs() < 1e-9


def test_surer_is_less_uncertain_and_more_confident() -> None:
    e = embedding(8)
    assert (e.uncertainty.diff() <= 0).all()
    assert (e.confidence.diff() >= 0).all()
    assert ((e.confidence >= 0) & (e.confidence <= 1)).all()


def test_samples_carry_gradients() -> None:
    direction, k = embedding(4).direction[3:5].requires_grad_(), torch.tensor([1.0, 9.0]).double().requires_grad_()
    VonMisesFisher(direction, k).sample(3).square()[..., 0].sum().backward()
    assert direction.grad.any()
    assert k.grad.all()


def test_checked_finds_what_is_no_direction() -> None:
    good = embedding(3, dtype=torch.float32)
    assert good.checked() is good
    assert good[:6].to(dtype=torch.float16).checked()
    for factor in (0.0, 0.99, 2.0):
        hurt = good.direction.clone()
        hurt[2] *= factor
        with pytest.raises(InputError, match="item 2"):
            VonMisesFisher(hurt, good.concentration).checked()
    with pytest.raises(InputError, match="got -3"):
        VonMisesFisher(good.direction, good.concentration - 3).checked()
    with pytest.raises(InputError, match="item 1"):
        Draws(VonMisesFisher(torch.tensor([[[1.0, 0.0]], [[1.0, 1.0]]]), torch.ones(2, 1))).checked()


def test_a_line_has_no_directions() -> None:
    with pytest.raises(InputError, match="two dimensions"):
        VonMisesFisher(torch.ones(2, 1), torch.ones(2))


def test_who_asks_for_this_family_says_so() -> None:
    e = embedding(3)
    assert VonMisesFisher.require(e, asker="I") is e
    with pytest.raises(InputError, match=r"I: expected embeddings with a direction .* got gaussian"):
        VonMisesFisher.require(Gaussian(torch.zeros(1, 2), torch.ones(1, 1)), asker="I")


def test_the_point_estimate_is_the_direction_however_little_is_known() -> None:
    e = embedding(4)
    assert torch.equal(e.point_estimate, e.direction)
    near, far = e[:1], e[-1:]  # concentrations 0 and 1e7
    assert near.mean.norm() < 1e-6 < 0.99 < far.mean.norm()
    assert point_estimates(near).mean.norm().item() == pytest.approx(1)
