"""Laplace online: training at draws of the last layer's weights, from a posterior that the training batches make.

(After the online Laplacian metric learner of Warburg, Miani, Brack and Hauberg; a low-rank covariance for its diagonal,
a true moving average for its sum, and a scale that follows the weights.)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from howsure.embeddings import Embedding
from howsure.errors import InputError, TrainingError
from howsure.losses import ReadsFeatures, batch_loss
from howsure.posteriors.laplace.base import laplace_head, linear_layer
from howsure.posteriors.laplace.covariance import SharedWeights
from howsure.posteriors.laplace.last_layer import LastLayerLaplace

if TYPE_CHECKING:
    from howsure.embedder import Embedder

RANK = 64
MEMORY = 0.99  # some 100 batches: older ones are no evidence about the network of today
ROUNDING = 1e-6  # of the largest eigenvalue; below, float32 products leave a row no direction of its own
LAYER = "location"


class Average(nn.Module):
    """A moving average of curvature, H_t = β H_{t-1} + (1 - β) h_t with H_0 = 0, of rank R at most.

    It is kept as rows (R, M), rows^T rows = H, beside the average of the features; all of it in buffers. An update
    takes (R + n)² M products for n new rows. What lies beyond the leading R directions is left out.

    >>> average = Average(3, rank=2, memory=0.75)
    >>> average.add(torch.diag(torch.tensor([3.0, 2.0, 1.0])), centre=torch.ones(3))
    >>> average.leading()[1], average.centre_now()       # free of the zeros it began with
    (tensor([9., 4.]), tensor([1., 1., 1.]))
    """

    rows: Tensor
    centre: Tensor
    steps: Tensor

    def __init__(self, features: int, *, rank: int = RANK, memory: float = MEMORY):
        super().__init__()
        if not 0 <= memory < 1 or rank < 1:
            raise InputError("average", expected="memory from 0 to below 1, rank 1 or more", got=f"{memory}, {rank}")
        self.memory = memory
        self.register_buffer("rows", torch.zeros(rank, features))
        self.register_buffer("centre", torch.zeros(features))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def add(self, rows: Tensor, *, centre: Tensor) -> None:
        """Another batch: (n, M) rows with rows^T rows = h_t, and the mean of its features."""
        stacked = torch.cat([self.rows * math.sqrt(self.memory), rows * math.sqrt(1 - self.memory)])
        gram = stacked @ stacked.T  # the rows are rotated among themselves, and there are few
        if not torch.isfinite(gram).all():
            raise TrainingError(
                "the curvature of a batch", expected="finite numbers", got="others", fix="lower learning_rate"
            )
        _, vectors = torch.linalg.eigh(gram.double())
        leading = vectors.flip(1)[:, : len(self.rows)].T
        self.rows.copy_(leading.to(stacked) @ stacked)
        self.centre.lerp_(centre, 1 - self.memory)
        self.steps += 1

    def leading(self) -> tuple[Tensor, Tensor]:
        """Axes (R, M) of length 1 and eigenvalues (R,) of H_t / (1 - β^t); a direction without curvature is all 0."""
        values = self.rows.square().sum(1)
        seen = values > ROUNDING * values.max()
        axes = torch.where(seen[:, None], self.rows / values.sqrt()[:, None], 0)
        return axes, torch.where(seen, values, 0) / self._filled()

    def centre_now(self) -> Tensor:
        """The average of the features, (M,)."""
        return self.centre / self._filled()

    def _filled(self) -> float:
        return 1 - self.memory ** int(self.steps)


class AtADraw(ReadsFeatures):
    """A loss at a draw of the last layer's weights, w ~ N(w*, (H + λ I)⁻¹); its gradient goes to w* and the features.

    The embedding at w* itself is not used. Each batch then moves H, and with it the posterior in `head`:

        h_t = (pictures / temperature) · (curvature of |z - z'|²/2 / number of pairs) / mean z²,     λ = 1 / mean w²

    over the pairs of a class. Both follow the scale of the weights: w → c w gives h → h/c² and λ → λ/c², so that the
    network cannot outgrow the noise. λ takes a weight of which nothing is known to be like the others.
    """

    def __init__(self, loss: nn.Module, head: LastLayerLaplace, *, pictures: int, temperature: float = 1.0):
        super().__init__()
        if not temperature > 0:
            raise InputError("temperature", expected="above 0", got=str(temperature))
        self.loss, self.precision = loss, pictures / temperature
        self._head = (head,)  # in a tuple, since its weights are the embedder's
        layer = linear_layer(head.single, LAYER)
        self.average = Average(layer.in_features, rank=_rank(layer))

    def forward(self, embedding: Embedding, labels: Tensor, features: Tensor) -> Tensor:
        head = self._head[0]
        layer, weights = linear_layer(head.single, LAYER), head.weights
        moved = weights.deviations(1, head.dim, torch.default_generator)[0]
        # Pairs see differences: the draw turns pictures about the mean features, and does not shift them all.
        drawn = {"weight": layer.weight + moved, "bias": layer.bias - moved @ weights.centre}
        embedding = functional_call(head.single, {f"{LAYER}.{name}": t for name, t in drawn.items()}, features)
        value = batch_loss(self.loss, embedding, labels, features)
        with torch.no_grad():
            self._learn(features, F.linear(features, drawn["weight"], drawn["bias"]), labels)
        return value

    def _learn(self, features: Tensor, z: Tensor, labels: Tensor) -> None:
        rows, pairs = positive_rows(features, labels)
        if not pairs:
            return  # no pair of a class, no evidence
        scale = self.precision / pairs / z.square().mean()
        self.average.add(rows * scale.sqrt(), centre=features.mean(0))
        weights = self._head[0].weights
        axes, values = self.average.leading()
        prior = 1 / linear_layer(self._head[0].single, LAYER).weight.square().mean()
        now = {"axes": axes, "along": 1 / (values + prior), "across": 1 / prior, "centre": self.average.centre_now()}
        for name, tensor in now.items():
            weights.get_buffer(name).copy_(tensor)


def positive_rows(features: Tensor, labels: Tensor) -> tuple[Tensor, float]:
    """Rows (B, M) with rows^T rows = Φ^T Lap Φ, of all pairs of a class in the batch, and the number of these pairs.

    √n_c (φ - mean of its class), n_c the size of that class: no factorisation, however many pairs there are.
    """
    same = (labels[:, None] == labels).to(features)
    count = same.sum(1)
    rows = (features - same @ features / count[:, None]) * count.sqrt()[:, None]
    return rows, float((count - 1).sum()) / 2


def prepared(embedder: Embedder, held_out: int) -> Embedder:
    """An embedder with an empty posterior, to be trained; until the first batch its weights are taken as known.

    `held_out` is the number of pictures that `settle_novelty` will get as reference.
    """
    layer = linear_layer(embedder.head, LAYER)
    rank, empty = _rank(layer), layer.weight.new_zeros
    axes, along = empty(rank, layer.in_features), empty(rank)
    # With far fewer axes than features, most of a picture can lie along them: the remainder is made with care.
    weights = SharedWeights(empty(layer.in_features), axes=axes, along=along, across=empty(()), careful=True)
    head = LastLayerLaplace(embedder.head, weights, layer=LAYER, normalised=True, reference=empty(held_out))
    return embedder.with_head(head)


def settle_novelty(embedder: Embedder, pixels: Tensor) -> None:
    """Take these pictures, (N, C, H, W) as they are stored, as reference for novelty; the posterior never saw them.

    The embedder is left in eval mode.
    """
    head = laplace_head(embedder)
    if head.usual is None:
        raise InputError("embedder", expected="one that is prepared", got=type(head).__name__, fix="prepared() first")
    embedder.eval()
    with torch.no_grad():
        batches = (embedder.spec.normalise(part.to(embedder.device)) for part in pixels.split(256))
        scores = torch.cat([head.raw_variance(embedder.backbone(batch)) for batch in batches])
    head.usual.copy_(scores.sort().values)


def _rank(layer: nn.Linear) -> int:
    # One direction at least is left to the prior: the axes of a full basis would all have to be seen.
    return max(1, min(RANK, layer.in_features - 1))
