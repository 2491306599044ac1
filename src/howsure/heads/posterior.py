"""What the heads of posteriors share: a head of one network inside, and a description from which to build it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import nn

__all__ = ["PosteriorHead"]


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
