import math

import pytest
import torch

from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.heads import HEADS, GaussianHead, PointHead, build_head

FEATURES = torch.randn(6, 10, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", HEADS)
def test_features_become_beliefs_on_the_sphere(name: str) -> None:
    belief = build_head(name, 10, 4)(FEATURES)
    assert isinstance(belief, Embedding)
    assert belief.family == name
    assert belief.mean.shape == (6, 4)
    assert torch.allclose(belief.mean.norm(dim=-1), torch.ones(6), atol=1e-6)


@pytest.mark.parametrize("name", HEADS)
def test_every_weight_gets_a_gradient(name: str) -> None:
    head = build_head(name, 10, 4)
    belief = head(FEATURES)
    (belief.mean[:, 0].sum() + belief.uncertainty.sum()).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in head.parameters())


def test_point_head_is_a_normalised_linear_layer() -> None:
    head = PointHead(10, 4)
    z = FEATURES @ head.location.weight.T + head.location.bias
    assert torch.allclose(head(FEATURES).mean, z / z.norm(dim=-1, keepdim=True), atol=1e-6)


def test_gaussian_head_starts_with_one_opinion_and_little_evidence_is_a_wide_belief() -> None:
    head = GaussianHead(10, 4)
    z = head.location(FEATURES).detach()
    assert torch.allclose(head(FEATURES).uncertainty, 0.05 / z.square().sum(-1))
    head.location.bias.data.zero_()
    assert torch.allclose(head(FEATURES / 10).uncertainty, 100 * head(FEATURES).uncertainty, rtol=1e-4)


def test_gaussian_scale_is_the_spread_of_normalised_samples() -> None:
    """To first order: u = z/|z| with z ~ N(mean, s² I) spreads by s/|z| across."""
    head = GaussianHead(10, 4)
    torch.nn.init.constant_(head.log_variance.bias, -9.0)
    z = head.location(FEATURES[:1]).detach()
    samples = z + math.exp(-4.5) * torch.randn(200_000, 4)
    unit = samples / samples.norm(dim=-1, keepdim=True)
    across = unit.var(0, correction=0).sum() / 3  # D - 1 directions are left on the sphere
    assert head(FEATURES[:1]).scale.square().item() == pytest.approx(across.item(), rel=0.03)


def test_scales_do_not_shape_the_features() -> None:
    features = FEATURES.clone().requires_grad_()
    belief = GaussianHead(10, 4)(features)
    assert torch.autograd.grad(belief.uncertainty.sum(), features, allow_unused=True)[0] is None


@pytest.mark.parametrize(("bias", "log_variance"), [(1e4, 4.0), (-1e4, -14.0)])
def test_extreme_features_keep_the_scale_in_bounds(bias: float, log_variance: float) -> None:
    head = GaussianHead(10, 4)
    torch.nn.init.constant_(head.log_variance.bias, bias)
    assert head(FEATURES).scale.max().item() == pytest.approx(math.exp(log_variance / 2))


def test_unknown_head_and_impossible_size() -> None:
    with pytest.raises(InputError, match="point or gaussian"):
        build_head("vmf", 10, 4)
    with pytest.raises(InputError, match="at least 1"):
        build_head("point", 10, 0)
