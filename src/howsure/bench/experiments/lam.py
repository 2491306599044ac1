"""The experiment of the Laplacian metric learner: does a model know what it will get wrong, and what it never saw?

The model's own scores stand beside those that any network offers for free, in the same table, always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from howsure import metrics
from howsure.bench.sets import Sets
from howsure.bench.work import Work
from howsure.data import ImageSet, validation_split
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, cat, point_estimates
from howsure.evaluation.curves import Curves, reliability_points, risk_points, roc_points
from howsure.evaluation.evaluate import neighbours
from howsure.evaluation.failure_prediction import foreseen, probability_right
from howsure.numerics.conformal import Usual
from howsure.posteriors import laplace, posterior_of, single_head
from howsure.posteriors.laplace.base import laplace_head, pixel_batches
from howsure.recipe import Recipe

__all__ = ["Judged", "Seen", "judge", "judged", "run", "see", "told"]

ANCHORS = 5_000  # training pictures that baselines look at
FAR = 50
COMPONENTS = 128
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


@dataclass(frozen=True, eq=False)
class Seen:
    """What a network makes of pictures: beliefs, and the features they come from; of several networks, the first's."""

    belief: Embedding
    features: Tensor  # (N, M)
    labels: np.ndarray

    @property
    def place(self) -> Embedding:
        """Where the pictures are, without any doubt about it."""
        return point_estimates(self.belief)

    @property
    def variances(self) -> dict[str, Tensor]:
        """(N, D) by name: `ambiguity`, of the whole belief, and where several networks each have a posterior `members`.

        That is the mean of theirs. Each knows its doubts in full; what such networks disagree about is mostly how their
        axes lie, and hides them.
        """
        draws = self.belief.by_draw()
        found = {AMBIGUITY: self.belief.variance}
        if len(draws) > 1 and draws[0].novelty is not None:
            found["members"] = torch.stack([draw.variance for draw in draws]).mean(0)
        return found


@dataclass(frozen=True, eq=False)
class Judged:
    """Every number about a model, and the curves behind some of them."""

    metrics: dict[str, float] = field(default_factory=dict)
    curves: Curves = field(default_factory=dict)


def see(embedder: Embedder, images: ImageSet) -> Seen:
    """One pass over pictures, with one network or with many."""
    beliefs, features = [], []
    # The features are what the head of one network reads, wherever that network is.
    head = single_head(embedder.head)
    read: list[Tensor] = []
    hook = head.register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
    embedder.eval()
    try:
        with torch.no_grad():
            for pixels in pixel_batches(embedder, images):
                read.clear()
                beliefs.append(embedder.head(embedder.backbone(pixels)))
                features.append(read[0])
    finally:
        hook.remove()
    return Seen(cat(beliefs), torch.cat(features), np.array(images.labels, dtype=str))


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
    anchors = see(embedder, sets.training.subset(np.sort(chosen).tolist()))
    test, known, foreign = (
        see(embedder, images) for images in (sets.test, sets.training.subset(held), sets.unfamiliar)
    )
    near = neighbours(test.place, test.place, leave_one_out=True)
    kinds = test.labels[near.positions]
    relevant = kinds == test.labels[:, None]
    right = relevant[:, 0]
    found = _retrieval(relevant, test.labels)
    found |= _foreseen("outvoted", (kinds[:, :ASKED] != kinds[:, :1]).mean(1), right)
    found["base_rate"] = len(foreign.labels) / (len(foreign.labels) + len(test.labels))
    curves: Curves = {"roc": {}, "risk": {}}
    told_scores = {}
    for name, score in told(embedder, anchors).items():
        usual, ours, theirs = (score(seen).double() for seen in (known, test, foreign))
        told_scores[name] = ours
        found |= _detection(name, ours, theirs)
        held_out = Usual.of(usual)
        found |= _detection(f"{name}.two_sided", -held_out.p(ours), -held_out.p(theirs))
        found |= _foreseen(name, ours, right)
        if name in DRAWN:
            curves["roc"][name] = roc_points(ours, theirs)
            curves["risk"][name] = risk_points(ours, ~right)
    if test.belief.novelty is not None and foreign.belief.novelty is not None:
        ours, theirs = test.belief.novelty.double(), foreign.belief.novelty.double()
        found |= _detection("novelty", ours, theirs)
        curves["roc"]["novelty"] = roc_points(ours, theirs)
    if (test.belief.uncertainty > 0).any():
        found |= _by_beliefs(test, told_scores)
        known_answer = _answers(known)
        known_right = known_answer == known.labels
        for name, variance in test.variances.items():
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


def told(embedder: Embedder, anchors: Seen) -> dict[str, Callable[[Seen], Tensor]]:
    """Scores, large = doubtful: the model's own, and those for which nothing but the network is needed."""
    own: dict[str, Callable[[Seen], Tensor]] = {}
    if (anchors.belief.uncertainty > 0).any():
        own |= {name: partial(_total, name=name) for name in anchors.variances}
        own["std_sum"] = lambda seen: seen.belief.variance.sqrt().sum(-1)
    posterior = posterior_of(embedder.head)
    if posterior and posterior.kind == "laplace":
        own["variance"] = lambda seen: laplace_head(embedder).raw_variance(seen.features).log()
    return own | {
        "top1_distance": partial(_far, anchors=anchors.place.mean, nth=1, of=lambda seen: seen.place.mean),
        "knn50_embedding": partial(_far, anchors=anchors.place.mean, nth=FAR, of=lambda seen: seen.place.mean),
        "knn50_features": partial(_far, anchors=_directions(anchors), nth=FAR, of=_directions),
        "feature_norm": lambda seen: -seen.features.norm(dim=1),
        "mahalanobis": _mahalanobis(anchors),
    }


