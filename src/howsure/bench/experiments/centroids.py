"""Centroids and their confidence beside softmax. Pictures: training, test, unfamiliar.

A run takes minutes and keeps no model: one that is stopped begins again.
"""

from __future__ import annotations

from typing import Any

from howsure.bench.centroids import SOFTMAX, contend, trial
from howsure.bench.experiments import flat
from howsure.bench.sets import Sets
from howsure.bench.work import Work

__all__ = ["run"]

PLAIN = "soft-contrastive"  # the method of a recipe for softmax: it only names the head


def run(work: Work) -> dict[str, Any]:
    """Train, then judge."""
    sets = Sets(work.pictures("training"), work.pictures("test"), work.pictures("unfamiliar"))
    recipe = work.entry.recipe
    name = SOFTMAX if recipe.method == PLAIN else recipe.method
    return {"metrics": flat(trial(contend(name, sets.training, recipe, tell=work.heard), sets))}
