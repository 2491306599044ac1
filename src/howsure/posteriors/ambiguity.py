"""Teach a posterior how far class mates lie, from the likelihood of held-out pairs."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.embeddings import Gaussian, cat
from howsure.errors import InputError
from howsure.heads.ambiguity import Ambiguity
from howsure.heads.last_layer import LastLayerLaplace
from howsure.losses import MutualLikelihood
from howsure.posteriors.fitting import pixel_batches

__all__ = ["learned", "with_ambiguity"]

BATCH, STEPS, RATE, DECAY = 512, 1_500, 3e-3, 1e-4
LOOK = 50  # steps between two looks at the pictures that are not learned from
SHARE, MOST = 5, 1_000  # they are every fifth, and no more than that
MATES = 100  # pairs of one class, in either part, that a network can learn from


def with_ambiguity(embedder: Embedder, held_out: ImageSet | Iterable[tuple[Tensor, Tensor]]) -> Embedder:
    """The same posterior, whose variances say how far pictures of one class lie from each other.

    They are learned from the mutual likelihood of pairs of one class among `held_out`: labelled pictures that neither
    the network nor the posterior was fitted on. Places, draws and novelty stay as they are.
    """
    embedder = copy.deepcopy(embedder).eval()
    head = embedder.head
    if not isinstance(head, LastLayerLaplace) or head.draws:
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


def learned(place: Tensor, total: Tensor, labels: Tensor, *, seed: int = 0) -> Ambiguity:
    """What fits (N, D) places with (N,) total variances best.

    With few pairs only the line in log v is learned. Else the network too, and a fifth of the pictures says when to
    stop.
    """
    if not _pairs(labels):
        raise InputError("held-out pictures", expected="two of one class", got=f"{len(labels)}, no pair")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        ambiguity = Ambiguity(place.shape[1]).to(place)
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
    ambiguity: Ambiguity,
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
