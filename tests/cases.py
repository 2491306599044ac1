"""One small belief of every family, with known moments. A new family adds one entry, and `laws.py` judges it."""

from collections.abc import Callable

import torch
from torch import Tensor

from howsure.embeddings import Draws, Embedding, Gaussian, Point

N, D, S = 5, 3, 4


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _scale(*shape: int, seed: int) -> Tensor:
    return 0.2 + _normal(*shape, seed=seed).abs()


def point() -> Point:
    return Point(_normal(N, D, seed=0))


def isotropic() -> Gaussian:
    return Gaussian(_normal(N, D, seed=1), _scale(N, 1, seed=2))


def diagonal() -> Gaussian:
    return Gaussian(_normal(N, D, seed=3), _scale(N, D, seed=4))


def draws_of_points() -> Draws:
    return Draws(Point(_normal(N, S, D, seed=5)))


def draws_of_gaussians() -> Draws:
    return Draws(Gaussian(_normal(N, S, D, seed=6), _scale(N, S, 1, seed=7)))


CASES: dict[str, Callable[[], Embedding]] = {
    "point": point,
    "gaussian, one scale": isotropic,
    "gaussian, per dimension": diagonal,
    "draws of points": draws_of_points,
    "draws of gaussians": draws_of_gaussians,
}
