"""Every metric of a model on labelled pictures, each with the name of its convention."""

from __future__ import annotations

from collections.abc import Sequence
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
from howsure.neighbours import Neighbours, neighbours

__all__ = ["Metric", "evaluate", "evaluate_embeddings"]

PAIRS = 10_000
BINS = 20
VOTES = 5


def evaluate(
    embedder: Embedder,
    test: str | Path | ImageSet,
    *,
    ood: str | Path | ImageSet | None = None,
    scores: Sequence[str] = (),
    seed: int = 0,
) -> list[Metric]:
    """Every metric of a model on labelled pictures, and what the named `scores` are worth.

    `scores` are those of `howsure.evaluation.scores`: how well each foresees that the nearest neighbour is wrong
    (`r_auroc_SCORE`), and with `ood` how well it tells pictures of another sort (`ood_auroc_SCORE` and others).
    """
    require_scores(scores)
    known = observe(embedder, test if isinstance(test, ImageSet) else data.load(test))
    others = None if ood is None else observe(embedder, ood if isinstance(ood, ImageSet) else data.load(ood))
    first = embedder.card.get("matcher")
    found = evaluate_embeddings(
        known.embedding,
        known.labels.tolist(),
        matcher=Matcher(**first) if first else None,
        ood=others.embedding if others else None,
        seed=seed,
    )
    right = nearest_classes(known, known, 1)[:, 0] == known.labels
    for name in scores:
        ours = score_of(name, known, known)
        how = f"{name} of queries with a wrong nearest neighbour by point estimates against the others; ties count half"
        found.append(defined(f"r_auroc_{name}", partial(metrics.r_auroc, ours, right), how))
        if others:
            found += _told_apart(name, ours, score_of(name, others, known))
    return list({metric.name: metric for metric in found}.values())


def evaluate_embeddings(
    belief: Embedding,
    labels: Sequence[str],
    *,
    matcher: Matcher | None = None,
    ood: Embedding | None = None,
    seed: int = 0,
) -> list[Metric]:
    """Retrieval, verification, selective prediction, calibration and, with `ood`, detection of foreign pictures.

    Everything is leave-one-out among the given items. Training-free baselines stand beside the model's uncertainty;
    they see the places of the items and nothing of what the model says about its doubt.
    """
    codes = np.unique(np.asarray(labels), return_inverse=True)[1]
    total = np.bincount(codes)[codes] - 1
    if len(belief) < 3 or total.max() < 1 or codes.max() < 1:
        raise InputError(
            "evaluate",
            expected="three pictures or more, of two classes or more, one of them with two",
            got=f"{len(belief)} pictures of {codes.max() + 1 if len(codes) else 0} classes",
        )
    near = neighbours(belief, belief, leave_one_out=True)
    bare = point_estimates(belief)
    doubtful = bool((belief.uncertainty > 0).any())  # otherwise places are all there is
    free = neighbours(bare, bare, leave_one_out=True) if doubtful else near
    found = codes[near.positions]
    relevant = found == codes[:, None]
    doubts = _doubts(belief, free, codes[free.positions])
    confidence = belief.to(dtype=torch.float64).confidence
    return [
        *_retrieval(relevant, total),
        *(_by_places(doubts, codes[free.positions] == codes[:, None], total) if doubtful else []),
        *_verification(belief, codes, seed=seed),
        *_selective(doubts, error=~relevant[:, 0]),
        *_honesty(belief, codes, doubts, found=found, seed=seed),
        *(confidence_metrics(confidence.numpy(), relevant[:, 0], seed=seed) if confidence is not None else []),
        *(_calibration(belief, codes, matcher, seed=seed) if matcher else []),
        *(_detection(belief, doubts, ood) if ood is not None else []),
    ]


def _doubts(query: Embedding, free: Neighbours, identities: np.ndarray) -> dict[str, np.ndarray]:
    """Scores that are large for doubtful queries: the model's own, and what the places alone offer for free."""
    far = min(FAR, free.distances.shape[1])
    return _said(query) | {
        "top1_distance": free.distances[:, 0],
        "margin": -lead(free.distances, identities),
        f"knn{far}_distance": free.distances[:, far - 1],
    }


def _said(belief: Embedding) -> dict[str, np.ndarray]:
    """What the model itself says: will the answer be wrong, and, if it keeps that, is this unlike anything seen?"""
    said = {"uncertainty": belief.uncertainty, "novelty": belief.novelty}
    return {name: score.double().numpy() for name, score in said.items() if score is not None}


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


def _by_places(doubts: dict[str, np.ndarray], relevant: np.ndarray, total: np.ndarray) -> list[Metric]:
    """Retrieval by those who do not listen to doubt, and which doubts foresee its errors."""
    how = "by the distance of places (means; directions on the sphere)"
    out = [Metric("recall_at_1_places", metrics.recall_at_k(relevant[total > 0], 1), f"as recall_at_1, but {how}")]
    for name, score in doubts.items():
        if np.ptp(score) > 0:
            foresee = partial(metrics.r_auroc, score, relevant[:, 0])
            out.append(defined(f"r_auroc_{name}_places", foresee, f"as r_auroc_{name}, nearest neighbour {how}"))
    return out


