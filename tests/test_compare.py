from collections.abc import Callable

import numpy as np
import pytest
import torch

import references
from cases import CASES, diagonal, draws_of_gaussians, draws_of_points, point
from howsure.compare import expected_similarity, expected_squared_distance, mutual_likelihood, rms_distance
from howsure.embeddings import Draws, Embedding, Gaussian, Point
from howsure.errors import InputError

COMPARISONS = [expected_squared_distance, rms_distance, expected_similarity]
FAMILIES = pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())


@FAMILIES
def test_against_loops(make: Callable[[], Embedding]) -> None:
    query, gallery = make()[[0, 3]], make()[::-1]
    wanted = references.squared_distances(query, gallery)
    assert torch.allclose(expected_squared_distance(query, gallery), wanted)
    assert torch.allclose(rms_distance(query, gallery), wanted.sqrt())
    assert torch.allclose(expected_similarity(query, gallery), references.similarities(query, gallery))


@FAMILIES
@pytest.mark.parametrize("compare", COMPARISONS)
def test_pairs_are_the_diagonal(make: Callable[[], Embedding], compare: Callable[..., torch.Tensor]) -> None:
    query, gallery = make(), make()[::-1]
    paired = compare(query, gallery, paired=True)
    assert torch.allclose(paired, compare(query, gallery).diagonal(), atol=1e-7)


@pytest.mark.parametrize("make", [draws_of_points, draws_of_gaussians])
def test_a_single_view_meets_every_draw(make: Callable[[], Draws]) -> None:
    alone = diagonal()[:2]
    assert torch.allclose(expected_squared_distance(alone, make()), references.squared_distances(alone, make()))
    assert torch.allclose(expected_squared_distance(make(), alone), references.squared_distances(make(), alone))


@pytest.mark.parametrize("compare", COMPARISONS)
def test_symmetric(compare: Callable[..., torch.Tensor]) -> None:
    a, b = draws_of_gaussians(), draws_of_gaussians()[[4, 2]]
    assert torch.allclose(compare(a, b), compare(b, a).T)


def test_small_distance_is_near_and_large_similarity_is_near() -> None:
    query = Point(torch.tensor([[1.0, 0.0]]))
    near_then_far = Point(torch.tensor([[1.0, 0.1], [0.0, 1.0]]))
    for distance in (expected_squared_distance, rms_distance):
        assert distance(query, near_then_far)[0].diff() > 0
    assert expected_similarity(query, near_then_far)[0].diff() < 0


def test_uncertainty_adds_distance() -> None:
    query, location = Point(torch.zeros(1, 3)), torch.ones(2, 3)
    gallery = Gaussian(location, torch.tensor([[0.1], [0.5]]))
    assert expected_squared_distance(query, gallery)[0].diff() > 0


def test_points_have_the_euclidean_distance() -> None:
    assert torch.allclose(rms_distance(point(), point()[:2]), torch.cdist(point().mean, point().mean[:2]))


def test_far_from_the_origin_the_differences_survive() -> None:
    near = Point(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)) + 1000)
    assert torch.allclose(rms_distance(near, near), torch.cdist(near.mean, near.mean), atol=1e-2)
    assert (rms_distance(near, near) >= 0).all()


def test_rotated_members_agree_only_draw_by_draw() -> None:
    """Five networks with one geometry up to a rotation. Their average is meaningless, their distances are not."""
    rng = torch.Generator().manual_seed(0)
    truth = torch.randn(40, 8, generator=rng)

    def member(turn: torch.Tensor) -> Point:
        return Point((truth + 0.6 * torch.randn(truth.shape, generator=rng)) @ turn)

    turns = [torch.linalg.qr(torch.randn(8, 8, generator=rng)).Q for _ in range(5)]
    query = Draws.stack([member(turn) for turn in turns])
    gallery = Draws.stack([member(turn) for turn in turns])

    def recall(distance: torch.Tensor) -> float:
        return float((distance.argmin(1) == torch.arange(40)).double().mean())

    ensemble = recall(rms_distance(query, gallery))
    averaged = recall(rms_distance(Point(query.mean), Point(gallery.mean)))
    alone = recall(rms_distance(query.by_draw()[0], gallery.by_draw()[0]))
    assert ensemble > averaged + 0.2
    assert ensemble > alone + 0.2


def test_rearranged_draws_are_other_networks() -> None:
    draws = draws_of_points()
    shuffled = Draws.stack(draws.by_draw()[::-1])
    assert not torch.allclose(rms_distance(draws, draws), rms_distance(draws, shuffled))


def test_different_numbers_of_draws() -> None:
    fewer = Draws.stack(draws_of_points().by_draw()[:2])
    with pytest.raises(InputError, match="4 in the query and 2 in the gallery") as caught:
        rms_distance(draws_of_points(), fewer)
    assert "same posterior" in caught.value.fix


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (Point(torch.zeros(5, 2, dtype=torch.float64)), "dimension"),
        (Point(torch.zeros(5, 3, dtype=torch.float32)), "dtype"),
        (Point(torch.zeros(5, 3, dtype=torch.float64, device="meta")), "device"),
    ],
)
@pytest.mark.parametrize("compare", COMPARISONS)
def test_embeddings_that_do_not_fit(compare: Callable[..., torch.Tensor], other: Embedding, what: str) -> None:
    with pytest.raises(InputError) as caught:
        compare(point(), other)
    assert caught.value.what == what
    assert caught.value.expected
    assert caught.value.got


def test_pairs_of_different_lengths() -> None:
    with pytest.raises(InputError, match="5 and 2"):
        rms_distance(point(), point()[:2], paired=True)


def test_gradient_of_the_squared_distance_is_finite_at_zero() -> None:
    location = torch.zeros(3, 2, requires_grad=True)
    expected_squared_distance(Point(location), Point(location)).sum().backward()
    assert np.isfinite(location.grad.numpy()).all()


def test_mutual_likelihood_against_torch_distributions() -> None:
    query, gallery = diagonal()[:2], diagonal()[::-1]
    total = (query.variance[:, None] + gallery.variance).sqrt()
    wanted = torch.distributions.Normal(gallery.mean, total).log_prob(query.mean[:, None]).sum(-1)
    assert torch.allclose(mutual_likelihood(query, gallery), wanted)
    assert torch.allclose(mutual_likelihood(query, gallery[:2], paired=True), wanted[[0, 1], [0, 1]])


def test_mutual_likelihood_of_draws_is_averaged_as_a_likelihood() -> None:
    a, b = draws_of_gaussians(), draws_of_gaussians()[::-1]
    each = [mutual_likelihood(x, y).exp() for x, y in zip(a.by_draw(), b.by_draw(), strict=True)]
    assert torch.allclose(mutual_likelihood(a, b), torch.stack(each).mean(0).log())


def test_mutual_likelihood_is_large_for_near_embeddings_and_tolerates_uncertainty() -> None:
    query = Gaussian(torch.zeros(1, 2), torch.full((1, 1), 0.1))
    near, far, far_but_unsure = (
        Gaussian(torch.full((1, 2), location), torch.full((1, 1), scale))
        for location, scale in ((0.1, 0.1), (2.0, 0.1), (2.0, 2.0))
    )
    assert mutual_likelihood(query, near) > mutual_likelihood(query, far_but_unsure) > mutual_likelihood(query, far)


def test_two_points_have_no_mutual_likelihood() -> None:
    with pytest.raises(InputError, match="some variance"):
        mutual_likelihood(point(), point())
