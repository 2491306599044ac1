"""The Laplace experiment of image retrieval: one network in the plane, or a hundred. Pictures: training, test."""

from __future__ import annotations

from typing import Any

from howsure.bench.experiments import flat
from howsure.bench.mlp import UNSEEN, posterior, some, trained, trial
from howsure.bench.work import Work
from howsure.recipe import Recipe
from howsure.training.validation import validation_split

__all__ = ["run"]


def run(work: Work) -> dict[str, Any]:
    """Train, fit a posterior if the row has one, then judge the same pictures for every row."""
    images, shown = work.pictures("training"), some(work.pictures("test"))
    entry, row = work.entry, work.entry.start or work.cell.method
    with work.model(row, work.seed) as out:
        embedder = trained(images, work.entry_of(row, work.seed).recipe, out=out, tell=work.heard).embedder
    if entry.posterior:
        embedder = posterior(embedder, images, structure=entry.structure or "last-full")  # type: ignore[arg-type]
    recipe = Recipe.of(embedder.card["recipe"])
    _, held = validation_split(images, share=recipe.validation_share, seed=recipe.seed)
    found = trial(embedder, shown, unseen=UNSEEN, held=some(images.subset(held)))
    return found | {"metrics": flat(found["metrics"])}
