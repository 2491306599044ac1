"""The experiment of the Laplacian metric learner: does a model know what it will get wrong, and what it never saw?

The model's own scores stand beside those that any network offers for free, in the same table, always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from howsure import metrics
from howsure.bench.sets import Sets
from howsure.bench.work import Work
from howsure.data import ImageSet, validation_split
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
    neighbour_disagreement,
    nth_distance,
    observe,
)
from howsure.neighbours import neighbours
from howsure.numerics.conformal import ConformalReference
from howsure.posteriors import laplace, posterior_of
from howsure.posteriors.laplace.base import laplace_head
from howsure.recipe import Recipe

__all__ = ["Judged", "judge", "judged", "run", "told"]

ANCHORS = 5_000  # training pictures that baselines look at
DRAWS = 100
ASKED = 10  # neighbours that vote
AMBIGUITY = "ambiguity"
DRAWN = ("novelty", AMBIGUITY, "members", "top1_distance", "knn50_features")  # scores of which curves are kept


def run(work: Work) -> dict[str, Any]:
    """Train or fit, then judge."""
    sets = Sets(work.pictures("training"), work.pictures("test"), work.pictures("unfamiliar"))
    embedder = work.embedder(sets.training)
    found = judged(embedder, sets, seed=work.seed)
    more: dict[str, Any] = {key: embedder.card[key] for key in ("laplace", "alignment") if key in embedder.card}
    return {"metrics": found.metrics, "curves": found.curves, **more}


def variances(seen: Observed) -> dict[str, Tensor]:
    """(N, D) by name: `ambiguity`, of the embedding, and where members of an ensemble have a posterior `members`.

    That is the mean of theirs. Each knows its own variance in full; what such networks disagree about is mostly how
    their axes lie, and hides it.
    """
    draws = seen.embedding.by_draw()
    found = {AMBIGUITY: seen.embedding.variance}
    if len(draws) > 1 and draws[0].novelty is not None:
        found["members"] = torch.stack([draw.variance for draw in draws]).mean(0)
    return found


@dataclass(frozen=True, eq=False)
class Judged:
    """Every number about a model, and the curves behind some of them."""

    metrics: dict[str, float] = field(default_factory=dict)
    curves: Curves = field(default_factory=dict)


def judge(embedder: Embedder, sets: Sets, *, seed: int = 0) -> dict[str, float]:
    """The numbers of `judged`."""
    return judged(embedder, sets, seed=seed).metrics


def judged(embedder: Embedder, sets: Sets, *, seed: int = 0) -> Judged:
    """Every number of the published table, by its own convention and by the correct one, and more.

    `SCORE.auroc` and the like: pictures of another kind, positive, against test pictures; `base_rate` is their share.
    `SCORE.two_sided.auroc`: the same of the conformal p-value of the score among held-out training pictures.
    `SCORE.r_auroc`: does the score say that the nearest neighbour of a test picture, leave-one-out by places, is wrong?
    `beliefs.*`: retrieval by whole beliefs, as an index does it, and `SCORE.r_auroc_beliefs` for its errors.
    `outvoted.*`: how many of ten neighbours are of another kind than the nearest. `panel.*`, of an ensemble: how many
    of the ten neighbours that each network finds are; where as many are, the larger doubt decides.
    """
    recipe = Recipe.from_json(embedder.card["recipe"])
    rows, held = validation_split(sets.training, share=recipe.validation_share, seed=recipe.seed)
    chosen = np.random.default_rng(seed).choice(rows, min(ANCHORS, len(rows)), replace=False)
    anchors = observe(embedder, sets.training.subset(np.sort(chosen).tolist()))
    test, known, foreign = (
        observe(embedder, images) for images in (sets.test, sets.training.subset(held), sets.unfamiliar)
    )
    near = neighbours(test.points, test.points, leave_one_out=True)
    kinds = test.labels[near.positions]
    relevant = kinds == test.labels[:, None]
    right = relevant[:, 0]
    found = _retrieval(relevant, test.labels)
    found |= _foreseen("outvoted", neighbour_disagreement(kinds), right)
    found["base_rate"] = len(foreign.labels) / (len(foreign.labels) + len(test.labels))
    curves: Curves = {"roc": {}, "risk": {}}
    own_scores = {}
    for name, score in told(embedder, anchors).items():
        usual, ours, theirs = (score(seen).double() for seen in (known, test, foreign))
        own_scores[name] = ours
        found |= _detection(name, ours, theirs)
        held_out = ConformalReference.fit(usual.detach().cpu().numpy())
        two_sided = (torch.from_numpy(-held_out.p(part.detach().cpu().numpy())) for part in (ours, theirs))
        found |= _detection(f"{name}.two_sided", *two_sided)
        found |= _foreseen(name, ours, right)
        if name in DRAWN:
            curves["roc"][name] = roc_points(ours, theirs)
            curves["risk"][name] = risk_points(ours, ~right)
    if test.embedding.novelty is not None and foreign.embedding.novelty is not None:
        ours, theirs = test.embedding.novelty.double(), foreign.embedding.novelty.double()
        found |= _detection("novelty", ours, theirs)
        curves["roc"]["novelty"] = roc_points(ours, theirs)
    if (test.embedding.uncertainty > 0).any():
        found |= _by_beliefs(test, own_scores)
        known_answer = _answers(known)
        known_right = known_answer == known.labels
        for name, variance in variances(test).items():
            probability = probability_right(variance.sum(-1), held=(_total(known, name=name), known_right))
            selected = _selective(variance, probability, near.positions[:, 0], right)
            found |= selected if name == AMBIGUITY else {f"{name}.{what}": value for what, value in selected.items()}
            curves["reliability"] = reliability_points(probability, right)
        if (posterior := posterior_of(embedder.head)) and posterior.kind == "ensemble":
            panel, probability = _panel(test, kinds[:, 0], known, known_answer)
            found |= _foreseen("panel", panel, right)
            found |= {f"panel.{what}": value for what, value in _honest(panel, probability, right).items()}
            curves["risk"]["panel"] = risk_points(panel, ~right)
            curves["reliability"] = reliability_points(probability, right)
    found |= _votes(embedder, sets.test, test, seed=seed)
    return Judged(found, curves)


def told(embedder: Embedder, anchors: Observed) -> dict[str, Callable[[Observed], Tensor]]:
    """Scores, large = doubtful: the model's own, and those for which nothing but the network is needed."""
    own: dict[str, Callable[[Observed], Tensor]] = {}
    if (anchors.embedding.uncertainty > 0).any():
        own |= {name: partial(_total, name=name) for name in variances(anchors)}
        own["std_sum"] = lambda seen: seen.embedding.variance.sqrt().sum(-1)
    posterior = posterior_of(embedder.head)
    if posterior and posterior.kind == "laplace":
        own["variance"] = lambda seen: laplace_head(embedder).raw_variance(seen.features).log()
    return own | {
        "top1_distance": lambda seen: nth_distance(seen.points.mean, anchors.points.mean, 1),
        "knn50_embedding": lambda seen: nth_distance(seen.points.mean, anchors.points.mean, FAR),
        "knn50_features": lambda seen: nth_distance(directions(seen), directions(anchors), FAR),
        "feature_norm": lambda seen: -seen.features.norm(dim=1),
        "mahalanobis": mahalanobis(anchors),
    }


