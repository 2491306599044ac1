"""The fitted link from a comparison to P(same). A match probability belongs to a `Matcher`, never to an embedding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from howsure.compare import mean_over_draws, rms_distance
from howsure.embeddings import Embedding
from howsure.errors import CalibrationError, InputError
from howsure.numerics import chi
from howsure.numerics.isotonic import Isotonic, fit_isotonic
from howsure.numerics.link import fit_link

__all__ = ["Matcher", "balanced_matcher", "expected_match_probability", "match_probability", "self_mismatch"]

BLOCK = 500_000  # quadrature nodes at a time: few enough to stay in the cache
STEEP = 5.0  # nodes for each unit of scale times standard deviation
LEVELS = 3  # how often their number may double
PAIRED = 1_000  # items whose pairs fit a first matcher


@dataclass(frozen=True)
class Matcher:
    """P(same | distance) = sigmoid(offset - scale · distance), scale > 0, where a share `base_rate` of all pairs match.

    `steps`, where held-out pairs asked for them, are isotonic log-odds by -distance and replace the line;
    scale and offset remain for those who need a link that is never flat.

    >>> matcher = Matcher(scale=4.0, offset=2.0, base_rate=0.5)
    >>> matcher.probability(torch.tensor([0.0, 0.5, 2.0]))
    tensor([0.8808, 0.5000, 0.0025])
    """

    scale: float
    offset: float
    base_rate: float
    steps: Isotonic | None = None

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale) and math.isfinite(self.offset)):
            raise InputError(
                "matcher", expected="a positive scale and a finite offset", got=f"{self.scale}, {self.offset}"
            )
        if not 0 < self.base_rate < 1:
            raise InputError("base rate", expected="a share between 0 and 1", got=str(self.base_rate))

    @classmethod
    def fit(
        cls, distance: Tensor | np.ndarray, same: Tensor | np.ndarray, *, folds: np.ndarray | None = None
    ) -> Matcher:
        """Fit on pairs that the embedder was not trained on; `base_rate` is the share of matching pairs among them.

        With `folds`, one for each pair, the link is isotonic where that makes pairs of held-out folds likelier.
        """
        distance, same = np.asarray(distance, float).reshape(-1, 1), np.asarray(same, bool).reshape(-1)
        if len(np.unique(same)) < 2:
            got = f"{len(same)} pairs, all {'matching' if same[0] else 'different'}" if len(same) else "no pairs at all"
            raise CalibrationError(
                "pairs",
                expected="matching and different pairs",
                got=got,
                fix="hold out at least two classes with two pictures each",
            )
        # In one fold nothing is held out, so the line it is.
        link = fit_link(-distance, same, np.zeros(len(same), int) if folds is None else folds)
        fitted = link.logistic
        if fitted.coefficients[0] <= 0:
            raise CalibrationError(
                "pairs",
                expected="matching pairs nearer than different ones",
                got="no such order in the held-out pairs",
                fix="train the embedder longer, or check the labels",
            )
        steps = fit_isotonic(-distance[:, 0], same) if link.steps else None
        return cls(fitted.coefficients[0], fitted.offset, float(same.mean()), steps)

    def log_odds(self, distance: Tensor) -> Tensor:
        """logit P(same): never rises with distance."""
        if self.steps is None:
            return self.offset - self.scale * distance
        return torch.from_numpy(self.steps.log_odds(-distance.detach().cpu().double().numpy())).to(distance)

    def probability(self, distance: Tensor) -> Tensor:
        """P(same) in [0, 1]: never rises with distance."""
        return torch.sigmoid(self.log_odds(distance))

    def at(self, base_rate: float) -> Matcher:
        """The same evidence where another share of the pairs match; in a search, few do."""
        moved = replace(self, base_rate=base_rate)
        shift = math.log(base_rate / (1 - base_rate)) - math.log(self.base_rate / (1 - self.base_rate))
        return replace(moved, offset=self.offset + shift, steps=self.steps.shifted(shift) if self.steps else None)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers; `from_json` reads them."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, keys: dict[str, Any]) -> Matcher:
        """The matcher that `to_json` wrote."""
        return cls(**keys | {"steps": Isotonic.from_json(keys.get("steps"))})


def balanced_matcher(embedding: Embedding, labels: Sequence[object] | np.ndarray) -> Matcher | None:
    """A first link from distance to P(same), from all pairs of some labelled items; None if they do not support one."""
    rows = np.random.default_rng(0).permutation(len(embedding))[:PAIRED]
    codes = np.unique(np.asarray(labels), return_inverse=True)[1][rows]
    first, second = np.triu_indices(len(rows), 1)
    distance = rms_distance(embedding[rows], embedding[rows]).double().numpy()[first, second]
    try:
        return Matcher.fit(distance, codes[first] == codes[second]).at(0.5)
    except CalibrationError:
        return None


def match_probability(matcher: Matcher, query: Embedding, gallery: Embedding, *, paired: bool = False) -> Tensor:
    """P(same) of every query with every gallery item, (Q, G), or of row with row."""
    return matcher.probability(rms_distance(query, gallery, paired=paired))


def expected_match_probability(
    matcher: Matcher, query: Embedding, gallery: Embedding, *, paired: bool = False
) -> Tensor:
    """E[sigmoid(offset - scale · |z - z'|)] of independent embeddings, (Q, G), or of row with row; large = match.

    By quadrature over the distance, summed over the components of mixtures and averaged over draws. Exact where each
    component has one scale, and in the plane; else by an isotropic stand-in, off by .003 as a rule, and by up to .13
    for long ellipsoids whose axes are as 10 to 1. The matcher's link is that of single points z, as hedged training
    learns it; `match_probability` puts its own on the distance of whole embeddings.

    >>> from howsure import Gaussian
    >>> sure, unsure = (Gaussian(torch.zeros(1, 2), torch.full((1, 1), scale)) for scale in (0.1, 1.0))
    >>> matcher = Matcher(scale=5.0, offset=5.0, base_rate=0.5)
    >>> expected_match_probability(matcher, sure, sure), expected_match_probability(matcher, sure, unsure)
    (tensor([[0.9820]]), tensor([[0.3933]]))
    """

    def one_draw(a: Embedding, b: Embedding) -> Tensor:
        return _expected(matcher, a, b, paired=paired, log_link=chi.Radius.log_match)

    return mean_over_draws(one_draw, query, gallery, paired=paired)


def self_mismatch(matcher: Matcher, embedding: Embedding) -> Tensor:
    """1 - P(match) of two independent copies of the same embedding, (N,): large = unsure.

    Draw s meets draw s + 1, so for draws it means something only where all of them share one geometry.
    """
    draws = embedding.by_draw()
    values = [
        _expected(matcher, a, b, paired=True, log_link=chi.Radius.log_mismatch)
        for a, b in zip(draws, draws[1:] + draws[:1], strict=True)
    ]
    return torch.stack(values).mean(0)


def gap_radius(gap: Tensor, variance: Tensor, *, nodes: int = chi.NODES) -> chi.Radius:
    """The distribution of |w|, w ~ N(gap, diag(variance)), both (..., D).

    Exact if each variance is one number, and in the plane, at nodes² nodes; else by an isotropic stand-in.
    """
    length, effective, dim = chi.surrogate(gap, variance)
    if torch.equal(variance, variance[..., :1].expand_as(variance)):
        return chi.radius(length, variance[..., 0], gap.shape[-1], nodes=nodes)
    if gap.shape[-1] == 2:
        return chi.plane_radius(gap, variance, nodes=nodes)
    # A pair of points has no variance to count dimensions by.
    dim = torch.where(effective > 0, dim, torch.full_like(dim, gap.shape[-1]))
    return chi.radius(length, effective, dim, nodes=nodes)


def _expected(
    matcher: Matcher,
    query: Embedding,
    gallery: Embedding,
    *,
    paired: bool,
    log_link: Callable[[chi.Radius, float, float], Tensor],
) -> Tensor:
    """E[link(|z - z'|)] of every pair of two single draws, block by block."""
    weights, means, variances = query.components()
    other_weights, other_means, other_variances = gallery.components()
    shape = (len(query),) if paired else (len(query), len(gallery))
    count = math.prod(shape)
    block = max(1, BLOCK // (chi.NODES * weights.shape[1] * other_weights.shape[1]))
    parts = []
    for start in range(0, max(count, 1), block):
        pairs = torch.arange(start, min(start + block, count), device=query.device)
        i, j = (pairs, pairs) if paired else (pairs // len(gallery), pairs % len(gallery))
        # (pairs, K, K', D)
        gap = means[i][:, :, None] - other_means[j][:, None]
        variance = variances[i][:, :, None] + other_variances[j][:, None]
        log_weight = weights[i][:, :, None] + other_weights[j][:, None]
        values = log_weight.new_empty(log_weight.shape)
        for rows, nodes in _by_nodes(variance, matcher.scale):
            radius = gap_radius(gap[rows], variance[rows], nodes=nodes)
            values[rows] = log_link(radius, matcher.scale, matcher.offset)
        parts.append((log_weight + values).exp().sum((1, 2)))
    return torch.cat(parts).view(shape)


def _by_nodes(variance: Tensor, scale: float) -> Iterator[tuple[Tensor, int]]:
    """Rows of pairs with the nodes they need: a link that is steep beside the embeddings needs more."""
    width = scale * variance.amax((1, 2, 3)).sqrt()
    level = (width * STEEP / chi.NODES).clamp(1, 2**LEVELS).log2().ceil().long()
    for doublings in range(LEVELS + 1):
        nodes = chi.NODES << doublings
        each = nodes**2 if variance.shape[-1] == 2 else nodes
        most = max(1, BLOCK // (each * variance.shape[1] * variance.shape[2]))
        rows = (level == doublings).nonzero()[:, 0]
        yield from ((rows[start : start + most], nodes) for start in range(0, len(rows), most))
