import math

import pytest
import torch

from howsure.embeddings import Embedding, VonMisesFisher
from howsure.errors import InputError
from howsure.heads import HEADS, GaussianHead, NormHead, PointHead, VonMisesFisherHead, build_head

FEATURES = torch.randn(6, 10, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", HEADS)
def test_features_become_embeddings(name: str) -> None:
    embedding = build_head(name, 10, 4)(FEATURES)
    assert isinstance(embedding, Embedding)
    assert embedding.mean.shape == (6, 4)
    assert embedding.checked() is embedding


@pytest.mark.parametrize("name", ["point", "gaussian"])
def test_means_lie_on_the_sphere(name: str) -> None:
    embedding = build_head(name, 10, 4)(FEATURES)
    assert embedding.family == name
    assert torch.allclose(embedding.mean.norm(dim=-1), torch.ones(6), atol=1e-6)


@pytest.mark.parametrize("name", HEADS)
def test_every_weight_gets_a_gradient(name: str) -> None:
    head = build_head(name, 10, 4)
    embedding = head(FEATURES)
    (embedding.mean[:, 0].sum() + embedding.uncertainty.sum()).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in head.parameters())


def test_point_head_is_a_normalised_linear_layer() -> None:
    head = PointHead(10, 4)
    z = FEATURES @ head.location.weight.T + head.location.bias
    assert torch.allclose(head(FEATURES).mean, z / z.norm(dim=-1, keepdim=True), atol=1e-6)


def test_gaussian_head_starts_with_one_opinion_and_little_evidence_is_a_wide_embedding() -> None:
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
    embedding = GaussianHead(10, 4)(features)
    assert torch.autograd.grad(embedding.uncertainty.sum(), features, allow_unused=True)[0] is None


@pytest.mark.parametrize(("bias", "log_variance"), [(1e4, 4.0), (-1e4, -14.0)])
def test_extreme_features_keep_the_scale_in_bounds(bias: float, log_variance: float) -> None:
    head = GaussianHead(10, 4)
    torch.nn.init.constant_(head.log_variance.bias, bias)
    assert head(FEATURES).scale.max().item() == pytest.approx(math.exp(log_variance / 2))


# Hedged heads


@pytest.mark.parametrize(("name", "family"), [("free-point", "point"), ("hedged", "gaussian"), ("hedged-2", "mixture")])
def test_places_are_linear_and_free(name: str, family: str) -> None:
    head = build_head(name, 10, 4)
    assert head(FEATURES).family == family
    z = head.location(FEATURES)
    assert torch.allclose(head(FEATURES).tensors()["location"].flatten(1), z)
    assert z.norm(dim=-1).std() > 0.01


@pytest.mark.parametrize("name", ["hedged", "hedged-2"])
def test_hedged_scales_start_equal_one_for_each_dimension_and_stay_in_bounds(name: str) -> None:
    head = build_head(name, 10, 4)
    scale = head(FEATURES).tensors()["scale"]
    assert scale.shape[-1] == 4
    assert torch.allclose(scale, torch.tensor(math.exp(-1)))
    for bias, log_variance in ((1e4, 6.0), (-1e4, -10.0)):
        torch.nn.init.constant_(head.log_variance.bias, bias)
        assert torch.allclose(head(FEATURES).tensors()["scale"], torch.tensor(math.exp(log_variance / 2)))


def test_two_modes_have_equal_weight_and_places_of_their_own() -> None:
    embedding = build_head("hedged-2", 10, 4)(FEATURES)
    log_weights, means, _ = embedding.components()
    assert torch.allclose(log_weights.exp(), torch.tensor(0.5))
    apart = (means[:, 0] - means[:, 1]).norm(dim=-1)
    assert (apart > 0).all()
    assert apart.max() < 0.5 * means.norm(dim=-1).mean()  # side by side at the start


# Heads on the sphere


