"""Posteriors over the weights of a network, each fitted by one verb that gives an embedder: `laplace.fit`,
`dropout.fit`, `ensemble.fit`."""

from __future__ import annotations

from typing import Any

from torch import nn

from howsure.errors import ModelError
from howsure.posteriors import dropout, ensemble, laplace
from howsure.posteriors.base import PosteriorHead, posterior_of, single_head
from howsure.posteriors.laplace.last_layer import LastLayerLaplace
from howsure.posteriors.laplace.network import NetworkLaplace

__all__ = ["POSTERIORS", "build_posterior", "dropout", "ensemble", "laplace", "posterior_of", "single_head"]

POSTERIORS: dict[str, type[PosteriorHead]] = {
    kind.kind: kind for kind in (LastLayerLaplace, NetworkLaplace, dropout.DroppedHead, ensemble.MemberHeads)
}


def build_posterior(backbone: nn.Module, head: nn.Module, described: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
    """The backbone and the head that a card describes, around a network, with tensors still to be loaded."""
    options = dict(described)
    kind = options.pop("kind")
    if kind not in POSTERIORS:
        raise ModelError(f"posterior {kind!r}", expected=" or ".join(POSTERIORS), fix="use the version that wrote it")
    return POSTERIORS[kind].blank(backbone, head, options)
