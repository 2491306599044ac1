"""Classes never learned, by a few pictures of each. Pictures: training, validation, test; the classes of no two meet.

An episode draws some classes, a few pictures of each as its support, and others of the same classes as queries. Every
model meets the same episodes. Rules: `plain`, the nearest mean of the support; `weighted`, the nearest mean weighted by
confidence; `likelihood`, the likeliest belief, that of the query and the product of the support's. Members of an
ensemble vote with their log-likelihoods: the mean of likelihoods would be that of the luckiest member.
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

__all__ = ["Episode", "Pool", "episodes", "judged", "run"]

WAYS, SHOTS = (5, 20), (1, 5)
QUERIES, EPISODES, TRIED = 15, 600, 100  # a class; an experiment; those of which a temperature is learned
FEW = 50  # episodes of a quick run
SPOILED, SHARE = "occlusion:5", 0.4  # what becomes of a poor picture of the support, and how many are poor
TEMPERATURES = (-12.0, 12.0)  # logarithms


@dataclass(frozen=True, eq=False)
class Pool:
    """Pictures to draw episodes from: beliefs about them, their classes, and beliefs about poor copies of them."""

    belief: Embedding
    codes: np.ndarray
    poor: Embedding

    @classmethod
    def of(cls, embedder: Embedder, images: ImageSet) -> Pool:
        """Every picture encoded once, and once spoiled."""
        codes = np.unique(np.array(images.labels, dtype=str), return_inverse=True)[1]
        spoiled = corrupted_set(images, corruption_named(SPOILED))
        return cls(embedder.encode(images), codes, embedder.encode(spoiled))


@dataclass(frozen=True, eq=False)
class Episode:
    """Rows of a pool: (way, shots) and (way, queries), class by class, and which of the support are to be poor."""

    support: np.ndarray
    query: np.ndarray
    poor: np.ndarray


def run(work: Work) -> dict[str, Any]:
    """Train, encode, then play."""
    embedder = work.embedder(work.pictures("training"))
    pools = (Pool.of(embedder, work.pictures(role)) for role in ("validation", "test"))
    return {"metrics": judged(*pools, count=FEW if work.quick else EPISODES)}


def judged(validation: Pool, test: Pool, *, count: int = EPISODES) -> dict[str, float]:
    """`W-way.S-shot.RULE.accuracy` and `.interval`, half of its 95 % interval over episodes; `.ece` and the like of P.

    `W-way.S-shot.gain.RULE` is by how much a rule is above the plain one, episode by episode, with its interval;
    `W-way.S-shot-poor` has some poor pictures in each support. P is a softmax whose temperature validation episodes
    gave, by likelihood; `.ece`, `.brier`, `.r_auroc` and others are about "the best class is right", `.nll` is not.
    """
    found: dict[str, Any] = {}
    for way in WAYS:
        for shots, poor in [*((shots, False) for shots in SHOTS), (SHOTS[-1], True)]:
            tried = _scores(validation, way, shots, poor=poor, count=min(count, TRIED), seed=1)
            played = _scores(test, way, shots, poor=poor, count=count, seed=0)
            rules = {rule: _measured(played[rule], _temperature(tried[rule])) for rule in played}
            right = {rule: _right(scores).mean((1, 2)) for rule, scores in played.items()}
            gains = {rule: _mean_and_interval(share - right["plain"]) for rule, share in right.items()}
            del gains["plain"]
            found.setdefault(f"{way}-way", {})[f"{shots}-shot{'-poor' * poor}"] = rules | {"gain": gains}
    return flat(found)


def episodes(codes: np.ndarray, way: int, shots: int, *, count: int, seed: int) -> Iterator[Episode]:
    """The same for everybody who gives the same seed; as many queries a class as the smallest class leaves."""
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


def _scores(pool: Pool, way: int, shots: int, *, poor: bool, count: int, seed: int) -> dict[str, Tensor]:
    """Of each rule, (episodes, way, queries, way): how well a query of each class fits each class."""
    played = [_fit(pool, episode, poor=poor) for episode in episodes(pool.codes, way, shots, count=count, seed=seed)]
    return {rule: torch.stack([one[rule] for one in played]) for rule in played[0]}


def _fit(pool: Pool, episode: Episode, *, poor: bool) -> Mapping[str, Tensor]:
    way, shots = episode.support.shape
    support, query = pool.belief[episode.support.ravel()], pool.belief[episode.query.ravel()]
    if poor:
        copies = pool.poor[episode.support.ravel()].tensors()
        swap = torch.from_numpy(episode.poor.ravel())
        support = support.rebuild({
            name: torch.where(swap.view(-1, *[1] * (own.ndim - 1)), copies[name], own)
            for name, own in support.tensors().items()
        })  # fmt: skip
    groups = np.repeat(np.arange(way), shots)
    where, fused = point_estimates(query), prototypes(support, groups)
    means = {"plain": prototypes(point_estimates(support), groups, weighted=False)}
    doubtful = bool((support.variance > 0).all())
    if doubtful:
        means["weighted"] = point_estimates(fused)
    scores = {rule: -expected_squared_distance(where, point_estimates(mean)) for rule, mean in means.items()}
    if doubtful:
        one_draw = partial(mutual_likelihood_of_draws, paired=False)
        scores["likelihood"] = mean_over_draws(one_draw, query, fused, paired=False)
    return {rule: score.view(way, -1, way) for rule, score in scores.items()}


def _right(scores: Tensor) -> np.ndarray:
    """(episodes, way, queries): was the best class the right one?"""
    return (scores.argmax(-1) == torch.arange(scores.shape[1])[:, None]).double().numpy()


def _measured(scores: Tensor, temperature: float) -> dict[str, Any]:
    sure = (scores.double() / temperature).softmax(-1).amax(-1).numpy().ravel()
    right = _right(scores)
    return {
        "accuracy": right.mean(),
        "interval": _mean_and_interval(right.mean((1, 2)))["interval"],
        "ece": metrics.ece(sure, right.ravel(), bins=15),
        "brier": metrics.brier(sure, right.ravel()),
        "nll": _nll(scores, temperature),
        **failure_prediction(-sure, right.ravel().astype(bool)),
    }


def _mean_and_interval(values: np.ndarray) -> dict[str, float]:
    return {"mean": float(values.mean()), "interval": float(1.96 * values.std(ddof=1) / len(values) ** 0.5)}


def _nll(scores: Tensor, temperature: float) -> float:
    log = (scores.double() / temperature).log_softmax(-1)
    return float(-log.diagonal(dim1=1, dim2=3).mean())


def _temperature(scores: Tensor) -> float:
    """That at which a softmax of the scores is likeliest to name the right classes."""
    best = minimize_scalar(lambda log: _nll(scores, float(np.exp(log))), bounds=TEMPERATURES, method="bounded")
    return float(np.exp(best.x))