@pytest.mark.parametrize("name", ["vmf", "norm"])
def test_directions_are_normalised_and_concentrations_grow_with_evidence(name: str) -> None:
    head = build_head(name, 10, 4).double().eval()
    head.location.bias.data.zero_()
    faint = FEATURES.double() / 4  # below the cap
    embedding, fainter = head(faint), head(faint / 2)
    assert embedding.family == "vmf"
    z = faint @ head.location.weight.T
    assert torch.allclose(embedding.direction, z / z.norm(dim=-1, keepdim=True), atol=1e-6)
    assert torch.allclose(fainter.direction, embedding.direction, atol=1e-6)
    power = {"vmf": 256, "norm": 2}[name]
    assert torch.allclose(power * fainter.concentration, embedding.concentration, rtol=1e-4)
    assert (fainter.uncertainty > embedding.uncertainty).all()
    with pytest.raises(InputError, match="2 or more"):
        build_head(name, 10, 1)


def test_norm_is_the_concentration() -> None:
    head = NormHead(10, 4)
    assert torch.allclose(head(FEATURES).concentration, head.location(FEATURES).norm(dim=-1))


def test_vmf_head_starts_at_an_expected_cosine_of_a_half_for_the_typical_picture() -> None:
    head = VonMisesFisherHead(10, 4)
    embedding = head(FEATURES)
    typical = embedding.concentration
    for kind, evidence in enumerate((head.location(FEATURES), FEATURES)):
        squared = evidence.detach().square().sum(-1)
        typical = typical * (squared.mean() / squared) ** (1, 3)[kind]
        assert head.typical[kind].item() == pytest.approx(squared.mean().item())
    assert torch.allclose(VonMisesFisher(embedding.direction, typical).confidence, torch.tensor(0.5), atol=1e-4)
    before = head.eval().typical.clone()
    head(10 * FEATURES)
    assert torch.equal(head.typical, before)
    assert not VonMisesFisherHead(10, 4).eval().typical.any()


def test_strength_shapes_the_features_a_little_and_length_does_not() -> None:
    features = FEATURES.clone().requires_grad_()
    embedding = VonMisesFisherHead(10, 4)(features)
    (gradient,) = torch.autograd.grad(embedding.concentration.log().sum(), features)
    of_strength = 2 * FEATURES / FEATURES.square().sum(-1, keepdim=True)
    assert torch.allclose(gradient, 3 * of_strength * 0.06 / 4, atol=1e-6)


def test_concentrations_stay_below_the_cap_and_come_down_again() -> None:
    head = VonMisesFisherHead(10, 4)
    torch.nn.init.constant_(head.level, 1e4)
    embedding = head(FEATURES)
    assert torch.allclose(embedding.confidence, torch.tensor(0.9999), atol=1e-6)
    embedding.concentration.sum().backward()
    assert head.level.grad > 0
    torch.nn.init.constant_(head.level, -1e4)
    assert not head(FEATURES).checked().confidence.any()


def test_both_kinds_of_evidence_count() -> None:
    """A longer z, or more of any feature at the same z, is never a lower concentration."""
    head = VonMisesFisherHead(10, 4).eval()
    for parameter in (head.level, head.log_power, head.log_weight):
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
    torch.nn.init.constant_(head.level, -1.0)  # below the cap
    before = head(FEATURES).concentration
    length = head.location(FEATURES).square().sum(-1)
    strength = FEATURES.square() @ head.log_weight.exp()
    wanted = head.log_unit - 10 + length.log() + head.log_power.exp() * strength.log()  # ten times as hasty
    assert torch.allclose(before.log(), wanted, atol=1e-4)
    with torch.no_grad():
        for layer in (head.location.weight, head.location.bias):
            layer.mul_(2)
    assert torch.allclose(head(FEATURES).concentration, 4 * before)


def test_no_features_are_no_direction() -> None:
    for name in ("vmf", "norm"):
        head = build_head(name, 10, 4)
        head.location.bias.data.zero_()
        with pytest.raises(InputError, match="no direction"):
            head(torch.zeros(2, 10)).checked()


def test_unknown_head_and_impossible_size() -> None:
    with pytest.raises(InputError, match="point or gaussian"):
        build_head("nothing", 10, 4)
    with pytest.raises(InputError, match="at least 1"):
        build_head("point", 10, 0)
