"""Fit a Laplace posterior: with novelty, learned variance and a matcher, or the posterior of the weights alone."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from howsure import data
from howsure.backbones import remembering
from howsure.data import ImageSet
from howsure.embeddings import cat
from howsure.errors import CalibrationError, InputError
from howsure.match import balanced_matcher
from howsure.posteriors.base import posterior_of
from howsure.posteriors.laplace.base import (
    DRAWS,
    Fitted,
    Gathered,
    Labelled,
    Subject,
    first_pictures,
    labelled_batches,
    laplace_head,
    linear_layer,
    pixel_batches,
    warn_if_flat,
)
from howsure.posteriors.laplace.curvature import Curvature, pair_curvature
from howsure.posteriors.laplace.last_layer import gather_last_layer
from howsure.posteriors.laplace.learned_variance import with_learned_variance
from howsure.posteriors.laplace.network import PASSES, gather_network
from howsure.posteriors.laplace.pairs import PairGraph
from howsure.posteriors.laplace.prior_precision import RELATIVE, match_loss, natural_prior
from howsure.recipe import Recipe

if TYPE_CHECKING:
    from howsure.embedder import Embedder

Structure = Literal["last-full", "last-low-rank", "last-diagonal", "diagonal", "exact-diagonal", "kronecker"]
PriorRule = Literal["marginal", "validation"]

WHOLE_NETWORK = ("diagonal", "exact-diagonal", "kronecker")
FLAT_LOSS = 1.01  # as good as the best
VALIDATION = 512  # held-out pictures that choose a prior
NARROW = 512  # features up to which the full covariance costs a prediction next to nothing


def positive_pairs(z: Tensor, labels: Tensor) -> Curvature:
    """All pairs of a class in the batch, at squared distance of z: curvature that is never negative, and Kronecker."""
    return pair_curvature(z, PairGraph.from_labels(labels), variant="pos", geometry="free")


@remembering()
def fit(
    embedder: Embedder,
    pictures: Labelled,
    *,
    held_out: Labelled | None = None,
    structure: Structure | None = None,
    prior: float | PriorRule | None = None,
    strict: bool = False,
) -> Embedder:
    """An embedder with a posterior over its weights, novelty, a learned variance and a first matcher.

    `pictures` and `held_out` are labelled image sets, or batches of normalised tensors and labels. The posterior is
    fitted on `pictures`, which training saw; novelty, the learned variance (for the last layer) and the matcher on
    `held_out`, which training did not see. Of an image set without `held_out`, the part that training held out is
    taken, as the card says, or else a tenth. If validation chooses the prior, it takes half of `held_out`, and novelty
    the other half. `structure` and `prior` are those of `fit_posterior`. Of a model that was trained with dropout, the
    whole network is taken.
    """
    recipe = Recipe.from_json(embedder.card["recipe"]) if "recipe" in embedder.card else Recipe()
    if held_out is None:
        if not isinstance(pictures, ImageSet):
            raise InputError(
                "held_out",
                expected="labelled batches that training did not see",
                got="none",
                fix="laplace.fit(embedder, batches, held_out=others); fit_posterior does without novelty",
            )
        images = data.pixels(pictures, embedder.spec, strict=strict).images
        rows, held = data.validation_split(images, share=recipe.validation_share, seed=recipe.seed)
        pictures, held_out = images.subset(rows), images.subset(held)
    elif not isinstance(held_out, ImageSet):
        held_out = list(held_out)
    validation: Labelled | None = None
    reference: Labelled = held_out
    if _prior_rule(structure, prior) == "validation":
        validation, reference = _halves(held_out, seed=recipe.seed)
    fitted = fit_posterior(embedder, pictures, structure=structure, prior=prior, held_out=validation)
    if isinstance(pictures, ImageSet):
        fitted.card["laplace"]["pictures"] = len(pictures)  # not the draws: batches hold each class equally often
    fitted = with_novelty(fitted, reference)
    if laplace_head(fitted).learns_variance:
        fitted = with_learned_variance(fitted, held_out)
    embedding = fitted.encode(held_out if isinstance(held_out, ImageSet) else iter(held_out))
    matcher = balanced_matcher(embedding, _labels(held_out))
    fitted.card["matcher"] = matcher.to_json() if matcher else None
    return fitted


def fit_posterior(
    embedder: Embedder,
    pictures: Labelled,
    *,
    structure: Structure | None = None,
    curvature: Callable[[Tensor, Tensor], Curvature] = positive_pairs,
    rank: int = 64,
    prior: float | PriorRule | None = None,
    temperature: float = 1.0,
    layer: str = "location",
    parameters: Callable[[str], bool] | None = None,
    held_out: Labelled | None = None,
) -> Embedder:
    """A new embedder with a posterior over its weights; the means of pictures stay as they are.

        w ~ N(w*, (H + λ I)⁻¹),        H = (pictures / temperature) · (sum of curvature / number of pairs)

    `pictures`: a labelled image set, or batches of normalised pixels and labels. `structure` is `last-full` up to 512
    features, else `last-low-rank`; `diagonal` and `kronecker` are of the whole network, or of the `parameters` whose
    names are chosen, such as `backbone.0.weight`, by four random backward passes a batch; `exact-diagonal` takes one
    for each picture and dimension. `curvature` maps a batch's embeddings before normalisation, and labels, to its
    Hessian; see `pair_curvature` and `loss_curvature`. `layer` names the last linear layer of a head of your own.

    | `prior` | the precision λ |
    |---|---|
    | a number | that one, for every weight |
    | `marginal` | of greatest marginal likelihood, for each layer; the default for the last layer |
    | `validation` | a power of ten / mean of w² for each layer: the least whose draws predict matches well |

    The last is the default for whole networks, where the marginal likelihood of a diagonal prefers too wide priors. It
    is validated on the `held_out` pictures, or without any on the last batch of `pictures`.
    """
    _check(structure, prior, temperature)
    embedder = copy.deepcopy(embedder).eval()
    origin, subject = embedder.fingerprint, _subject(embedder, layer)
    if structure is None:
        structure = "last-full" if linear_layer(subject.head, layer).in_features <= NARROW else "last-low-rank"
    prior = _prior_rule(structure, prior)
    if parameters and structure not in WHOLE_NETWORK:
        raise InputError("parameters", expected=f"structure {' or '.join(WHOLE_NETWORK)}", got=structure)
    if held_out is not None and prior != "validation":
        raise InputError("held_out", expected="prior validation", got=str(prior))
    batches = labelled_batches(embedder, pictures)
    shared: dict[str, Any] = {"curvature": curvature, "temperature": temperature}
    gathered: Gathered
    if structure in WHOLE_NETWORK:
        passes = None if structure == "exact-diagonal" else PASSES
        shared |= {"kronecker": structure == "kronecker", "passes": passes}
        gathered = gather_network(subject, batches, parameters=parameters or (lambda name: True), **shared)
    else:
        gathered = gather_last_layer(subject, batches, structure=structure, rank=rank, **shared)
    if prior == "validation":
        fitted = _by_validation(gathered, embedder, held_out)
    else:
        fitted = gathered.posterior(None if prior == "marginal" else dict.fromkeys(gathered.weights(), float(prior)))
    if not fitted.head.draws:
        with torch.no_grad():
            warn_if_flat(fitted.head.raw_variance(fitted.backbone(gathered.pixels)), structure)
    settings = {"structure": structure, "temperature": temperature} | fitted.card()
    settings |= {"pictures": gathered.count, "pairs": gathered.pairs}
    # No matcher: distances have changed with the variances.
    card = {"origin": origin, "matcher": None, "laplace": settings}
    return embedder.with_head(fitted.head, card, backbone=fitted.backbone).eval()


def _prior_rule(structure: Structure | None, prior: float | PriorRule | None) -> float | PriorRule:
    """By default `validation` for whole networks, `marginal` for the last layer."""
    if prior is not None:
        return prior
    return "validation" if structure in WHOLE_NETWORK else "marginal"


def with_novelty(embedder: Embedder, held_out: Labelled) -> Embedder:
    """The same posterior, whose embeddings have a novelty: a conformal p-value with `held_out` as reference.

    The score is the posterior variance before normalisation: too large is unlike the reference, and so is too small, or
    between two modes. `held_out` must be pictures that neither the network nor the posterior was fitted on; labels are
    not used. An alarm at p <= a is then false for at most a share a of pictures like them.
    """
    embedder = copy.deepcopy(embedder).eval()
    head = laplace_head(embedder)
    with torch.no_grad():
        scores = [head.raw_variance(embedder.backbone(pixels)) for pixels in pixel_batches(embedder, held_out)]
    if not scores:
        raise InputError("held_out", expected="at least one picture", got="none")
    return embedder.with_head(head.again(reference=torch.cat(scores).sort().values)).eval()


def drawn(embedder: Embedder, draws: int, *, seed: int = 0) -> Embedder:
    """The same posterior, with `draws` joint draws of the weights in place of the closed form; 0 for that again."""
    if draws < 0:
        raise InputError("draws", expected="0 or more", got=str(draws))
    embedder = copy.deepcopy(embedder).eval()
    return embedder.with_head(laplace_head(embedder).again(draws=draws, seed=seed)).eval()


def _by_validation(gathered: Gathered, embedder: Embedder, held_out: Labelled | None) -> Fitted:
    """The weakest prior whose joint draws have about the least match loss.

    The weakest, because the loss is flat where priors are strong, and a posterior without uncertainty says nothing.

    Draws, because they are correlated: the closed form has the variance of each picture, not that its neighbour moves
    along, so that to it the best posterior is none.
    """
    pixels, labels = gathered.pixels, gathered.labels
    if held_out is not None:
        pixels, labels = first_pictures(embedder, held_out, VALIDATION)

    scales = {layer: natural_prior(layer, weights) for layer, weights in gathered.weights().items()}

    def at(relative: float) -> Fitted:
        return gathered.posterior({layer: relative * scale for layer, scale in scales.items()})

    @torch.no_grad()
    def loss(fitted: Fitted) -> float:
        head = fitted.head.again(draws=DRAWS)
        return match_loss(cat([head(fitted.backbone(part)) for part in pixels.split(256)]), labels)

    tried = {relative: loss(at(relative)) for relative in RELATIVE}
    least = min(tried.values())
    if not math.isfinite(least):
        raise CalibrationError(
            "prior",
            expected="pictures whose distances predict which of them match",
            got=f"{len(pixels)} that do not",
            fix="give more held_out pictures, or a prior precision",
        )
    weakest = next(relative for relative in RELATIVE if tried[relative] <= FLAT_LOSS * least)
    return replace(at(weakest), tried=tried)


def _check(structure: str | None, prior: float | str | None, temperature: float) -> None:
    if structure is not None and structure not in get_args(Structure):
        raise InputError("structure", expected=" or ".join(get_args(Structure)), got=repr(structure))
    known = prior is None or prior in get_args(PriorRule) or (not isinstance(prior, str) and prior > 0)
    if not temperature > 0 or not known:
        expected = f"above 0; a prior may be {' or '.join(get_args(PriorRule))}"
        raise InputError("temperature and prior", expected=expected, got=f"{temperature} and {prior}")


def _subject(embedder: Embedder, layer: str) -> Subject:
    """The network to fit, without an earlier posterior; an ensemble has no single last layer."""
    posterior = posterior_of(embedder.head)
    return Subject(*(posterior.network(embedder.backbone) if posterior else (embedder.backbone, embedder.head)), layer)


def _halves(held_out: Labelled, *, seed: int) -> tuple[Labelled, Labelled]:
    """Two random halves."""
    if isinstance(held_out, ImageSet):
        mixed = np.random.default_rng(seed).permutation(len(held_out))
        return held_out.subset(mixed[::2]), held_out.subset(mixed[1::2])
    items, labels = (torch.cat(column) for column in zip(*held_out, strict=True))
    rows = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    return [(items[rows[::2]], labels[rows[::2]])], [(items[rows[1::2]], labels[rows[1::2]])]


def _labels(held_out: Labelled) -> np.ndarray:
    if isinstance(held_out, ImageSet):
        return np.array(held_out.labels, dtype=str)
    found: np.ndarray = torch.cat([labels for _, labels in held_out]).cpu().numpy()
    return found
