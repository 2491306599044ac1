"""The Laplace approximation of a whole network, or of any of its parameters: a prior for each layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from howsure.errors import InputError
from howsure.heads.last_layer import linear_layer
from howsure.heads.spreads import DiagonalSpread, KroneckerSpread, Spread
from howsure.heads.whole_network import NetworkLaplace
from howsure.posteriors.accumulate import WIDEST
from howsure.posteriors.curvature import Curvature
from howsure.posteriors.fitting import DRAWS, Fitted, Gathered, Subject, no_pairs, normalises
from howsure.posteriors.network import Diagonal, Kronecker, gradients
from howsure.posteriors.prior import marginal_prior, squared_length

__all__ = ["PASSES", "NetworkCurvature", "gather_network"]

PASSES = 4  # backward passes a batch; standard deviations are some 10 % off after 40 passes, 5 % after 160


@dataclass(frozen=True, eq=False)
class Bend:
    """The curvature of a parameter: values along axes of its own, or along those of a Kronecker product."""

    values: Tensor
    axes: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(cls, found: Diagonal | Kronecker, scale: float) -> Bend:
        """What was summed, times `scale`."""
        if isinstance(found, Diagonal):
            return cls(scale * found.squares)
        outside, outer = torch.linalg.eigh(found.outer)
        inside, inner = torch.linalg.eigh(found.inner)
        total = outside.sum().clamp_min(torch.finfo(outside.dtype).tiny)
        return cls(scale / total * torch.outer(outside.clamp_min(0), inside.clamp_min(0)), (outer, inner))

    def spread(self, prior: float, parameter: Tensor) -> Spread:
        """What is known about the parameter."""
        along = (1 / (self.values + prior)).to(parameter)
        if self.axes is None:
            return DiagonalSpread(along)
        outer, inner = (axes.to(parameter).contiguous() for axes in self.axes)  # as they are after loading
        return KroneckerSpread(along, outer=outer, inner=inner, shape=parameter.shape)


@dataclass(frozen=True, eq=False)
class NetworkCurvature(Gathered):
    """The curvature of parameters, by name."""

    subject: Subject
    bends: Mapping[str, Bend]
    centre: Tensor  # (M,): the mean of what goes into the last layer
    normalised: bool

    def weights(self) -> dict[str, list[Tensor]]:
        return {layer: list(known.values()) for layer, known in self._layers().items()}

    def posterior(self, priors: Mapping[str, float] | None) -> Fitted:
        subject, bends, layers = self.subject, self.bends, self._layers()
        if priors is None:
            priors = {
                layer: _marginal(layer, [bends[name].values for name in known], squared_length(known.values()))
                for layer, known in layers.items()
            }
        spreads = {
            name: bends[name].spread(priors[layer], p) for layer, known in layers.items() for name, p in known.items()
        }
        head = NetworkLaplace(
            subject.backbone,
            subject.head,
            spreads,
            centre=self.centre,
            layer=subject.layer,
            normalised=self.normalised,
        )
        if not head.has_closed_form(self.pixels[:1]):
            head = head.again(draws=DRAWS)
        return Fitted(nn.Identity(), head, priors)  # the backbone is in the head

    def _layers(self) -> dict[str, dict[str, Tensor]]:
        """The parameters of each layer, by name."""
        found: dict[str, dict[str, Tensor]] = {}
        for name, parameter in _parts(self.subject).named_parameters():
            if name in self.bends:
                found.setdefault(_layer(name), {})[name] = parameter.detach()
        return found


def gather_network(
    subject: Subject,
    batches: Iterable[tuple[Tensor, Tensor]],
    *,
    curvature: Callable[[Tensor, Tensor], Curvature],
    temperature: float,
    kronecker: bool,
    parameters: Callable[[str], bool],
    passes: int | None = PASSES,
) -> NetworkCurvature:
    """Curvature of the chosen parameters that embeddings depend on, over all batches.

    By `passes` random cotangents a batch; None takes all there are, one for each picture and dimension, and is exact.

    The last bias shifts all pictures alike, which no pair sees: it is taken as it is. With `kronecker`, weights of
    linear layers and convolutions of at most 2,048 inputs and outputs are Kronecker products; the rest is diagonal.
    Memory: the graph of one batch and two numbers a parameter; for matrices (O, I) also O² + I² doubles.
    """
    parts, last = _parts(subject), linear_layer(subject.head, subject.layer)
    frozen = [p for p in parts.parameters() if not p.requires_grad]
    parts.requires_grad_(True)
    sums: dict[str, Diagonal | Kronecker] = {}
    count, pairs, total = 0, 0.0, torch.zeros(last.in_features, dtype=torch.float64)
    pixels = labels = torch.empty(0)
    normalised, generator = False, torch.Generator(last.weight.device).manual_seed(0)
    for pixels, labels in batches:
        with torch.enable_grad():
            belief, inputs, z = subject(pixels)
        if not sums:
            normalised = normalises(belief.mean, z)
            chosen = {name: p for name, p in parts.named_parameters() if parameters(name) and p is not last.bias}
            sums = _empty(_reached(z, chosen), parts, kronecker=kronecker)
        bend = curvature(z.detach(), labels)
        cotangents = bend.root() if passes is None else bend.cotangents(passes, generator=generator) * passes**-0.5
        for found in gradients(z, [parts.get_parameter(name) for name in sums], cotangents):
            for each, gradient in zip(sums.values(), found, strict=True):
                each.add(gradient)
        count, pairs, total = count + len(z), pairs + bend.count, total + inputs.detach().sum(0).double().cpu()
    for parameter in frozen:
        parameter.requires_grad_(False)
    if not pairs:
        raise no_pairs(count)
    bends = {name: Bend.of(found, count / temperature / pairs) for name, found in sums.items()}
    centre = (total / count).to(last.weight.detach())
    return NetworkCurvature(pixels, labels, count, pairs, subject, bends, centre, normalised)


def _parts(subject: Subject) -> nn.ModuleDict:
    return nn.ModuleDict({"backbone": subject.backbone, "head": subject.head})


def _layer(name: str) -> str:
    return name.rpartition(".")[0]


def _reached(z: Tensor, chosen: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters that z depends on."""
    slopes = torch.autograd.grad(z.sum(), list(chosen.values()), retain_graph=True, allow_unused=True) if chosen else []
    found = {name: p for (name, p), slope in zip(chosen.items(), slopes, strict=True) if slope is not None}
    if not found:
        got = f"{len(chosen)} parameters, none of which the embeddings depend on" if chosen else "no parameter"
        raise InputError("parameters", expected="a choice of names like backbone.0.weight", got=got)
    return found


def _empty(chosen: Mapping[str, Tensor], parts: nn.ModuleDict, *, kronecker: bool) -> dict[str, Diagonal | Kronecker]:
    return {
        name: Kronecker.empty(p) if kronecker and _is_matrix(parts, name) else Diagonal.empty(p)
        for name, p in chosen.items()
    }


def _is_matrix(parts: nn.ModuleDict, name: str) -> bool:
    module = parts.get_submodule(_layer(name))
    if not name.endswith(".weight") or not isinstance(module, (nn.Linear, nn.Conv2d)):
        return False
    grouped = isinstance(module, nn.Conv2d) and module.groups > 1
    return not grouped and max(len(module.weight), module.weight[0].numel()) <= WIDEST


def _marginal(layer: str, curvature: list[Tensor], squared: float) -> float:
    try:
        return marginal_prior(torch.cat([h.flatten() for h in curvature]), squared_norm=squared)
    except InputError as error:
        fix = "give a prior precision yourself, or leave its parameters out"
        raise InputError(f"prior of layer {layer}", expected=error.expected, got=error.got, fix=fix) from error
