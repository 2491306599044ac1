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
from howsure.bench.experiments import flat
from howsure.bench.experiments.lam import told
from howsure.bench.sets import Sets
from howsure.bench.work import Work
from howsure.data import ImageSet, validation_split
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, VonMisesFisher
from howsure.errors import InputError
from howsure.evaluation.failure_prediction import failure_prediction
from howsure.evaluation.scores import Observed
from howsure.losses import nearest_centroid
from howsure.metrics import accuracy_at_coverage, auroc, brier, ece, fpr_at_tpr
from howsure.numerics.conformal import upper_p
from howsure.numerics.logistic import fit_logistic
from howsure.recipe import Recipe
from howsure.training import Epoch, Step, method_named, run_training
from howsure.training.methods import Setting

__all__ = ["SOFTMAX", "Contender", "Said", "contend", "encoded", "judged", "noticed", "run", "trial"]

PLAIN = "soft-contrastive"  # the method of a recipe for softmax: it only names the head

SOFTMAX = "softmax"  # the reference; every other contender is a method by its name
COVERAGE = 0.8
SOME = 5_000  # training pictures for the linear classifier of embeddings, and for scores that are free


def run(work: Work) -> dict[str, Any]:
    """Train, then judge."""
    sets = Sets(work.pictures("training"), work.pictures("test"), work.pictures("unfamiliar"))
    recipe = work.entry.recipe
    name = SOFTMAX if recipe.method == PLAIN else recipe.method
    return {"metrics": flat(trial(contend(name, sets.training, recipe, tell=work.heard), sets))}


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
        return Said.of_centroids(VonMisesFisher.require(belief, asker=self.name), self.centroids)


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

    trained = run_training(images, recipe, loss=loss, tell=watch)
    loss.load_state_dict(kept)
    return Contender(name, trained.embedder, loss.eval(), recipe)


def judged(said: Said, labels: np.ndarray, *, held: tuple[Said, np.ndarray]) -> dict[str, float]:
    """Every number about answers and the confidence in them.

    ECE (15 bins of equal width) and Brier are about "this class is right", raw and after a logistic curve of the
    log-odds, fitted on pictures held out of training.
    """
    right = said.rows == labels
    curve = fit_logistic(held[0].log_odds[:, None], held[0].rows == held[1])
    calibrated = curve.probability(said.log_odds[:, None])
    return {
        "accuracy": float(right.mean()),
        **foresees(-said.log_odds, right),
        "ece": ece(said.confidence, right),
        "brier": brier(said.confidence, right),
        "ece_calibrated": ece(calibrated, right),
        "brier_calibrated": brier(calibrated, right),
    }


def foresees(doubt: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """How well a doubt foresees wrong answers."""
    return {"accuracy_at_80": accuracy_at_coverage(doubt, right, COVERAGE), **failure_prediction(doubt, right)}


def noticed(known: np.ndarray, unfamiliar: np.ndarray) -> dict[str, float]:
    """How well a score that is large for strangers tells them, positive, from known pictures."""
    score = np.concatenate([known, unfamiliar])
    other = np.arange(len(score)) >= len(known)
    return {"auroc": auroc(other, score), "fpr95": fpr_at_tpr(other, score)}


def trial(contender: Contender, sets: Sets) -> dict[str, Any]:
    """Judge one contender on the test pictures.

    Beside what it says stand, of the softmax contender, scores that any network offers for free; of one with centroids
    and classes, `softmax`, what its classifier says, and `both`, where its classifier answers and its centroids,
    together with the distance to the 50th neighbour in the features, say who is a stranger.
    """
    recipe, embedder = contender.recipe, contender.embedder
    rows, held = validation_split(sets.training, share=recipe.validation_share, seed=recipe.seed)
    some = sets.training.subset(rows[:SOME])
    test, unfamiliar, known, anchors = (
        _seen(embedder, images) for images in (sets.test, sets.unfamiliar, sets.training.subset(held), some)
    )
    labels, known_labels = (_codes(seen.labels, sets.training) for seen in (test, known))
    said, strange, usual = (contender.says(seen.embedding) for seen in (test, unfamiliar, known))
    answers = judged(said, labels, held=(usual, known_labels))
    found: dict[str, Any] = answers | noticed(-said.log_odds, -strange.log_odds)
    free = told(embedder, anchors)
    if contender.name == SOFTMAX:
        for name, score in free.items():
            ours, theirs = (score(seen).double().numpy() for seen in (test, unfamiliar))
            found[name] = foresees(ours, said.rows == labels) | noticed(ours, theirs)
        return found
    found["accuracy_linear"] = _linear_accuracy(
        F.normalize(anchors.embedding.mean, dim=-1),
        torch.from_numpy(_codes(anchors.labels, sets.training)),
        F.normalize(test.embedding.mean, dim=-1),
        labels,
    )
    if contender.name == "centroids-ce":
        classes, elsewhere, held_out = (_classified(contender, seen) for seen in (test, unfamiliar, known))
        answers = judged(classes, labels, held=(held_out, known_labels))
        found["softmax"] = answers | noticed(-classes.log_odds, -elsewhere.log_odds)
        lonely = [free["knn50_features"](seen).double().numpy() for seen in (test, unfamiliar, known)]
        doubts = [-one.log_odds for one in (said, strange, usual)]
        both = [
            -np.log(upper_p(doubt, doubts[-1])) - np.log(upper_p(alone, lonely[-1]))
            for doubt, alone in zip(doubts, lonely, strict=True)
        ]
        found["both"] = answers | noticed(both[0], both[1])
    return found


def _seen(embedder: Embedder, images: ImageSet) -> Observed:
    return Observed(*encoded(embedder, images), np.array(images.labels, dtype=str))


def encoded(embedder: Embedder, images: ImageSet) -> tuple[Embedding, Tensor]:
    """Beliefs, and the body's features, (N, M), of every picture."""
    features: list[Tensor] = []
    hook = embedder.backbone.register_forward_hook(lambda body, inputs, output: features.append(output.cpu()))
    try:
        return embedder.encode(images), torch.cat(features)
    finally:
        hook.remove()


def _codes(labels: np.ndarray, training: ImageSet) -> np.ndarray:
    """Labels as the training numbers them."""
    return np.searchsorted(np.array(sorted(training.classes)), labels)


def _classified(contender: Contender, seen: Observed) -> Said:
    """What the classifier of one with both says."""
    with torch.no_grad():
        return Said.of_softmax(contender.loss.get_submodule("classifier")(seen.features))


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
