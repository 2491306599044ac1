"""One small embedding of every family, with known moments. A new family adds one entry, and `laws.py` judges it."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from howsure.embeddings import Draws, Embedding, Gaussian, GaussianMixture, NovelGaussian, Point, VonMisesFisher

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


def novel() -> NovelGaussian:
    typicality = torch.tensor([0.0, 0.01, 0.4, 0.9, 1.0], dtype=torch.float64)
    return NovelGaussian(_normal(N, D, seed=17), _scale(N, 1, seed=18), typicality)


def draws_of_points() -> Draws:
    return Draws(Point(_normal(N, S, D, seed=5)))


def draws_of_gaussians() -> Draws:
    return Draws(Gaussian(_normal(N, S, D, seed=6), _scale(N, S, 1, seed=7)))


def mixture() -> GaussianMixture:
    return GaussianMixture(_normal(N, 2, seed=8), _normal(N, 2, D, seed=9), _scale(N, 2, D, seed=10))


def draws_of_mixtures() -> Draws:
    return Draws(GaussianMixture(_normal(N, S, 3, seed=11), _normal(N, S, 3, D, seed=12), _scale(N, S, 3, 1, seed=13)))


def von_mises_fisher() -> VonMisesFisher:
    concentration = torch.tensor([0.0, 0.5, 4.0, 60.0, 1e7], dtype=torch.float64)
    return VonMisesFisher(normalize(_normal(N, D, seed=14), dim=-1), concentration)


def draws_of_von_mises_fisher() -> Draws:
    return Draws(VonMisesFisher(normalize(_normal(N, S, D, seed=15), dim=-1), 20 * _scale(N, S, seed=16)))


CASES: dict[str, Callable[[], Embedding]] = {
    "point": point,
    "gaussian, one scale": isotropic,
    "gaussian, per dimension": diagonal,
    "gaussian with novelty": novel,
    "draws of points": draws_of_points,
    "draws of gaussians": draws_of_gaussians,
    "mixture": mixture,
    "draws of mixtures": draws_of_mixtures,
    "von Mises-Fisher": von_mises_fisher,
    "draws of von Mises-Fisher": draws_of_von_mises_fisher,
}
