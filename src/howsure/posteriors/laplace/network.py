"""A Gaussian over the weights of a whole network: backbone and head together, as one head of pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
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
from howsure.posteriors.laplace.covariance import COVARIANCES, ParameterCovariance
from howsure.posteriors.laplace.curvature import Curvature
from howsure.posteriors.laplace.last_layer_curvature import WIDEST
from howsure.posteriors.laplace.network_curvature import (
    CurvatureSpectrum,
    Diagonal,
    Kronecker,
    ParameterCurvature,
    gradients,
)
from howsure.posteriors.laplace.prior_precision import marginal_prior, squared_length
from howsure.posteriors.laplace.tangent import TangentRecorder, UnknownOperationError


class NetworkLaplace(LaplaceHead):
    """A backbone and a head with a posterior over their parameters; its embedder has an empty backbone.

    `covariances` are by the names of parameters, `backbone.…` or `head.…`; the others are fixed. Gives a `Gaussian`
    around the mean of the network itself; or with `draws` S joint `Draws`, each of them one network for all pictures.
    As pairs see differences, the last layer counts from `centre` (M,), the mean of its inputs. With `reference`, the
    sorted raw variances (n,) of pictures it was not fitted on, the Gaussian has a novelty.

    | variance | how good | cost in forward passes | memory beside the network |
    |---|---|---|---|
    | of the tangent, `tangent.py` | exact to first order | 1 + 2 D | the graph of a batch, slopes of one layer |
    | of `draws` | all orders, off by √(2/S) | S, and S times the noise | one draw; made anew for every batch |
    """

    kind: ClassVar[str] = "network-laplace"
    centre: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        head: nn.Module,
        covariances: Mapping[str, ParameterCovariance],
        *,
        centre: Tensor,
        layer: str,
        normalised: bool,
        reference: Tensor | None = None,
        draws: int = 0,
        seed: int = 0,
    ):
        super().__init__(reference)
        self.backbone, self.head = backbone, head
        self.names = tuple(covariances)
        self.spreads = nn.ModuleList(covariances.values())  # under their name in saved models; dots make no key
        self.register_buffer("centre", centre)
        self.layer, self.normalised = layer, normalised
        self.draws, self.seed = draws, seed

    def forward(self, pixels: Tensor) -> Embedding:
        if self.draws:
            return Draws.stack(list(self._drawn(pixels)))
        embedding, variance, raw = self._moments(pixels)
        own = embedding.item_scale
        scale = (variance if own is None else variance + own.square()).sqrt()
        if self.usual is None:
            return Gaussian(embedding.mean, scale)
        return NovelGaussian(embedding.mean, scale, self.typicality(raw))

    def raw_variance(self, pixels: Tensor) -> Tensor:
        return self._moments(pixels)[2]

    def network(self, backbone: nn.Module) -> tuple[nn.Module, nn.Module]:
        return self.backbone, self.head

    def at_estimate(self, pixels: Tensor) -> Embedding:
        embedding: Embedding = self.head(self.backbone(pixels))
        return embedding

    def has_closed_form(self, pixels: Tensor) -> bool:
        """Whether the variance of all that this network does with its weights is known; if not, there are draws."""
        try:
            self._moments(pixels)
        except UnknownOperationError:
            return False
        return True

    def describe(self) -> dict[str, Any]:
        return {
            "spreads": {name: covariance.kind for name, covariance in self._covariances().items()},
            "layer": self.layer,
            "normalised": self.normalised,
            "usual": None if self.usual is None else len(self.usual),
            "propagated": False,  # gone, but part of the fingerprint of every model that was saved before
            "draws": self.draws,
            "seed": self.seed,
        }

    @classmethod
    def blank(cls, backbone: nn.Module, head: nn.Module, described: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
        options = dict(described)
        if options.pop("propagated", False):
            raise ModelError("posterior by moment propagation", expected="none any more", fix="fit it again: laplace")
        kinds, count = options.pop("spreads"), options.pop("usual")
        parts = nn.ModuleDict({"backbone": backbone, "head": head})
        blank = {name: COVARIANCES[kind].blank(parts.get_parameter(name).detach()) for name, kind in kinds.items()}
        last = linear_layer(head, options["layer"]).weight.detach()
        options["reference"] = None if count is None else last.new_zeros(count)
        return nn.Identity(), cls(backbone, head, blank, centre=last.new_zeros(last.shape[1]), **options)

    def again(self, **changes: Any) -> NetworkLaplace:
        same: dict[str, Any] = {"centre": self.centre, "layer": self.layer, "normalised": self.normalised}
        same |= {"reference": self.usual, "draws": self.draws, "seed": self.seed}
        return NetworkLaplace(self.backbone, self.head, self._covariances(), **(same | changes))

    def _covariances(self) -> dict[str, ParameterCovariance]:
        return dict(zip(self.names, self.spreads, strict=True))  # type: ignore[arg-type]

    def _moments(self, pixels: Tensor) -> tuple[Embedding, Tensor, Tensor]:
        """The embedding at the estimate, its variance (N, D) by the weights, and the total variance of z (N,)."""
        covariances = {id(self.get_parameter(name)): each for name, each in self._covariances().items()}
        centres = {id(linear_layer(self.head, self.layer).weight): self.centre}
        # Of pixels, so that there is a graph even where every weight is frozen.
        with torch.enable_grad(), TangentRecorder(covariances, centres) as recorder:
            embedding, _, z = through(self.head, self.layer, self.backbone(pixels.detach().requires_grad_()))
        if not self.normalised:
            variance = recorder.variance(z)
            return embedding.detach(), variance, variance.sum(-1)
        axes = _axes(z.detach())
        along = recorder.variance(z, axes)  # what is along z itself does not turn it
        squared = torch.linalg.vecdot(z, z).detach().clamp_min(torch.finfo(z.dtype).tiny)
        variance = torch.einsum("nb,bnd->nd", along[:, 1:], axes[1:].square()) / squared[:, None]
        return embedding.detach(), variance, along.sum(-1)

    def _drawn(self, pixels: Tensor) -> Iterator[Embedding]:
        generator = torch.Generator().manual_seed(self.seed)  # on the CPU: the same draws on every device
        last = f"head.{self.layer}.weight"
        for _ in range(self.draws):
            moved = {name: covariance.deviation(generator) for name, covariance in self._covariances().items()}
            values = {name: self.get_parameter(name) + moved[name] for name in self.names}
            features = functional_call(self.backbone, _below("backbone.", values), (pixels,))
            # What a deviation of the last weights does at the mean of its inputs, (D,), is the same for all pictures.
            shift = moved[last] @ self.centre if last in moved else self.centre.new_zeros(())
            with linear_layer(self.head, self.layer).register_forward_hook(partial(_subtract, shift)):
                embedding = functional_call(self.head, _below("head.", values), (features,))
            yield embedding


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


def _subtract(shift: Tensor, module: nn.Module, inputs: object, out: Tensor) -> Tensor:
    return out - shift


def _below(prefix: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


PASSES = 4  # backward passes a batch; standard deviations are some 10 % off after 40 passes, 5 % after 160


@dataclass(frozen=True, eq=False)
class NetworkCurvature(Gathered):
    """The curvature of parameters, by name."""

    subject: Subject
    spectra: Mapping[str, CurvatureSpectrum]
    centre: Tensor  # (M,): the mean of what goes into the last layer
    normalised: bool

    def weights(self) -> dict[str, list[Tensor]]:
        return {layer: list(parameters.values()) for layer, parameters in self._layers().items()}

    def posterior(self, priors: Mapping[str, float] | None) -> Fitted:
        subject, layers = self.subject, self._layers()
        if priors is None:
            priors = {
                layer: _marginal(layer, [self.spectra[name].values for name in named], squared_length(named.values()))
                for layer, named in layers.items()
            }
        covariances = {
            name: self.spectra[name].covariance(priors[layer], parameter)
            for layer, named in layers.items()
            for name, parameter in named.items()
        }
        shared: dict[str, Any] = {"centre": self.centre, "layer": subject.layer, "normalised": self.normalised}
        head = NetworkLaplace(subject.backbone, subject.head, covariances, **shared)
        if not head.has_closed_form(self.pixels[:1]):
            head = head.again(draws=DRAWS)
        return Fitted(nn.Identity(), head, priors)  # the backbone is in the head

    def _layers(self) -> dict[str, dict[str, Tensor]]:
        """The parameters of each layer, by name."""
        found: dict[str, dict[str, Tensor]] = {}
        for name, parameter in _parts(self.subject).named_parameters():
            if name in self.spectra:
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
    sums: dict[str, ParameterCurvature] = {}
    count, pairs, total = 0, 0.0, torch.zeros(last.in_features, dtype=torch.float64)
    pixels = labels = torch.empty(0)
    normalised, generator = False, torch.Generator(last.weight.device).manual_seed(0)
    for pixels, labels in batches:
        with torch.enable_grad():
            embedding, inputs, z = subject(pixels)
        if not sums:
            normalised = normalises(embedding.mean, z)
            chosen = {name: p for name, p in parts.named_parameters() if parameters(name) and p is not last.bias}
            sums = _empty(_reached(z, chosen), parts, kronecker=kronecker)
        batch = curvature(z.detach(), labels)
        cotangents = batch.root() if passes is None else batch.cotangents(passes, generator=generator) * passes**-0.5
        for found in gradients(z, [parts.get_parameter(name) for name in sums], cotangents):
            for each, gradient in zip(sums.values(), found, strict=True):
                each.add(gradient)
        count, pairs, total = count + len(z), pairs + batch.count, total + inputs.detach().sum(0).double().cpu()
    for parameter in frozen:
        parameter.requires_grad_(False)
    if not pairs:
        raise no_pairs(count)
    spectra = {name: summed.spectrum(count / temperature / pairs) for name, summed in sums.items()}
    centre = (total / count).to(last.weight.detach())
    return NetworkCurvature(pixels, labels, count, pairs, subject, spectra, centre, normalised)


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


def _empty(chosen: Mapping[str, Tensor], parts: nn.ModuleDict, *, kronecker: bool) -> dict[str, ParameterCurvature]:
    return {name: Kronecker(p) if kronecker and _is_matrix(parts, name) else Diagonal(p) for name, p in chosen.items()}


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
