"""Every metric of a model on labelled pictures, each with the name of its convention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from howsure import data, metrics
from howsure.compare import rms_distance
from howsure.data import ImageSet
from howsure.decide import lead
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, point_estimates
from howsure.errors import InputError
from howsure.evaluation.confidence import confidence_metrics
from howsure.evaluation.metric import Metric, defined
from howsure.evaluation.scores import FAR, nearest_classes, observe, require_scores, score_of
from howsure.match import Matcher
from howsure.neighbours import neighbours

__all__ = ["Metric", "evaluate", "evaluate_embeddings"]

PAIRS = 10_000
BINS = 20
NEIGHBOURS = 5

Scores = Mapping[str, np.ndarray]  # by name, (Q,), large = uncertain


def evaluate(
    embedder: Embedder,
    test: str | Path | ImageSet,
    *,
    ood: str | Path | ImageSet | None = None,
    scores: Sequence[str] = (),
    seed: int = 0,
) -> list[Metric]:
    """Every metric of a model on labelled pictures, and of the named `scores`.

    `scores` are those of `howsure.evaluation.scores`: how well each predicts that the nearest neighbour is wrong
    (`r_auroc_SCORE`), and with `ood` how well it detects OOD pictures (`ood_auroc_SCORE` and others).
    """
    require_scores(scores)
    known = observe(embedder, test if isinstance(test, ImageSet) else data.load(test))
    others = None if ood is None else observe(embedder, ood if isinstance(ood, ImageSet) else data.load(ood))
    found = evaluate_embeddings(
        known.embedding,
        known.labels.tolist(),
        matcher=embedder.matcher,
        ood=others.embedding if others else None,
        seed=seed,
    )
    right = nearest_classes(known, known, 1)[:, 0] == known.labels
    for name in scores:
        score = score_of(name, known, known)
        how = f"{name} of queries with a wrong nearest neighbour by point estimates against the others; ties count half"
        found.append(defined(f"r_auroc_{name}", partial(metrics.r_auroc, score, right), how))
        if others:
            found += _detection(name, score, score_of(name, others, known))
    return list({metric.name: metric for metric in found}.values())


def evaluate_embeddings(
    embedding: Embedding,
    labels: Sequence[str],
    *,
    matcher: Matcher | None = None,
    ood: Embedding | None = None,
    seed: int = 0,
) -> list[Metric]:
    """Retrieval, verification, selective prediction, calibration and, with `ood`, OOD detection.

    Everything is leave-one-out among the given items. Training-free scores stand beside the model's uncertainty; they
    see point estimates alone.
    """
    codes = np.unique(np.asarray(labels), return_inverse=True)[1]
    total = np.bincount(codes)[codes] - 1
    if len(embedding) < 3 or total.max() < 1 or codes.max() < 1:
        raise InputError(
            "evaluate",
            expected="three pictures or more, of two classes or more, one of them with two",
            got=f"{len(embedding)} pictures of {codes.max() + 1 if len(codes) else 0} classes",
        )
    near = neighbours(embedding, embedding, leave_one_out=True)
    points = point_estimates(embedding)
    uncertain = bool((embedding.uncertainty > 0).any())  # otherwise it is its point estimate
    near_points = neighbours(points, points, leave_one_out=True) if uncertain else near
    found, found_points = codes[near.positions], codes[near_points.positions]
    far = min(FAR, near_points.distances.shape[1])
    scores = _own_scores(embedding) | {
        "top1_distance": near_points.distances[:, 0],
        "margin": -lead(near_points.distances, found_points),
        f"knn{far}_distance": near_points.distances[:, far - 1],
    }
    pairs = _Pairs.draw(embedding, codes, seed=seed)
    right = found[:, 0] == codes
    confidence = embedding.to(dtype=torch.float64).confidence
    return [
        *_retrieval(found == codes[:, None], total),
        *(_by_points(scores, found_points == codes[:, None], total) if uncertain else []),
        *_verification(pairs),
        *_selective(scores, error=~right),
        *_failures(scores, found, codes, pairs),
        *(confidence_metrics(confidence.numpy(), right, seed=seed) if confidence is not None else []),
        *(_calibration(pairs, matcher) if matcher else []),
        *(_ood(points, scores, ood) if ood is not None else []),
    ]


def _own_scores(embedding: Embedding) -> dict[str, np.ndarray]:
    """The model's own: for failure prediction, and, if it has one, for OOD detection."""
    scores = {"uncertainty": embedding.uncertainty, "novelty": embedding.novelty}
    return {name: score.double().numpy() for name, score in scores.items() if score is not None}


