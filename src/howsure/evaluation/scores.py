"""Scores of uncertainty, by name: large where an item is unlike what is known, or its answer is likely wrong.

| name | what | needs |
|---|---|---|
| `novelty` | conformal 1 - p that the item is typical | a model that keeps it |
| `ambiguity` | total variance of the embedding | a model with uncertainty |
| `mean_member_variance` | mean over members, or draws, of their own total variance | an ensemble with uncertainty |
| `neighbour_disagreement` | share of ten neighbours of another class than the nearest | labels |
| `ensemble_disagreement` | neighbours of members of another class than the answer; ties by mean variance | draws |
| `knn_distance` | distance to the 50th neighbour among the features, at length 1 | |
| `mahalanobis` | distance to the nearest class mean in the features, one covariance | labels |
| `feature_norm` | minus the length of the features | |

All are measured against items that are known, with labels; an item among them is not compared with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from howsure import data
from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, Point, cat, point_estimates
from howsure.errors import InputError
from howsure.neighbours import neighbours
from howsure.posteriors import single_head

__all__ = ["SCORES", "Observed", "observe", "require_scores", "score_of"]

ASKED = 10  # neighbours whose classes are compared
FAR = 50  # the neighbour whose distance is a score
COMPONENTS = 128  # leading ones, in which classes have a covariance


@dataclass(frozen=True, eq=False)
class Observed:
    """N items as a model sees them: embeddings, and the features they come from; of an ensemble the first member's."""

    embedding: Embedding
    features: Tensor  # (N, M)
    labels: np.ndarray  # (N,) of str

    @property
    def points(self) -> Embedding:
        """Point estimates, draw by draw."""
        return point_estimates(self.embedding)


def observe(embedder: Embedder, images: ImageSet) -> Observed:
    """One pass over pictures, with one network or with an ensemble."""
    embeddings, features = [], []
    # The features are what the head of one network reads, wherever that network is.
    read: list[Tensor] = []
    hook = single_head(embedder.head).register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
    embedder.eval()
    try:
        with torch.no_grad():
            for chunk in data.stream(images, embedder.spec):
                read.clear()
                pixels = embedder.spec.normalise(chunk.pixels.to(embedder.device))
                embeddings.append(embedder.head(embedder.backbone(pixels)))
                features.append(read[0])
    finally:
        hook.remove()
    return Observed(cat(embeddings), torch.cat(features), np.array(images.labels, dtype=str))


def score_of(name: str, items: Observed, known: Observed) -> np.ndarray:
    """The score of that name of each item, (N,), against known ones; `items` may be `known` itself."""
    require_scores([name])
    return np.asarray(SCORES[name](items, known), np.float64)


def _novelty(items: Observed, known: Observed) -> np.ndarray:
    if items.embedding.novelty is None:
        raise InputError("score novelty", expected="a model that keeps it", got="one without", fix="laplace.fit first")
    return items.embedding.novelty.double().numpy()


def mean_member_variance(embedding: Embedding) -> np.ndarray:
    """(N,) the mean over draws of their own total variance."""
    return torch.stack([draw.uncertainty for draw in embedding.by_draw()]).mean(0).double().numpy()


def nearest_classes(items: Observed, known: Observed, depth: int) -> np.ndarray:
    """(N, depth) classes of the nearest known items, by the distance of point estimates."""
    found = neighbours(items.points, known.points, leave_one_out=items is known, depth=depth)
    return known.labels[found.positions]


def neighbour_disagreement(classes: np.ndarray) -> np.ndarray:
    """(N,) the share of neighbours, (N, k) nearest first, of another class than the nearest."""
    return (classes[:, :ASKED] != classes[:, :1]).mean(1)


