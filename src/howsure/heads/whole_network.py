"""A network whose weights are not known exactly: backbone and head together, as one head of pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from howsure.embeddings import Draws, Embedding, Gaussian, NovelGaussian
from howsure.heads.last_layer import linear_layer, on_sphere, through
from howsure.heads.moments import Moments, propagate
from howsure.heads.posterior import LaplaceHead
from howsure.heads.spreads import SPREADS, Spread
from howsure.heads.tangents import Taps, UnknownOperationError

__all__ = ["NetworkLaplace", "blank_network"]


class NetworkLaplace(LaplaceHead):
    """A backbone and a head, and how well their parameters are known; its embedder has an empty backbone.

    `spreads` maps names of parameters, `backbone.…` or `head.…`, to what is known of each; the others are fixed. Gives
    a `Gaussian` at the place that the network itself gives; or with `draws` S joint `Draws`, each of them one network
    for all pictures. As pairs see differences, the last layer counts from `centre` (M,), the mean of its inputs. With
    `usual`, the sorted raw variances (n,) of pictures it was not fitted on, the Gaussian also says how typical one is.

    | variance | how good | cost in forward passes | memory beside the network |
    |---|---|---|---|
    | of the tangent, `tangents.py` | exact to first order | 1 + 2 D | the graph of a batch, slopes of one layer |
    | `propagated`, `moments.py` | good for dense layers alone | 3 to 4 | another value for each |
    | of `draws` | all orders, off by √(2/S) | S, and S times the noise | one draw; made anew for every batch |
    """

    kind: ClassVar[str] = "network-laplace"
    centre: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        head: nn.Module,
        spreads: Mapping[str, Spread],
        *,
        centre: Tensor,
        layer: str,
        normalised: bool,
        usual: Tensor | None = None,
        propagated: bool = False,
        draws: int = 0,
        seed: int = 0,
    ):
        super().__init__(usual)
        self.backbone, self.head = backbone, head
        self.names, self.spreads = tuple(spreads), nn.ModuleList(spreads.values())  # a name with dots is no key
        self.register_buffer("centre", centre)
        self.layer, self.normalised, self.propagated = layer, normalised, propagated
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
            "propagated": self.propagated,
            "draws": self.draws,
            "seed": self.seed,
        }

    def again(self, **changes: Any) -> NetworkLaplace:
        """The same posterior with other `usual`, `propagated`, `draws` or `seed`."""
        same: dict[str, Any] = {"centre": self.centre, "layer": self.layer, "normalised": self.normalised}
        same |= {"propagated": self.propagated, "usual": self.usual, "draws": self.draws, "seed": self.seed}
        return NetworkLaplace(self.backbone, self.head, self._known(), **(same | changes))

    def _known(self) -> dict[str, Spread]:
        return dict(zip(self.names, self.spreads, strict=True))  # type: ignore[arg-type]

    def _believed(self, pixels: Tensor) -> tuple[Embedding, Tensor, Tensor]:
        """The belief of the head at the means, the variance of places (N, D), and that of z in all (N,)."""
        spreads = {id(self.get_parameter(name)): spread for name, spread in self._known().items()}
        return self._by_moments(pixels, spreads) if self.propagated else self._by_tangent(pixels, spreads)

    def _by_tangent(self, pixels: Tensor, spreads: Mapping[int, Spread]) -> tuple[Embedding, Tensor, Tensor]:
        centres = {id(linear_layer(self.head, self.layer).weight): self.centre}
        # Of pixels, so that there is a graph even where every weight is frozen.
        with torch.enable_grad(), Taps(spreads, centres) as taps:
            belief, _, z = through(self.head, self.layer, self.backbone(pixels.detach().requires_grad_()))
        if not self.normalised:
            variance = taps.variance(z)
            return belief.detach(), variance, variance.sum(-1)
        axes = _axes(z.detach())
        along = taps.variance(z, axes)  # what is along z itself does not turn it
        squared = torch.linalg.vecdot(z, z).detach().clamp_min(torch.finfo(z.dtype).tiny)
        variance = torch.einsum("nb,bnd->nd", along[:, 1:], axes[1:].square()) / squared[:, None]
        return belief.detach(), variance, along.sum(-1)

    def _by_moments(self, pixels: Tensor, spreads: Mapping[int, Spread]) -> tuple[Embedding, Tensor, Tensor]:
        features = propagate(self.backbone, pixels, spreads)
        belief, inputs, z = through(self.head, self.layer, features.plain)
        before = _before(self.head, self.layer, features)
        gap = Moments.of(inputs - self.centre, before.variance, spreads)
        with torch.no_grad():
            raw = F.linear(gap, linear_layer(self.head, self.layer).weight).variance  # type: ignore[attr-defined]
        raw = torch.zeros_like(z) if raw is None else raw
        return belief, on_sphere(raw, z) if self.normalised else raw, raw.sum(-1)

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


class _ReachedError(Exception):
    """The input of a layer, on its way out of the head."""

    def __init__(self, inputs: Moments):
        super().__init__()
        self.inputs = inputs


def _before(head: nn.Module, layer: str, features: Moments) -> Moments:
    """What goes into a layer of the head; what comes after it is not looked at, so it need not be known."""

    def stop(module: nn.Module, args: tuple[Moments, ...]) -> None:
        raise _ReachedError(args[0])

    hook = linear_layer(head, layer).register_forward_pre_hook(stop)
    try:
        with torch.no_grad():
            head(features)
    except _ReachedError as reached:
        return reached.inputs
    finally:
        hook.remove()
    raise RuntimeError(f"layer {layer} was not called")  # `through` has seen it called


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


def blank_network(backbone: nn.Module, head: nn.Module, described: Mapping[str, Any]) -> tuple[nn.Module, nn.Module]:
    """The parts that `describe` tells about, around a network, with tensors still to be loaded."""
    said = dict(described)
    kinds, count = said.pop("spreads"), said.pop("usual")
    parts = nn.ModuleDict({"backbone": backbone, "head": head})
    spreads = {name: SPREADS[kind].blank(parts.get_parameter(name).detach()) for name, kind in kinds.items()}
    last = linear_layer(head, said["layer"]).weight.detach()
    usual = None if count is None else last.new_zeros(count)
    return nn.Identity(), NetworkLaplace(
        backbone, head, spreads, centre=last.new_zeros(last.shape[1]), usual=usual, **said
    )
