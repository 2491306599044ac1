"""Embeddings with uncertainty: one base, one file a family."""

from howsure.embeddings.base import Embedding, cat, restore
from howsure.embeddings.draws import Draws
from howsure.embeddings.gaussian import Gaussian
from howsure.embeddings.mixture import GaussianMixture
from howsure.embeddings.novelty import NovelGaussian
from howsure.embeddings.point import Point, point_estimates
from howsure.embeddings.von_mises_fisher import VonMisesFisher

__all__ = [
    "Draws",
    "Embedding",
    "Gaussian",
    "GaussianMixture",
    "NovelGaussian",
    "Point",
    "VonMisesFisher",
    "cat",
    "point_estimates",
    "restore",
]
