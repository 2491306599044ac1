"""Centroids and their confidence beside cross-entropy and its softmax: one body, one budget, the same batches."""

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
from howsure.bench.sets import Sets
from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, VonMisesFisher
from howsure.errors import InputError
from howsure.losses import nearest_centroid
from howsure.metrics import accuracy_at_coverage, aurc, auroc, brier, ece, fpr_at_tpr
from howsure.numerics.logistic import fit_logistic
from howsure.recipe import Recipe
from howsure.train import Epoch, Step, method_named, train
from howsure.train.methods import Setting
from howsure.train.validation import validation_split

__all__ = ["SOFTMAX", "Contender", "Said", "contend", "encoded", "judged", "trial"]

SOFTMAX = "softmax"  # the reference; every other contender is a method by its name
COVERAGE = 0.8
LINEAR = 5_000  # training pictures for the linear classifier of embeddings


@dataclass(frozen=True, eq=False)
class Said:
    """A class for each picture, (N,), and how sure: confidence in [0, 1] and its log-odds, which do not run into 1."""

    rows: np.ndarray
    confidence: np.ndarray
    log_odds: np.ndarray

    @classmethod
    def of_softmax(cls, logits: Tensor) -> Said:
        """The largest class probability."""
        top, row = logits.double().max(1)
        rest = logits.double().scatter(1, row[:, None], -torch.inf).logsumexp(1)
        return cls(row.numpy(), (top - rest).sigmoid().numpy(), (top - rest).numpy())

    @classmethod
    def of_centroids(cls, belief: VonMisesFisher, centroids: Tensor) -> Said:
        """The nearest centroid, and the expected cosine to it."""
        exact = VonMisesFisher(belief.direction.double(), belief.concentration.double())
        found = nearest_centroid(exact, centroids)
        sure = found.confidence.clamp(1e-30, 1 - 1e-15)  # the log-odds of a certainty are numbers too
        return cls(found.rows.numpy(), found.confidence.numpy(), sure.logit().numpy())


@dataclass(frozen=True, eq=False)
class Contender:
    """A trained embedder and the loss that trained it, as it was in the epoch that was kept."""

    name: str
    embedder: Embedder
    loss: nn.Module
    recipe: Recipe

    @property
    def centroids(self) -> Tensor:
        """(K, D), of contenders that have them."""
        return self.loss.state_dict()["centroids" if self.name == "centroids" else "centroids.centroids"]

    def says(self, belief: Embedding) -> Said:
        """What it says about pictures: the places of the softmax contender are its logits."""
        if self.name == SOFTMAX:
            return Said.of_softmax(belief.mean)
        return Said.of_centroids(VonMisesFisher.of(belief, asker=self.name), self.centroids)


class _PlacesAreLogits(nn.Module):
    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        return F.cross_entropy(embedding.mean, labels)


def contend(
    name: str, images: ImageSet, recipe: Recipe, *, tell: Callable[[Step | Epoch], None] = lambda event: None
) -> Contender:
    """Train `softmax`, or a method with centroids, on the same pictures in the same order."""
    classes = len(images.classes)
    torch.manual_seed(recipe.seed)
    if name == SOFTMAX:
        # The method only names the head: free places, one coordinate a class.
        recipe = recipe.but(method="soft-contrastive", dim=classes, loss=Recipe().loss)
        loss: nn.Module = _PlacesAreLogits()
    elif name in ("centroids", "centroids-ce"):
        recipe = recipe.but(method=name)
        shape = (recipe.channels, recipe.height, recipe.width)
        width = feature_count(build_backbone(recipe.backbone, shape), shape)
        loss = method_named(name).loss(Setting(recipe, classes=classes, features=width))
    else:
        raise InputError("contender", expected="softmax, centroids or centroids-ce", got=repr(name))
    kept, best = copy.deepcopy(loss.state_dict()), -1.0

    def watch(event: Step | Epoch) -> None:
        nonlocal kept, best
        if isinstance(event, Epoch) and event.recall_at_1 >= best:  # the rule by which weights are kept
            kept, best = copy.deepcopy(loss.state_dict()), event.recall_at_1
        tell(event)

    trained = train(images, recipe, loss=loss, tell=watch)
    loss.load_state_dict(kept)
    return Contender(name, trained.embedder, loss.eval(), recipe)