def _retrieval(relevant: np.ndarray, total: np.ndarray) -> list[Metric]:
    has_mate = total > 0
    how = "leave-one-out, self excluded by id, rms_distance, queries without a mate skipped"
    depths = [k for k in (1, 5, 10) if k <= relevant.shape[1]]
    out = [Metric(f"recall_at_{k}", metrics.recall_at_k(relevant[has_mate], k), how) for k in depths]
    denominators: tuple[metrics.Denominator, ...] = ("min_rk", "hits", "r")
    for k in depths:
        for denominator in denominators:
            value = metrics.map_at_k(relevant, total, k, denominator=denominator)
            name = f"map_at_{k}" if denominator == "min_rk" else f"map_at_{k}_{denominator}"
            out.append(Metric(name, value, f"denominator {denominator}; {how}"))
    return out


def _by_points(scores: Scores, relevant: np.ndarray, total: np.ndarray) -> list[Metric]:
    """Retrieval by point estimates, and which scores predict its failures."""
    how = "by the distance of point estimates (means; directions on the sphere)"
    out = [Metric("recall_at_1_places", metrics.recall_at_k(relevant[total > 0], 1), f"as recall_at_1, but {how}")]
    for name, score in scores.items():
        if np.ptp(score) > 0:
            r_auroc = partial(metrics.r_auroc, score, relevant[:, 0])
            out.append(defined(f"r_auroc_{name}_places", r_auroc, f"as r_auroc_{name}, nearest neighbour {how}"))
    return out


