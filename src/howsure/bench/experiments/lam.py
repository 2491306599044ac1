"""The experiment of the Laplacian metric learner: retrieval, failure prediction and OOD detection.

Training-free scores of the same network stand in the same table, always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from howsure import metrics
from howsure.bench.work import Sets, Work, training_split
from howsure.data import ImageSet
from howsure.embedder import Embedder
from howsure.evaluation.curves import Curves, reliability_points, risk_points, roc_points
from howsure.evaluation.failure_prediction import failure_prediction, probability_right
from howsure.evaluation.scores import (
    FAR,
    Observed,
    classes_by_draw,
    directions,
    ensemble_disagreement,
    mahalanobis,
    nearest_classes,
    neighbour_disagreement,
    nth_distance,
    observe,
)
from howsure.neighbours import neighbours
from howsure.numerics.conformal import ConformalReference
from howsure.posteriors import laplace, posterior_of
from howsure.posteriors.laplace.base import laplace_head

__all__ = ["judge", "run", "training_anchors", "uncertainty_scores", "variances"]

ANCHORS = 5_000  # training pictures that training-free scores compare with
DRAWS = 100
AMBIGUITY = "ambiguity"
CURVES_OF = ("novelty", AMBIGUITY, "members", "top1_distance", "knn50_features")


def run(work: Work) -> dict[str, Any]:
    """Train or fit, then evaluate."""
    sets = work.sets()
    embedder = work.embedder(sets.training)
    more = {key: embedder.card[key] for key in ("laplace", "alignment") if key in embedder.card}
    return judge(embedder, sets, seed=work.seed) | more


def variances(items: Observed) -> dict[str, Tensor]:
    """(N, D) by name: `ambiguity`, of the embedding, and where members of an ensemble have a posterior `members`.

    That is the mean of theirs. The variance of an ensemble also holds the disagreement between its members, which is
    mostly about the rotation of their axes and hides the rest.
    """
    draws = items.embedding.by_draw()
    found = {AMBIGUITY: items.embedding.variance}
    if len(draws) > 1 and draws[0].novelty is not None:
        found["members"] = torch.stack([draw.variance for draw in draws]).mean(0)
    return found


def training_anchors(embedder: Embedder, training: ImageSet, *, seed: int) -> tuple[Observed, np.ndarray]:
    """Training pictures that training-free scores compare with, and the rows of those held out of training."""
    rows, held = training_split(embedder, training)
    chosen = np.random.default_rng(seed).choice(rows, min(ANCHORS, len(rows)), replace=False)
    return observe(embedder, training.subset(np.sort(chosen).tolist())), held


def judge(embedder: Embedder, sets: Sets, *, seed: int = 0) -> dict[str, Any]:
    """`metrics`, every number of the published table, by its own convention and by the correct one; and `curves`.

    `SCORE.auroc` and the like: OOD pictures, positive, against test pictures; `base_rate` is their share.
    `SCORE.two_sided.auroc`: the same of the conformal p-value of the score among held-out training pictures.
    `SCORE.r_auroc`: does the score predict that the nearest neighbour of a test picture, leave-one-out by means, is
    wrong? `beliefs.*`: retrieval by expected distance, as an index ranks, and `SCORE.r_auroc_beliefs` for its errors.
    `outvoted.*`: neighbour disagreement. `panel.*`, of an ensemble: ensemble disagreement, ties by mean variance.
    """
    anchors, held = training_anchors(embedder, sets.training, seed=seed)
    test, known, ood = (observe(embedder, images) for images in (sets.test, sets.training.subset(held), sets.ood))
    near = neighbours(test.points, test.points, leave_one_out=True)
    classes = test.labels[near.positions]
    relevant = classes == test.labels[:, None]
    right = relevant[:, 0]
    found = _retrieval(relevant, test.labels)
    found |= _prefixed("outvoted", failure_prediction(neighbour_disagreement(classes), right))
    found["base_rate"] = len(ood.labels) / (len(ood.labels) + len(test.labels))
    curves: Curves = {"roc": {}, "risk": {}}
    test_scores = {}
    for name, score in uncertainty_scores(embedder, anchors).items():
        of_known, of_test, of_ood = (score(items).double() for items in (known, test, ood))
        test_scores[name] = of_test
        found |= _prefixed(name, _detection(of_test, of_ood))
        reference = ConformalReference.fit(of_known.detach().cpu().numpy())
        two_sided = [torch.from_numpy(-reference.p(part.detach().cpu().numpy())) for part in (of_test, of_ood)]
        found |= _prefixed(f"{name}.two_sided", _detection(*two_sided))
        found |= _prefixed(name, failure_prediction(of_test, right))
        if name in CURVES_OF:
            curves["roc"][name] = roc_points(of_test, of_ood)
            curves["risk"][name] = risk_points(of_test, ~right)
    if test.embedding.novelty is not None and ood.embedding.novelty is not None:
        of_test, of_ood = test.embedding.novelty.double(), ood.embedding.novelty.double()
        found |= _prefixed("novelty", _detection(of_test, of_ood))
        curves["roc"]["novelty"] = roc_points(of_test, of_ood)
    if (test.embedding.uncertainty > 0).any():
        found |= _by_expected_distance(test, test_scores)
        known_answers = nearest_classes(known, known, 1)[:, 0]
        known_right = known_answers == known.labels
        for name, variance in variances(test).items():
            probability = probability_right(variance.sum(-1), held=(_total(known, name=name), known_right))
            deviation = variance.sqrt().mean(-1).numpy()
            selective = _selective(variance.sum(-1), probability, right)
            selective["ausc_lam"] = metrics.lam_ausc(deviation + deviation[near.positions[:, 0]], right)
            found |= selective if name == AMBIGUITY else _prefixed(name, selective)
            curves["reliability"] = reliability_points(probability, right)
        if (posterior := posterior_of(embedder.head)) and posterior.kind == "ensemble":
            against, probability = _disagreement(test, classes[:, 0], known, known_answers)
            found |= _prefixed("panel", failure_prediction(against, right) | _selective(against, probability, right))
            curves["risk"]["panel"] = risk_points(against, ~right)
            curves["reliability"] = reliability_points(probability, right)
    found |= _draw_agreement(embedder, sets.test, test, seed=seed)
    return {"metrics": found, "curves": curves}


def uncertainty_scores(embedder: Embedder, anchors: Observed) -> dict[str, Callable[[Observed], Tensor]]:
    """Scores by name, large = uncertain: the model's own, and training-free ones."""
    own: dict[str, Callable[[Observed], Tensor]] = {}
    if (anchors.embedding.uncertainty > 0).any():
        own |= {name: partial(_total, name=name) for name in variances(anchors)}
        own["std_sum"] = lambda items: items.embedding.variance.sqrt().sum(-1)
    posterior = posterior_of(embedder.head)
    if posterior and posterior.kind == "laplace":
        own["variance"] = lambda items: laplace_head(embedder).raw_variance(items.features).log()
    return own | {
        "top1_distance": lambda items: nth_distance(items.points.mean, anchors.points.mean, 1),
        "knn50_embedding": lambda items: nth_distance(items.points.mean, anchors.points.mean, FAR),
        "knn50_features": lambda items: nth_distance(directions(items), directions(anchors), FAR),
        "feature_norm": lambda items: -items.features.norm(dim=1),
        "mahalanobis": mahalanobis(anchors),
    }


