"""Soft contrastive training of points, and of distributions: hedged instance embeddings (Oh et al. 2019)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import Embedding
from howsure.errors import InputError, TrainingError
from howsure.losses.checks import all_pairs, check_both, check_variance
from howsure.match import Matcher, gap_radius
from howsure.numerics.chi import Radius
from howsure.numerics.hermite import MOST_DIMENSIONS, product_radius

OBJECTIVES = ("elbo", "marginal")
EVALUATIONS = ("quadrature", "samples")


class LearnedLink(nn.Module):
    """p(match | z, z') = sigmoid(offset - scale · |z - z'|), scale > 0; both learned, one for all pairs."""

    def __init__(self, *, scale: float, offset: float):
        super().__init__()
        if scale <= 0:
            raise InputError("scale", expected="a positive number", got=str(scale))
        self.raw_scale = nn.Parameter(torch.tensor(scale + math.log(-math.expm1(-scale))))  # inverse of softplus
        self.offset = nn.Parameter(torch.tensor(float(offset)))

    @property
    def scale(self) -> Tensor:
        """The slope of the link."""
        return F.softplus(self.raw_scale)

    def log_odds(self, distance: Tensor) -> Tensor:
        """logit p(match): falls with distance."""
        return self.offset - self.scale * distance

    def matcher(self) -> Matcher:
        """What was learned so far. Both kinds of pairs weigh the same in training, so the base rate is one half."""
        return Matcher(scale=self.scale.item(), offset=self.offset.item(), base_rate=0.5)


def learned_link(loss: nn.Module) -> dict[str, float] | None:
    """The link that a loss has learned so far, as `Matcher` numbers; None for a loss that learns none."""
    if not isinstance(loss, (SoftContrastive, Hedged)):
        return None
    try:
        return loss.link.matcher().to_json()
    except InputError as error:
        raise TrainingError(
            "the learned link", expected=error.expected, got=error.got, fix="lower learning_rate"
        ) from error


class SoftContrastive(nn.Module):
    """Minus the log-likelihood of match and mismatch under the link, at the means of the embeddings.

    All pairs of a batch, at most `pairs` of each kind, drawn at random; both kinds weigh the same.
    """

    def __init__(self, *, scale: float = 5.0, offset: float = 1.0, pairs: int = 800):
        super().__init__()
        self.link = LearnedLink(scale=scale, offset=offset)
        self.pairs = pairs

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        mean = embedding.checked().mean
        first, second, same = balanced_pairs(labels, most=self.pairs)
        # The small number gives equal pictures a finite gradient.
        distance = ((mean[first] - mean[second]).square().sum(-1) + 1e-12).sqrt()
        log_odds = self.link.log_odds(distance)
        return _balanced_mean(-F.logsigmoid(torch.where(same, log_odds, -log_odds)), same)


class Hedged(nn.Module):
    """Soft contrastive on distributions, with a pull to N(0, I) that keeps them from shrinking to points.

        marginal:  -log E[p(m | z, z')] + weight · (KL + KL')       z, z' independent
        elbo:      -E[log p(m | z, z')] + weight · (KL + KL')       as published: a looser bound that shrinks variances

    Expectations by quadrature, or as published by all pairs of `samples` samples of each item, the same number from
    each component of a mixture. KL is exact for one Gaussian and by `samples` samples for a mixture. `pairs` as in
    `SoftContrastive`.
    """

    def __init__(
        self,
        *,
        scale: float = 5.0,
        offset: float = 5.0,
        weight: float = 1e-4,
        objective: str = "marginal",
        evaluation: str = "quadrature",
        samples: int = 8,
        pairs: int = 800,
    ):
        super().__init__()
        for what, given, known in (("objective", objective, OBJECTIVES), ("evaluation", evaluation, EVALUATIONS)):
            if given not in known:
                raise InputError(what, expected=" or ".join(known), got=repr(given))
        if samples < 1:
            raise InputError("samples", expected="1 or more", got=str(samples))
        self.link = LearnedLink(scale=scale, offset=offset)
        self.weight, self.objective, self.evaluation = weight, objective, evaluation
        self.samples, self.pairs = samples, pairs

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        embedding.checked()
        first, second, same = balanced_pairs(labels, most=self.pairs)
        if self.evaluation == "samples":
            radius = sampled_radius(embedding, first, second, samples=self.samples)
        else:
            radius = quadrature_radius(embedding, first, second)
        log_odds = self.link.log_odds(radius.nodes)
        log_likelihood = F.logsigmoid(torch.where(same[:, None], log_odds, -log_odds))
        if self.objective == "elbo":
            expected = radius.mean(log_likelihood)
        else:
            expected = torch.logsumexp(radius.log_weights + log_likelihood, -1)
        pull = 2 * divergence(embedding, samples=self.samples).mean()  # a pair has two items
        return _balanced_mean(-expected, same) + self.weight * pull


def balanced_pairs(labels: Tensor, *, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """First item, second item, and whether they match: at most `most` random pairs of each kind."""
    if most < 1:
        raise InputError("pairs", expected="1 or more of each kind", got=str(most))
    first, second, same = all_pairs(labels)
    check_both(same)
    kinds = [kind.nonzero()[:, 0] for kind in (same, ~same)]
    rows = torch.cat([kind[torch.randperm(len(kind), device=kind.device)[:most]] for kind in kinds])
    return first[rows], second[rows], same[rows]


def quadrature_radius(embedding: Embedding, first: Tensor, second: Tensor) -> Radius:
    """|z - z'| of each pair, nodes of all pairs of components along one axis."""
    log_weights, means, variances = embedding.components()
    gap = means[first][:, :, None] - means[second][:, None]  # (P, K, K', D)
    variance = variances[first][:, :, None] + variances[second][:, None]
    radius = (product_radius if embedding.dim <= MOST_DIMENSIONS else gap_radius)(gap, variance)
    weight = log_weights[first][:, :, None, None] + log_weights[second][:, None, :, None]
    return Radius(radius.nodes.flatten(1), (radius.log_weights + weight).flatten(1))


def sampled_radius(embedding: Embedding, first: Tensor, second: Tensor, *, samples: int) -> Radius:
    """|z - z'| of each pair, from every sample of one item to every sample of the other."""
    z, log_weights = component_samples(embedding, samples)
    gaps = z[first][:, :, None] - z[second][:, None]  # (P, M, M, D)
    weight = log_weights[first][:, :, None] + log_weights[second][:, None]
    return Radius((gaps.square().sum(-1) + 1e-12).sqrt().flatten(1), weight.flatten(1))


def component_samples(embedding: Embedding, count: int) -> tuple[Tensor, Tensor]:
    """(N, M, D) reparameterised samples, equally many of each component, and the logs of their weights (N, M)."""
    log_weights, means, variances = embedding.components()
    items, components, dim = means.shape
    if count % components:
        raise InputError("samples", expected=f"a multiple of {components} components", got=str(count))
    each = count // components
    noise = torch.randn(items, components, each, dim, dtype=means.dtype, device=means.device)
    z = means[:, :, None] + variances.sqrt()[:, :, None] * noise
    shares = (log_weights - math.log(each))[:, :, None].expand(items, components, each)
    return z.flatten(1, 2), shares.flatten(1)


def divergence(embedding: Embedding, *, samples: int) -> Tensor:
    """KL(embedding || N(0, I)) in nats, (N,): ½ Σ(mean² + variance - 1 - log variance) for one Gaussian."""
    log_weights, means, variances = embedding.components()
    check_variance(variances, embedding.family, loss="hedged", head="hedged")
    if means.shape[1] == 1:
        return 0.5 * (means.square() + variances - 1 - variances.log()).sum((1, 2))
    z, shares = component_samples(embedding, samples)
    gaps = (z[:, :, None] - means[:, None]).square() / variances[:, None]  # (N, M, K, D)
    density = torch.logsumexp(log_weights[:, None] - 0.5 * (gaps + variances[:, None].log()).sum(-1), -1)
    return (shares.exp() * (density + 0.5 * z.square().sum(-1))).sum(-1)


def _balanced_mean(cost: Tensor, same: Tensor) -> Tensor:
    return (cost[same].mean() + cost[~same].mean()) / 2
