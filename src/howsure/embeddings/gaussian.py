"""A Gaussian with independent coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from howsure.embeddings.base import Embedding, axes
from howsure.errors import InputError


@dataclass(frozen=True, eq=False)
class Gaussian(Embedding):
    """z ~ N(location, diag(scale²)); `scale` is a standard deviation, per dimension (N, D) or one per item (N, 1).

    >>> Gaussian(torch.zeros(1, 4), torch.full((1, 1), 0.5)).uncertainty  # D · scale²
    tensor([1.])
    """

    name: ClassVar[str] = "gaussian"
    location: Tensor = axes(1)
    scale: Tensor = axes(1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale.shape[-1] not in (1, self.location.shape[-1]):
            *items, dim = self.location.shape
            raise InputError(
                "gaussian scale",
                expected=f"{(*items, dim)} or {(*items, 1)}",
                got=str(tuple(self.scale.shape)),
                fix="give one scale per dimension, or one per item",
            )

    @property
    def mean(self) -> Tensor:
        return self.location

    @property
    def variance(self) -> Tensor:
        return self.scale.square().expand_as(self.location)

    @property
    def item_scale(self) -> Tensor:
        return self.scale

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        shape = (n, *self.location.shape)
        noise = torch.randn(shape, generator=generator, dtype=self.dtype, device=self.device)
        return self.location + self.scale * noise

    def rotated(self, rotation: Tensor) -> Self:
        return replace(self, location=self.location @ rotation, scale=rotated_scale(self.scale, rotation))

    def checked(self) -> Gaussian:
        """As everywhere, and no negative scale."""
        if (self.scale < 0).any():
            raise InputError("gaussian scale", expected="standard deviations of 0 or more", got=f"{self.scale.min():g}")
        return super().checked()


def rotated_scale(scale: Tensor, rotation: Tensor) -> Tensor:
    """Standard deviations along the new axes; one scale for all dimensions stays as it is."""
    return scale if scale.shape[-1] == 1 else (scale.square() @ rotation.square()).sqrt()
