"""The Laplace approximation for metric learning: a posterior of the weights, from the pairs of a data set.

(After the Laplacian metric learner of Warburg, Miani, Brack and Hauberg, with the covariance that matters.)
"""

from howsure.posteriors.laplace.base import FlatVarianceWarning
from howsure.posteriors.laplace.curvature import Curvature, loss_curvature, pair_curvature
from howsure.posteriors.laplace.fit import (
    WHOLE_NETWORK,
    PriorRule,
    Structure,
    drawn,
    fit,
    fit_posterior,
    positive_pairs,
    with_novelty,
)
from howsure.posteriors.laplace.learned_variance import with_learned_variance
from howsure.posteriors.laplace.pairs import PairGraph

__all__ = [
    "WHOLE_NETWORK",
    "Curvature",
    "FlatVarianceWarning",
    "PairGraph",
    "PriorRule",
    "Structure",
    "drawn",
    "fit",
    "fit_posterior",
    "loss_curvature",
    "pair_curvature",
    "positive_pairs",
    "with_learned_variance",
    "with_novelty",
]
