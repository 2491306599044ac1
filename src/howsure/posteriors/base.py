"""What the heads of posteriors share: a head of one network inside, and a description to rebuild it from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from howsure.embeddings import Embedding
from howsure.errors import InputError


class PosteriorHead(nn.Module, ABC):
    """A head that stands for many networks; `kind` is its name on a card."""

    kind: ClassVar[str]

    @property
    def single(self) -> nn.Module:
        """The head of one of the networks."""
        return self.get_submodule("head")

    @property
    def joinable(self) -> bool:
        """Whether networks with such a posterior may be members of an ensemble."""
        return False

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What it takes to build this again, apart from tensors and the network inside: plain values for a card."""

    @classmethod
    @abstractmethod
    def blank(cls, backbone: nn.Module, head: nn.Module, described: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
        """The backbone and head that `describe` describes, around a network, with tensors still to be loaded."""

    def network(self, backbone: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Backbone and head of the one network that a posterior may be fitted to again."""
        raise InputError("embedder", expected="one without a posterior", got=self.kind, fix="start from its origin")

    def raw_variance(self, features: Tensor) -> Tensor | None:
        """Σ_i Var z_i before any normalisation, (N,), where weights have a Gaussian in closed form; None elsewhere."""
        return None

    def model_part(self, embedding: Embedding, features: Tensor | None = None) -> Tensor | None:
        """The epistemic part of each uncertainty, (N,), which comes from the weights; the rest is the item's.

        Of draws, their disagreement. None where the parts cannot be separated, or not without the `features`.
        """
        aleatoric = torch.stack([draw.uncertainty for draw in embedding.by_draw()]).mean(0)
        return (embedding.uncertainty - aleatoric).clamp_min(0)


def posterior_of(head: nn.Module) -> PosteriorHead | None:
    """The head itself if it stands for many networks, None if for one."""
    return head if isinstance(head, PosteriorHead) else None


def single_head(head: nn.Module) -> nn.Module:
    """The head of one network, whatever posterior is around it."""
    return head.single if isinstance(head, PosteriorHead) else head
