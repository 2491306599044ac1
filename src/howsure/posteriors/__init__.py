"""Posteriors over the weights of a network: each takes an embedder and gives one that knows what it does not know."""

from howsure.posteriors import dropout, ensemble, laplace
from howsure.posteriors.curvature import Curvature, loss_curvature, pair_curvature
from howsure.posteriors.pairs import Pairs

__all__ = ["Curvature", "Pairs", "dropout", "ensemble", "laplace", "loss_curvature", "pair_curvature"]