def _total(seen: Seen, *, name: str) -> Tensor:
    return seen.variances[name].sum(-1)


def _directions(seen: Seen) -> Tensor:
    return F.normalize(seen.features, dim=1)


def _far(seen: Seen, *, anchors: Tensor, nth: int, of: Callable[[Seen], Tensor]) -> Tensor:
    """The distance to the nth nearest anchor."""
    parts = [torch.cdist(part, anchors).kthvalue(nth, dim=1).values for part in of(seen).split(500)]
    return torch.cat(parts)


def _mahalanobis(anchors: Seen) -> Callable[[Seen], Tensor]:
    """The squared distance to the nearest class mean, one covariance for all classes, in the leading components."""
    centre = anchors.features.mean(0)
    torch.manual_seed(0)
    axes = torch.svd_lowrank(anchors.features - centre, q=min(COMPONENTS, *anchors.features.shape), niter=2)[2]
    along = (anchors.features - centre) @ axes
    classes, codes = np.unique(anchors.labels, return_inverse=True)
    means = torch.stack([along[torch.from_numpy(codes == code)].mean(0) for code in range(len(classes))])
    within = along - means[torch.from_numpy(codes)]
    covariance = within.T @ within / len(within)
    ridge = 1e-6 * covariance.diagonal().mean() * torch.eye(len(covariance))
    whiten = torch.linalg.cholesky(torch.linalg.inv(covariance + ridge))
    return lambda seen: torch.cdist((seen.features - centre) @ axes @ whiten, means @ whiten).min(1).values


def _retrieval(relevant: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    codes = np.unique(labels, return_inverse=True)[1]
    total = np.bincount(codes)[codes] - 1
    maps = {f"map_at_{k}": metrics.map_at_k(relevant, total, k, denominator="min_rk") for k in (5, 10)}
    return {"recall_at_1": metrics.recall_at_k(relevant, 1), **maps}


def _by_beliefs(test: Seen, scores: dict[str, Tensor]) -> dict[str, float]:
    """Retrieval by the expected squared distance of whole beliefs, and which scores foresee its errors."""
    near = neighbours(test.belief, test.belief, leave_one_out=True)
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
    return {f"{name}.{what}": value for what, value in foreseen(doubt, right).items()}


def _answers(known: Seen) -> np.ndarray:
    """What the nearest neighbour is, of held-out training pictures among themselves."""
    near = neighbours(known.place, known.place, leave_one_out=True, depth=1)
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


def _panel(test: Seen, answers: np.ndarray, known: Seen, known_answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many neighbours of single networks are of another kind than the answer of all, and the P(right) it makes.

    Where as many are, doubts decide: the mean of the members', or what they disagree about if they have none. Added is
    their place among those of held-out pictures, which is below 1.
    """
    name = list(test.variances)[-1]
    usual = np.sort(_total(known, name=name).double().numpy())

    def outvoted(seen: Seen, answers: np.ndarray) -> np.ndarray:
        place = (usual.searchsorted(_total(seen, name=name).double().numpy()) + 0.5) / (len(usual) + 1)
        voted = _kinds_by_draw(seen.belief, seen.labels, depth=ASKED)
        doubt: np.ndarray = (voted != answers[:, None, None]).sum((1, 2)) + place
        return doubt

    ours, theirs = outvoted(test, answers), outvoted(known, known_answers)
    return ours, probability_right(ours, held=(theirs, known_answers == known.labels))


def _votes(embedder: Embedder, images: ImageSet, test: Seen, *, seed: int) -> dict[str, float]:
    """ECE of the share of draws that agree with the most frequent label of the nearest neighbour, both conventions.

    Of a last-layer posterior a hundred networks are drawn; others vote as many as they are, and one does not.
    """
    drawn = test.belief
    if (posterior := posterior_of(embedder.head)) and posterior.kind == "laplace":
        drawn = see(laplace.drawn(embedder, DRAWS, seed=seed), images).belief
    draws = len(drawn.by_draw())
    if draws == 1:
        return {}
    codes = np.unique(test.labels, return_inverse=True)[1]
    count = np.zeros((len(codes), codes.max() + 1))
    for voted in _kinds_by_draw(drawn, codes, depth=1)[:, :, 0].T:
        count[np.arange(len(codes)), voted] += 1
    share, right = count.max(1) / draws, count.argmax(1) == codes
    votes = {"votes.recall_at_1": float(right.mean()), "votes.ece": metrics.ece(share, right, bins=10)}
    return votes | ({"votes.ece_lam": metrics.lam_ece(share, right)} if (share < 1).any() else {})


def _kinds_by_draw(belief: Embedding, kinds: np.ndarray, *, depth: int) -> np.ndarray:
    """(N, S, depth): what the nearest other pictures are to each network."""
    depth = min(depth, len(belief) - 1)
    found = []
    for place in (draw.point_estimate for draw in belief.by_draw()):
        parts = [_nearest(place, start, depth) for start in range(0, len(place), 1_000)]
        found.append(np.concatenate(parts))
    return kinds[np.stack(found, 1)]


def _nearest(place: Tensor, start: int, depth: int) -> np.ndarray:
    """The nearest other rows of each of a thousand rows."""
    part = place[start : start + 1_000]
    similarity = part @ place.T - place.square().sum(1) / 2  # largest where the distance is least
    similarity[torch.arange(len(part)), torch.arange(start, start + len(part))] = -torch.inf
    rows: np.ndarray = similarity.topk(depth, dim=1).indices.numpy()
    return rows
