"""What every Laplace fit needs: batches of pictures, the last layer of a head, and a check of the outcome."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure import data
from howsure.data import BalancedBatches, ImageSet
from howsure.data.content import UNKNOWN, SeenContent, content_hashes
from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.numerics.conformal import ConformalReference
from howsure.posteriors.base import PosteriorHead

if TYPE_CHECKING:
    from howsure.embedder import Embedder

BATCH, PER_CLASS = 256, 32  # pictures of a batch made from an image set, and of a class in it, at most
DRAWS = 16  # of the weights, by default
Labelled = ImageSet | Iterable[tuple[Tensor, Tensor]]  # pictures, or batches of normalised tensors with labels
FLAT = 0.01  # standard deviation of the uncertainties over their mean


class FlatVarianceWarning(UserWarning):
    """The posterior is about equally unsure of every picture, so it cannot tell them apart."""


class LaplaceHead(PosteriorHead):
    """A head with a Gaussian over weights, and maybe the sorted raw variances (n,) of reference pictures."""

    learns_variance: ClassVar[bool] = False  # whether held-out pairs may teach it how wide an embedding is
    usual: Tensor | None  # the reference variances, under the name they have in saved models
    draws: int

    def __init__(self, reference: Tensor | None):
        super().__init__()
        self.register_buffer("usual", reference)
        self._conformal: tuple[tuple[int, torch.device], ConformalReference] | None = None

    @abstractmethod
    def raw_variance(self, features: Tensor) -> Tensor: ...

    @abstractmethod
    def again(self, **changes: Any) -> LaplaceHead:
        """The same posterior with another `reference`, `draws`, `seed`, or other arguments of the constructor."""

    @abstractmethod
    def at_estimate(self, features: Tensor) -> Embedding:
        """The embedding by the network whose weights are the estimate."""

    def model_part(self, embedding: Embedding, features: Tensor | None = None) -> Tensor | None:
        """In closed form, all but the variance that the network at the estimate predicts for the picture."""
        if self.draws:
            return super().model_part(embedding)
        if features is None:
            return None
        own = self.at_estimate(features).item_scale
        if own is None:
            return embedding.uncertainty
        return (embedding.uncertainty - own.square().expand_as(embedding.mean).sum(-1)).clamp_min(0)

    def typicality(self, raw: Tensor) -> Tensor:
        """The p-value of each raw variance (N,) among those of the reference, by their logs, on both sides."""
        if self.usual is None:
            raise RuntimeError("typicality needs reference variances, this head has none")
        now = (self.usual._version, self.usual.device)  # loading and training write into it
        if self._conformal is None or self._conformal[0] != now:
            self._conformal = (now, ConformalReference.fit(_log(self.usual)))
        return torch.from_numpy(self._conformal[1].p(_log(raw))).to(raw)


def _log(variance: Tensor) -> np.ndarray:
    return np.log(np.maximum(variance.detach().to("cpu", torch.float64).numpy(), torch.finfo(variance.dtype).tiny))


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, and the linear layer of its head whose outputs z are the embeddings before normalisation."""

    backbone: nn.Module
    head: nn.Module
    layer: str

    def __call__(self, pixels: Tensor) -> tuple[Embedding, Tensor, Tensor]:
        """The embedding of pictures, and the inputs and outputs of the layer."""
        return through(self.head, self.layer, self.backbone(pixels))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A posterior: the backbone and the head of its embedder, and the prior precision of each layer."""

    backbone: nn.Module
    head: LaplaceHead
    priors: Mapping[str, float]
    tried: Mapping[float, float] = field(default_factory=dict)  # losses of relative priors, if that chose these

    def card(self) -> dict[str, Any]:
        """The geometric mean of the priors, that of each layer where there are several, and what was tried."""
        card: dict[str, Any] = {"prior": math.exp(sum(map(math.log, self.priors.values())) / len(self.priors))}
        if len(self.priors) > 1:
            card["priors"] = dict(self.priors)
        if self.tried:
            card["tried"] = {f"{relative:g}": loss for relative, loss in self.tried.items() if math.isfinite(loss)}
        return card


@dataclass(frozen=True, eq=False)
class Gathered(ABC):
    """The curvature of `count` pictures and their pairs, before any prior; with the last batch of them."""

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


def labelled_batches(embedder: Embedder, pictures: Labelled) -> Iterator[tuple[Tensor, Tensor]]:
    """Normalised pixels and labels on the embedder's device, with several pictures of each class in a batch.

    They are to fit it: once they are read, the embedder has seen them.
    """
    for pixels, labels in _labelled(embedder, pictures):
        yield pixels.to(embedder.device), labels.to(embedder.device)


def first_pictures(embedder: Embedder, pictures: Labelled, count: int) -> tuple[Tensor, Tensor]:
    """The pixels and labels of the first batches, about `count` pictures."""
    found: list[tuple[Tensor, Tensor]] = []
    for batch in labelled_batches(embedder, pictures):
        found.append(batch)
        if sum(len(labels) for _, labels in found) >= count:
            break
    if not found:
        raise InputError("held_out", expected="at least one picture", got="none")
    return torch.cat([pixels for pixels, _ in found]), torch.cat([labels for _, labels in found])


def pixel_batches(embedder: Embedder, pictures: Labelled) -> Iterator[Tensor]:
    """Every picture once, in order, on the embedder's device.

    They are to fit it: once they are read, the embedder has seen them.
    """
    if not isinstance(pictures, ImageSet):
        embedder.seen |= UNKNOWN  # tensors have no content to know them by
        yield from (batch[0].to(embedder.device) for batch in pictures)
        return
    content = [UNKNOWN.hashes]
    for chunk in data.stream(pictures, embedder.spec):
        content.append(content_hashes(chunk.pixels))
        yield embedder.spec.normalise(chunk.pixels).to(embedder.device)
    embedder.seen |= SeenContent(np.concatenate(content), complete=True)


def normalises(mean: Tensor, z: Tensor) -> bool:
    """Whether the head's mean is z/|z| or z; any other mean has no closed form."""
    if mean.shape == z.shape:
        if torch.allclose(mean, z, rtol=1e-4, atol=1e-6):
            return False
        if torch.allclose(mean, F.normalize(z, dim=-1), rtol=1e-4, atol=1e-6):
            return True
    raise InputError(
        "head",
        expected="one whose mean is the linear layer's output, or that output at length 1",
        got="another mean",
        fix="fit a point or Gaussian head",
    )


