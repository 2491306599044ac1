"""Centroids and their confidence against cross-entropy and its softmax: one backbone, one budget, the same batches."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.backbones import build_backbone, feature_count
from howsure.bench.experiments import flat
from howsure.bench.experiments.lam import uncertainty_scores
from howsure.bench.work import Sets, Work, training_split
from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, VonMisesFisher
from howsure.errors import InputError
from howsure.evaluation.failure_prediction import failure_prediction
from howsure.evaluation.scores import Observed, observe
from howsure.losses import nearest_centroid
from howsure.metrics import accuracy_at_coverage, auroc, brier, ece, fpr_at_tpr
from howsure.numerics.conformal import upper_p
from howsure.numerics.logistic import fit_logistic
from howsure.recipe import Recipe
from howsure.training import Epoch, Event, method_named, run_training
from howsure.training.methods import Setting

__all__ = ["SOFTMAX", "Contender", "Prediction", "judge", "ood_metrics", "prediction_metrics", "run", "train"]

SOFTMAX = "softmax"  # the reference; every other contender is a method by its name
PLAIN = "soft-contrastive"  # the method of a recipe for softmax: it only names the head, one free coordinate a class
COVERAGE = 0.8
ANCHORS = 5_000  # training pictures for the linear classifier of embeddings, and for training-free scores


def run(work: Work) -> dict[str, Any]:
    """Train, then evaluate."""
    sets, recipe = work.sets(), work.entry.recipe
    name = SOFTMAX if recipe.method == PLAIN else recipe.method
    return {"metrics": flat(judge(train(name, sets.training, recipe, tell=work.on_event), sets))}


@dataclass(frozen=True, eq=False)
class Prediction:
    """A class for each picture, (N,), its confidence in [0, 1], and the log-odds of that, which do not saturate."""

    classes: np.ndarray
    confidence: np.ndarray
    log_odds: np.ndarray

    @classmethod
    def from_logits(cls, logits: Tensor) -> Prediction:
        """The largest class probability."""
        top, row = logits.double().max(1)
        rest = logits.double().scatter(1, row[:, None], -torch.inf).logsumexp(1)
        return cls(row.numpy(), (top - rest).sigmoid().numpy(), (top - rest).numpy())

    @classmethod
    def from_centroids(cls, embedding: VonMisesFisher, centroids: Tensor) -> Prediction:
        """The nearest centroid, and the expected cosine to it."""
        exact = VonMisesFisher(embedding.direction.double(), embedding.concentration.double())
        found = nearest_centroid(exact, centroids)
        inside = found.confidence.clamp(1e-30, 1 - 1e-15)  # finite log-odds for a confidence of 1
        return cls(found.rows.numpy(), found.confidence.numpy(), inside.logit().numpy())


@dataclass(frozen=True, eq=False)
class Contender:
    """A trained embedder and the loss that trained it, as it was in the epoch that was kept."""

    name: str
    embedder: Embedder
    loss: nn.Module

    def predict(self, embedding: Embedding) -> Prediction:
        """Classes by the nearest centroid; of the softmax contender, whose means are logits, by these."""
        if self.name == SOFTMAX:
            return Prediction.from_logits(embedding.mean)
        centroids = self.loss.state_dict()["centroids" if self.name == "centroids" else "centroids.centroids"]
        return Prediction.from_centroids(VonMisesFisher.require(embedding, asker=self.name), centroids)


class _CrossEntropyOfMeans(nn.Module):
    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        return F.cross_entropy(embedding.mean, labels)


def train(
    name: str, images: ImageSet, recipe: Recipe, *, tell: Callable[[Event], None] = lambda event: None
) -> Contender:
    """Train `softmax`, or a method with centroids, on the same pictures in the same order."""
    classes = len(images.classes)
    torch.manual_seed(recipe.seed)
    if name == SOFTMAX:
        recipe = recipe.but(method=PLAIN, dim=classes, loss=Recipe().loss)
        loss: nn.Module = _CrossEntropyOfMeans()
    elif name in ("centroids", "centroids-ce"):
        recipe = recipe.but(method=name)
        shape = (recipe.channels, recipe.height, recipe.width)
        width = feature_count(build_backbone(recipe.backbone, shape), shape)
        loss = method_named(name).loss(Setting(recipe, classes=classes, features=width))
    else:
        raise InputError("contender", expected="softmax, centroids or centroids-ce", got=repr(name))
    kept, best = copy.deepcopy(loss.state_dict()), -1.0

    def watch(event: Event) -> None:
        nonlocal kept, best
        if isinstance(event, Epoch) and event.recall_at_1 >= best:  # the rule by which weights are kept
            kept, best = copy.deepcopy(loss.state_dict()), event.recall_at_1
        tell(event)

    embedder = run_training(images, recipe, loss=loss, tell=watch).embedder
    loss.load_state_dict(kept)
    return Contender(name, embedder, loss.eval())


def prediction_metrics(
    predicted: Prediction, labels: np.ndarray, *, held: tuple[Prediction, np.ndarray]
) -> dict[str, float]:
    """Every number about predicted classes and the confidence in them.

    ECE (15 bins of equal width) and Brier are about "this class is right", raw and after a logistic of the log-odds,
    fitted on pictures held out of training.
    """
    right = predicted.classes == labels
    logistic = fit_logistic(held[0].log_odds[:, None], held[0].classes == held[1])
    calibrated = logistic.probability(predicted.log_odds[:, None])
    return {
        "accuracy": float(right.mean()),
        **_failure_metrics(-predicted.log_odds, right),
        "ece": ece(predicted.confidence, right),
        "brier": brier(predicted.confidence, right),
        "ece_calibrated": ece(calibrated, right),
        "brier_calibrated": brier(calibrated, right),
    }


def _failure_metrics(score: np.ndarray, right: np.ndarray) -> dict[str, float]:
    return {"accuracy_at_80": accuracy_at_coverage(score, right, COVERAGE), **failure_prediction(score, right)}


def ood_metrics(known: np.ndarray, ood: np.ndarray) -> dict[str, float]:
    """How well a score that is large for OOD pictures, positive, tells them from known ones."""
    score = np.concatenate([known, ood])
    positive = np.arange(len(score)) >= len(known)
    return {"auroc": auroc(positive, score), "fpr95": fpr_at_tpr(positive, score)}


def judge(contender: Contender, sets: Sets) -> dict[str, Any]:
    """Metrics of one contender on the test pictures, by its own confidence.

    Beside them, of the softmax contender, those of training-free scores; of one with centroids and classes, `softmax`,
    those of its classifier, and `both`, where the classifier predicts, and OOD pictures are detected by the centroids
    combined with the distance to the 50th neighbour in the features.
    """
    embedder = contender.embedder
    rows, held = training_split(embedder, sets.training)
    parts = (sets.test, sets.ood, sets.training.subset(held), sets.training.subset(rows[:ANCHORS]))
    test, ood, known, anchors = (observe(embedder, images) for images in parts)
    # Labels as the training numbers them.
    labels, known_labels, anchor_labels = (
        np.searchsorted(np.array(sorted(sets.training.classes)), items.labels) for items in (test, known, anchors)
    )
    of_test, of_ood, of_known = (contender.predict(items.embedding) for items in (test, ood, known))
    found: dict[str, Any] = prediction_metrics(of_test, labels, held=(of_known, known_labels))
    found |= ood_metrics(-of_test.log_odds, -of_ood.log_odds)
    free = uncertainty_scores(embedder, anchors)
    if contender.name == SOFTMAX:
        for name, score in free.items():
            ours, theirs = (score(items).double().numpy() for items in (test, ood))
            found[name] = _failure_metrics(ours, of_test.classes == labels) | ood_metrics(ours, theirs)
        return found
    found["accuracy_linear"] = _linear_accuracy(
        F.normalize(anchors.embedding.mean, dim=-1),
        torch.from_numpy(anchor_labels),
        F.normalize(test.embedding.mean, dim=-1),
        labels,
    )
    if contender.name == "centroids-ce":
        classes = [_classified(contender, items) for items in (test, ood, known)]
        answers = prediction_metrics(classes[0], labels, held=(classes[2], known_labels))
        found["softmax"] = answers | ood_metrics(-classes[0].log_odds, -classes[1].log_odds)
        distances = [free["knn50_features"](items).double().numpy() for items in (test, ood, known)]
        both = [
            -np.log(upper_p(-predicted.log_odds, -of_known.log_odds)) - np.log(upper_p(distance, distances[2]))
            for predicted, distance in zip((of_test, of_ood), distances, strict=False)
        ]
        found["both"] = answers | ood_metrics(*both)
    return found


def _classified(contender: Contender, items: Observed) -> Prediction:
    """By the classifier of a contender that has both."""
    with torch.no_grad():
        return Prediction.from_logits(contender.loss.get_submodule("classifier")(items.features))


def _linear_accuracy(directions: Tensor, labels: Tensor, test: Tensor, test_labels: np.ndarray) -> float:
    """Accuracy of a softmax classifier that is linear in the directions, fitted on training pictures."""
    layer = nn.Linear(directions.shape[1], int(labels.max()) + 1)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        # A little weight decay: separable classes have no finite best weights.
        value = F.cross_entropy(layer(directions), labels) + 1e-4 * layer.weight.square().sum()
        value.backward()
        return value.item()

    optimizer.step(closure)
    with torch.no_grad():
        return float((layer(test).argmax(1).numpy() == test_labels).mean())
