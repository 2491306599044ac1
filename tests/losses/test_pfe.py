"""Scales from mutual likelihood."""

import math

import pytest
import torch

from howsure.compare import mutual_likelihood
from howsure.embeddings import Gaussian, Point
from howsure.errors import InputError
from howsure.losses import MutualLikelihood, OnMeans, SumLoss, build_loss

MEAN = torch.tensor([[0.0, 0.0], [0.1, 0.0], [2.0, 0.0], [2.0, 1.0], [5.0, 5.0]])
LABELS = torch.tensor([0, 0, 1, 1, 2])


def test_only_pairs_of_one_class_count() -> None:
    embedding = Gaussian(MEAN, torch.full((5, 1), 0.3))
    wanted = -(mutual_likelihood(embedding[[0, 2]], embedding[[1, 3]], paired=True)).mean()
    assert MutualLikelihood()(embedding, LABELS).item() == pytest.approx(wanted.item())


def test_means_do_not_move_and_scales_find_the_spread_of_their_class() -> None:
    mean = MEAN.clone().requires_grad_()
    log_scale = torch.zeros(5, 1, requires_grad=True)
    optimizer = torch.optim.Adam([mean, log_scale], lr=0.05)
    for _ in range(600):
        optimizer.zero_grad()
        MutualLikelihood()(Gaussian(mean, log_scale.exp()), LABELS).backward()
        optimizer.step()
    assert torch.equal(mean.detach(), MEAN)
    scale = log_scale.detach().exp()[:, 0]
    # At the optimum the two variances of a pair add up to its squared distance over D.
    assert (scale[0] ** 2 + scale[1] ** 2).item() == pytest.approx(0.1**2 / 2, rel=0.02)
    assert (scale[2] ** 2 + scale[3] ** 2).item() == pytest.approx(1 / 2, rel=0.02)


def test_a_batch_without_mates_and_embeddings_without_doubt_are_refused() -> None:
    with pytest.raises(InputError, match="two items of one class"):
        MutualLikelihood()(Gaussian(MEAN, torch.ones(5, 1)), torch.arange(5))
    with pytest.raises(InputError, match="some variance"):
        MutualLikelihood()(Point(MEAN), LABELS)


def test_together_is_the_sum_and_has_the_parameters_of_its_parts() -> None:
    embedding = Gaussian(MEAN, torch.full((5, 1), 0.3))
    parts = build_loss("contrastive"), MutualLikelihood()
    both = SumLoss(*parts)
    assert both(embedding, LABELS).item() == pytest.approx(sum(part(embedding, LABELS).item() for part in parts))
    assert isinstance(both.parts[0], OnMeans)


def test_mutual_likelihood_is_the_density_of_the_gap() -> None:
    """∫ N(z; a, s²) N(z; b, t²) dz = N(a - b; 0, s² + t²), summed over a grid."""
    a, b = (
        Gaussian(torch.tensor([[0.3]]), torch.tensor([[0.5]])),
        Gaussian(torch.tensor([[1.0]]), torch.tensor([[0.2]])),
    )
    z = torch.linspace(-5, 5, 20_001, dtype=torch.float64)

    def density(mean: float, scale: float) -> torch.Tensor:
        return torch.exp(-((z - mean) ** 2) / (2 * scale**2)) / (scale * math.sqrt(2 * math.pi))

    wanted = math.log((density(0.3, 0.5) * density(1.0, 0.2)).sum().item() * 10 / 20_000)
    assert mutual_likelihood(a, b).item() == pytest.approx(wanted, abs=1e-5)
