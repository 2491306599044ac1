import pytest
import torch

from cases import CASES, diagonal, draws_of_gaussians, point, von_mises_fisher
from howsure import Draws, Gaussian, Point, VonMisesFisher
from howsure.errors import InputError

GROUPS = torch.tensor([0, 1, 0, 1, 1])


def log_normal(embedding, at):
    normal = torch.distributions.Normal(embedding.location[:, None], embedding.scale[:, None])
    return normal.log_prob(at).sum(-1)


def test_gaussians_fuse_to_their_product():
    """Up to a constant, the log-density of the product is the sum of the log-densities, wherever one looks."""
    embedding, at = diagonal(), torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    each, product = log_normal(embedding, at), log_normal(embedding.fused(GROUPS), at)
    for group in range(2):
        rest = product[group] - each[group == GROUPS].sum(0)
        torch.testing.assert_close(rest, rest[:1].expand_as(rest))


def test_embeddings_on_the_sphere_fuse_to_their_product():
    embedding = von_mises_fisher()[[1, 2, 3]]
    at = torch.nn.functional.normalize(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).double(), dim=1)
    product = embedding.fused(torch.zeros(3, dtype=torch.long)).checked()
    each = embedding.concentration[:, None] * (embedding.direction @ at.T)
    rest = product.concentration * (product.direction @ at.T)[0] - each.sum(0)
    torch.testing.assert_close(rest, torch.zeros_like(rest), atol=1e-10, rtol=0)


def test_what_says_nothing_changes_nothing():
    sphere = VonMisesFisher(torch.eye(3)[:2], torch.tensor([0.0, 4.0]))
    together = sphere.fused(torch.tensor([0, 0]))
    torch.testing.assert_close(together.direction, sphere.direction[1:])
    assert sphere[:1].fused(torch.tensor([0])).checked().concentration == 0
    vague = Gaussian(torch.tensor([[9.0], [1.0]]), torch.tensor([[1e6], [0.5]]))
    torch.testing.assert_close(vague.fused(torch.tensor([0, 0])).location, torch.tensor([[1.0]]))


def test_points_fuse_to_their_mean_and_draws_draw_by_draw():
    together = point().fused(GROUPS)
    torch.testing.assert_close(together.location[0], point().location[[0, 2]].mean(0))
    draws = draws_of_gaussians().fused(GROUPS)
    assert isinstance(draws, Draws)
    for ours, theirs in zip(draws.by_draw(), draws_of_gaussians().by_draw(), strict=True):
        torch.testing.assert_close(ours.mean, theirs.fused(GROUPS).mean)


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_more_pictures_never_mean_more_uncertainty(make):
    embedding = make()[[1, 2, 3]]
    for alone, together in zip(
        embedding.by_draw(), embedding.fused(torch.zeros(3, dtype=torch.long)).by_draw(), strict=True
    ):
        twice = alone[[0, 0]].fused(torch.tensor([0, 0]))
        assert (twice.uncertainty <= alone[0].uncertainty).all()
        assert together.mean.isfinite().all()
    single = embedding.fused(torch.arange(3))
    torch.testing.assert_close(single.mean, embedding.mean, atol=1e-9, rtol=1e-9)


def test_bad_groups_are_refused():
    for groups, message in (
        (torch.tensor([0, 1]), "groups: expected 5 numbers from 0 on"),
        (torch.tensor([0, 1, 2, 3, -1]), "groups: expected 5 numbers"),
        (torch.zeros(5), "groups: expected 5 numbers"),
        (torch.tensor([0, 2, 0, 2, 2]), "expected all numbers up to the largest, got a gap"),
    ):
        with pytest.raises(InputError, match=message):
            diagonal().fused(groups)
    with pytest.raises(InputError, match="some variance in every item, or in none"):
        Gaussian(torch.zeros(2, 1), torch.tensor([[0.0], [1.0]])).fused(torch.tensor([0, 0]))
    assert len(Point(torch.zeros(0, 3)).fused(torch.zeros(0, dtype=torch.long))) == 0
