"""The Laplace experiment of image retrieval: some kinds of pictures learned in two dimensions, some never seen.

One network or a hundred drawn from its posterior: which ranks better, and are the hundred less at one about pictures
of kinds they have not seen?
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
from howsure.bench.experiments.centroids import encoded
from howsure.bench.work import Work
from howsure.data import ImageSet, validation_split
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, Point
from howsure.evaluation.failure_prediction import failure_prediction, probability_right
from howsure.evaluation.model import evaluate_embeddings
from howsure.losses import OnMeans, made
from howsure.neighbours import neighbours
from howsure.posteriors import laplace
from howsure.recipe import Recipe
from howsure.training import Epoch, Step, Trained, run_training

__all__ = [
    "DEPTHS",
    "DRAWS",
    "SHOWN",
    "UNSEEN",
    "Beliefs",
    "judge",
    "posterior",
    "precision",
    "run",
    "some",
    "trained",
    "trial",
]

UNSEEN = ("Sneaker", "Bag", "Ankle boot")  # classes 7, 8 and 9 of Fashion-MNIST
SHOWN = 1_500
DEPTHS = (1, 3, 5, 7)
DRAWS = 100
ASKED = 10  # neighbours that may outvote the nearest
SAID = ("ood_auroc", "r_auroc", "aurc", "augrc", "kendall_accuracy")  # of all that an evaluation says


def run(work: Work) -> dict[str, Any]:
    """Train, fit a posterior if the row has one, then judge the same pictures for every row."""
    images, shown = work.pictures("training"), some(work.pictures("test"))
    entry, row = work.entry, work.entry.start or work.cell.method
    with work.model(row, work.seed) as out:
        embedder = trained(images, work.entry_of(row, work.seed).recipe, out=out, tell=work.heard).embedder
    if entry.posterior:
        embedder = posterior(embedder, images, structure=entry.structure or "last-full")  # type: ignore[arg-type]
    recipe = Recipe.from_json(embedder.card["recipe"])
    _, held = validation_split(images, share=recipe.validation_share, seed=recipe.seed)
    found = trial(embedder, shown, unseen=UNSEEN, held=some(images.subset(held)))
    return found | {"metrics": flat(found["metrics"])}


def some(images: ImageSet, count: int = SHOWN) -> ImageSet:
    """The same random pictures for every network and posterior."""
    return images.subset(np.sort(np.random.default_rng(0).permutation(len(images))[:count]))


def trained(
    images: ImageSet,
    recipe: Recipe,
    *,
    out: Path | None = None,
    tell: Callable[[Step | Epoch], None] = lambda event: None,
) -> Trained:
    """A network by the contrastive loss on unsquared distances in the plane.

    With `out`, a run that was stopped goes on, and one that is done is only read.
    """
    from pytorch_metric_learning import distances, losses

    # The method only names the head: places of any length, so the loss must not bring them to length 1.
    recipe, options = recipe.but(method="soft-contrastive", loss="contrastive"), dict(recipe.loss_options)
    distance = distances.LpDistance(power=options.pop("power", 1), normalize_embeddings=False)
    loss = OnMeans(made(losses.ContrastiveLoss, {"distance": distance} | options))
    return run_training(images, recipe, out=out, resume=out is not None, loss=loss, tell=tell)


def posterior(embedder: Embedder, images: ImageSet, *, structure: laplace.Structure) -> Embedder:
    """Fitted on the pictures that training saw; what is typical, and a whole network's prior, by those it held out."""
    recipe = Recipe.from_json(embedder.card["recipe"])
    rows, held = validation_split(images, share=recipe.validation_share, seed=recipe.seed)
    judges = images.subset(held) if structure in laplace.WHOLE_NETWORK else None
    began = time.process_time()
    fitted = laplace.fit_posterior(embedder, images.subset(rows), structure=structure, held_out=judges)
    fitted.card["laplace"]["cpu_seconds"] = round(time.process_time() - began, 2)
    return laplace.with_novelty(fitted, images.subset(held))