def _pairs(codes: np.ndarray, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to PAIRS pairs of different items, half of them of one class."""
    rng = np.random.default_rng(seed)
    by_class = [rows for rows in (np.flatnonzero(codes == code) for code in np.unique(codes)) if len(rows) > 1]
    weights = np.array([len(rows) for rows in by_class], float)
    chosen = rng.choice(len(by_class), PAIRS // 2, p=weights / weights.sum())
    same = np.array([rng.choice(by_class[c], 2, replace=False) for c in chosen])
    draw = rng.integers(len(codes), size=(4 * PAIRS, 2))
    different = draw[codes[draw[:, 0]] != codes[draw[:, 1]]][: PAIRS // 2]
    pairs = np.concatenate([same, different])
    return pairs[:, 0], pairs[:, 1]


def _verification(belief: Embedding, codes: np.ndarray, *, seed: int) -> list[Metric]:
    a, b = _pairs(codes, seed=seed)
    same = codes[a] == codes[b]
    similarity = -rms_distance(belief[a], belief[b], paired=True).double().numpy()
    ap = metrics.verification_ap(same, similarity)
    how = f"{len(a)} random pairs, base rate {ap.base_rate:.3f}, score -rms_distance"
    return [
        Metric("verification_ap", ap.value, f"step average precision; {how}"),
        Metric("verification_auroc", metrics.auroc(same, similarity), f"ties count half; {how}"),
        Metric("equal_error_rate", metrics.equal_error_rate(same, similarity), how),
        Metric("tar_at_far_0.01", metrics.tar_at_far(same, similarity, 0.01), how),
    ]


def _selective(doubts: dict[str, np.ndarray], *, error: np.ndarray) -> list[Metric]:
    out = []
    for name, score in doubts.items():
        how = f"error of the nearest neighbour by rms_distance, sorted by {name}, ties shared"
        if np.ptp(score) == 0:
            out.append(Metric(f"aurc_{name}", None, "the same for every query: it cannot rank them"))
            continue
        out.append(Metric(f"aurc_{name}", metrics.aurc(score, error), how))
        out.append(Metric(f"augrc_{name}", metrics.augrc(score, error), f"wrong and answered, of all; {how}"))
        out.append(Metric(f"e_aurc_{name}", metrics.e_aurc(score, error), f"AURC above the oracle's; {how}"))
        out.append(Metric(f"accuracy_at_80_{name}", metrics.accuracy_at_coverage(score, ~error, 0.8), how))
    return out


def _honesty(
    belief: Embedding, codes: np.ndarray, doubts: dict[str, np.ndarray], *, found: np.ndarray, seed: int
) -> list[Metric]:
    """Does doubt predict a wrong answer, query by query and over bins? `found` are the classes of the neighbours."""
    correct, voted = found[:, 0] == codes, metrics.majority(found[:, :VOTES]) == codes
    a, b = _pairs(codes, seed=seed)
    same = codes[a] == codes[b]
    similarity = -rms_distance(belief[a], belief[b], paired=True).double().numpy()
    bins = f"Kendall's tau-b over {BINS} bins, +1 = falls as doubt grows"
    out = []
    for name, score in doubts.items():
        if np.ptp(score) == 0:
            out.append(Metric(f"r_auroc_{name}", None, "the same for every query: it cannot rank them"))
            continue
        how = f"{name} of queries with a wrong nearest neighbour by rms_distance against the others; ties count half"
        out.append(defined(f"r_auroc_{name}", partial(metrics.r_auroc, score, correct), how))
        tau = partial(metrics.kendall_over_bins, score, correct, bins=BINS)
        out.append(defined(f"kendall_accuracy_{name}", tau, f"{bins}; accuracy of the nearest neighbour"))
        if found.shape[1] >= VOTES:
            tau = partial(metrics.kendall_over_bins, score, voted, bins=BINS)
            how = f"{bins}; accuracy of the majority of {VOTES} neighbours, a tie goes to the class of the nearest"
            out.append(defined(f"kendall_knn{VOTES}_{name}", tau, how))
        tau = partial(metrics.kendall_over_bins_ap, score[a] + score[b], same, similarity, bins=BINS)
        how = f"{bins}; verification_ap of {len(a)} pairs, sorted by the sum of the two"
        out.append(defined(f"kendall_ap_{name}", tau, how))
    return out


def _calibration(belief: Embedding, codes: np.ndarray, matcher: Matcher, *, seed: int) -> list[Metric]:
    a, b = _pairs(codes, seed=seed)
    same = codes[a] == codes[b]
    balanced = matcher.at(0.5)
    probability = balanced.probability(rms_distance(belief[a], belief[b], paired=True).double()).numpy()
    how = f"P(same) of {len(a)} random pairs, base rate {same.mean():.3f}"
    return [
        Metric("match_ece", metrics.ece(probability, same, bins=15), f"15 equal-width bins, last closed; {how}"),
        Metric("match_brier", metrics.brier(probability, same), how),
        Metric("match_nll", metrics.nll(probability, same), f"natural log, not clipped; {how}"),
    ]


def _detection(belief: Embedding, doubts: dict[str, np.ndarray], ood: Embedding) -> list[Metric]:
    free = neighbours(point_estimates(ood), point_estimates(belief))
    far = min(FAR, len(belief) - 1)  # as for the familiar items, each of which is one of them
    foreign = _said(ood) | {
        "top1_distance": free.distances[:, 0],
        f"knn{far}_distance": free.distances[:, far - 1],
    }
    return [metric for name, score in foreign.items() for metric in _told_apart(name, doubts[name], score)]


def _told_apart(name: str, known: np.ndarray, ood: np.ndarray) -> list[Metric]:
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
