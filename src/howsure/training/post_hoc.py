"""A posterior for a model that exists, and all that should come with it: what is typical, and what a distance means."""

from __future__ import annotations

import numpy as np

from howsure import data
from howsure.backbones import remembering
from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.heads.last_layer import LastLayerLaplace
from howsure.posteriors import dropout, laplace
from howsure.posteriors.ambiguity import with_ambiguity
from howsure.recipe import Recipe
from howsure.training.validation import Validation, validation_split

__all__ = ["fit_laplace"]


@remembering()
def fit_laplace(
    embedder: Embedder,
    images: ImageSet,
    *,
    structure: laplace.Structure | None = None,
    prior: float | laplace.Prior | None = None,
    strict: bool = False,
) -> Embedder:
    """A model with a posterior, novelty, ambiguity and a first matcher, from the pictures it was trained on.

    The posterior sees the pictures that training saw. What is typical, how wide a belief is where it lies (for the last
    layer), and which distance means what, is learned from those that training held out, as the card of the model tells;
    a model without such a card loses a tenth. Half of them choose a prior by validation, if that is asked for or the
    default; the others then say what is typical. Of a model that was trained with dropout, the whole network is taken.
    """
    embedder = dropout.whole(embedder)
    recipe = Recipe.of(embedder.card["recipe"]) if "recipe" in embedder.card else Recipe()
    decoded = data.pixels(images, embedder.spec, strict=strict)
    rows, held = validation_split(decoded.images, share=recipe.validation_share, seed=recipe.seed)
    judges, typical = None, held
    if laplace.prior_rule(structure, prior) == "validation":
        mixed = np.random.default_rng(recipe.seed).permutation(held)
        judges, typical = decoded.images.subset(mixed[::2]), mixed[1::2]
    pictures = decoded.images.subset(rows)
    fitted = laplace.fit(embedder, pictures, structure=structure, prior=prior, held_out=judges)
    fitted.card["laplace"]["pictures"] = len(pictures)  # not the draws: batches hold each class equally often
    fitted = laplace.with_novelty(fitted, decoded.images.subset(typical))
    validation = Validation(decoded.pixels[held], [str(decoded.images.labels[row]) for row in held], embedder.spec)
    if isinstance(fitted.head, LastLayerLaplace):
        fitted = with_ambiguity(fitted, decoded.images.subset(held))
    fitted.card["matcher"] = validation.matcher(validation.encode(fitted))
    return fitted