def precision(belief: Embedding, labels: Sequence[str] | np.ndarray) -> dict[str, dict[str, float]]:
    """Mean average precision at 1, 3, 5 and 7 by both denominators: `{"hits": {"1": ...}, "min_rk": ...}`.

    Every picture is a query among the others. Networks are compared draw by draw, then averaged (`rms_distance`).
    """
    codes = np.unique(np.asarray(labels), return_inverse=True)[1]
    near = neighbours(belief, belief, leave_one_out=True, depth=max(DEPTHS))
    relevant, total = codes[near.positions] == codes[:, None], np.bincount(codes)[codes] - 1
    denominators: tuple[metrics.Denominator, ...] = ("hits", "min_rk")
    return {
        how: {str(k): metrics.map_at_k(relevant, total, k, denominator=how) for k in DEPTHS} for how in denominators
    }


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Beliefs about pictures, and what the pictures are of."""

    belief: Embedding
    labels: np.ndarray

    @classmethod
    def of(cls, embedder: Embedder, images: ImageSet) -> Beliefs:
        """One pass over pictures."""
        return cls(embedder.encode(images), np.array([str(label) for label in images.labels]))

    @cached_property
    def near(self) -> np.ndarray:
        """(N, 10) kinds of the nearest other pictures; the first is the answer."""
        return self._kinds(self.belief, ASKED)

    @cached_property
    def votes(self) -> np.ndarray:
        """(N, S) kinds of the nearest other picture, draw by draw."""
        return np.concatenate([self._kinds(draw, 1) for draw in self.belief.by_draw()], 1)

    def _kinds(self, belief: Embedding, depth: int) -> np.ndarray:
        return self.labels[neighbours(belief, belief, leave_one_out=True, depth=depth).positions]

    @property
    def right(self) -> np.ndarray:
        """Whether the nearest other picture is of the same kind."""
        right: np.ndarray = self.near[:, 0] == self.labels
        return right

    @property
    def doubts(self) -> dict[str, np.ndarray]:
        """Why an answer may be wrong: other kinds among the neighbours, and draws that answer otherwise.

        Half a draw more on either side: a hundred that agree leave a little doubt.
        """
        told = {"outvoted": (self.near != self.near[:, :1]).mean(1)}
        draws = self.votes.shape[1]
        if draws > 1:
            told["votes"] = ((self.votes != self.near[:, :1]).sum(1) + 0.5) / (draws + 1)
        return told


def judge(
    belief: Embedding, labels: Sequence[str | None], *, unseen: Collection[str], held: Beliefs | None = None
) -> dict[str, Any]:
    """Precision among the seen kinds, the unseen and all; the variances of each; how well these tell them apart.

    `ood_auroc_*`: positive = unseen, and `auroc_of_kind` the same for each unseen kind alone; `r_auroc_*` and the like:
    positive = a seen picture whose nearest neighbour is of another kind. Scores that need no posterior, distances to
    the neighbours and what these are, stand beside the uncertainty and the votes of draws. With `held`, pictures of
    seen kinds that were held out of training, also the ECE and Brier score of the probability that the nearest
    neighbour is right: by the votes, or of a belief without draws by its uncertainty.
    """
    names = np.array([str(label) for label in labels])
    foreign = np.isin(names, list(unseen))
    rows = {"seen": np.flatnonzero(~foreign), "unseen": np.flatnonzero(foreign), "all": np.arange(len(names))}
    seen = Beliefs(belief[rows["seen"]], names[rows["seen"]])
    found = evaluate_embeddings(seen.belief, seen.labels.tolist(), ood=belief[rows["unseen"]])
    said = {metric.name: metric.value for metric in found if metric.name.startswith(SAID)}
    for name, doubt in seen.doubts.items():
        said |= {f"{measure}_{name}": value for measure, value in failure_prediction(doubt, seen.right).items()}
    variance = belief.uncertainty.double().numpy()
    kinds = {name: np.flatnonzero(names == name) for name in np.unique(names)}
    return {
        "map": {kind: precision(belief[chosen], names[chosen]) for kind, chosen in rows.items()},
        "right": {
            "nearest": float(seen.right.mean()),
            "votes": float((metrics.majority(seen.votes) == seen.labels).mean()),
        },
        "variance": {kind: _summary(variance[chosen]) for kind, chosen in (rows | kinds).items()},
        "scores": said,
        "calibration": _calibration(seen, held),
        "auroc_of_kind": {kind: _auroc(variance, rows["seen"], kinds[kind]) for kind in unseen if kind in kinds},
    }


def _calibration(seen: Beliefs, held: Beliefs | None) -> dict[str, float]:
    """Of points there is none: their doubt is the same for all."""
    if held is None or not (seen.belief.uncertainty > 0).any():
        return {}
    doubt, known = (one.doubts.get("votes", one.belief.uncertainty) for one in (seen, held))
    chance = probability_right(doubt, held=(known, held.right))
    return {"ece": metrics.ece(chance, seen.right), "brier": metrics.brier(chance, seen.right)}


def _auroc(variance: np.ndarray, seen: np.ndarray, other: np.ndarray) -> float | None:
    """One unseen kind against all that were seen; None where the variance is the same for all."""
    both = variance[np.concatenate([seen, other])]
    return metrics.auroc(np.arange(len(both)) >= len(seen), both) if np.ptp(both) > 0 else None


def _summary(values: np.ndarray) -> dict[str, float]:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return {"mean": float(values.mean()), "lower": float(low), "median": float(middle), "upper": float(high)}


def trial(
    embedder: Embedder, shown: ImageSet, *, unseen: Collection[str], held: ImageSet | None = None
) -> dict[str, Any]:
    """Judge one network on the shown pictures, or a hundred if it has a posterior: a record that can be JSON.

    `held` are pictures of seen kinds that were held out of training; a probability of being right is learned from them.
    `closed_form` is the posterior without draws, each picture on its own. `features` are those that the last layer of
    one network reads: distances that need no posterior and no plane. `cpu_seconds` are those of the prediction.
    """
    fitted = embedder.card.get("laplace")
    many = laplace.drawn(embedder, DRAWS) if fitted else embedder
    began = time.process_time()
    belief = many.encode(shown)
    record: dict[str, Any] = {
        "recipe": embedder.card["recipe"],
        "data": {"train": embedder.card["data"], "shown": shown.name, "pictures": len(shown), "unseen": list(unseen)},
        "cpu_seconds": round(time.process_time() - began, 2),
        "metrics": judge(belief, shown.labels, unseen=unseen, held=Beliefs.of(many, held) if held else None),
    }
    if fitted:
        closed = judge(embedder.encode(shown), shown.labels, unseen=unseen)
        return record | {"posterior": fitted, "draws": DRAWS, "closed_form": closed}
    features = Point(encoded(embedder, shown)[1])
    return record | {"features": judge(features, shown.labels, unseen=unseen)}
