"""What every fit of a posterior needs: batches of pictures, where a head puts them, and a look at the outcome."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure import data
from howsure.data import BalancedBatches, ImageSet
from howsure.embedder import Embedder
from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.heads.last_layer import LastLayerLaplace, through
from howsure.heads.whole_network import NetworkLaplace

__all__ = [
    "DRAWS",
    "Fitted",
    "FlatVarianceWarning",
    "Gathered",
    "Subject",
    "first_pictures",
    "labelled_batches",
    "no_pairs",
    "normalises",
    "pixel_batches",
    "warn_if_flat",
]

BATCH, PER_CLASS = 256, 32  # pictures of a batch made from an image set, and of a class in it, at most
DRAWS = 16  # of the weights, where nobody says how many
FLAT = 0.01  # standard deviation of the uncertainties over their mean


class FlatVarianceWarning(UserWarning):
    """The posterior is about equally unsure of every picture, so it cannot tell them apart."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, and the linear layer of its head whose outputs z are the embeddings before normalisation."""

    backbone: nn.Module
    head: nn.Module
    layer: str

    def __call__(self, pixels: Tensor) -> tuple[Embedding, Tensor, Tensor]:
        """The belief about pictures, and what goes into and comes out of the layer on the way."""
        return through(self.head, self.layer, self.backbone(pixels))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A posterior: the backbone and the head of its embedder, and the prior precision of each layer."""

    backbone: nn.Module
    head: LastLayerLaplace | NetworkLaplace
    priors: Mapping[str, float]
    tried: Mapping[float, float] = field(default_factory=dict)  # losses of relative priors, if that chose these

    def told(self) -> dict[str, Any]:
        """For a card: one prior, the geometric mean, that of each layer where there are several, and what was tried."""
        told: dict[str, Any] = {"prior": math.exp(sum(map(math.log, self.priors.values())) / len(self.priors))}
        if len(self.priors) > 1:
            told["priors"] = dict(self.priors)
        if self.tried:
            told["tried"] = {f"{relative:g}": loss for relative, loss in self.tried.items() if math.isfinite(loss)}
        return told


@dataclass(frozen=True, eq=False)
class Gathered(ABC):
    """What `count` pictures and their pairs say about weights, before any prior; the last batch of them is kept."""

    pixels: Tensor
    labels: Tensor
    count: int
    pairs: float

    @abstractmethod
    def weights(self) -> dict[str, list[Tensor]]:
        """What the posterior is about, by layer."""

    @abstractmethod
    def posterior(self, priors: Mapping[str, float] | None) -> Fitted:
        """The posterior for precisions by layer; None takes those of greatest marginal likelihood."""


def labelled_batches(
    embedder: Embedder, pictures: ImageSet | Iterable[tuple[Tensor, Tensor]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Normalised pixels and labels on the embedder's device, with several pictures of each class in a batch."""
    for pixels, labels in _labelled(embedder, pictures):
        yield pixels.to(embedder.device), labels.to(embedder.device)


def first_pictures(
    embedder: Embedder, pictures: ImageSet | Iterable[tuple[Tensor, Tensor]], count: int
) -> tuple[Tensor, Tensor]:
    """The pixels and labels of the first batches, about `count` pictures."""
    found: list[tuple[Tensor, Tensor]] = []
    for batch in labelled_batches(embedder, pictures):
        found.append(batch)
        if sum(len(labels) for _, labels in found) >= count:
            break
    if not found:
        raise InputError("held_out", expected="at least one picture", got="none")
    return torch.cat([pixels for pixels, _ in found]), torch.cat([labels for _, labels in found])


def pixel_batches(embedder: Embedder, pictures: ImageSet | Iterable[tuple[Tensor, Tensor]]) -> Iterator[Tensor]:
    """Every picture once, in order, on the embedder's device."""
    if isinstance(pictures, ImageSet):
        found = (embedder.spec.normalise(chunk.pixels) for chunk in data.stream(pictures, embedder.spec))
    else:
        found = (batch[0] for batch in pictures)
    return (pixels.to(embedder.device) for pixels in found)


def normalises(mean: Tensor, z: Tensor) -> bool:
    """Whether the head puts pictures at z/|z| or at z; what it does else has no closed form."""
    if mean.shape == z.shape:
        if torch.allclose(mean, z, rtol=1e-4, atol=1e-6):
            return False
        if torch.allclose(mean, F.normalize(z, dim=-1), rtol=1e-4, atol=1e-6):
            return True
    raise InputError(
        "head",
        expected="one whose mean is the linear layer's output, or that output at length 1",
        got="another place",
        fix="fit a point or Gaussian head",
    )


def no_pairs(count: int) -> InputError:
    """The error of pictures that say nothing about pairs."""
    return InputError("pictures", expected="batches with pairs of a class in them", got=f"{count} pictures, no pair")


def warn_if_flat(variance: Tensor, structure: str) -> None:
    """Warn if the variances (N,) of a batch are about the same for every picture."""
    spread = float(variance.std() / variance.mean())
    if not spread > FLAT:
        warnings.warn(
            f"the {structure} posterior is about equally unsure of every picture: its variance differs by "
            f"{spread:.2g} of its mean; use last-full, or a smaller prior",
            FlatVarianceWarning,
            stacklevel=3,
        )


def _labelled(
    embedder: Embedder, pictures: ImageSet | Iterable[tuple[Tensor, Tensor]]
) -> Iterator[tuple[Tensor, Tensor]]:
    if not isinstance(pictures, ImageSet):
        yield from ((batch[0], batch[1]) for batch in pictures)
        return
    labelled = pictures.subset([i for i, label in enumerate(pictures.labels) if label is not None])
    decoded = data.pixels(labelled, embedder.spec)
    classes, codes = np.unique(np.array(decoded.images.labels, dtype=str), return_inverse=True)
    # A picture and its copy are no pair: where classes are small, a batch holds more of them.
    per_class = min(PER_CLASS, max(2, int(np.median(np.bincount(codes)))))
    batches = BalancedBatches(codes, classes=min(BATCH // per_class, len(classes)), per_class=per_class, seed=0)
    for rows in batches.epoch(0):
        yield embedder.spec.normalise(decoded.pixels[rows]), torch.from_numpy(codes[rows])
