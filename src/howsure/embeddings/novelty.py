"""A Gaussian that also says whether the picture is like those that the model has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from howsure.embeddings.base import axes
from howsure.embeddings.gaussian import Gaussian
from howsure.errors import InputError


@dataclass(frozen=True, eq=False)
class NovelGaussian(Gaussian):
    """A `Gaussian`, and beside it how typical each item is, (N,): a conformal p-value, small = unlike anything seen.

    Two questions, two numbers. `uncertainty`: will the answer be wrong? `novelty` = 1 - p: is this picture OOD? An
    alarm at p <= a is false for at most a share a of pictures like those p was fitted on.
    """

    name: ClassVar[str] = "novel-gaussian"
    typicality: Tensor = axes(0)

    @property
    def novelty(self) -> Tensor:
        return 1 - self.typicality

    def checked(self) -> NovelGaussian:
        """As a Gaussian, and p-values in [0, 1]."""
        super().checked()
        if ((self.typicality < 0) | (self.typicality > 1)).any():
            outside = self.typicality[(self.typicality < 0) | (self.typicality > 1)][0]
            raise InputError("typicality", expected="p-values in [0, 1]", got=f"{outside:g}")
        return self
