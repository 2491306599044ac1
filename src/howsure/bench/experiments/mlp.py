"""The Laplace experiment of image retrieval: some classes learned in two dimensions, some held out.

One network or a hundred drawn from its posterior: which ranks better, and do the hundred disagree more about pictures
of unseen classes?
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from howsure import metrics
from howsure.bench.experiments import flat
from howsure.bench.work import Work, training_split
from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, Point
from howsure.evaluation.failure_prediction import failure_prediction, probability_right
from howsure.evaluation.model import evaluate_embeddings
from howsure.evaluation.scores import ASKED, neighbour_disagreement, observe
from howsure.losses import OnMeans, made
from howsure.neighbours import neighbours
from howsure.posteriors import laplace
from howsure.recipe import Recipe
from howsure.training import Event, run_training

__all__ = ["DEPTHS", "DRAWS", "UNSEEN", "Labelled", "judge", "posterior", "precision", "run", "some", "train", "trial"]

UNSEEN = ("Sneaker", "Bag", "Ankle boot")  # classes 7, 8 and 9 of Fashion-MNIST
SHOWN = 1_500
DEPTHS = (1, 3, 5, 7)
DRAWS = 100
KEPT = ("ood_auroc", "r_auroc", "aurc", "augrc", "kendall_accuracy")  # of all metrics of an evaluation


def run(work: Work) -> dict[str, Any]:
    """Train, fit a posterior if the row has one, then evaluate on the same pictures for every row."""
    images, shown = work.pictures("training"), some(work.pictures("test"))
    entry, row = work.entry, work.entry.start or work.cell.method
    with work.model(row, work.seed) as out:
        embedder = train(images, work.entry_of(row, work.seed).recipe, out=out, tell=work.on_event)
    if entry.posterior:
        embedder = posterior(embedder, images, structure=entry.structure or "last-full")  # type: ignore[arg-type]
    _, held = training_split(embedder, images)
    found = trial(embedder, shown, unseen=UNSEEN, held=some(images.subset(held)))
    return found | {"metrics": flat(found["metrics"])}


def some(images: ImageSet) -> ImageSet:
    """The same random pictures for every network and posterior."""
    return images.subset(np.sort(np.random.default_rng(0).permutation(len(images))[:SHOWN]))


def train(
    images: ImageSet,
    recipe: Recipe,
    *,
    out: Path | None = None,
    tell: Callable[[Event], None] = lambda event: None,
) -> Embedder:
    """A network by the contrastive loss on unsquared distances in two dimensions.

    With `out`, a run that was stopped resumes, and one that is done is only loaded.
    """
    from pytorch_metric_learning import distances, losses

    # The method only names the head: means of any length, so the loss must not normalise them.
    recipe, options = recipe.but(method="soft-contrastive", loss="contrastive"), dict(recipe.loss_options)
    distance = distances.LpDistance(power=options.pop("power", 1), normalize_embeddings=False)
    loss = OnMeans(made(losses.ContrastiveLoss, {"distance": distance} | options))
    return run_training(images, recipe, out=out, resume=out is not None, loss=loss, tell=tell).embedder


def posterior(embedder: Embedder, images: ImageSet, *, structure: laplace.Structure) -> Embedder:
    """Fitted on the training pictures; novelty, and the prior of a whole network, by those held out of training."""
    rows, held = training_split(embedder, images)
    held_out = images.subset(held) if structure in laplace.WHOLE_NETWORK else None
    began = time.process_time()
    fitted = laplace.fit_posterior(embedder, images.subset(rows), structure=structure, held_out=held_out)
    fitted.card["laplace"]["cpu_seconds"] = round(time.process_time() - began, 2)
    return laplace.with_novelty(fitted, images.subset(held))


def precision(embedding: Embedding, labels: Sequence[str] | np.ndarray) -> dict[str, dict[str, float]]:
    """Mean average precision at 1, 3, 5 and 7 by both denominators: `{"hits": {"1": ...}, "min_rk": ...}`.

    Every picture is a query among the others. Networks are compared draw by draw, then averaged (`rms_distance`).
    """
    codes = np.unique(np.asarray(labels), return_inverse=True)[1]
    near = neighbours(embedding, embedding, leave_one_out=True, depth=max(DEPTHS))
    relevant, total = codes[near.positions] == codes[:, None], np.bincount(codes)[codes] - 1
    denominators: tuple[metrics.Denominator, ...] = ("hits", "min_rk")
    return {
        how: {str(k): metrics.map_at_k(relevant, total, k, denominator=how) for k in DEPTHS} for how in denominators
    }


@dataclass(frozen=True, eq=False)
class Labelled:
    """Embeddings of pictures, and their classes."""

    embedding: Embedding
    labels: np.ndarray

    @cached_property
    def near(self) -> np.ndarray:
        """(N, 10) classes of the nearest other pictures; the first is the answer."""
        return self._nearest_classes(self.embedding, ASKED)

    @cached_property
    def by_draw(self) -> np.ndarray:
        """(N, S) class of the nearest other picture, draw by draw."""
        return np.concatenate([self._nearest_classes(draw, 1) for draw in self.embedding.by_draw()], 1)

    def _nearest_classes(self, embedding: Embedding, depth: int) -> np.ndarray:
        return self.labels[neighbours(embedding, embedding, leave_one_out=True, depth=depth).positions]

    @property
    def right(self) -> np.ndarray:
        """Whether the nearest other picture is of the same class."""
        return self.near[:, 0] == self.labels

    @property
    def disagreement(self) -> dict[str, np.ndarray]:
        """`outvoted`, of the neighbours with the nearest, and `votes`, of the draws with the answer.

        Half a draw is added on either side, so that a hundred draws that agree are not certain.
        """
        found = {"outvoted": neighbour_disagreement(self.near)}
        draws = self.by_draw.shape[1]
        if draws > 1:
            found["votes"] = ((self.by_draw != self.near[:, :1]).sum(1) + 0.5) / (draws + 1)
        return found


def judge(
    embedding: Embedding, labels: Sequence[str | None], *, unseen: Collection[str], held: Labelled | None = None
) -> dict[str, Any]:
    """Precision among pictures of seen classes, of unseen ones and of all; their variances; detection by these.

    `ood_auroc_*`: positive = unseen, and `auroc_of_kind` the same for each unseen class alone; `r_auroc_*` and the
    like: positive = a picture of a seen class with a wrong nearest neighbour. Training-free scores, distances to the
    neighbours and their disagreement, stand beside the uncertainty and the disagreement of draws. With `held`,
    pictures of seen classes held out of training, also the ECE and Brier score of the probability that the nearest
    neighbour is right: by the disagreement of draws, or without draws by the uncertainty.
    """
    names = np.array([str(label) for label in labels])
    is_unseen = np.isin(names, list(unseen))
    rows = {"seen": np.flatnonzero(~is_unseen), "unseen": np.flatnonzero(is_unseen), "all": np.arange(len(names))}
    seen = Labelled(embedding[rows["seen"]], names[rows["seen"]])
    found = evaluate_embeddings(seen.embedding, seen.labels.tolist(), ood=embedding[rows["unseen"]])
    scores = {metric.name: metric.value for metric in found if metric.name.startswith(KEPT)}
    for name, score in seen.disagreement.items():
        scores |= {f"{metric}_{name}": value for metric, value in failure_prediction(score, seen.right).items()}
    variance = embedding.uncertainty.double().numpy()
    by_class = {name: np.flatnonzero(names == name) for name in np.unique(names)}
    return {
        "map": {name: precision(embedding[chosen], names[chosen]) for name, chosen in rows.items()},
        "right": {
            "nearest": float(seen.right.mean()),
            "votes": float((metrics.majority(seen.by_draw) == seen.labels).mean()),
        },
        "variance": {name: _summary(variance[chosen]) for name, chosen in (rows | by_class).items()},
        "scores": scores,
        "calibration": _calibration(seen, held),
        "auroc_of_kind": {name: _auroc(variance, rows["seen"], by_class[name]) for name in unseen if name in by_class},
    }


def _calibration(seen: Labelled, held: Labelled | None) -> dict[str, float]:
    """None for points: their uncertainty is the same for all."""
    if held is None or not (seen.embedding.uncertainty > 0).any():
        return {}
    score, known = (items.disagreement.get("votes", items.embedding.uncertainty) for items in (seen, held))
    probability = probability_right(score, held=(known, held.right))
    return {"ece": metrics.ece(probability, seen.right), "brier": metrics.brier(probability, seen.right)}


def _auroc(variance: np.ndarray, seen: np.ndarray, other: np.ndarray) -> float | None:
    """One unseen class against all seen ones; None where the variance is the same for all."""
    both = variance[np.concatenate([seen, other])]
    return metrics.auroc(np.arange(len(both)) >= len(seen), both) if np.ptp(both) > 0 else None


def _summary(values: np.ndarray) -> dict[str, float]:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return {"mean": float(values.mean()), "lower": float(low), "median": float(middle), "upper": float(high)}


def trial(
    embedder: Embedder, shown: ImageSet, *, unseen: Collection[str], held: ImageSet | None = None
) -> dict[str, Any]:
    """The record of one network on the shown pictures, or of a hundred draws if it has a posterior.

    `held` are pictures of seen classes held out of training, to calibrate on. `closed_form` is the posterior without
    draws. `features` are what the last layer of one network reads: distances that need no posterior. `cpu_seconds`
    are those of the prediction.
    """
    fitted = embedder.card.get("laplace")
    many = laplace.drawn(embedder, DRAWS) if fitted else embedder
    began = time.process_time()
    embedding = many.encode(shown)
    spent = time.process_time() - began
    known = Labelled(many.encode(held), np.array([str(label) for label in held.labels])) if held else None
    record: dict[str, Any] = {
        "recipe": embedder.card["recipe"],
        "data": {"train": embedder.card["data"], "shown": shown.name, "pictures": len(shown), "unseen": list(unseen)},
        "cpu_seconds": round(spent, 2),
        "metrics": judge(embedding, shown.labels, unseen=unseen, held=known),
    }
    if fitted:
        closed = judge(embedder.encode(shown), shown.labels, unseen=unseen)
        return record | {"posterior": fitted, "draws": DRAWS, "closed_form": closed}
    features = Point(observe(embedder, shown).features)
    return record | {"features": judge(features, shown.labels, unseen=unseen)}
