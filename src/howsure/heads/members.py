"""Several networks side by side, as one backbone and one head."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from howsure.embeddings import Draws, Embedding
from howsure.embeddings.rotated import rotated
from howsure.heads.last_layer import LastLayerLaplace, blank_laplace
from howsure.heads.posterior import PosteriorHead

__all__ = ["MemberBackbones", "MemberHeads", "blank_ensemble"]


class MemberBackbones(nn.Module):
    """The features of S networks side by side, (N, S·M)."""

    def __init__(self, members: Sequence[nn.Module]):
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, pixels: Tensor) -> Tensor:
        """(N, C, H, W) pixels to features."""
        return torch.cat([member(pixels) for member in self.members], 1)


class MemberHeads(PosteriorHead):
    """S heads, each for features of its own: `Draws` of whatever a head gives, turned by `rotations` (S, D, D).

    A head may have a posterior of its last layer, in closed form: then networks differ, and each knows what it ignores.
    """

    kind: ClassVar[str] = "ensemble"
    rotations: Tensor

    def __init__(self, members: Sequence[nn.Module], rotations: Tensor):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("rotations", rotations)

    @property
    def single(self) -> nn.Module:
        first = self.members[0]
        return first.single if isinstance(first, PosteriorHead) else first

    def forward(self, features: Tensor) -> Draws:
        """(N, S·M) features to beliefs."""
        beliefs = [member(part) for member, part in zip(self.members, self._parts(features), strict=True)]
        return Draws.stack([rotated(belief, self.rotations[s]) for s, belief in enumerate(beliefs)])

    def model_part(self, belief: Embedding, features: Tensor | None = None) -> Tensor | None:
        """What the networks disagree about, and on average what each of them ignores of its own weights."""
        apart = super().model_part(belief)
        posteriors = self._posteriors()
        if not posteriors:
            return apart
        if features is None:
            return None
        told = zip(posteriors, belief.by_draw(), self._parts(features), strict=True)
        ignored = [head.model_part(draw, part) for head, draw, part in told]
        return apart + torch.stack(ignored).mean(0)  # type: ignore[arg-type,operator]

    def describe(self) -> dict[str, Any]:
        told = {"members": len(self.members), "dim": self.rotations.shape[-1]}
        return told | {"laplace": [head.describe() for head in self._posteriors()]} if self._posteriors() else told

    def _posteriors(self) -> list[LastLayerLaplace]:
        return [head for head in self.members if isinstance(head, LastLayerLaplace)]

    def _parts(self, features: Tensor) -> Sequence[Tensor]:
        return features.unflatten(1, (len(self.members), -1)).unbind(1)  # S of (N, M)


def blank_ensemble(backbone: nn.Module, head: nn.Module, described: Mapping[str, Any]) -> tuple[nn.Module, nn.Module]:
    """The parts that `describe` tells about, made of copies of one network, with tensors still to be loaded."""
    count, dim = described["members"], described["dim"]
    backbones, heads = ([copy.deepcopy(part) for _ in range(count)] for part in (backbone, head))
    if "laplace" in described:
        heads = [blank_laplace(one, dict(said)) for one, said in zip(heads, described["laplace"], strict=True)]
    return MemberBackbones(backbones), MemberHeads(heads, torch.zeros(count, dim, dim))
