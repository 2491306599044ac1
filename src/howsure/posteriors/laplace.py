"""The Laplace approximation for metric learning: how well the pairs of a data set determine the last layer.

(After the Laplacian metric learner of Warburg, Miani, Brack and Hauberg, with the covariance that matters.)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.errors import InputError
from howsure.heads.last_layer import LastLayerLaplace, linear_layer
from howsure.heads.posterior import PosteriorHead
from howsure.posteriors.accumulate import Diagonal, Full, LastLayer, LowRankRows
from howsure.posteriors.curvature import Curvature, pair_curvature
from howsure.posteriors.fitting import (
    FlatVarianceWarning,
    Subject,
    labelled_batches,
    no_pairs,
    normalises,
    pixel_batches,
    warn_if_flat,
)
from howsure.posteriors.pairs import Pairs

__all__ = ["FlatVarianceWarning", "Structure", "drawn", "fit", "positive_pairs", "with_novelty"]

Structure = Literal["last-full", "last-low-rank", "last-diagonal"]

NARROW = 512  # features up to which the full covariance costs a prediction next to nothing


def positive_pairs(z: Tensor, labels: Tensor) -> Curvature:
    """All pairs of a class in the batch, at squared distance of z: curvature that is never negative, and Kronecker."""
    return pair_curvature(z, Pairs.of_classes(labels), variant="pos", geometry="free")


def fit(
    embedder: Embedder,
    pictures: ImageSet | Iterable[tuple[Tensor, Tensor]],
    *,
    structure: Structure | None = None,
    curvature: Callable[[Tensor, Tensor], Curvature] = positive_pairs,
    rank: int = 64,
    prior: float | None = None,
    temperature: float = 1.0,
    layer: str = "location",
) -> Embedder:
    """A new embedder that knows how well its last layer is known; the places of pictures stay as they are.

        w ~ N(w*, (H + λ I)⁻¹),        H = (pictures / temperature) · (sum of curvature / number of pairs)

    `pictures`: a labelled image set, or batches of normalised pixels and labels. `structure` is `last-full` up to 512
    features, else `last-low-rank`. `curvature` maps a batch's embeddings before normalisation, and labels, to its
    Hessian; see `pair_curvature` and `loss_curvature`. `prior` is the precision λ; None takes the one of greatest
    marginal likelihood. `layer` names the linear layer of a head of your own.
    """
    if not temperature > 0 or (prior is not None and not prior > 0):
        raise InputError("temperature and prior", expected="above 0", got=f"{temperature} and {prior}")
    embedder = copy.deepcopy(embedder).eval()
    origin, subject = embedder.fingerprint, _subject(embedder, layer)
    linear = linear_layer(subject.head, layer)
    structure = structure or ("last-full" if linear.in_features <= NARROW else "last-low-rank")
    gathered = _gather(structure, linear, rank)
    count, pairs, total = 0, 0.0, torch.zeros(linear.in_features, dtype=torch.float64)
    normalised = last = None
    for pixels, labels in labelled_batches(embedder, pictures):
        with torch.no_grad():
            belief, last, z = subject(pixels)
        normalised = normalises(belief.mean, z) if normalised is None else normalised
        bend = curvature(z, labels)
        gathered.add(last, bend)
        count, pairs, total = count + len(z), pairs + bend.count, total + last.sum(0).double().cpu()
    if last is None or normalised is None or not pairs:
        raise no_pairs(count)
    known = gathered.posterior(
        linear.weight.detach(), centre=(total / count).to(last), scale=count / temperature / pairs, prior=prior
    )
    head = LastLayerLaplace(subject.head, known.weights, layer=layer, normalised=normalised)
    warn_if_flat(known.weights.variance(last).sum(-1), structure)
    told = {"structure": structure, "prior": known.prior, "temperature": temperature}
    told |= {"pictures": count, "pairs": pairs}
    # No matcher: distances have changed with the variances.
    return embedder.with_head(head, {"origin": origin, "matcher": None, "laplace": told}).eval()


def with_novelty(embedder: Embedder, held_out: ImageSet | Iterable[tuple[Tensor, Tensor]]) -> Embedder:
    """The same posterior, whose beliefs also say how typical a picture is among pictures like `held_out`.

    The score is the posterior variance before normalisation, on either side: too large is unlike what was seen, and so
    is too small. `held_out` must be pictures that neither the network nor the posterior was fitted on; labels are not
    looked at. An alarm at p <= a is then false for at most a share a of pictures like them.
    """
    embedder = copy.deepcopy(embedder).eval()
    head = _posterior_of(embedder)
    with torch.no_grad():
        scores = [head.raw_variance(embedder.backbone(pixels)) for pixels in pixel_batches(embedder, held_out)]
    if not scores:
        raise InputError("held_out", expected="at least one picture", got="none")
    return embedder.with_head(head.again(usual=torch.cat(scores).sort().values)).eval()


def drawn(embedder: Embedder, draws: int, *, seed: int = 0) -> Embedder:
    """The same posterior, with `draws` joint draws of the weights in place of the closed form; 0 for that again."""
    if draws < 0:
        raise InputError("draws", expected="0 or more", got=str(draws))
    embedder = copy.deepcopy(embedder).eval()
    return embedder.with_head(_posterior_of(embedder).again(draws=draws, seed=seed)).eval()


def _subject(embedder: Embedder, layer: str) -> Subject:
    """The network to fit: an earlier Laplace posterior gives way; another kind has no single last layer."""
    head = embedder.head
    if isinstance(head, LastLayerLaplace):
        return Subject(embedder.backbone, head.single, layer)
    if isinstance(head, PosteriorHead):
        raise InputError("embedder", expected="one without a posterior", got=head.kind, fix="start from its origin")
    return Subject(embedder.backbone, head, layer)


def _posterior_of(embedder: Embedder) -> LastLayerLaplace:
    if not isinstance(embedder.head, LastLayerLaplace):
        got = type(embedder.head).__name__
        raise InputError("embedder", expected="one with a posterior", got=got, fix="laplace.fit first")
    return embedder.head


def _gather(structure: str, linear: nn.Linear, rank: int) -> LastLayer:
    if structure == "last-full":
        return Full(linear.in_features)
    if structure == "last-low-rank":
        return LowRankRows(linear.in_features, rank)
    if structure == "last-diagonal":
        return Diagonal(linear.in_features, linear.out_features)
    raise InputError("structure", expected=" or ".join(get_args(Structure)), got=repr(structure))
