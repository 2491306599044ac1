from collections.abc import Callable

import pytest
import torch

from howsure import Draws, Embedding, Gaussian, NovelGaussian, Point

Make = Callable[..., Embedding]


def _normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def point(count: int, *, seed: int = 0, dim: int = 6) -> Embedding:
    return Point(_normal(count, dim, seed=seed))


def isotropic(count: int, *, seed: int = 0, dim: int = 6) -> Embedding:
    return Gaussian(_normal(count, dim, seed=seed), _normal(count, 1, seed=seed + 1).abs())


def diagonal(count: int, *, seed: int = 0, dim: int = 6) -> Embedding:
    return Gaussian(_normal(count, dim, seed=seed), _normal(count, dim, seed=seed + 1).abs())


def novel(count: int, *, seed: int = 0, dim: int = 6) -> Embedding:
    p = torch.rand(count, generator=torch.Generator().manual_seed(seed + 2))
    return NovelGaussian(_normal(count, dim, seed=seed), _normal(count, dim, seed=seed + 1).abs(), p)


def draws_of_points(count: int, *, seed: int = 0, dim: int = 6) -> Embedding:
    return Draws.stack([point(count, seed=seed + 10 * s, dim=dim) for s in range(3)])


def draws_of_gaussians(count: int, *, seed: int = 0, dim: int = 6) -> Embedding:
    return Draws.stack([diagonal(count, seed=seed + 10 * s, dim=dim) for s in range(3)])


FAMILIES = [point, isotropic, diagonal, novel, draws_of_points, draws_of_gaussians]


@pytest.fixture(params=FAMILIES, ids=lambda family: family.__name__)
def make(request: pytest.FixtureRequest) -> Make:
    """A family: make(count, seed=..., dim=...) gives an embedding."""
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gallery"
