import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from cases import CASES, diagonal, mixture, point
from howsure.embeddings import Draws, Gaussian, GaussianMixture
from howsure.errors import InputError


def equal_weights(*, dim: int = 2) -> GaussianMixture:
    at = torch.tensor([[-3.0] * dim, [3.0] * dim], dtype=torch.float64)
    return GaussianMixture(torch.zeros(1, 2).double(), at[None], torch.full((1, 2, 1), 0.1).double())


def test_moments_are_those_of_torch() -> None:
    e = mixture()
    theirs = MixtureSameFamily(Categorical(logits=e.logits), Independent(Normal(e.location, e.scale), 1))
    assert torch.allclose(e.mean, theirs.mean)
    assert torch.allclose(e.variance, theirs.variance)


def test_modes_that_part_are_uncertainty() -> None:
    near, far = (GaussianMixture(torch.zeros(1, 2), gap * torch.eye(2)[None], torch.ones(1, 2, 1)) for gap in (1, 5))
    assert near.uncertainty < far.uncertainty


def test_equal_components_are_one_gaussian() -> None:
    one = diagonal()
    logits = torch.randn(len(one), 3, dtype=torch.float64)
    three = (tensor[:, None].expand(-1, 3, -1) for tensor in (one.location, one.scale))
    e = GaussianMixture(logits, *three)
    assert torch.allclose(e.mean, one.mean)
    assert torch.allclose(e.variance, one.variance)


def test_a_component_without_weight_is_never_sampled() -> None:
    e = equal_weights()
    sure = e.rebuild(e.tensors() | {"logits": torch.tensor([[-800.0, 800.0]], dtype=torch.float64)})
    assert (sure.sample(2_000) > 0).all()


def test_samples_take_components_by_weight() -> None:
    e = equal_weights()
    e = e.rebuild(e.tensors() | {"logits": torch.tensor([[0.1, 0.9]], dtype=torch.float64).log()})
    share = (e.sample(20_000, torch.Generator().manual_seed(0))[:, 0, 0] > 0).double().mean()
    assert share.item() == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_components_carry_the_moments(make) -> None:
    for e in make().by_draw():
        log_weights, means, variances = e.components()
        weights = log_weights.exp()[..., None]
        mean = (weights * means).sum(1)
        assert torch.allclose(weights.sum(1), torch.ones_like(weights[:, 0]))
        assert torch.allclose(mean, e.mean)
        assert torch.allclose((weights * (variances + (means - mean[:, None]) ** 2)).sum(1), e.variance)


def test_one_component_for_all_but_mixtures() -> None:
    assert point().components()[1].shape == (5, 1, 3)
    assert mixture().components()[2].shape == (5, 2, 3)


@pytest.mark.parametrize(
    ("logits", "location", "scale", "what"),
    [
        ((2, 3), (2, 2, 4), (2, 2, 4), "logits"),
        ((2, 0), (2, 0, 4), (2, 0, 4), "logits"),
        ((2, 2), (2, 2, 4), (2, 2, 3), "scale"),
        ((2, 2), (2, 2, 4), (2, 1, 4), "scale"),
    ],
)
def test_fields_that_do_not_fit(logits, location, scale, what) -> None:
    with pytest.raises(InputError, match=f"mixture {what}"):
        GaussianMixture(torch.zeros(logits), torch.zeros(location), torch.ones(scale))


def test_negative_scale_is_found() -> None:
    e = equal_weights()
    with pytest.raises(InputError, match="0 or more"):
        e.rebuild(e.tensors() | {"scale": -e.scale}).checked()


def test_networks_that_disagree_are_no_mixture() -> None:
    """Draws keep which network gave what; a mixture's components belong to each item alone."""
    draws = Draws.stack([mixture(), mixture().map(lambda t: t + 1)])
    assert draws.family == "draws:mixture"
    assert isinstance(draws.to_gaussian(), Gaussian)
