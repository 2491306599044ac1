"""A posterior for a model that exists, and all that should come with it: what is typical, and what a distance means."""

from __future__ import annotations

from howsure import data
from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.posteriors import laplace
from howsure.recipe import Recipe
from howsure.train.validation import Validation, validation_split

__all__ = ["fit_laplace"]


def fit_laplace(
    embedder: Embedder,
    images: ImageSet,
    *,
    structure: laplace.Structure | None = None,
    prior: float | None = None,
    strict: bool = False,
) -> Embedder:
    """A model with a last-layer posterior, novelty and a first matcher, from the pictures it was trained on.

    The posterior sees the pictures that training saw. What is typical, and which distance means what, is learned from
    those that training held out, as the card of the model tells; a model without such a card loses a tenth.
    """
    recipe = Recipe.of(embedder.card["recipe"]) if "recipe" in embedder.card else Recipe()
    decoded = data.pixels(images, embedder.spec, strict=strict)
    rows, held = validation_split(decoded.images, share=recipe.validation_share, seed=recipe.seed)
    fitted = laplace.fit(embedder, decoded.images.subset(rows), structure=structure, prior=prior)
    fitted = laplace.with_novelty(fitted, decoded.images.subset(held))
    validation = Validation(decoded.pixels[held], [str(decoded.images.labels[row]) for row in held], embedder.spec)
    fitted.card["matcher"] = validation.matcher(validation.encode(fitted))
    return fitted
