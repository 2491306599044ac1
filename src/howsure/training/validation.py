"""Validation of a run on pictures held out of the training data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from howsure.backbones import PRETRAINED
from howsure.data import InputSpec
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, point_estimates
from howsure.errors import InputError, TrainingError
from howsure.match import balanced_matcher
from howsure.metrics import recall_at_k
from howsure.neighbours import neighbours
from howsure.recipe import Recipe, read_recipe
from howsure.training.choice import PHOTOGRAPHS
from howsure.training.events import Epoch


def finite(encode: Callable[[Any], Embedding], inputs: Any) -> Embedding:
    """What `encode` makes of its inputs, or an error that says what to do if that is not finite."""
    try:
        return encode(inputs).checked()
    except InputError as error:
        raise TrainingError(
            "the network gives no finite embeddings any more",
            got=error.got,
            fix="lower learning_rate; the last whole epoch is kept",
        ) from error


class Validation:
    """The held-out pictures of one run."""

    def __init__(self, pixels: Tensor, labels: Sequence[str], spec: InputSpec):
        self.pixels, self.spec = pixels, spec
        self.labels = np.unique(np.asarray(labels), return_inverse=True)[1]

    def encode(self, embedder: Embedder) -> Embedding:
        """Embeddings of the held-out pictures."""
        parts = (self.spec.normalise(part.to(embedder.device)) for part in self.pixels.split(256))
        return finite(embedder.encode, parts)

    def recall_at_1(self, embedding: Embedding) -> float:
        """Share of pictures whose nearest other picture is of their class, among those that have a mate at all.

        By point estimates: early in a run uncertainty is noise, and certain pictures would be hubs.
        """
        points = point_estimates(embedding)
        nearest = neighbours(points, points, leave_one_out=True, depth=1, dtype=points.dtype).positions[:, 0]
        has_mate = np.bincount(self.labels)[self.labels] > 1
        hit = self.labels[nearest] == self.labels
        return recall_at_k(hit[has_mate, None], 1)

    def matcher(self, embedding: Embedding) -> dict[str, Any] | None:
        """A first link from distance to P(same), on balanced pairs; None if these pictures do not support one."""
        found = balanced_matcher(embedding, self.labels)
        return found.to_json() if found else None

    def check_not_collapsed(self, embedding: Embedding, recipe: Recipe) -> None:
        """Every picture at one point: the loss does not show it, the relative variance does."""
        points = embedding.point_estimate.double()
        variance = (points - points.mean(0)).square().sum(-1).mean() / points.square().sum(-1).mean().clamp_min(1e-12)
        if variance < 1e-3:
            raise TrainingError(
                "the embedding collapsed: every picture has nearly the same point",
                expected="a relative variance of 0.001 or more",
                got=f"{variance:.2g}",
                fix=f"lower learning_rate (now {recipe.learning_rate:g}), or try loss triplet or another margin",
            )

    def check_learned(self, history: Sequence[Epoch], recipe: Recipe) -> None:
        """A run that ends at chance has learned nothing, and says so."""
        counts = np.bincount(self.labels)
        chance = float((counts * (counts - 1)).sum() / (len(self.labels) * (len(self.labels) - 1)))
        noise = 3 * (chance * (1 - chance) / len(self.labels)) ** 0.5
        best = max(epoch.recall_at_1 for epoch in history)
        if best <= chance + noise and chance + noise < 1:
            raise TrainingError(
                "nothing was learned",
                expected=f"a validation recall@1 above chance, {chance:.3f}",
                got=f"{best:.3f} after {len(history)} epochs",
                fix=_cure(recipe),
            )


def _cure(recipe: Recipe) -> str:
    if recipe.backbone in PRETRAINED:
        return "check the labels, or add pictures: the network's features do not tell these classes apart"
    if recipe.channels == 1:
        return "check the labels, add pictures, train longer, or change loss and learning_rate"
    entry = PRETRAINED[read_recipe(PHOTOGRAPHS).backbone]
    install = "" if entry.installed else f" after: {entry.install}"
    return f"check the labels; for photographs use --recipe {PHOTOGRAPHS}{install}; or add pictures"
