"""A Gaussian over the weights of a head's last linear layer, and the Gaussian embeddings that follow from it.

Pairs see differences: what is uncertain about z is its difference from z at the mean features, φ - centre. So the bias
is taken as known, and a common shift of all pictures adds no uncertainty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from howsure.embeddings import Draws, Embedding, Gaussian, NovelGaussian, Point
from howsure.posteriors.laplace.base import (
    Fitted,
    Gathered,
    LaplaceHead,
    Subject,
    linear_layer,
    no_pairs,
    normalises,
    on_sphere,
    through,
)
from howsure.posteriors.laplace.covariance import DiagonalWeights, SharedWeights, WeightPosterior
from howsure.posteriors.laplace.curvature import Curvature
from howsure.posteriors.laplace.last_layer_curvature import Diagonal, Full, LastLayer, LowRankRows
from howsure.posteriors.laplace.learned_variance import LearnedVariance

SHORTEST = 1e-12  # as torch.nn.functional.normalize has it


class LastLayerLaplace(LaplaceHead):
    """A head with a posterior over its layer `layer`; gives a `Gaussian`, or with `draws` S joint `Draws`.

    A variance that the wrapped head itself predicts is added. On the sphere, u = z/|z|, by the delta method
    Cov u = P Cov z P / |z|², P = I - u u^T. With `reference`, the sorted raw variances (n,) of pictures it was not
    fitted on, the Gaussian has a novelty; with `ambiguity`, a learned variance.
    """

    kind: ClassVar[str] = "laplace"
    learns_variance: ClassVar[bool] = True

    def __init__(
        self,
        head: nn.Module,
        weights: WeightPosterior,
        *,
        layer: str,
        normalised: bool,
        reference: Tensor | None = None,
        ambiguity: LearnedVariance | None = None,
        draws: int = 0,
        seed: int = 0,
    ):
        super().__init__(reference)
        self.head, self.weights, self.ambiguity = head, weights, ambiguity
        self.layer, self.normalised, self.draws, self.seed = layer, normalised, draws, seed
        self.dim = linear_layer(head, layer).out_features
        self._stacked: tuple[tuple[Any, ...], Tensor, Tensor] | None = None
        self._direct = self._bare = False

    def forward(self, features: Tensor) -> Embedding:
        if self.draws:
            return self._drawn(features)
        mean, own, inputs, z = self._through(features)
        raw = self.weights.variance(inputs)
        variance = on_sphere(raw, z) if self.normalised else raw
        if own is not None:
            variance = variance + own.square()
        if self.ambiguity is not None:
            variance = self.ambiguity(mean, self._total(variance))
        scale = variance.sqrt()
        if self.usual is None:
            return Gaussian(mean, scale)
        return NovelGaussian(mean, scale, self.typicality(self._total(raw)))

    def raw_variance(self, features: Tensor) -> Tensor:
        direct = self._direct and not self.training
        inputs = features if direct else through(self.head, self.layer, features)[1]
        return self._total(self.weights.variance(inputs))

    @property
    def joinable(self) -> bool:
        return not self.draws

    def network(self, backbone: nn.Module) -> tuple[nn.Module, nn.Module]:
        return backbone, self.head

    def at_estimate(self, features: Tensor) -> Embedding:
        embedding: Embedding = self.head(features)
        return embedding

    def model_part(self, embedding: Embedding, features: Tensor | None = None) -> Tensor | None:
        """None with a learned variance, which is of picture and model together."""
        return super().model_part(embedding, features) if self.ambiguity is None or self.draws else None

    def _through(self, features: Tensor) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        """The head's mean, its own scale if it has one, and the inputs and outputs of the layer.

        A layer seen to read the features themselves is called once more, which is cheaper than a hook; and a head seen
        to do no more than that layer is not called again.
        """
        if self._direct and not self.training:  # in training a dropout may come between
            z = self._linear()(features)
            if self._is_bare():
                return self._at(z), None, features, z
            embedding, inputs = self.head(features), features
        else:
            embedding, inputs, z = through(self.head, self.layer, features)
            self._direct = not self.training and inputs is features
            self._bare = self._direct and embedding.item_scale is None and embedding.mean.equal(self._at(z))
        return embedding.mean, embedding.item_scale, inputs, z

    def _is_bare(self) -> bool:
        # A hook on the head must see it called.
        return self._bare and not self.training and not self.head._forward_hooks and not self.head._forward_pre_hooks

    def _linear(self) -> nn.Module:
        return self.head.get_submodule(self.layer)

    def _at(self, z: Tensor) -> Tensor:
        return z / torch.linalg.vector_norm(z, dim=-1, keepdim=True).clamp_min(SHORTEST) if self.normalised else z

    def _total(self, variance: Tensor) -> Tensor:
        return variance.squeeze(1) * float(self.dim) if variance.shape[1] == 1 else variance.sum(-1)

    def describe(self) -> dict[str, Any]:
        return {
            "weights": self.weights.describe(),
            "layer": self.layer,
            "normalised": self.normalised,
            "usual": None if self.usual is None else len(self.usual),
            "ambiguity": self.ambiguity is not None,
            "draws": self.draws,
            "seed": self.seed,
        }

    def again(self, **changes: Any) -> LastLayerLaplace:
        same: dict[str, Any] = {"layer": self.layer, "normalised": self.normalised, "ambiguity": self.ambiguity}
        same |= {"reference": self.usual, "draws": self.draws, "seed": self.seed}
        return LastLayerLaplace(self.head, self.weights, **(same | changes))

    def _drawn(self, features: Tensor) -> Draws:
        """z + δ_s (φ - centre) of all draws δ_s, in one product.

        Without gradients, a bare linear layer is drawn itself: (W + δ_s) φ + b - δ_s centre.
        """
        layer = self._linear()
        if self._is_bare() and type(layer) is nn.Linear and not torch.is_grad_enabled():
            own, weight, bias = None, *self._networks(layer)
            points = torch.addmm(bias, features, weight).view(-1, self.draws, self.dim)
        else:
            _, own, inputs, z = self._through(features)
            weight, bias = self._networks(None)
            points = torch.addmm(bias, inputs, weight).view(-1, self.draws, self.dim) + z[:, None]
        if self.normalised:
            points = self._at(points)
        if own is None:
            return Draws(Point(points))
        return Draws(Gaussian(points, own[:, None].expand(-1, self.draws, -1)))

    @torch.no_grad()
    def _networks(self, layer: nn.Linear | None) -> tuple[Tensor, Tensor]:
        """Weights (M, S·D) and biases (S·D,) of all draws: with those of the layer, or without."""
        read = [*self.weights.buffers(), *([] if layer is None else layer.parameters())]
        now = tuple((tensor.data_ptr(), tensor._version) for tensor in read)  # loading and training write into them
        if self._stacked is None or self._stacked[0] != now:
            generator = torch.Generator().manual_seed(self.seed)  # on the CPU: the same draws on every device
            weight = self.weights.deviations(self.draws, self.dim, generator)
            bias = -(weight @ self.weights.centre)
            if layer is not None:
                weight, bias = weight + layer.weight, bias if layer.bias is None else bias + layer.bias
            self._stacked = now, weight.flatten(0, 1).T.contiguous(), bias.flatten()
        return self._stacked[1:]

    @classmethod
    def blank(cls, backbone: nn.Module, head: nn.Module, described: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
        return backbone, cls.around(head, described)

    @classmethod
    def around(cls, head: nn.Module, described: dict[str, Any]) -> LastLayerLaplace:
        """The head that `describe` tells about, around that of one network, with tensors still to be loaded."""
        options = dict(described)
        form = options.pop("weights")
        layer = linear_layer(head, options["layer"])
        empty, width = layer.weight.new_zeros, layer.in_features
        weights: WeightPosterior
        if form["axes"] is None:
            weights = DiagonalWeights(empty(width), variances=empty(layer.out_features, width))
        else:
            axes, along = empty(form["axes"], width), empty(form["axes"])
            weights = SharedWeights(empty(width), axes=axes, along=along, across=empty(()), careful=form["careful"])
        count, learned = options.pop("usual"), options.pop("ambiguity", False)
        ambiguity = LearnedVariance(layer.out_features).to(layer.weight) if learned else None
        reference = None if count is None else empty(count)
        return cls(head, weights, reference=reference, ambiguity=ambiguity, **options)


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
        weights, prior = self.summed.posterior(weight, centre=self.centre, scale=self.scale, prior=prior)
        head = LastLayerLaplace(subject.head, weights, layer=subject.layer, normalised=self.normalised)
        return Fitted(subject.backbone, head, {subject.layer: prior})


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
            embedding, last, z = subject(pixels)
        normalised = normalises(embedding.mean, z) if normalised is None else normalised
        batch = curvature(z, labels)
        summed.add(last, batch)
        count, pairs, total = count + len(z), pairs + batch.count, total + last.sum(0).double().cpu()
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