def _total(seen: Observed, *, name: str) -> Tensor:
    return variances(seen)[name].sum(-1)


def _retrieval(relevant: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    codes = np.unique(labels, return_inverse=True)[1]
    total = np.bincount(codes)[codes] - 1
    maps = {f"map_at_{k}": metrics.map_at_k(relevant, total, k, denominator="min_rk") for k in (5, 10)}
    return {"recall_at_1": metrics.recall_at_k(relevant, 1), **maps}


def _by_beliefs(test: Observed, scores: dict[str, Tensor]) -> dict[str, float]:
    """Retrieval by the expected squared distance of whole beliefs, and which scores foresee its errors."""
    near = neighbours(test.embedding, test.embedding, leave_one_out=True)
    relevant = test.labels[near.positions] == test.labels[:, None]
    found = {f"beliefs.{name}": value for name, value in _retrieval(relevant, test.labels).items()}
    return found | {f"{name}.r_auroc_beliefs": metrics.r_auroc(ours, relevant[:, 0]) for name, ours in scores.items()}


def _detection(name: str, known: Tensor, foreign: Tensor) -> dict[str, float]:
    score = torch.cat([known, foreign]).cpu().numpy()
    positive = np.arange(len(score)) >= len(known)
    return {
        f"{name}.auroc": metrics.auroc(positive, score),
        f"{name}.ap": metrics.average_precision(positive, score).value,
        f"{name}.auprc": metrics.auprc_trapezoid(positive, score).value,
        f"{name}.fpr95": metrics.fpr_at_tpr(positive, score),
    }


def _foreseen(name: str, doubt: ArrayLike, right: np.ndarray) -> dict[str, float]:
    return {f"{name}.{what}": value for what, value in failure_prediction(doubt, right).items()}


def _answers(known: Observed) -> np.ndarray:
    """What the nearest neighbour is, of held-out training pictures among themselves."""
    near = neighbours(known.points, known.points, leave_one_out=True, depth=1)
    answers: np.ndarray = known.labels[near.positions[:, 0]]
    return answers


def _selective(variance: Tensor, probability: np.ndarray, nearest: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """AUSC by both conventions, and how honest the probability is that the nearest neighbour is right."""
    deviation = variance.sqrt().mean(-1).numpy()
    lam = {"ausc_lam": metrics.lam_ausc(deviation + deviation[nearest], right)}
    return _honest(variance.sum(-1), probability, right) | lam


def _honest(doubt: ArrayLike, probability: np.ndarray, right: np.ndarray) -> dict[str, float]:
    return {
        "ausc": 1 - metrics.aurc(doubt, ~right),
        "ece": metrics.ece(probability, right, bins=15),
        "brier": metrics.brier(probability, right),
    }


def _panel(
    test: Observed, answers: np.ndarray, known: Observed, known_answers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How many neighbours of single networks are of another kind than the answer of all, and the P(right) it makes.

    Where as many are, doubts decide: the mean of the members', or what they disagree about if they have none. Added is
    their place among those of held-out pictures, which is below 1.
    """
    name = list(variances(test))[-1]
    usual = np.sort(_total(known, name=name).double().numpy())
    ours = ensemble_disagreement(test, test, answers=answers, usual=usual)
    theirs = ensemble_disagreement(known, known, answers=known_answers, usual=usual)
    return ours, probability_right(ours, held=(theirs, known_answers == known.labels))


def _votes(embedder: Embedder, images: ImageSet, test: Observed, *, seed: int) -> dict[str, float]:
    """ECE of the share of draws that agree with the most frequent label of the nearest neighbour, both conventions.

    Of a last-layer posterior a hundred networks are drawn; others vote as many as they are, and one does not.
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
    for voted in classes_by_draw(observed, observed, 1)[:, :, 0].T:
        count[np.arange(len(codes)), voted] += 1
    share, right = count.max(1) / draws, count.argmax(1) == codes
    votes = {"votes.recall_at_1": float(right.mean()), "votes.ece": metrics.ece(share, right, bins=10)}
    return votes | ({"votes.ece_lam": metrics.lam_ece(share, right)} if (share < 1).any() else {})
