"""N-centroids loss with von Mises-Fisher confidence, and the classifier that goes with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import Embedding, VonMisesFisher
from howsure.errors import InputError
from howsure.losses.checks import check_classes, check_dim, check_labels
from howsure.losses.features import ReadsFeatures
from howsure.numerics.sphere import great_circle_distance
from howsure.numerics.vmf import scaled_log_normalizer

ALPHA, DECAY = 0.25, 0.65  # alpha = 0.25 · 0.65^(iteration/every)
GATES = ("nearest", "published")
SHARPNESS = 20.0  # of the choice of the nearest, when centroids are moved apart


def _euclidean(u: Tensor, v: Tensor) -> Tensor:
    return torch.cdist(u, v, compute_mode="donot_use_mm_for_euclid_dist")  # its gradient at 0 is 0


DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "great-circle": great_circle_distance,
    "cosine": lambda u, v: 1 - u @ v.T,
    "euclidean": _euclidean,
}


class Centroids(nn.Module):
    """One unit centroid a class: pull pictures to their own, push them from the nearest other and from all others.

    For a direction e of class y among K centroids c, with distance d,

        d(c_y, e) - [alpha > alpha_min] · (min_{i≠y} d(c_i, e) + 1/K Σ_{i≠y} d(c_i, e)) + k |e - c_y|²/2 - log C(k) - k

    The last part, the likelihood of the direction, trains the concentration k alone: at its best A_D(k) is the expected
    cosine to the centroid. Centroids get no gradient, are part of the state, and start far from each other.
    alpha = 0.25 · 0.65^(iteration/every). As published `every` is 1000, so with the default `alpha_min`
    only the pull is left after 12,817 batches. A shorter run should get there too: choose `every` as a fifteenth of its
    batches.

    With `gate="nearest"`, the default, a picture is only pulled until its own centroid is the nearest to it, and
    centroids stay where they started. With `gate="published"` every picture is pushed from the first batch, and
    after each batch the centroids of its classes move:

        c <- normalise(alpha · normalise(mean of the batch) + (1 - alpha) · c)

    A fresh network maps all pictures to one direction, and hard classes stay together for long. Centroids that move are
    drawn there; where two meet, pull and push cancel, and their classes never part again.
    """

    centroids: Tensor
    iteration: Tensor

    def __init__(
        self,
        classes: int,
        dim: int,
        *,
        distance: str = "great-circle",
        alpha_min: float = 1e-3,
        every: float = 1000,
        gate: str = "nearest",
    ):
        super().__init__()
        check_classes(classes)
        if distance not in DISTANCES:
            raise InputError("distance", expected=" or ".join(DISTANCES), got=repr(distance))
        if gate not in GATES:
            raise InputError("gate", expected=" or ".join(GATES), got=repr(gate))
        if not every > 0:
            raise InputError("every", expected="a positive number of batches", got=str(every))
        self.distance, self.alpha_min, self.every, self.gate = DISTANCES[distance], alpha_min, every, gate
        self.register_buffer("centroids", separated_directions(classes, dim))
        self.register_buffer("iteration", torch.tensor(0))

    @property
    def alpha(self) -> float:
        """How far the next batch moves a centroid that moves."""
        return ALPHA * DECAY ** (self.iteration.item() / self.every)

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        """In training mode it counts as an iteration."""
        vmf = VonMisesFisher.require(embedding, asker="centroids loss").checked()
        classes, dim = self.centroids.shape
        check_dim(vmf, dim, like="the centroids have")
        check_labels(labels, items=len(vmf), classes=classes)
        value = self._pull_and_push(vmf.direction, labels) + _likelihood(vmf, self.centroids[labels])
        if self.training:
            if self.gate == "published":
                self._move(vmf.direction.detach(), labels)
            self.iteration = self.iteration + 1
        return value

    def _pull_and_push(self, direction: Tensor, labels: Tensor) -> Tensor:
        distance = self.distance(direction, self.centroids)
        own = F.one_hot(labels, len(self.centroids)).bool()
        pull = distance[own]
        if self.alpha <= self.alpha_min:
            return pull.mean()
        hard = distance.masked_fill(own, torch.inf).amin(1)
        easy = distance.masked_fill(own, 0).sum(1) / len(self.centroids)
        pushed = torch.ones_like(own[:, 0]) if self.gate == "published" else pull < hard
        return (pull - pushed * (hard + easy)).mean()

    def _move(self, direction: Tensor, labels: Tensor) -> None:
        """Towards the directions of the batch; a class that is not in it stays."""
        batch = torch.zeros_like(self.centroids).index_add_(0, labels, direction.to(self.centroids.dtype))
        # Another tensor, not the same one changed: the backward pass still needs the old one.
        moved = self.alpha * F.normalize(batch, dim=-1) + (1 - self.alpha) * self.centroids
        self.centroids = F.normalize(moved, dim=-1)


def separated_directions(classes: int, dim: int) -> Tensor:
    """(K, D) unit directions far from each other: random ones that push their nearest away, round by round.

    In two dimensions evenly on the circle; with K <= D + 1 all at one angle, cosine -1/(K - 1). Thousands of classes
    get fewer rounds, to keep it a matter of seconds.

    >>> _ = torch.manual_seed(0)
    >>> c = separated_directions(3, 16)
    >>> (c @ c.T).round(decimals=2)[0]
    tensor([ 1.0000, -0.5000, -0.5000])
    """
    if dim == 2:
        angle = 2 * math.pi * (torch.randperm(classes) + torch.rand(())) / classes
        return torch.stack([angle.cos(), angle.sin()], 1)
    found = F.normalize(torch.randn(classes, dim), dim=-1)
    rounds = min(200, 1 + 20_000_000 // classes**2)
    for done in range(rounds):
        near = (found @ found.T).fill_diagonal_(-torch.inf)
        push = (SHARPNESS * near).softmax(1) @ found
        found = F.normalize(found - 0.5 * (1 - done / rounds) * push, dim=-1)
    return found


class CentroidsAndClasses(ReadsFeatures):
    """The centroids loss, and `weight` times the cross-entropy of a linear classifier on the body's features.

    The talk does not give a weight; 1 by default. Pictures that are hard to learn want more: the pull to a centroid
    does not fade as a picture comes near it, and then outweighs what the classes still have to learn.
    """

    def __init__(self, centroids: Centroids, features: int, *, weight: float = 1.0):
        super().__init__()
        if not weight > 0:
            raise InputError(
                "weight", expected="a positive number", got=str(weight), fix="use method centroids for none"
            )
        self.centroids, self.weight = centroids, weight
        self.classifier = nn.Linear(features, len(centroids.centroids))

    def forward(self, embedding: Embedding, labels: Tensor, features: Tensor) -> Tensor:
        classes = F.cross_entropy(self.classifier(features), labels)
        return self.centroids(embedding, labels) + self.weight * classes


@dataclass(frozen=True, eq=False)
class NearestCentroid:
    """The row of the nearest centroid, (N,), and the confidence in it, in [0, 1], (N,): large = sure."""

    rows: Tensor
    confidence: Tensor


def nearest_centroid(embedding: Embedding, centroids: Tensor) -> NearestCentroid:
    """Classify directions by the nearest of (K, D) unit centroids.

    The confidence is the expected cosine between the picture's z and that centroid c, and nothing below 0:

        E[z·c] = A_D(k) μ·c

    It is small where the concentration is low, and where the direction is between the classes or off them all. It
    compares across dimensions; it is not yet the probability of being right: calibrate it on held-out pictures.

    >>> vmf = VonMisesFisher(torch.tensor([[0.6, 0.8]]), torch.tensor([1.1594]))
    >>> nearest_centroid(vmf, torch.eye(2))
    NearestCentroid(rows=tensor([1]), confidence=tensor([0.4000]))
    """
    vmf = VonMisesFisher.require(embedding, asker="nearest centroid").checked()
    if centroids.ndim != 2 or centroids.shape[1] != vmf.dim or not len(centroids):
        raise InputError("centroids", expected=f"(K, {vmf.dim})", got=str(tuple(centroids.shape)))
    cosine, row = (vmf.direction @ centroids.to(vmf.dtype).T).max(1)
    return NearestCentroid(row, vmf.confidence * cosine.clamp(0, 1))


def _likelihood(vmf: VonMisesFisher, centroids: Tensor) -> Tensor:
    """Minus the mean log-likelihood of the directions under vMF(centroid, k), the directions held fixed."""
    k = vmf.concentration.double()
    squared = (vmf.direction.detach().double() - centroids.double()).square().sum(-1)
    return (k * squared / 2 - scaled_log_normalizer(k, vmf.dim)).mean().to(vmf.dtype)