def no_pairs(count: int) -> InputError:
    """The error for pictures without a pair."""
    return InputError("pictures", expected="batches with pairs of a class in them", got=f"{count} pictures, no pair")


def warn_if_flat(variance: Tensor, structure: str) -> None:
    """Warn if the variances (N,) of a batch are about the same for every picture."""
    variation = float(variance.std() / variance.mean())
    if not variation > FLAT:
        warnings.warn(
            f"the {structure} posterior is about equally unsure of every picture: its variance differs by "
            f"{variation:.2g} of its mean; use last-full, or a smaller prior",
            FlatVarianceWarning,
            stacklevel=3,
        )


def _labelled(embedder: Embedder, pictures: Labelled) -> Iterator[tuple[Tensor, Tensor]]:
    if not isinstance(pictures, ImageSet):
        embedder.seen |= UNKNOWN
        yield from ((batch[0], batch[1]) for batch in pictures)
        return
    labelled = pictures.subset([i for i, label in enumerate(pictures.labels) if label is not None])
    decoded = data.pixels(labelled, embedder.spec)
    embedder.seen |= SeenContent(content_hashes(decoded.pixels), complete=True)
    classes, codes = np.unique(np.array(decoded.images.labels, dtype=str), return_inverse=True)
    # A picture and its copy are no pair: where classes are small, a batch holds more of them.
    per_class = min(PER_CLASS, max(2, int(np.median(np.bincount(codes)))))
    batches = BalancedBatches(codes, classes=min(BATCH // per_class, len(classes)), per_class=per_class, seed=0)
    for rows in batches.epoch(0):
        yield embedder.spec.normalise(decoded.pixels[rows]), torch.from_numpy(codes[rows])


def through(head: nn.Module, layer: str, features: Tensor) -> tuple[Embedding, Tensor, Tensor]:
    """The embedding by a head, and the inputs and outputs of one of its linear layers."""
    found: list[tuple[Tensor, Tensor]] = []
    with linear_layer(head, layer).register_forward_hook(lambda module, args, out: found.append((args[0], out))):
        embedding = head(features)
    inputs, z = found[0]
    return embedding, inputs, z


def linear_layer(head: nn.Module, name: str) -> nn.Linear:
    """The linear layer of that name."""
    layer = dict(head.named_modules()).get(name)
    if not isinstance(layer, nn.Linear):
        known = ", ".join(found for found, module in head.named_modules() if isinstance(module, nn.Linear))
        raise InputError(
            "layer", expected=f"a linear layer of the head: {known or 'it has none'}", got=repr(name), fix="name one"
        )
    return layer


def on_sphere(variance: Tensor, z: Tensor) -> Tensor:
    """The delta method, for (N, D) or (N, 1) variances; the total is exact to first order."""
    squared = torch.linalg.vecdot(z, z).clamp_min(torch.finfo(z.dtype).tiny).unsqueeze(-1)
    if variance.shape[-1] == 1:
        return torch.sub(variance, variance, alpha=1 / z.shape[-1]) / squared  # s²(1 - u_i²), its mean over i
    along = z.square() / squared  # u_i²
    return (variance * (1 - 2 * along) + along * (along * variance).sum(-1, keepdim=True)) / squared


def laplace_head(embedder: Embedder) -> LaplaceHead:
    """The head of an embedder with a Laplace posterior."""
    if not isinstance(embedder.head, LaplaceHead):
        got = type(embedder.head).__name__
        raise InputError("embedder", expected="one with a posterior", got=got, fix="laplace.fit first")
    return embedder.head
