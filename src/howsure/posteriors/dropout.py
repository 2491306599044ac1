"""MC dropout: the networks that are left when parts of one network are switched off (after Gal and Ghahramani)."""

from __future__ import annotations

import copy

import torch
from torch import nn

from howsure.backbones import feature_count
from howsure.embedder import Embedder
from howsure.errors import InputError
from howsure.heads.dropped import DroppedBackbone, DroppedHead, mask_shapes
from howsure.heads.posterior import PosteriorHead

__all__ = ["drawn", "whole"]

RATE = 0.2


def drawn(embedder: Embedder, draws: int = 16, *, rate: float | None = None, seed: int = 0) -> Embedder:
    """A new embedder that gives `Draws`: each draw is one network with a share `rate` of its features switched off.

    Dropout layers in the backbone take part, each at its own rate. A mask is drawn once, from `seed`, and is the same
    for all pictures, now and after loading. Works on any model; one trained with method `dropout` expects it. `rate`
    is 0.2 unless given, or what the embedder was trained with; 0 leaves the features to the layers of the backbone.

    Aleatoric variance is what the head says about pictures, epistemic variance what the draws disagree about.
    """
    embedder = copy.deepcopy(embedder).eval()
    origin = embedder.fingerprint
    if rate is None and isinstance(embedder.head, DroppedHead):
        rate = embedder.head.rate
    head, backbone = _undropped(embedder)
    if isinstance(head, PosteriorHead):
        raise InputError("embedder", expected="one without a posterior", got=head.kind, fix="start from its origin")
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


def whole(embedder: Embedder) -> Embedder:
    """The one network of which all draws are parts, nothing switched off; any other embedder as it is."""
    if not isinstance(embedder.head, DroppedHead):
        return embedder
    origin = embedder.fingerprint
    head, backbone = _undropped(copy.deepcopy(embedder).eval())
    return embedder.with_head(head, {"origin": origin, "matcher": None}, backbone=backbone).eval()


def _undropped(embedder: Embedder) -> tuple[nn.Module, nn.Module]:
    """Head and backbone without masks."""
    head, backbone = embedder.head, embedder.backbone
    if not isinstance(head, DroppedHead):
        return head, backbone
    return head.head, backbone.network if isinstance(backbone, DroppedBackbone) else backbone


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
