"""What the heads of posteriors share: a head of one network inside, and a description from which to build it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from howsure.embeddings import Embedding
from howsure.numerics.conformal import Usual

__all__ = ["LaplaceHead", "PosteriorHead"]


class PosteriorHead(nn.Module, ABC):
    """A head that speaks for many networks; `kind` is its key in `POSTERIORS`."""

    kind: ClassVar[str]

    @property
    def single(self) -> nn.Module:
        """The head of one of the networks."""
        return self.get_submodule("head")

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What it takes to build this again, apart from tensors and the network inside: plain values for a card."""

    def model_part(self, belief: Embedding, features: Tensor | None = None) -> Tensor | None:
        """How much of each uncertainty, (N,), there is because the weights are not known; the rest is the picture's.

        Of draws, what they disagree about. None where it cannot be told, or not without the `features`.
        """
        picture = torch.stack([draw.uncertainty for draw in belief.by_draw()]).mean(0)
        return (belief.uncertainty - picture).clamp_min(0)


class LaplaceHead(PosteriorHead):
    """A head with a Gaussian over weights, and `usual`, if it has any: sorted raw variances (n,) of other pictures."""

    usual: Tensor | None
    draws: int

    def __init__(self, usual: Tensor | None):
        super().__init__()
        self.register_buffer("usual", usual)
        self._learned: tuple[tuple[int, torch.device], Usual] | None = None

    @abstractmethod
    def at_estimate(self, features: Tensor) -> Embedding:
        """What the network says whose weights are the estimate."""

    def model_part(self, belief: Embedding, features: Tensor | None = None) -> Tensor | None:
        """As everywhere; in closed form, all but what the network at the estimate says about the picture itself."""
        if self.draws:
            return super().model_part(belief)
        if features is None:
            return None
        own = self.at_estimate(features).tensors().get("scale")
        if own is None:
            return belief.uncertainty
        return (belief.uncertainty - own.square().expand_as(belief.mean).sum(-1)).clamp_min(0)

    def typicality(self, raw: Tensor) -> Tensor:
        """The p-value of each raw variance (N,) among the usual ones, by their logs: too large and too small alike."""
        if self.usual is None:
            raise RuntimeError("typicality is asked of a head that has no usual variances")
        now = (self.usual._version, self.usual.device)  # loading and training write into it
        if self._learned is None or self._learned[0] != now:
            self._learned = (now, Usual.of(torch.from_numpy(_log(self.usual))))
        return torch.from_numpy(self._learned[1].shares(_log(raw))).to(raw)


def _log(variance: Tensor) -> np.ndarray:
    return np.log(np.maximum(variance.detach().to("cpu", torch.float64).numpy(), torch.finfo(variance.dtype).tiny))
