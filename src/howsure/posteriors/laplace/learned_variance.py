"""How wide a belief is, learned from where the picture lies and how well the weights are known there."""

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
from howsure.posteriors.laplace.base import laplace_head, pixel_batches

if TYPE_CHECKING:
    from howsure.embedder import Embedder

__all__ = ["LearnedVariance", "learned", "with_learned_variance"]

HIDDEN = 64
LOG_VARIANCE = (-14.0, 8.0)


class LearnedVariance(nn.Module):
    """log v' = a + b log v + f(u, log v), the same in every dimension; u the place, v its total variance so far.

    A posterior knows how far the weights can move a picture, not what it means to be there. At the border between two
    classes mates are far away, whoever looks. f is a small network, which begins as 0.
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim + 1))
        self.register_buffer("spread", torch.ones(dim + 1))
        layers = (nn.Linear(dim + 1, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
        self.network = nn.Sequential(*layers)
        self.line = nn.Linear(1, 1)
        self._folded: tuple[np.ndarray, ...] | None = None

    def start(self, place: Tensor, total: Tensor, *, variance: float) -> None:
        """Take the usual range of the inputs from these, and begin with one variance for all."""
        inputs = _inputs(place, total)
        self.centre.copy_(inputs.mean(0))
        self.spread.copy_(inputs.std(0).clamp_min(1e-6))
        for zero in (*self.network[-1].parameters(), self.line.weight):
            nn.init.zeros_(zero)
        nn.init.constant_(self.line.bias, math.log(variance))

    def forward(self, place: Tensor, total: Tensor) -> Tensor:
        """(N, D) places and (N,) total variances to (N, 1) variances of one dimension."""
        if self.training or not _plain(place) or not _plain(total):
            inputs = (_inputs(place, total) - self.centre) / self.spread
            return (self.line(inputs[:, -1:]) + self.network(inputs)).clamp(*LOG_VARIANCE).exp()
        return torch.from_numpy(self._told(place.detach().numpy(), total.detach().numpy()))

    def _told(self, place: np.ndarray, total: np.ndarray) -> np.ndarray:
        """The same by numpy, which takes a picture alone through its small arrays several times as fast."""
        if self._folded is None:
            self._folded = self._fold()
        weight, bias, second, second_bias, third, third_bias, slope, tiny = self._folded
        with np.errstate(all="ignore"):  # what is not finite is told when the belief is checked
            log = np.log(np.maximum(total, tiny))[:, None]
            hidden = np.maximum(np.concatenate([place, log], 1) @ weight + bias, 0)
            hidden = np.maximum(hidden @ second + second_bias, 0)
            log = hidden @ third + third_bias + slope * log
            return np.exp(np.minimum(np.maximum(log, LOG_VARIANCE[0]), LOG_VARIANCE[1]))

    def _fold(self) -> tuple[np.ndarray, ...]:
        """The layers, with the usual range inside the first and the line's offset in the last."""
        tensors = (*self.network.parameters(), *self.line.parameters(), self.centre, self.spread)
        parts = (tensor.detach().double().numpy() for tensor in tensors)
        weight, bias, second, second_bias, third, third_bias, line, shift, centre, spread = parts
        weight, slope = weight / spread, line[0] / spread[-1]
        bias, third_bias = bias - weight @ centre, third_bias + shift - slope * centre[-1]
        tiny = torch.finfo(self.centre.dtype).tiny
        made = weight.T, bias, second.T, second_bias, third.T, third_bias, slope, tiny
        kind = self.centre.numpy().dtype
        return tuple(np.ascontiguousarray(part, kind) for part in made)

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


def _inputs(place: Tensor, total: Tensor) -> Tensor:
    return torch.cat([place, total.clamp_min(torch.finfo(total.dtype).tiny).log()[:, None]], 1)


BATCH, STEPS, RATE, DECAY = 512, 1_500, 3e-3, 1e-4
LOOK = 50  # steps between two looks at the pictures that are not learned from
SHARE, MOST = 5, 1_000  # they are every fifth, and no more than that
MATES = 100  # pairs of one class, in either part, that a network can learn from


