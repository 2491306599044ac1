"""What the heads of posteriors share: a head of one network inside, and a description from which to build it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

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


class LaplaceHead(PosteriorHead):
    """A head with a Gaussian over weights, and `usual`, if it has any: sorted raw variances (n,) of other pictures."""

    usual: Tensor | None

    def __init__(self, usual: Tensor | None):
        super().__init__()
        self.register_buffer("usual", usual)
        self._learned: tuple[tuple[int, torch.device], Usual] | None = None

    def typicality(self, raw: Tensor) -> Tensor:
        """The p-value of each raw variance (N,) among the usual ones, by their logs: too large and too small alike."""
        if self.usual is None:
            raise RuntimeError("typicality is asked of a head that has no usual variances")
        now = (self.usual._version, self.usual.device)  # loading and training write into it
        if self._learned is None or self._learned[0] != now:
            self._learned = (now, Usual.of(_log(self.usual)))
        return self._learned[1].p(_log(raw))


def _log(variance: Tensor) -> Tensor:
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).log()
