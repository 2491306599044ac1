"""The Laplace approximation of the last linear layer, in closed form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from howsure.heads.last_layer import LastLayerLaplace, linear_layer
from howsure.posteriors.accumulate import Diagonal, Full, LastLayer, LowRankRows
from howsure.posteriors.curvature import Curvature
from howsure.posteriors.fitting import Fitted, Gathered, Subject, no_pairs, normalises

__all__ = ["LastLayerCurvature", "gather_last_layer"]


@dataclass(frozen=True, eq=False)
class LastLayerCurvature(Gathered):
    """The curvature of the last layer; `scale` turns its sum over pairs into a precision."""

    subject: Subject
    summed: LastLayer
    scale: float
    centre: Tensor
    normalised: bool

    def weights(self) -> dict[str, list[Tensor]]:
        return {self.subject.layer: [linear_layer(self.subject.head, self.subject.layer).weight.detach()]}

    def posterior(self, priors: Mapping[str, float] | None) -> Fitted:
        subject, prior = self.subject, priors[self.subject.layer] if priors else None
        (weight,) = self.weights()[subject.layer]
        known = self.summed.posterior(weight, centre=self.centre, scale=self.scale, prior=prior)
        head = LastLayerLaplace(subject.head, known.weights, layer=subject.layer, normalised=self.normalised)
        return Fitted(subject.backbone, head, {subject.layer: known.prior})


def gather_last_layer(
    subject: Subject,
    batches: Iterable[tuple[Tensor, Tensor]],
    *,
    curvature: Callable[[Tensor, Tensor], Curvature],
    temperature: float,
    structure: str,
    rank: int,
) -> LastLayerCurvature:
    """Curvature of the last layer, in the closed form of its structure, over all batches."""
    linear = linear_layer(subject.head, subject.layer)
    summed = _empty(structure, linear, rank)
    count, pairs, total = 0, 0.0, torch.zeros(linear.in_features, dtype=torch.float64)
    pixels = labels = last = normalised = None
    for pixels, labels in batches:
        with torch.no_grad():
            belief, last, z = subject(pixels)
        normalised = normalises(belief.mean, z) if normalised is None else normalised
        bend = curvature(z, labels)
        summed.add(last, bend)
        count, pairs, total = count + len(z), pairs + bend.count, total + last.sum(0).double().cpu()
    if pixels is None or labels is None or last is None or normalised is None or not pairs:
        raise no_pairs(count)
    centre, scale = (total / count).to(last), count / temperature / pairs
    return LastLayerCurvature(pixels, labels, count, pairs, subject, summed, scale, centre, normalised)


def _empty(structure: str, linear: nn.Linear, rank: int) -> LastLayer:
    if structure == "last-full":
        return Full(linear.in_features)
    if structure == "last-low-rank":
        return LowRankRows(linear.in_features, rank)
    return Diagonal(linear.in_features, linear.out_features)
