"""Several networks side by side, as one backbone and one head."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from howsure.embeddings import Draws
from howsure.embeddings.rotated import rotated
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
    """S heads, each for features of its own: `Draws` of whatever a head gives, turned by `rotations` (S, D, D)."""

    kind: ClassVar[str] = "ensemble"
    rotations: Tensor

    def __init__(self, members: Sequence[nn.Module], rotations: Tensor):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("rotations", rotations)

    @property
    def single(self) -> nn.Module:
        return self.members[0]

    def forward(self, features: Tensor) -> Draws:
        """(N, S·M) features to beliefs."""
        parts = features.unflatten(1, (len(self.members), -1))  # (N, S, M)
        beliefs = [member(parts[:, s]) for s, member in enumerate(self.members)]
        return Draws.stack([rotated(belief, self.rotations[s]) for s, belief in enumerate(beliefs)])

    def describe(self) -> dict[str, Any]:
        return {"members": len(self.members), "dim": self.rotations.shape[-1]}


def blank_ensemble(backbone: nn.Module, head: nn.Module, described: Mapping[str, Any]) -> tuple[nn.Module, nn.Module]:
    """The parts that `describe` tells about, made of copies of one network, with tensors still to be loaded."""
    count, dim = described["members"], described["dim"]
    backbones, heads = ([copy.deepcopy(part) for _ in range(count)] for part in (backbone, head))
    return MemberBackbones(backbones), MemberHeads(heads, torch.zeros(count, dim, dim))
