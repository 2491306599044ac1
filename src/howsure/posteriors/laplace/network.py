"""A network whose weights are not known exactly: backbone and head together, as one head of pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from howsure.embeddings import Draws, Embedding, Gaussian, NovelGaussian
from howsure.errors import InputError, ModelError
from howsure.posteriors.laplace.base import (
    DRAWS,
    Fitted,
    Gathered,
    LaplaceHead,
    Subject,
    linear_layer,
    no_pairs,
    normalises,
    through,
)
from howsure.posteriors.laplace.covariance import (
    COVARIANCES,
    DiagonalCovariance,
    KroneckerCovariance,
    ParameterCovariance,
)
from howsure.posteriors.laplace.curvature import Curvature
from howsure.posteriors.laplace.last_layer_curvature import WIDEST
from howsure.posteriors.laplace.network_curvature import Diagonal, Kronecker, gradients
from howsure.posteriors.laplace.prior_precision import marginal_prior, squared_length
from howsure.posteriors.laplace.tangent import TangentRecorder, UnknownOperationError

__all__ = ["PASSES", "NetworkCurvature", "NetworkLaplace", "gather_network"]


class NetworkLaplace(LaplaceHead):
    """A backbone and a head, and how well their parameters are known; its embedder has an empty backbone.

    `spreads` maps names of parameters, `backbone.…` or `head.…`, to what is known of each; the others are fixed. Gives
    a `Gaussian` at the place that the network itself gives; or with `draws` S joint `Draws`, each of them one network
    for all pictures. As pairs see differences, the last layer counts from `centre` (M,), the mean of its inputs. With
    `usual`, the sorted raw variances (n,) of pictures it was not fitted on, the Gaussian also says how typical one is.

    | variance | how good | cost in forward passes | memory beside the network |
    |---|---|---|---|
    | of the tangent, `tangents.py` | exact to first order | 1 + 2 D | the graph of a batch, slopes of one layer |
    | of `draws` | all orders, off by √(2/S) | S, and S times the noise | one draw; made anew for every batch |
    """

    kind: ClassVar[str] = "network-laplace"
    centre: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        head: nn.Module,
        spreads: Mapping[str, ParameterCovariance],
        *,
        centre: Tensor,
        layer: str,
        normalised: bool,
        usual: Tensor | None = None,
        draws: int = 0,
        seed: int = 0,
    ):
        super().__init__(usual)
        self.backbone, self.head = backbone, head
        self.names, self.spreads = tuple(spreads), nn.ModuleList(spreads.values())  # a name with dots is no key
        self.register_buffer("centre", centre)
        self.layer, self.normalised = layer, normalised
        self.draws, self.seed = draws, seed

    def forward(self, pixels: Tensor) -> Embedding:
        """(N, C, H, W) pixels to beliefs."""
        if self.draws:
            return Draws.stack(list(self._drawn(pixels)))
        belief, variance, raw = self._believed(pixels)
        own = belief.tensors().get("scale")
        scale = (variance if own is None else variance + own.square()).sqrt()
        if self.usual is None:
            return Gaussian(belief.mean, scale)
        return NovelGaussian(belief.mean, scale, self.typicality(raw))

    def raw_variance(self, pixels: Tensor) -> Tensor:
        """Σ_i Var z_i before any normalisation, (N,)."""
        return self._believed(pixels)[2]

    def network(self, backbone: nn.Module) -> tuple[nn.Module, nn.Module]:
        return self.backbone, self.head

    def at_estimate(self, pixels: Tensor) -> Embedding:
        belief: Embedding = self.head(self.backbone(pixels))
        return belief

    def has_closed_form(self, pixels: Tensor) -> bool:
        """Whether the variance of all that this network does with its weights is known; if not, there are draws."""
        try:
            self._believed(pixels)
        except UnknownOperationError:
            return False
        return True

    def describe(self) -> dict[str, Any]:
        return {
            "spreads": {name: spread.kind for name, spread in self._known().items()},
            "layer": self.layer,
            "normalised": self.normalised,
            "usual": None if self.usual is None else len(self.usual),
            "propagated": False,  # gone, but part of the fingerprint of every model that was saved before
            "draws": self.draws,
            "seed": self.seed,
        }

    @classmethod
    def blank(cls, backbone: nn.Module, head: nn.Module, described: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
        said = dict(described)
        if said.pop("propagated", False):
            raise ModelError("posterior by moment propagation", expected="none any more", fix="fit it again: laplace")
        kinds, count = said.pop("spreads"), said.pop("usual")
        parts = nn.ModuleDict({"backbone": backbone, "head": head})
        spreads = {name: COVARIANCES[kind].blank(parts.get_parameter(name).detach()) for name, kind in kinds.items()}
        last = linear_layer(head, said["layer"]).weight.detach()
        usual = None if count is None else last.new_zeros(count)
        return nn.Identity(), cls(backbone, head, spreads, centre=last.new_zeros(last.shape[1]), usual=usual, **said)

    def again(self, **changes: Any) -> NetworkLaplace:
        same: dict[str, Any] = {"centre": self.centre, "layer": self.layer, "normalised": self.normalised}
        same |= {"usual": self.usual, "draws": self.draws, "seed": self.seed}
        return NetworkLaplace(self.backbone, self.head, self._known(), **(same | changes))

    def _known(self) -> dict[str, ParameterCovariance]:
        return dict(zip(self.names, self.spreads, strict=True))  # type: ignore[arg-type]

    def _believed(self, pixels: Tensor) -> tuple[Embedding, Tensor, Tensor]:
        """The belief of the head at the means, the variance of places (N, D), and that of z in all (N,)."""
        spreads = {id(self.get_parameter(name)): spread for name, spread in self._known().items()}
        centres = {id(linear_layer(self.head, self.layer).weight): self.centre}
        # Of pixels, so that there is a graph even where every weight is frozen.
        with torch.enable_grad(), TangentRecorder(spreads, centres) as taps:
            belief, _, z = through(self.head, self.layer, self.backbone(pixels.detach().requires_grad_()))
        if not self.normalised:
            variance = taps.variance(z)
            return belief.detach(), variance, variance.sum(-1)
        axes = _axes(z.detach())
        along = taps.variance(z, axes)  # what is along z itself does not turn it
        squared = torch.linalg.vecdot(z, z).detach().clamp_min(torch.finfo(z.dtype).tiny)
        variance = torch.einsum("nb,bnd->nd", along[:, 1:], axes[1:].square()) / squared[:, None]
        return belief.detach(), variance, along.sum(-1)

    def _drawn(self, pixels: Tensor) -> Iterator[Embedding]:
        generator = torch.Generator().manual_seed(self.seed)  # on the CPU: the same draws on every device
        last = f"head.{self.layer}.weight"
        for _ in range(self.draws):
            moved = {name: spread.deviation(generator) for name, spread in self._known().items()}
            values = {name: self.get_parameter(name) + moved[name] for name in self.names}
            features = functional_call(self.backbone, _below("backbone.", values), (pixels,))
            with _lowered(linear_layer(self.head, self.layer), self._shift(moved.get(last))):
                belief = functional_call(self.head, _below("head.", values), (features,))
            yield belief

    def _shift(self, moved: Tensor | None) -> Tensor:
        """What a deviation of the last weights does at the mean of its inputs, (D,): the same for all pictures."""
        return self.centre.new_zeros(()) if moved is None else moved @ self.centre


def _axes(z: Tensor) -> Tensor:
    """Orthonormal axes (D, N, D) at each z (N, D), the first of them along it: a reflection.

    The variances along them add up to that of z, and those across z to that of its direction, without covariances.
    """
    unit = F.normalize(z, dim=-1)
    normal = unit.clone()
    normal[:, 0] += torch.where(unit[:, 0] < 0, -1.0, 1.0)
    twice = 2 / torch.linalg.vecdot(normal, normal)
    eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return (eye - twice[:, None, None] * normal[:, :, None] * normal[:, None, :]).transpose(0, 1)


@contextmanager
def _lowered(layer: nn.Linear, shift: Tensor) -> Iterator[None]:
    """Subtract a shift from what a layer gives."""
    hook = layer.register_forward_hook(lambda module, args, out: out - shift)
    try:
        yield
    finally:
        hook.remove()


def _below(prefix: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


PASSES = 4  # backward passes a batch; standard deviations are some 10 % off after 40 passes, 5 % after 160


@dataclass(frozen=True, eq=False)
class CurvatureSpectrum:
    """The curvature of a parameter: values along axes of its own, or along those of a Kronecker product."""

    values: Tensor
    axes: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(cls, found: Diagonal | Kronecker, scale: float) -> CurvatureSpectrum:
        """What was summed, times `scale`."""
        if isinstance(found, Diagonal):
            return cls(scale * found.squares)
        outside, outer = torch.linalg.eigh(found.outer)
        inside, inner = torch.linalg.eigh(found.inner)
        total = outside.sum().clamp_min(torch.finfo(outside.dtype).tiny)
        return cls(scale / total * torch.outer(outside.clamp_min(0), inside.clamp_min(0)), (outer, inner))

    def spread(self, prior: float, parameter: Tensor) -> ParameterCovariance:
        """What is known about the parameter."""
        along = (1 / (self.values + prior)).to(parameter)
        if self.axes is None:
            return DiagonalCovariance(along)
        outer, inner = (axes.to(parameter).contiguous() for axes in self.axes)  # as they are after loading
        return KroneckerCovariance(along, outer=outer, inner=inner, shape=parameter.shape)


@dataclass(frozen=True, eq=False)
class NetworkCurvature(Gathered):
    """The curvature of parameters, by name."""

    subject: Subject
    bends: Mapping[str, CurvatureSpectrum]
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
    bends = {name: CurvatureSpectrum.of(found, count / temperature / pairs) for name, found in sums.items()}
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
