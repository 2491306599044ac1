"""Dropout as a posterior: S masks, each of them one network, and the same network for every picture."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import Draws, Embedding
from howsure.errors import InputError
from howsure.heads.posterior import PosteriorHead

__all__ = ["DroppedBackbone", "DroppedHead", "blank_dropout", "mask_shapes"]

Shapes = Mapping[str, list[int]]  # of one mask of each dropout layer, by the layer's name

WHOLE_CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
UNSUITED = (nn.AlphaDropout, nn.FeatureAlphaDropout)


class DroppedHead(PosteriorHead):
    """A head behind dropout of its features: `Draws` of whatever the head gives, draw s with mask s for all pictures.

        belief_s = head(kept_s φ / (1 - rate))

    In training it gives what the head gives, with a mask of its own for each picture. The masks (S, M) are kept with
    the weights, so that a gallery is searched by the networks that made it. `layers` tells of masks in the backbone.
    """

    kind: ClassVar[str] = "dropout"
    kept: Tensor

    def __init__(self, head: nn.Module, kept: Tensor, *, rate: float, layers: Shapes):
        super().__init__()
        self.head, self.rate, self.layers = head, rate, layers
        self.register_buffer("kept", kept)

    def forward(self, features: Tensor) -> Embedding:
        """(N, M) features, or those of S passes side by side, to beliefs."""
        if self.training:
            return self.head(F.dropout(features, self.rate))
        draws, width = self.kept.shape
        parts = features.unflatten(1, (-1, width)).expand(-1, draws, -1)  # (N, S, M)
        return Draws.stack([self.head(_masked(parts[:, s], self.kept[s], self.rate)) for s in range(draws)])

    def describe(self) -> dict[str, Any]:
        draws, width = self.kept.shape
        return {"draws": draws, "features": width, "rate": self.rate, "layers": dict(self.layers)}


class DroppedBackbone(nn.Module):
    """A network with dropout layers: the features of S passes side by side, (N, S·M); pass s has masks s, (S, ...).

    In training it is the network itself.
    """

    def __init__(self, network: nn.Module, kept: Mapping[str, Tensor]):
        super().__init__()
        self.network = network
        self.names = {name: f"kept_{number}" for number, name in enumerate(kept)}
        for layer, name in self.names.items():
            self.register_buffer(name, kept[layer])

    def forward(self, pixels: Tensor) -> Tensor:
        """(N, C, H, W) pixels to features."""
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


def blank_dropout(backbone: nn.Module, head: nn.Module, described: Mapping[str, Any]) -> tuple[nn.Module, nn.Module]:
    """The parts that `describe` tells about, around a network, with masks still to be loaded."""
    draws, layers = described["draws"], described["layers"]
    empty = {name: torch.zeros(draws, *shape, dtype=torch.bool) for name, shape in layers.items()}
    kept = torch.zeros(draws, described["features"], dtype=torch.bool)
    dropped = DroppedHead(head, kept, rate=described["rate"], layers=layers)
    return DroppedBackbone(backbone, empty) if empty else backbone, dropped


def _masked(x: Tensor, kept: Tensor, rate: float) -> Tensor:
    return x * (kept / (1 - rate)).to(x.dtype)
