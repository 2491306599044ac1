"""One embedding from several: against the formula written out, draw by draw."""

import numpy as np
import pytest
import torch

from howsure.embeddings import Draws, Gaussian, Point
from howsure.errors import InputError
from howsure.tasks.prototypes import prototypes


def embeddings(seed: int = 0) -> Gaussian:
    torch.manual_seed(seed)
    return Gaussian(torch.randn(7, 3, dtype=torch.float64), torch.rand(7, 3, dtype=torch.float64) + 0.1)


GROUPS = np.array([0, 1, 0, 2, 1, 0, 2])


def test_a_product_of_embeddings_is_the_product_of_their_densities() -> None:
    support = embeddings()
    fused = prototypes(support, GROUPS)
    # On a grid around: log of the product, up to a constant, is that of the fused embedding.
    for group in range(3):
        members = support[group == GROUPS]
        for point in torch.randn(5, 3, dtype=torch.float64):
            log = [-0.5 * ((point - m) ** 2 / v).sum() for m, v in zip(members.mean, members.variance, strict=True)]
            at_mean = [
                -0.5 * ((fused.mean[group] - m) ** 2 / v).sum()
                for m, v in zip(members.mean, members.variance, strict=True)
            ]
            wanted = sum(log) - sum(at_mean)
            got = -0.5 * ((point - fused.mean[group]) ** 2 / fused.variance[group]).sum()
            assert got == pytest.approx(float(wanted))


def test_unweighted_is_the_mean_and_points_weigh_alike() -> None:
    support = embeddings()
    plain = prototypes(support, GROUPS, weighted=False)
    for group in range(3):
        assert torch.allclose(plain.mean[group], support.mean[group == GROUPS].mean(0))
    count = int((GROUPS == 0).sum())
    assert torch.allclose(plain.variance[0], support.variance[GROUPS == 0].sum(0) / count**2)
    points = Point(support.mean)
    assert torch.allclose(prototypes(points, GROUPS).mean, plain.mean)


def test_the_surer_picture_pulls_more() -> None:
    support = Gaussian(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.1], [1.0]]))
    assert float(prototypes(support, [0, 0]).mean) < 0.05
    assert float(prototypes(support, [0, 0]).uncertainty) < float(support.uncertainty.min())


def test_draws_are_fused_draw_by_draw() -> None:
    first, second = embeddings(0), embeddings(1)
    both = prototypes(Draws.stack([first, second]), GROUPS).by_draw()
    for got, alone in zip(both, (first, second), strict=True):
        assert torch.equal(got.mean, prototypes(alone, GROUPS).mean)


@pytest.mark.parametrize("groups", [[0, 1], [0, 0, 0, 2, 2, 2, 2], [0.0] * 7, [-1, 0, 0, 0, 0, 0, 0]])
def test_wrong_groups_are_refused(groups: list[float]) -> None:
    with pytest.raises(InputError, match="groups"):
        prototypes(embeddings(), groups)