def with_learned_variance(embedder: Embedder, held_out: ImageSet | Iterable[tuple[Tensor, Tensor]]) -> Embedder:
    """The same posterior, whose variances say how far pictures of one class lie from each other.

    They are learned from the mutual likelihood of pairs of one class among `held_out`: labelled pictures that neither
    the network nor the posterior was fitted on. Places, draws and novelty stay as they are.
    """
    embedder = copy.deepcopy(embedder).eval()
    head = laplace_head(embedder)
    if not head.learns_variance or head.draws:
        got = type(head).__name__
        raise InputError("embedder", expected="one with a last-layer posterior in closed form", got=got)
    bare = head.again(ambiguity=None)
    pixels, labels = _each_once(embedder, held_out)
    with torch.no_grad():
        belief = cat([bare(embedder.backbone(part)) for part in pixels])
    return embedder.with_head(
        head.again(ambiguity=learned(belief.mean, belief.uncertainty, labels.to(embedder.device)))
    ).eval()


def _each_once(
    embedder: Embedder, held_out: ImageSet | Iterable[tuple[Tensor, Tensor]]
) -> tuple[Iterable[Tensor], Tensor]:
    """Pixels in parts, and labels: a picture that came twice would be its own nearest mate."""
    if not isinstance(held_out, ImageSet):
        batches = list(held_out)
        if not batches:
            raise InputError("held_out", expected="at least one batch", got="none")
        return pixel_batches(embedder, batches), torch.cat([labels for _, labels in batches])
    labelled = held_out.subset([row for row, label in enumerate(held_out.labels) if label is not None])
    codes = np.unique(np.array(labelled.labels, dtype=str), return_inverse=True)[1]
    return pixel_batches(embedder, labelled), torch.from_numpy(codes)


def learned(place: Tensor, total: Tensor, labels: Tensor, *, seed: int = 0) -> LearnedVariance:
    """What fits (N, D) places with (N,) total variances best.

    With few pairs only the line in log v is learned. Else the network too, and a fifth of the pictures says when to
    stop.
    """
    if not _pairs(labels):
        raise InputError("held-out pictures", expected="two of one class", got=f"{len(labels)}, no pair")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        ambiguity = LearnedVariance(place.shape[1]).to(place)
        order = torch.randperm(len(place)).to(place.device)
    ambiguity.start(place, total, variance=_within(place, labels))
    watched, rows = order[::SHARE][:MOST], order[torch.arange(len(order), device=order.device) % SHARE > 0]
    many = min(_pairs(labels[watched]), _pairs(labels[rows])) >= MATES
    if not many:
        watched = rows = order
    _descend(ambiguity if many else ambiguity.line, ambiguity, place, total, labels, parts=(watched, rows), seed=seed)
    return ambiguity.requires_grad_(False).eval()


def _descend(
    part: nn.Module,
    ambiguity: LearnedVariance,
    place: Tensor,
    total: Tensor,
    labels: Tensor,
    *,
    parts: tuple[Tensor, Tensor],
    seed: int,
) -> None:
    """Let one part of it learn, and keep what suits the pictures that are watched best."""
    watched, rows = parts
    generator, loss = torch.Generator().manual_seed(seed), MutualLikelihood()

    def cost(some: Tensor) -> Tensor:
        value: Tensor = loss(Gaussian(place[some], ambiguity(place[some], total[some]).sqrt()), labels[some])
        return value

    optimizer = torch.optim.Adam(part.parameters(), lr=RATE, weight_decay=DECAY)
    best, kept = torch.inf, ambiguity.state_dict()
    for step in range(STEPS + 1):
        if step % LOOK == 0:
            with torch.no_grad():
                now = float(cost(watched))
            if now < best:
                best, kept = now, copy.deepcopy(ambiguity.state_dict())
        some = rows[torch.randperm(len(rows), generator=generator)[:BATCH].to(rows.device)]
        if _pairs(labels[some]):
            optimizer.zero_grad()
            cost(some).backward()
            optimizer.step()
    ambiguity.load_state_dict(kept)


def _pairs(labels: Tensor) -> int:
    """How many pairs of one class there are."""
    count = torch.unique(labels, return_counts=True)[1]
    return int((count * (count - 1)).sum()) // 2


def _within(place: Tensor, labels: Tensor) -> float:
    """The variance of places around the mean of their class, by dimension: what fits all pairs best."""
    _, codes = torch.unique(labels, return_inverse=True)
    means = torch.stack([place[codes == code].mean(0) for code in range(int(codes.max()) + 1)])
    return max(float((place - means[codes]).square().mean()), 1e-6)