def judged(said: Said, labels: np.ndarray, *, unfamiliar: Said, held: tuple[Said, np.ndarray]) -> dict[str, float]:
    """Every number about one kind of confidence.

    Detection: positive = unfamiliar. ECE (15 bins of equal width) and Brier are about "this class is right", raw and
    after a logistic curve of the log-odds, fitted on pictures held out of training.
    """
    right, sure = said.rows == labels, np.concatenate([said.log_odds, unfamiliar.log_odds])
    other = np.arange(len(sure)) >= len(labels)
    curve = fit_logistic(held[0].log_odds[:, None], held[0].rows == held[1])
    calibrated = curve.probability(said.log_odds[:, None])
    return {
        "accuracy": float(right.mean()),
        "accuracy_at_80": accuracy_at_coverage(-said.log_odds, right, COVERAGE),
        "aurc": aurc(-said.log_odds, ~right),
        "auroc": auroc(other, -sure),
        "fpr95": fpr_at_tpr(other, -sure),
        "ece": ece(said.confidence, right),
        "brier": brier(said.confidence, right),
        "ece_calibrated": ece(calibrated, right),
        "brier_calibrated": brier(calibrated, right),
    }


def trial(contender: Contender, sets: Sets) -> dict[str, Any]:
    """Judge one contender on the test pictures; `softmax` is what the classifier of a contender with both says."""
    recipe, embedder = contender.recipe, contender.embedder
    rows, held_rows = validation_split(sets.training, share=recipe.validation_share, seed=recipe.seed)
    held, some = sets.training.subset(held_rows), sets.training.subset(rows[:LINEAR])
    test_labels, held_labels = (_codes(images, sets.training) for images in (sets.test, held))
    beliefs = {"test": encoded(embedder, sets.test), "unfamiliar": encoded(embedder, sets.unfamiliar)}
    beliefs["held"] = encoded(embedder, held)
    said = {what: contender.says(belief) for what, (belief, _) in beliefs.items()}
    metrics: dict[str, Any] = dict(
        judged(said["test"], test_labels, unfamiliar=said["unfamiliar"], held=(said["held"], held_labels))
    )
    if contender.name != SOFTMAX:
        places, answers = encoded(embedder, some)[0].mean, torch.from_numpy(_codes(some, sets.training))
        metrics["accuracy_linear"] = _linear_accuracy(
            F.normalize(places, dim=-1), answers, F.normalize(beliefs["test"][0].mean, dim=-1), test_labels
        )
    if contender.name == "centroids-ce":
        own = {what: Said.of_softmax(_classified(contender, features)) for what, (_, features) in beliefs.items()}
        metrics["softmax"] = judged(
            own["test"], test_labels, unfamiliar=own["unfamiliar"], held=(own["held"], held_labels)
        )
    return metrics


def encoded(embedder: Embedder, images: ImageSet) -> tuple[Embedding, Tensor]:
    """Beliefs, and the body's features, (N, M), of every picture."""
    features: list[Tensor] = []
    hook = embedder.backbone.register_forward_hook(lambda body, inputs, output: features.append(output.cpu()))
    try:
        return embedder.encode(images), torch.cat(features)
    finally:
        hook.remove()


def _codes(images: ImageSet, training: ImageSet) -> np.ndarray:
    """Labels as the training numbers them."""
    return np.searchsorted(np.array(sorted(training.classes)), np.array([str(label) for label in images.labels]))


def _classified(contender: Contender, features: Tensor) -> Tensor:
    classifier = contender.loss.get_submodule("classifier")
    with torch.no_grad():
        return classifier(features)


def _linear_accuracy(places: Tensor, labels: Tensor, test: Tensor, test_labels: np.ndarray) -> float:
    """Accuracy of a softmax classifier that is linear in the directions, fitted on training pictures."""
    layer = nn.Linear(places.shape[1], int(labels.max()) + 1)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        # A little weight decay: separable classes have no finite best weights.
        value = F.cross_entropy(layer(places), labels) + 1e-4 * layer.weight.square().sum()
        value.backward()
        return value.item()

    optimizer.step(closure)
    with torch.no_grad():
        return float((layer(test).argmax(1).numpy() == test_labels).mean())