def _total(items: Observed, *, name: str) -> Tensor:
    return variances(items)[name].sum(-1)


def _prefixed(name: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}.{metric}": value for metric, value in values.items()}


def _retrieval(relevant: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    codes = np.unique(labels, return_inverse=True)[1]
    total = np.bincount(codes)[codes] - 1
    maps = {f"map_at_{k}": metrics.map_at_k(relevant, total, k, denominator="min_rk") for k in (5, 10)}
    return {"recall_at_1": metrics.recall_at_k(relevant, 1), **maps}


def _by_expected_distance(test: Observed, scores: Mapping[str, Tensor]) -> dict[str, float]:
    """Retrieval by expected squared distance, and how well each score predicts its failures."""
    near = neighbours(test.embedding, test.embedding, leave_one_out=True)
    relevant = test.labels[near.positions] == test.labels[:, None]
    found = _prefixed("beliefs", _retrieval(relevant, test.labels))
    return found | {f"{name}.r_auroc_beliefs": metrics.r_auroc(score, relevant[:, 0]) for name, score in scores.items()}


def _detection(known: Tensor, ood: Tensor) -> dict[str, float]:
    score = torch.cat([known, ood]).cpu().numpy()
    positive = np.arange(len(score)) >= len(known)
    return {
        "auroc": metrics.auroc(positive, score),
        "ap": metrics.average_precision(positive, score).value,
        "auprc": metrics.auprc_trapezoid(positive, score).value,
        "fpr95": metrics.fpr_at_tpr(positive, score),
    }


def _selective(score: ArrayLike, probability: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """AUSC of a score, and the calibration of the probability that the nearest neighbour is right."""
    return {
        "ausc": 1 - metrics.aurc(score, ~right),
        "ece": metrics.ece(probability, right, bins=15),
        "brier": metrics.brier(probability, right),
    }


def _disagreement(
    test: Observed, answers: np.ndarray, known: Observed, known_answers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Ensemble disagreement, ties by the rank of the variance among held-out pictures, and P(right) from it."""
    reference = np.sort(_total(known, name=list(variances(test))[-1]).double().numpy())
    score, known_score = (
        ensemble_disagreement(items, items, answers=given, reference=reference)
        for items, given in ((test, answers), (known, known_answers))
    )
    return score, probability_right(score, held=(known_score, known_answers == known.labels))


def _draw_agreement(embedder: Embedder, images: ImageSet, test: Observed, *, seed: int) -> dict[str, float]:
    """ECE of the share of draws that agree with the most frequent label of the nearest neighbour, both conventions.

    Of a last-layer posterior a hundred networks are drawn; others have as many draws as members, and one has none.
    """
    drawn = test.embedding
    if (posterior := posterior_of(embedder.head)) and posterior.kind == "laplace":
        drawn = observe(laplace.drawn(embedder, DRAWS, seed=seed), images).embedding
    draws = len(drawn.by_draw())
    if draws == 1:
        return {}
    codes = np.unique(test.labels, return_inverse=True)[1]
    count = np.zeros((len(codes), codes.max() + 1))
    observed = replace(test, embedding=drawn, labels=codes)
    for answered in classes_by_draw(observed, observed, 1)[:, :, 0].T:
        count[np.arange(len(codes)), answered] += 1
    share, right = count.max(1) / draws, count.argmax(1) == codes
    found = {"votes.recall_at_1": float(right.mean()), "votes.ece": metrics.ece(share, right, bins=10)}
    return found | ({"votes.ece_lam": metrics.lam_ece(share, right)} if (share < 1).any() else {})
