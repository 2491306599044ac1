"""How two embeddings compare. Orientation is in the name: `*_distance` small = near, `*_similarity` large = near.

Every comparison takes a query (Q items) and a gallery (G items) and gives (Q, G); with `paired=True` row i of one
meets row i of the other and the result is (N,). Draws are compared draw by draw, then averaged: a draw is one network,
and its view of the query means something only next to its own view of the gallery.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce

import torch
from torch import Tensor

from howsure.embeddings import Embedding
from howsure.errors import InputError

__all__ = ["expected_similarity", "expected_squared_distance", "mutual_likelihood", "rms_distance"]


def expected_squared_distance(query: Embedding, gallery: Embedding, *, paired: bool = False) -> Tensor:
    """E|z - z'|² of independent embeddings: |mean - mean'|² + uncertainty + uncertainty'.

    >>> import torch
    >>> from howsure import Gaussian, Point
    >>> a, b = Point(torch.zeros(1, 2)), Gaussian(torch.ones(1, 2), torch.ones(1, 1))
    >>> expected_squared_distance(a, b)
    tensor([[4.]])
    """

    def one_draw(a: Embedding, b: Embedding) -> Tensor:
        if paired:
            return (a.mean - b.mean).square().sum(-1) + a.uncertainty + b.uncertainty
        return _squared_gaps(a.mean, b.mean) + (a.uncertainty[:, None] + b.uncertainty)

    return mean_over_draws(one_draw, query, gallery, paired=paired)


def rms_distance(query: Embedding, gallery: Embedding, *, paired: bool = False) -> Tensor:
    """Root of the expected squared distance; for points, the Euclidean distance."""
    return expected_squared_distance(query, gallery, paired=paired).sqrt()


def expected_similarity(query: Embedding, gallery: Embedding, *, paired: bool = False) -> Tensor:
    """E[z · z'] of independent embeddings: mean · mean'. On the unit sphere, the expected cosine."""

    def one_draw(a: Embedding, b: Embedding) -> Tensor:
        return (a.mean * b.mean).sum(-1) if paired else a.mean @ b.mean.T

    return mean_over_draws(one_draw, query, gallery, paired=paired)


def mutual_likelihood(query: Embedding, gallery: Embedding, *, paired: bool = False) -> Tensor:
    """log ∫ p(z) p'(z) dz of Gaussian embeddings: large where both may well be the same point.

    With gaps δ between the means and λ = variance + variance', it is -½ Σ(δ²/λ + log λ) - (D/2) log 2π.

    >>> import torch
    >>> from howsure import Gaussian
    >>> a, b = Gaussian(torch.zeros(1, 1), torch.ones(1, 1)), Gaussian(torch.tensor([[0.0], [3.0]]), torch.ones(2, 1))
    >>> mutual_likelihood(a, b)
    tensor([[-1.2655, -3.5155]])
    """
    one_draw = partial(mutual_likelihood_of_draws, paired=paired)
    return log_mean_over_draws(one_draw, query, gallery, paired=paired)


def mutual_likelihood_of_draws(a: Embedding, b: Embedding, *, paired: bool) -> Tensor:
    """`mutual_likelihood` of two single draws."""
    mean, variance = (a.mean, a.variance) if paired else (a.mean[:, None], a.variance[:, None])
    total = variance + b.variance
    if not (total > 0).all():
        raise InputError(
            "mutual likelihood", expected="embeddings with some variance", got="two points", fix="use rms_distance"
        )
    return -0.5 * ((mean - b.mean).square() / total + total.log() + math.log(2 * math.pi)).sum(-1)


def mean_over_draws(
    one_draw: Callable[[Embedding, Embedding], Tensor], query: Embedding, gallery: Embedding, *, paired: bool
) -> Tensor:
    """A comparison of single draws, averaged over the draws of both sides."""
    pairs = _aligned_draws(query, gallery, paired=paired)
    return reduce(torch.add, (one_draw(a, b) for a, b in pairs)) / len(pairs)


def log_mean_over_draws(
    one_draw: Callable[[Embedding, Embedding], Tensor], query: Embedding, gallery: Embedding, *, paired: bool
) -> Tensor:
    """A log-likelihood of single draws, as the log of the mean likelihood over the draws of both sides."""
    pairs = _aligned_draws(query, gallery, paired=paired)
    return reduce(torch.logaddexp, (one_draw(a, b) for a, b in pairs)) - math.log(len(pairs))


def _aligned_draws(query: Embedding, gallery: Embedding, *, paired: bool) -> list[tuple[Embedding, Embedding]]:
    """The draws of both sides, one by one; a side with a single draw meets every draw of the other."""
    if query.dim != gallery.dim:
        raise InputError(
            "dimension",
            expected=f"{gallery.dim}, as in the gallery",
            got=str(query.dim),
            fix="embed both with one model",
        )
    for name in ("device", "dtype"):
        ours, theirs = getattr(query, name), getattr(gallery, name)
        if ours != theirs:
            raise InputError(name, expected=f"{theirs}, as in the gallery", got=str(ours), fix="use .to()")
    if paired and len(query) != len(gallery):
        raise InputError("pairs", expected="as many queries as gallery items", got=f"{len(query)} and {len(gallery)}")
    left, right = query.by_draw(), gallery.by_draw()
    if len(left) != len(right) and 1 not in (len(left), len(right)):
        raise InputError(
            "draws",
            expected="the same number on both sides, or one",
            got=f"{len(left)} in the query and {len(right)} in the gallery",
            fix="draws are compared one by one, so embed both with the same posterior",
        )
    count = max(len(left), len(right))
    return list(zip(left * (count // len(left)), right * (count // len(right)), strict=True))


def _squared_gaps(a: Tensor, b: Tensor) -> Tensor:
    # One matrix product; centring first keeps the cancellation small.
    centre = b.mean(0, keepdim=True) if len(b) else 0
    a, b = a - centre, b - centre
    return (a.square().sum(-1)[:, None] + b.square().sum(-1) - 2 * a @ b.T).clamp_min(0)
