"""Which pictures to label next: typical ones of uncertain regions, far from what is labelled already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import rankdata
from torch import Tensor

from howsure.compare import rms_distance
from howsure.embeddings import Embedding, point_estimates
from howsure.errors import InputError

Reason = Literal["ambiguous", "novel", "different"]
HIGH = 0.8  # a rank that is a reason of its own
MOST = 5_000  # pictures whose distances are all kept


@dataclass(frozen=True)
class Wanted:
    """A picture to label, by its row, and what speaks for it."""

    row: int
    ambiguity: float  # its rank among all, from 0 to 1
    novelty: float  # the same; 0 where the model has none
    distance: float  # to the nearest labelled or listed picture when its turn came
    reason: Reason


def label_next(embedding: Embedding, count: int, *, labelled: Embedding | None = None) -> list[Wanted]:
    """`count` pictures, the first first: each is the one after which the others are best covered.

    A picture is covered the worse, the farther the nearest labelled or listed one is and the more uncertain it is,

        Σ_i (1 + u_i) · min_j |z_i - z_j|,    z the point estimates, j labelled or listed,

    where u_i is the larger of the ranks of its ambiguity and its novelty, from 0 to 1. So a typical picture of an
    uncertain region is asked for, not the most novel of all. Of more than 5,000 pictures every n-th is looked at.
    """
    if not 1 <= count <= min(len(embedding), MOST):
        raise InputError("count", expected=f"1 to {min(len(embedding), MOST)}", got=str(count))
    seen = np.unique(np.linspace(0, len(embedding) - 1, min(len(embedding), MOST)).astype(int))
    ambiguity = _ranks(embedding.uncertainty)[seen]
    novelty = np.zeros(len(seen)) if embedding.novelty is None else _ranks(embedding.novelty)[seen]
    points = point_estimates(embedding[seen])
    distance = rms_distance(points, points).numpy()
    gap = distance.max(1)
    if labelled is not None and len(labelled):
        gap = rms_distance(points, point_estimates(labelled)).amin(1).numpy()
    weight = 1 + np.maximum(ambiguity, novelty)
    wanted: list[Wanted] = []
    left = np.ones(len(seen), dtype=bool)
    for _ in range(count):
        covered = weight @ np.maximum(gap[:, None] - distance, 0)
        position = int(np.where(left, covered, -1).argmax())
        left[position] = False
        ranks = float(ambiguity[position]), float(novelty[position])
        wanted.append(Wanted(int(seen[position]), *ranks, float(gap[position]), _reason(*ranks)))
        gap = np.minimum(gap, distance[position])
    return wanted


def _reason(ambiguity: float, novelty: float) -> Reason:
    if max(ambiguity, novelty) < HIGH:
        return "different"
    return "novel" if novelty > ambiguity else "ambiguous"


def _ranks(score: Tensor) -> np.ndarray:
    """From 0 to 1; equal values share theirs, and scores that are all equal say nothing."""
    if len(score) < 2 or bool((score == score[0]).all()):
        return np.zeros(len(score))
    ranks: np.ndarray = (rankdata(score.double().numpy()) - 1) / (len(score) - 1)
    return ranks
