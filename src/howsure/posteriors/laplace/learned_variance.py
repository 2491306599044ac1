"""Variance learned from held-out pairs, as a function of the mean and of the posterior variance."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from howsure.data import ImageSet
from howsure.embeddings import Gaussian, cat
from howsure.errors import InputError
from howsure.losses import MutualLikelihood
from howsure.posteriors.laplace.base import Labelled, laplace_head, pixel_batches

if TYPE_CHECKING:
    from howsure.embedder import Embedder

HIDDEN = 64
LOG_VARIANCE = (-14.0, 8.0)


class LearnedVariance(nn.Module):
    """log v' = a + b log v + f(u, log v), the same in every dimension; u the mean, v its total variance so far.

    A posterior knows how far the weights can move a picture, not how ambiguous it is. At the border between two classes
    others of its class are far away, whatever the weights. f is a small network, which begins as 0.
    """

    centre: Tensor
    spread: Tensor  # standard deviation of the inputs, under the name it has in saved models

    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim + 1))
        self.register_buffer("spread", torch.ones(dim + 1))
        layers = (nn.Linear(dim + 1, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
        self.network = nn.Sequential(*layers)
        self.line = nn.Linear(1, 1)
        self._folded: tuple[np.ndarray, ...] | None = None

    def start(self, mean: Tensor, total: Tensor, *, variance: float) -> None:
        """Standardise the inputs by these, and begin with one variance for all."""
        inputs = _inputs(mean, total)
        self.centre.copy_(inputs.mean(0))
        self.spread.copy_(inputs.std(0).clamp_min(1e-6))
        for zero in (*self.network[-1].parameters(), self.line.weight):
            nn.init.zeros_(zero)
        nn.init.constant_(self.line.bias, math.log(variance))

    def forward(self, mean: Tensor, total: Tensor) -> Tensor:
        """(N, D) means and (N,) total variances to (N, 1) variances of one dimension."""
        if self.training or not _plain(mean) or not _plain(total):
            inputs = (_inputs(mean, total) - self.centre) / self.spread
            return (self.line(inputs[:, -1:]) + self.network(inputs)).clamp(*LOG_VARIANCE).exp()
        return torch.from_numpy(self._by_numpy(mean.detach().numpy(), total.detach().numpy()))

    def _by_numpy(self, mean: np.ndarray, total: np.ndarray) -> np.ndarray:
        """The same, several times as fast for a single picture."""
        if self._folded is None:
            self._folded = self._fold()
        weight, bias, second, second_bias, third, third_bias, slope, tiny = self._folded
        with np.errstate(all="ignore"):  # `checked` reports what is not finite
            log = np.log(np.maximum(total, tiny))[:, None]
            hidden = np.maximum(np.concatenate([mean, log], 1) @ weight + bias, 0)
            hidden = np.maximum(hidden @ second + second_bias, 0)
            log = hidden @ third + third_bias + slope * log
            return np.exp(np.minimum(np.maximum(log, LOG_VARIANCE[0]), LOG_VARIANCE[1]))

    def _fold(self) -> tuple[np.ndarray, ...]:
        """The layers, with the standardisation inside the first and the line's offset in the last."""
        tensors = (*self.network.parameters(), *self.line.parameters(), self.centre, self.spread)
        parts = (tensor.detach().double().numpy() for tensor in tensors)
        weight, bias, second, second_bias, third, third_bias, line, shift, centre, deviation = parts
        weight, slope = weight / deviation, line[0] / deviation[-1]
        bias, third_bias = bias - weight @ centre, third_bias + shift - slope * centre[-1]
        tiny = torch.finfo(self.centre.dtype).tiny
        folded = weight.T, bias, second.T, second_bias, third.T, third_bias, slope, tiny
        return tuple(np.ascontiguousarray(part, self.centre.numpy().dtype) for part in folded)

    # Whatever writes into the layers, or moves them, undoes the folding.

    def train(self, mode: bool = True) -> LearnedVariance:
        if mode or self.training:
            self._folded = None
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> LearnedVariance:
        self._folded = None
        return super()._apply(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._folded = None
        super()._load_from_state_dict(*args, **kwargs)


def _plain(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and not tensor.requires_grad and tensor.dtype != torch.bfloat16


def _inputs(mean: Tensor, total: Tensor) -> Tensor:
    return torch.cat([mean, total.clamp_min(torch.finfo(total.dtype).tiny).log()[:, None]], 1)


BATCH, STEPS, RATE, DECAY = 512, 1_500, 3e-3, 1e-4
EVERY = 50  # steps between two validations
SHARE, MOST = 5, 1_000  # every fifth picture validates, and no more than that
PAIRS = 100  # of one class, in either part, that a network can learn from


def with_learned_variance(embedder: Embedder, held_out: Labelled) -> Embedder:
    """The same posterior, with variances learned from the distances between pictures of one class.

    They are learned from the mutual likelihood of pairs of one class among `held_out`: labelled pictures that neither
    the network nor the posterior was fitted on. Means, draws and novelty stay as they are.
    """
    embedder = copy.deepcopy(embedder).eval()
    head = laplace_head(embedder)
    if not head.learns_variance or head.draws:
        got = type(head).__name__
        raise InputError("embedder", expected="one with a last-layer posterior in closed form", got=got)
    bare = head.again(ambiguity=None)
    pixels, labels = _each_once(embedder, held_out)
    with torch.no_grad():
        embedding = cat([bare(embedder.backbone(part)) for part in pixels])
    ambiguity = fit_variance(embedding.mean, embedding.uncertainty, labels.to(embedder.device))
    return embedder.with_head(head.again(ambiguity=ambiguity)).eval()


def _each_once(embedder: Embedder, held_out: Labelled) -> tuple[Iterable[Tensor], Tensor]:
    """Pixels in parts, and labels: a picture that came twice would be its own nearest neighbour."""
    if not isinstance(held_out, ImageSet):
        batches = list(held_out)
        if not batches:
            raise InputError("held_out", expected="at least one batch", got="none")
        return pixel_batches(embedder, batches), torch.cat([labels for _, labels in batches])
    labelled = held_out.subset([row for row, label in enumerate(held_out.labels) if label is not None])
    codes = np.unique(np.array(labelled.labels, dtype=str), return_inverse=True)[1]
    return pixel_batches(embedder, labelled), torch.from_numpy(codes)


def fit_variance(mean: Tensor, total: Tensor, labels: Tensor, *, seed: int = 0) -> LearnedVariance:
    """Fitted to (N, D) means with (N,) total variances.

    With few pairs only the line in log v is learned; else the network too, stopped early by a fifth of the pictures.
    """
    if not _pairs(labels):
        raise InputError("held-out pictures", expected="two of one class", got=f"{len(labels)}, no pair")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        ambiguity = LearnedVariance(mean.shape[1]).to(mean)
        order = torch.randperm(len(mean)).to(mean.device)
    ambiguity.start(mean, total, variance=_within_class(mean, labels))
    validation, rows = order[::SHARE][:MOST], order[torch.arange(len(order), device=order.device) % SHARE > 0]
    many = min(_pairs(labels[validation]), _pairs(labels[rows])) >= PAIRS
    if not many:
        validation = rows = order

    def loss(some: Tensor) -> Tensor:
        value: Tensor = MutualLikelihood()(
            Gaussian(mean[some], ambiguity(mean[some], total[some]).sqrt()), labels[some]
        )
        return value

    trained = ambiguity if many else ambiguity.line
    optimizer = torch.optim.Adam(trained.parameters(), lr=RATE, weight_decay=DECAY)
    generator = torch.Generator().manual_seed(seed)
    best, kept = torch.inf, ambiguity.state_dict()
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                now = float(loss(validation))
            if now < best:
                best, kept = now, copy.deepcopy(ambiguity.state_dict())
        some = rows[torch.randperm(len(rows), generator=generator)[:BATCH].to(rows.device)]
        if _pairs(labels[some]):
            optimizer.zero_grad()
            loss(some).backward()
            optimizer.step()
    ambiguity.load_state_dict(kept)
    return ambiguity.requires_grad_(False).eval()


def _pairs(labels: Tensor) -> int:
    """How many pairs of one class there are."""
    count = torch.unique(labels, return_counts=True)[1]
    return int((count * (count - 1)).sum()) // 2


def _within_class(points: Tensor, labels: Tensor) -> float:
    """The variance of points around the mean of their class, by dimension: what fits all pairs best."""
    _, codes = torch.unique(labels, return_inverse=True)
    means = torch.stack([points[codes == code].mean(0) for code in range(int(codes.max()) + 1)])
    return max(float((points - means[codes]).square().mean()), 1e-6)
