"""A mixture of Gaussians: several modes for one item."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from howsure.embeddings.base import Embedding, axes
from howsure.embeddings.gaussian import rotated_scale
from howsure.errors import InputError


@dataclass(frozen=True, eq=False)
class GaussianMixture(Embedding):
    """z ~ Σ_c w_c N(location_c, diag(scale_c²)), w = softmax(logits), with K components for each item.

    `logits` are (N, K), `location` (N, K, D), `scale` (N, K, D) or one per component (N, K, 1). By the law of total
    variance, variance = Σ_c w_c (scale_c² + (location_c - mean)²).

    >>> either = GaussianMixture(torch.zeros(1, 2), torch.tensor([[[-1.0], [1.0]]]), torch.full((1, 2, 1), 0.5))
    >>> either.mean, either.variance
    (tensor([[0.]]), tensor([[1.2500]]))
    """

    name: ClassVar[str] = "mixture"
    logits: Tensor = axes(1)
    location: Tensor = axes(2)
    scale: Tensor = axes(2)

    def __post_init__(self) -> None:
        super().__post_init__()
        *items, components, dim = self.location.shape
        if components == 0 or self.logits.shape[-1] != components:
            raise InputError(
                "mixture logits",
                expected=f"{(*items, max(components, 1))}, one weight for each of one component or more",
                got=str(tuple(self.logits.shape)),
            )
        if self.scale.shape[-2] != components or self.scale.shape[-1] not in (1, dim):
            raise InputError(
                "mixture scale",
                expected=f"{(*items, components, dim)} or {(*items, components, 1)}",
                got=str(tuple(self.scale.shape)),
                fix="give one scale per dimension, or one per component",
            )

    @property
    def weights(self) -> Tensor:
        """Of each component, (N, K)."""
        return self.logits.softmax(-1)

    @property
    def mean(self) -> Tensor:
        return (self.weights[..., None] * self.location).sum(-2)

    @property
    def variance(self) -> Tensor:
        squared = self.scale.square() + (self.location - self.mean[..., None, :]).square()
        return (self.weights[..., None] * squared).sum(-2)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Each item of each sample picks its component at random; the pick itself passes no gradient to `logits`."""
        shape = (n, *self.logits.shape[:-1])
        at = torch.rand(shape, generator=generator, dtype=self.dtype, device=self.device)
        # The last edge may round to just below one; it is never tested.
        chosen = (at[..., None] >= self.weights.cumsum(-1)[..., :-1]).sum(-1)[..., None, None]  # (n, N, 1, 1)
        location, scale = (
            torch.take_along_dim(field[None], chosen, dim=-2).squeeze(-2) for field in (self.location, self.scale)
        )
        noise = torch.randn(location.shape, generator=generator, dtype=self.dtype, device=self.device)
        return location + scale * noise

    def rotated(self, rotation: Tensor) -> Self:
        return replace(self, location=self.location @ rotation, scale=rotated_scale(self.scale, rotation))

    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.logits.log_softmax(-1), self.location, self.scale.square().expand_as(self.location)

    def checked(self) -> GaussianMixture:
        """As everywhere, and no negative scale."""
        if (self.scale < 0).any():
            raise InputError("mixture scale", expected="standard deviations of 0 or more", got=f"{self.scale.min():g}")
        return super().checked()