def classes_by_draw(items: Observed, known: Observed, depth: int) -> np.ndarray:
    """(N, S, depth): the classes of the nearest known items to each member, or draw."""
    depth = min(depth, len(known.labels) - (items is known))
    pairs = zip(items.embedding.by_draw(), known.embedding.by_draw(), strict=True)
    found = [
        neighbours(Point(ours.point_estimate), Point(theirs.point_estimate), leave_one_out=items is known, depth=depth)
        for ours, theirs in pairs
    ]
    return known.labels[np.stack([one.positions for one in found], 1)]


def ensemble_disagreement(
    items: Observed, known: Observed, *, answers: np.ndarray | None = None, reference: np.ndarray | None = None
) -> np.ndarray:
    """(N,) how many neighbours of single members are of another class than the answer, ties by mean variance.

    `answers` are the classes that were answered, by default that of the nearest known item. The variance of an item
    adds its rank among the `reference` variances, sorted, which is below 1.
    """
    if len(items.embedding.by_draw()) < 2:
        raise InputError("score ensemble_disagreement", expected="an ensemble or draws", got="one network")
    if answers is None:
        answers = nearest_classes(items, known, 1)[:, 0]
    if reference is None:
        reference = np.sort(_tie(known.embedding))
    ties = (reference.searchsorted(_tie(items.embedding)) + 0.5) / (len(reference) + 1)
    return (classes_by_draw(items, known, ASKED) != answers[:, None, None]).sum((1, 2)) + ties


def _tie(embedding: Embedding) -> np.ndarray:
    """The mean variance of members, or, of members without any, the variance between them."""
    own = mean_member_variance(embedding)
    return own if (own > 0).any() else embedding.uncertainty.double().numpy()


def nth_distance(vectors: Tensor, known: Tensor, nth: int) -> Tensor:
    """The distance of each vector to its nth nearest known one."""
    return torch.cat([torch.cdist(part, known).kthvalue(nth, dim=1).values for part in vectors.split(500)])


def directions(items: Observed) -> Tensor:
    """Features at length 1."""
    return F.normalize(items.features, dim=1)


def _knn_distance(items: Observed, known: Observed) -> np.ndarray:
    own = items is known
    nth = min(FAR, len(known.labels) - own)
    return nth_distance(directions(items), directions(known), nth + own).double().numpy()


def mahalanobis(known: Observed) -> Callable[[Observed], Tensor]:
    """The squared distance to the nearest class mean, one covariance for all classes, in the leading components."""
    centre = known.features.mean(0)
    torch.manual_seed(0)
    axes = torch.svd_lowrank(known.features - centre, q=min(COMPONENTS, *known.features.shape), niter=2)[2]
    along = (known.features - centre) @ axes
    classes, codes = np.unique(known.labels, return_inverse=True)
    means = torch.stack([along[torch.from_numpy(codes == code)].mean(0) for code in range(len(classes))])
    within = along - means[torch.from_numpy(codes)]
    covariance = within.T @ within / len(within)
    ridge = 1e-6 * covariance.diagonal().mean() * torch.eye(len(covariance))
    whiten = torch.linalg.cholesky(torch.linalg.inv(covariance + ridge))
    return lambda items: torch.cdist((items.features - centre) @ axes @ whiten, means @ whiten).min(1).values


SCORES: dict[str, Callable[[Observed, Observed], np.ndarray]] = {
    "novelty": _novelty,
    "ambiguity": lambda items, known: items.embedding.uncertainty.double().numpy(),
    "mean_member_variance": lambda items, known: mean_member_variance(items.embedding),
    "neighbour_disagreement": lambda items, known: neighbour_disagreement(nearest_classes(items, known, ASKED)),
    "ensemble_disagreement": ensemble_disagreement,
    "knn_distance": _knn_distance,
    "mahalanobis": lambda items, known: mahalanobis(known)(items).double().numpy(),
    "feature_norm": lambda items, known: -items.features.norm(dim=1).double().numpy(),
}


def require_scores(names: Sequence[str]) -> None:
    """Refuse a name that is no score, before anything is computed."""
    for name in names:
        if name not in SCORES:
            raise InputError("score", expected=" or ".join(SCORES), got=repr(name))
