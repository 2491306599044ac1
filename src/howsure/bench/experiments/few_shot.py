"""Few-shot classification of held-out classes. Pictures: training, validation, test, without common classes.

An episode draws some classes, a few pictures of each as its support, and others of the same classes as queries. Every
model gets the same episodes. Rules: `plain`, the nearest mean of the support; `weighted`, the nearest mean weighted by
precision; `likelihood`, the greatest mutual likelihood of the query and the product of the support. Log-likelihoods of
an ensemble are averaged: the mean of likelihoods would be that of its most confident member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from howsure import metrics
from howsure.bench.experiments import flat
from howsure.bench.work import Work
from howsure.compare import expected_squared_distance, mean_over_draws, mutual_likelihood_of_draws
from howsure.data import ImageSet
from howsure.data.corruptions import corrupted_set, corruption_named
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, point_estimates
from howsure.errors import InputError
from howsure.evaluation.failure_prediction import failure_prediction
from howsure.tasks.prototypes import prototypes

__all__ = ["Episode", "Pool", "episodes", "judge", "run"]

WAYS, SHOTS = (5, 20), (1, 5)
QUERIES, EPISODES, TUNING = 15, 600, 100  # a class; an experiment; to fit a temperature
FEW = 50  # episodes of a quick run
CORRUPTION, SHARE = "occlusion:5", 0.4  # of some pictures of the support, and how many
TEMPERATURES = (-12.0, 12.0)  # logarithms


@dataclass(frozen=True, eq=False)
class Pool:
    """Pictures to draw episodes from: their embeddings, their classes, and the embeddings of corrupted copies."""

    embedding: Embedding
    codes: np.ndarray
    corrupted: Embedding

    @classmethod
    def encode(cls, embedder: Embedder, images: ImageSet) -> Pool:
        """Every picture once as it is, and once corrupted."""
        codes = np.unique(np.array(images.labels, dtype=str), return_inverse=True)[1]
        corrupted = corrupted_set(images, corruption_named(CORRUPTION))
        return cls(embedder.encode(images), codes, embedder.encode(corrupted))


@dataclass(frozen=True, eq=False)
class Episode:
    """Rows of a pool: (way, shots) and (way, queries), class by class, and which of the support to corrupt."""

    support: np.ndarray
    query: np.ndarray
    corrupt: np.ndarray


def run(work: Work) -> dict[str, Any]:
    """Train, encode, then evaluate episodes."""
    embedder = work.embedder(work.pictures("training"))
    pools = (Pool.encode(embedder, work.pictures(role)) for role in ("validation", "test"))
    return {"metrics": judge(*pools, count=FEW if work.quick else EPISODES)}


def judge(validation: Pool, test: Pool, *, count: int = EPISODES) -> dict[str, float]:
    """`W-way.S-shot.RULE.accuracy` and `.interval`, half of its 95 % interval over episodes; `.ece` and the like of P.

    `W-way.S-shot.gain.RULE` is by how much a rule is above the plain one, episode by episode, with its interval;
    `W-way.S-shot-poor` has some corrupted pictures in each support. P is a softmax whose temperature is fitted on
    validation episodes, by likelihood; `.nll` is its own, `.ece`, `.brier`, `.r_auroc` and others are about "the best
    class is right".
    """
    found: dict[str, Any] = {}
    for way in WAYS:
        for shots, poor in [*((shots, False) for shots in SHOTS), (SHOTS[-1], True)]:
            tuning = _scores(validation, way, shots, corrupt=poor, count=min(count, TUNING), seed=1)
            scores = _scores(test, way, shots, corrupt=poor, count=count, seed=0)
            rules = {rule: _metrics(scores[rule], _temperature(tuning[rule])) for rule in scores}
            right = {rule: _right(of_rule).mean((1, 2)) for rule, of_rule in scores.items()}
            plain = right.pop("plain")
            gains = {rule: _mean_and_interval(share - plain) for rule, share in right.items()}
            found.setdefault(f"{way}-way", {})[f"{shots}-shot{'-poor' * poor}"] = rules | {"gain": gains}
    return flat(found)


def episodes(codes: np.ndarray, way: int, shots: int, *, count: int, seed: int) -> Iterator[Episode]:
    """The same for the same seed; as many queries a class as the smallest class leaves."""
    rows = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    queries = min(QUERIES, min(map(len, rows)) - shots)
    if queries < 1 or way > len(rows):
        raise InputError(
            "pictures of episodes",
            expected=f"{way} classes or more, of {shots + 1} pictures or more each",
            got=f"{len(rows)} classes, the smallest of {min(map(len, rows))}",
        )
    rng = np.random.default_rng([seed, way, shots])
    for _ in range(count):
        classes = rng.choice(len(rows), way, replace=False)
        drawn = np.stack([rng.choice(rows[code], shots + queries, replace=False) for code in classes])
        yield Episode(drawn[:, :shots], drawn[:, shots:], rng.random((way, shots)) < SHARE)


def _scores(pool: Pool, way: int, shots: int, *, corrupt: bool, count: int, seed: int) -> dict[str, Tensor]:
    """Of each rule, (episodes, way, queries, way): how well a query of each class fits each class."""
    drawn = episodes(pool.codes, way, shots, count=count, seed=seed)
    found = [_episode_scores(pool, episode, corrupt=corrupt) for episode in drawn]
    return {rule: torch.stack([one[rule] for one in found]) for rule in found[0]}


def _episode_scores(pool: Pool, episode: Episode, *, corrupt: bool) -> Mapping[str, Tensor]:
    way, shots = episode.support.shape
    support, query = pool.embedding[episode.support.ravel()], pool.embedding[episode.query.ravel()]
    if corrupt:
        copies = pool.corrupted[episode.support.ravel()].tensors()
        swap = torch.from_numpy(episode.corrupt.ravel())
        support = support.rebuild({
            name: torch.where(swap.view(-1, *[1] * (own.ndim - 1)), copies[name], own)
            for name, own in support.tensors().items()
        })  # fmt: skip
    groups = np.repeat(np.arange(way), shots)
    points, fused = point_estimates(query), prototypes(support, groups)
    means = {"plain": prototypes(point_estimates(support), groups, weighted=False)}
    has_variance = bool((support.variance > 0).all())
    if has_variance:
        means["weighted"] = point_estimates(fused)
    scores = {rule: -expected_squared_distance(points, point_estimates(mean)) for rule, mean in means.items()}
    if has_variance:
        one_draw = partial(mutual_likelihood_of_draws, paired=False)
        scores["likelihood"] = mean_over_draws(one_draw, query, fused, paired=False)
    return {rule: score.view(way, -1, way) for rule, score in scores.items()}


def _right(scores: Tensor) -> np.ndarray:
    """(episodes, way, queries): was the best class the right one?"""
    return (scores.argmax(-1) == torch.arange(scores.shape[1])[:, None]).double().numpy()


def _metrics(scores: Tensor, temperature: float) -> dict[str, Any]:
    confidence = (scores.double() / temperature).softmax(-1).amax(-1).numpy().ravel()
    right = _right(scores)
    return {
        "accuracy": right.mean(),
        "interval": _mean_and_interval(right.mean((1, 2)))["interval"],
        "ece": metrics.ece(confidence, right.ravel(), bins=15),
        "brier": metrics.brier(confidence, right.ravel()),
        "nll": _nll(scores, temperature),
        **failure_prediction(-confidence, right.ravel().astype(bool)),
    }


def _mean_and_interval(values: np.ndarray) -> dict[str, float]:
    return {"mean": float(values.mean()), "interval": float(1.96 * values.std(ddof=1) / len(values) ** 0.5)}


def _nll(scores: Tensor, temperature: float) -> float:
    log = (scores.double() / temperature).log_softmax(-1)
    return float(-log.diagonal(dim1=1, dim2=3).mean())


def _temperature(scores: Tensor) -> float:
    """That at which a softmax of the scores gives the right classes the greatest likelihood."""
    best = minimize_scalar(lambda log: _nll(scores, float(np.exp(log))), bounds=TEMPERATURES, method="bounded")
    return float(np.exp(best.x))
