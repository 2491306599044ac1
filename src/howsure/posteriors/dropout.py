"""MC dropout: draws of a network with parts of it switched off (after Gal and Ghahramani)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.backbones import feature_count
from howsure.embeddings import Draws, Embedding
from howsure.errors import InputError
from howsure.posteriors.base import PosteriorHead, posterior_of

if TYPE_CHECKING:
    from howsure.embedder import Embedder

Shapes = Mapping[str, list[int]]  # of one mask of each dropout layer, by the layer's name

WHOLE_CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
UNSUITED = (nn.AlphaDropout, nn.FeatureAlphaDropout)


class DroppedHead(PosteriorHead):
    """A head behind dropout of its features: `Draws` of whatever the head gives, draw s with mask s for all pictures.

        draw_s = head(kept_s φ / (1 - rate))

    In training it gives what the head gives, with a mask of its own for each picture. The masks (S, M) are saved with
    the weights, so that a gallery is searched by the networks that made it. `layers` are the masks of the backbone.
    """

    kind: ClassVar[str] = "dropout"
    kept: Tensor

    def __init__(self, head: nn.Module, kept: Tensor, *, rate: float, layers: Shapes):
        super().__init__()
        self.head, self.rate, self.layers = head, rate, layers
        self.register_buffer("kept", kept)

    def forward(self, features: Tensor) -> Embedding:
        """(N, M) features, or (N, S·M) of S passes, to an embedding."""
        if self.training:
            return self.head(F.dropout(features, self.rate))
        draws, width = self.kept.shape
        parts = features.unflatten(1, (-1, width)).expand(-1, draws, -1)  # (N, S, M)
        return Draws.stack([self.head(_masked(parts[:, s], self.kept[s], self.rate)) for s in range(draws)])

    def network(self, backbone: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Nothing switched off."""
        return backbone.network if isinstance(backbone, DroppedBackbone) else backbone, self.head

    def describe(self) -> dict[str, Any]:
        draws, width = self.kept.shape
        return {"draws": draws, "features": width, "rate": self.rate, "layers": dict(self.layers)}

    @classmethod
    def blank(cls, backbone: nn.Module, head: nn.Module, described: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
        draws, layers = described["draws"], described["layers"]
        empty = {name: torch.zeros(draws, *shape, dtype=torch.bool) for name, shape in layers.items()}
        kept = torch.zeros(draws, described["features"], dtype=torch.bool)
        dropped = cls(head, kept, rate=described["rate"], layers=layers)
        return DroppedBackbone(backbone, empty) if empty else backbone, dropped


class DroppedBackbone(nn.Module):
    """A network with dropout layers: the features of S passes, (N, S·M); pass s has masks s, (S, ...).

    In training it is the network itself.
    """

    def __init__(self, network: nn.Module, kept: Mapping[str, Tensor]):
        super().__init__()
        self.network = network
        self.names = {name: f"kept_{number}" for number, name in enumerate(kept)}
        for layer, name in self.names.items():
            self.register_buffer(name, kept[layer])

    def forward(self, pixels: Tensor) -> Tensor:
        if self.training:
            return self.network(pixels)
        masks = {layer: self.get_buffer(name) for layer, name in self.names.items()}
        draws = len(next(iter(masks.values())))
        return torch.cat(
            [self._once(pixels, {layer: kept[s] for layer, kept in masks.items()}) for s in range(draws)], 1
        )

    def _once(self, pixels: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        def mask(kept: Tensor, layer: nn.Dropout, inputs: object, out: Tensor) -> Tensor:
            return _masked(out, kept, layer.p)

        with ExitStack() as hooks:
            for name, kept in masks.items():
                hooks.enter_context(self.network.get_submodule(name).register_forward_hook(partial(mask, kept)))
            return self.network(pixels)


def mask_shapes(network: nn.Module, pixels: Tensor) -> dict[str, list[int]]:
    """The shapes of the masks of a network's dropout layers, found by trying it on `pixels`.

    A call of `F.dropout` is no layer: it is not found, and does nothing after training.
    """
    found: dict[str, list[int]] = {}

    def look(name: str, layer: nn.Module, inputs: object, out: Tensor) -> None:
        shape = list(out.shape[1:])
        if isinstance(layer, WHOLE_CHANNELS):
            shape[1:] = [1] * len(shape[1:])
        if found.setdefault(name, shape) != shape:
            raise InputError(f"layer {name}", expected="the same shape at every use", got=f"{found[name]} and {shape}")

    with ExitStack() as hooks, torch.no_grad():
        for name, layer in network.named_modules():
            if isinstance(layer, UNSUITED):
                raise InputError(f"layer {name}", expected="plain or channel dropout", got=type(layer).__name__)
            if isinstance(layer, (nn.Dropout, *WHOLE_CHANNELS)) and layer.p > 0:
                hooks.enter_context(layer.register_forward_hook(partial(look, name)))
        network(pixels)
    return found


def _masked(x: Tensor, kept: Tensor, rate: float) -> Tensor:
    return x * (kept / (1 - rate)).to(x.dtype)


RATE = 0.2


def fit(embedder: Embedder, draws: int = 16, *, rate: float | None = None, seed: int = 0) -> Embedder:
    """A new embedder that gives `Draws`: each draw is one network with a share `rate` of its features switched off.

    Dropout layers in the backbone are drawn too, each at its own rate. A mask is drawn once, from `seed`, the same
    for all pictures, now and after loading. Works on any model; one trained with method `dropout` expects it. `rate`
    is 0.2 unless given, or what the embedder was trained with; 0 leaves the features to the layers of the backbone.

    Aleatoric variance is what the head predicts, epistemic variance the disagreement of the draws.
    """
    embedder = copy.deepcopy(embedder).eval()
    origin = embedder.fingerprint
    head, backbone = embedder.head, embedder.backbone
    if isinstance(head, DroppedHead):
        rate = head.rate if rate is None else rate
        backbone, head = head.network(backbone)
    if posterior := posterior_of(head):
        raise InputError(
            "embedder", expected="one without a posterior", got=posterior.kind, fix="start from its origin"
        )
    rate = RATE if rate is None else rate
    spec, device = embedder.spec, embedder.device
    shape = (spec.channels, spec.height, spec.width)
    width = feature_count(backbone, shape)
    layers = mask_shapes(backbone, torch.zeros(1, *shape, device=device))
    rates = {name: float(backbone.get_submodule(name).p) for name in layers}  # type: ignore[arg-type]
    _check(draws, {"features": rate, **rates})
    generator = torch.Generator().manual_seed(seed)

    def kept(shape: list[int], rate: float) -> torch.Tensor:
        return (torch.rand(draws, *shape, generator=generator) >= rate).to(device)

    dropped = DroppedHead(head, kept([width], rate), rate=rate, layers=layers)
    if layers:
        backbone = DroppedBackbone(backbone, {name: kept(shape, rates[name]) for name, shape in layers.items()})
    # No matcher: distances have changed with the variances.
    return embedder.with_head(dropped, {"origin": origin, "matcher": None}, backbone=backbone).eval()


def _check(draws: int, rates: dict[str, float]) -> None:
    if draws < 1:
        raise InputError("draws", expected="1 or more", got=str(draws))
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise InputError(f"dropout rate of {name}", expected="0 to below 1", got=str(rate))
    if not any(rates.values()):
        raise InputError(
            "dropout rate", expected="above 0 somewhere", got="0, and a backbone without dropout layers", fix="raise it"
        )
