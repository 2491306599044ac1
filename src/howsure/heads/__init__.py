"""Features to beliefs: a head is a small module that maps (N, M) features to an `Embedding`; one file each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from howsure.errors import InputError, ModelError
from howsure.heads.dropped import blank_dropout
from howsure.heads.free_point import FreePointHead
from howsure.heads.gaussian import GaussianHead
from howsure.heads.hedged import HedgedHead
from howsure.heads.last_layer import LastLayerLaplace, blank_laplace
from howsure.heads.members import blank_ensemble
from howsure.heads.mixture import TwoModesHead
from howsure.heads.point import PointHead
from howsure.heads.posterior import PosteriorHead
from howsure.heads.von_mises_fisher import NormHead, VonMisesFisherHead
from howsure.heads.whole_network import NetworkLaplace, blank_network

__all__ = [
    "HEADS",
    "POSTERIORS",
    "FreePointHead",
    "GaussianHead",
    "HedgedHead",
    "LastLayerLaplace",
    "NetworkLaplace",
    "NormHead",
    "PointHead",
    "PosteriorHead",
    "TwoModesHead",
    "VonMisesFisherHead",
    "blank_laplace",
    "build_head",
    "build_posterior",
]

HEADS: dict[str, type[nn.Module]] = {
    "point": PointHead,
    "gaussian": GaussianHead,
    "free-point": FreePointHead,
    "hedged": HedgedHead,
    "hedged-2": TwoModesHead,
    "vmf": VonMisesFisherHead,
    "norm": NormHead,
}

# How the parts of a posterior are made around a network, from a card: tensors are still to be loaded.
POSTERIORS: dict[str, Callable[[nn.Module, nn.Module, dict[str, Any]], tuple[nn.Module, nn.Module]]] = {
    "laplace": lambda backbone, head, described: (backbone, blank_laplace(head, described)),
    "network-laplace": blank_network,
    "dropout": blank_dropout,
    "ensemble": blank_ensemble,
}


def build_head(name: str, features: int, dim: int) -> nn.Module:
    """The head of that name."""
    if name not in HEADS:
        raise InputError("head", expected=" or ".join(HEADS), got=repr(name))
    if dim < 1:
        raise InputError("dim", expected="at least 1", got=str(dim))
    return HEADS[name](features, dim)


def build_posterior(backbone: nn.Module, head: nn.Module, described: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
    """The backbone and the head that a card tells about, around a network; its kind goes with what `describe` said."""
    said = dict(described)
    kind = said.pop("kind")
    if kind not in POSTERIORS:
        raise ModelError(f"posterior {kind!r}", expected=" or ".join(POSTERIORS), fix="use the version that wrote it")
    return POSTERIORS[kind](backbone, head, said)
