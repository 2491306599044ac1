"""Outlines of embeddings: one standard deviation, in the coordinates of the plane, for every family."""

import numpy as np
import pytest
import torch

from howsure import Draws, Gaussian, GaussianMixture, Point, VonMisesFisher
from howsure.plots.figures import Plane
from howsure.plots.outlines import map_plane, outlines


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def distances(curve: np.ndarray, centre: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """How many standard deviations each point of a curve is from the centre."""
    gap = curve - centre
    return np.sqrt(np.einsum("pi,ij,pj->p", gap, np.linalg.inv(covariance), gap))


def test_in_two_dimensions_the_axes_are_the_scales():
    embedding = Gaussian(normal(50, 2), normal(50, 2, seed=1).abs() + 0.1)
    drawn = outlines(embedding, map_plane(embedding))
    np.testing.assert_array_equal(drawn.items, np.arange(50))
    np.testing.assert_allclose(drawn.centres, embedding.mean)
    np.testing.assert_allclose(np.ptp(drawn.curves, axis=1) / 2, embedding.variance.sqrt())


def test_other_planes_keep_the_covariance():
    embedding = Gaussian(normal(20, 6), normal(20, 6, seed=1).abs() + 0.1)
    plane = map_plane(embedding)
    drawn = outlines(embedding, plane)
    np.testing.assert_allclose(drawn.centres, plane.project(embedding))
    for i in range(20):
        covariance = plane.axes @ np.diag(embedding.variance[i].numpy()) @ plane.axes.T
        np.testing.assert_allclose(distances(drawn.curves[i], drawn.centres[i], covariance), 1)


@pytest.mark.parametrize("dim", [2, 5])
def test_a_mixture_has_an_ellipse_for_each_component(dim):
    embedding = GaussianMixture(normal(7, 3), normal(7, 3, dim, seed=1), normal(7, 3, dim, seed=2).abs() + 0.1)
    plane = map_plane(embedding)
    drawn = outlines(embedding, plane)
    np.testing.assert_array_equal(drawn.items, np.repeat(np.arange(7), 3))
    np.testing.assert_allclose(drawn.weights, embedding.weights.flatten())
    alone = outlines(Gaussian(embedding.location[:, 1], embedding.scale[:, 1]), plane)
    np.testing.assert_allclose(drawn.curves[1::3], alone.curves)


def test_embeddings_on_a_sphere_have_the_covariance_of_their_samples():
    direction = torch.nn.functional.normalize(normal(4, 3), dim=-1)
    embedding = VonMisesFisher(direction, torch.tensor([0.0, 1.0, 5.0, 50.0]).double())
    plane = Plane(np.zeros(3), np.eye(3)[:2])
    drawn = outlines(embedding, plane)
    samples = embedding.sample(200_000, torch.Generator().manual_seed(0)).numpy()[..., :2]
    for i in range(4):
        covariance = np.cov(samples[:, i].T)
        np.testing.assert_allclose(distances(drawn.curves[i], drawn.centres[i], covariance), 1, rtol=0.02)


def test_on_the_circle_an_arc_reaches_one_circular_standard_deviation():
    angle = torch.tensor([0.3, -2.0, 3.1]).double()
    direction = torch.stack([angle.cos(), angle.sin()], -1)
    embedding = VonMisesFisher(direction, torch.tensor([0.5, 4.0, 300.0]).double())
    drawn = outlines(embedding, map_plane(embedding))
    samples = embedding.sample(200_000, torch.Generator().manual_seed(0)).numpy()
    resultant = np.linalg.norm(samples.mean(0), axis=-1)
    turn = np.unwrap(np.arctan2(drawn.curves[..., 1], drawn.curves[..., 0]), axis=1)
    assert not drawn.closed
    np.testing.assert_allclose(np.ptp(turn, axis=1) / 2, np.sqrt(-2 * np.log(resultant)), rtol=0.01)
    middle = turn[:, turn.shape[1] // 2]
    np.testing.assert_allclose(np.exp(1j * middle), np.exp(1j * angle.numpy()), atol=1e-9)
    np.testing.assert_allclose(drawn.centres, embedding.mean)


def test_concentration_zero_is_an_arc_around_the_whole_circle():
    embedding = VonMisesFisher(torch.tensor([[1.0, 0.0]]), torch.zeros(1))
    curve = outlines(embedding, map_plane(embedding)).curves[0]
    np.testing.assert_allclose(curve[0], curve[-1], atol=1e-9)
    assert np.ptp(curve[:, 0]) > 2


def test_draws_that_disagree_along_a_line_are_outlined_along_it():
    steps = torch.linspace(-1, 1, 9).double()
    draws = Draws.stack(
        [Gaussian(step * torch.ones(1, 2).double(), torch.full((1, 1), 0.1).double()) for step in steps]
    )
    drawn = outlines(draws, map_plane(draws))
    variance = steps.square().mean().item()
    covariance = np.full((2, 2), variance) + 0.01 * np.eye(2)
    np.testing.assert_allclose(distances(drawn.curves[0], drawn.centres[0], covariance), 1)


def test_points_have_no_width():
    embedding = Point(normal(5, 2))
    drawn = outlines(embedding, map_plane(embedding))
    np.testing.assert_array_equal(drawn.sizes, 0)
