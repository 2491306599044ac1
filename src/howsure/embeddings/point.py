"""A point without uncertainty: the embedding of a deterministic network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from howsure.embeddings.base import Embedding, axes
from howsure.embeddings.draws import draw_by_draw
from howsure.errors import InputError


@dataclass(frozen=True, eq=False)
class Point(Embedding):
    """All mass on `location`, (N, D). Variance 0, and no special case anywhere downstream.

    >>> Point(torch.zeros(2, 3)).uncertainty
    tensor([0., 0.])
    """

    name: ClassVar[str] = "point"
    location: Tensor = axes(1)

    @classmethod
    def from_vectors(cls, vectors: np.ndarray | Tensor) -> Point:
        """Vectors that another model made, (N, D), as they are; on the CPU."""
        try:
            tensor = vectors if isinstance(vectors, Tensor) else torch.from_numpy(np.ascontiguousarray(vectors))
        except TypeError as error:
            raise InputError("vectors", expected="floats (N, D)", got=f"{vectors.dtype} {vectors.shape}") from error
        if not tensor.is_floating_point() or tensor.ndim != 2:
            raise InputError("vectors", expected="floats (N, D)", got=f"{tensor.dtype} {tuple(tensor.shape)}")
        return cls(tensor.detach().cpu()).checked()

    @property
    def mean(self) -> Tensor:
        return self.location

    @property
    def variance(self) -> Tensor:
        return torch.zeros_like(self.location)

    def rotated(self, rotation: Tensor) -> Self:
        return type(self)(self.location @ rotation)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.location.expand(n, *self.location.shape)


def point_estimates(embedding: Embedding) -> Embedding:
    """The same items as points at their point estimates, draw by draw.

    Expected distances grow with uncertainty, so certain items are near to everything; distances of points do not.

    >>> from howsure import VonMisesFisher
    >>> point_estimates(VonMisesFisher(torch.tensor([[0.6, 0.8]]), torch.tensor([2.0])))
    Point(location=tensor([[0.6000, 0.8000]]))
    """
    return draw_by_draw(embedding, lambda draw: Point(draw.point_estimate))