@dataclass(frozen=True, eq=False)
class _Pairs:
    """PAIRS random pairs of different items, half of them of one class, with their distances."""

    a: np.ndarray
    b: np.ndarray
    same: np.ndarray
    distance: torch.Tensor

    @classmethod
    def draw(cls, embedding: Embedding, codes: np.ndarray, *, seed: int) -> _Pairs:
        rng = np.random.default_rng(seed)
        by_class = [rows for rows in (np.flatnonzero(codes == code) for code in np.unique(codes)) if len(rows) > 1]
        weights = np.array([len(rows) for rows in by_class], float)
        chosen = rng.choice(len(by_class), PAIRS // 2, p=weights / weights.sum())
        same = np.array([rng.choice(by_class[c], 2, replace=False) for c in chosen])
        drawn = rng.integers(len(codes), size=(4 * PAIRS, 2))
        different = drawn[codes[drawn[:, 0]] != codes[drawn[:, 1]]][: PAIRS // 2]
        a, b = np.concatenate([same, different]).T
        return cls(a, b, codes[a] == codes[b], rms_distance(embedding[a], embedding[b], paired=True).double())

    @property
    def similarity(self) -> np.ndarray:
        return -self.distance.numpy()


def _verification(pairs: _Pairs) -> list[Metric]:
    same, similarity = pairs.same, pairs.similarity
    ap = metrics.verification_ap(same, similarity)
    how = f"{len(same)} random pairs, base rate {ap.base_rate:.3f}, score -rms_distance"
    return [
        Metric("verification_ap", ap.value, f"step average precision; {how}"),
        Metric("verification_auroc", metrics.auroc(same, similarity), f"ties count half; {how}"),
        Metric("equal_error_rate", metrics.equal_error_rate(same, similarity), how),
        Metric("tar_at_far_0.01", metrics.tar_at_far(same, similarity, 0.01), how),
    ]


def _selective(scores: Scores, *, error: np.ndarray) -> list[Metric]:
    out = []
    for name, score in scores.items():
        how = f"error of the nearest neighbour by rms_distance, sorted by {name}, ties shared"
        if np.ptp(score) == 0:
            out.append(Metric(f"aurc_{name}", None, "the same for every query: it cannot rank them"))
            continue
        out.append(Metric(f"aurc_{name}", metrics.aurc(score, error), how))
        out.append(Metric(f"augrc_{name}", metrics.augrc(score, error), f"wrong and answered, of all; {how}"))
        out.append(Metric(f"e_aurc_{name}", metrics.e_aurc(score, error), f"AURC above the oracle's; {how}"))
        out.append(Metric(f"accuracy_at_80_{name}", metrics.accuracy_at_coverage(score, ~error, 0.8), how))
    return out


def _failures(scores: Scores, found: np.ndarray, codes: np.ndarray, pairs: _Pairs) -> list[Metric]:
    """Failure prediction, query by query and over bins; `found`, (Q, k), are the classes of the neighbours."""
    correct, majority = found[:, 0] == codes, metrics.majority(found[:, :NEIGHBOURS]) == codes
    bins = f"Kendall's tau-b over {BINS} bins, +1 = falls as uncertainty grows"
    out = []
    for name, score in scores.items():
        if np.ptp(score) == 0:
            out.append(Metric(f"r_auroc_{name}", None, "the same for every query: it cannot rank them"))
            continue
        how = f"{name} of queries with a wrong nearest neighbour by rms_distance against the others; ties count half"
        out.append(defined(f"r_auroc_{name}", partial(metrics.r_auroc, score, correct), how))
        tau = partial(metrics.kendall_over_bins, score, correct, bins=BINS)
        out.append(defined(f"kendall_accuracy_{name}", tau, f"{bins}; accuracy of the nearest neighbour"))
        if found.shape[1] >= NEIGHBOURS:
            tau = partial(metrics.kendall_over_bins, score, majority, bins=BINS)
            how = f"{bins}; accuracy of the majority of {NEIGHBOURS} neighbours, a tie goes to the class of the nearest"
            out.append(defined(f"kendall_knn{NEIGHBOURS}_{name}", tau, how))
        both = score[pairs.a] + score[pairs.b]
        tau = partial(metrics.kendall_over_bins_ap, both, pairs.same, pairs.similarity, bins=BINS)
        how = f"{bins}; verification_ap of {len(both)} pairs, sorted by the sum of the two"
        out.append(defined(f"kendall_ap_{name}", tau, how))
    return out


def _calibration(pairs: _Pairs, matcher: Matcher) -> list[Metric]:
    same, probability = pairs.same, matcher.at(0.5).probability(pairs.distance).numpy()
    how = f"P(same) of {len(same)} random pairs, base rate {same.mean():.3f}"
    return [
        Metric("match_ece", metrics.ece(probability, same, bins=15), f"15 equal-width bins, last closed; {how}"),
        Metric("match_brier", metrics.brier(probability, same), how),
        Metric("match_nll", metrics.nll(probability, same), f"natural log, not clipped; {how}"),
    ]


def _ood(points: Embedding, scores: Scores, ood: Embedding) -> list[Metric]:
    near = neighbours(point_estimates(ood), points)
    far = min(FAR, len(points) - 1)  # as for the known items, which do not see themselves
    of_ood = _own_scores(ood) | {
        "top1_distance": near.distances[:, 0],
        f"knn{far}_distance": near.distances[:, far - 1],
    }
    return [metric for name, score in of_ood.items() for metric in _detection(name, scores[name], score)]


def _detection(name: str, known: np.ndarray, ood: np.ndarray) -> list[Metric]:
    """How well a score tells OOD pictures from known ones."""
    both = np.concatenate([known, ood])
    positive = np.arange(len(both)) >= len(known)
    if np.ptp(both) == 0:
        return [Metric(f"ood_auroc_{name}", None, "the same for every picture: it cannot tell them apart")]
    ap = metrics.average_precision(positive, both)
    how = f"positive = OOD, base rate {ap.base_rate:.3f}, known items leave-one-out, score {name}"
    return [
        Metric(f"ood_auroc_{name}", metrics.auroc(positive, both), f"ties count half; {how}"),
        Metric(f"ood_ap_{name}", ap.value, f"step average precision; {how}"),
        Metric(f"ood_fpr95_{name}", metrics.fpr_at_tpr(positive, both), f"share of OOD accepted; {how}"),
    ]
