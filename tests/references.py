"""Independent, slow and obvious versions of what the library computes. They share no code with it."""

import math
from itertools import combinations

import numpy as np
import torch
from scipy.stats import binomtest
from torch import Tensor

from howsure.embeddings import Embedding


def squared_distances(query: Embedding, gallery: Embedding) -> Tensor:
    """E|z - z'|², pair by pair and coordinate by coordinate, draw s of one side with draw s of the other."""
    left, right = query.by_draw(), gallery.by_draw()
    count = max(len(left), len(right))
    table = torch.zeros(len(query), len(gallery), dtype=torch.float64)
    for s in range(count):
        a, b = left[s % len(left)], right[s % len(right)]
        for i in range(len(query)):
            for j in range(len(gallery)):
                for d in range(query.dim):
                    gap = float(a.mean[i, d] - b.mean[j, d]) ** 2
                    table[i, j] += gap + float(a.variance[i, d]) + float(b.variance[j, d])
    return table / count


def similarities(query: Embedding, gallery: Embedding) -> Tensor:
    """E[z · z'], in the same way."""
    pairs = list(zip(query.by_draw(), gallery.by_draw(), strict=True))
    table = torch.zeros(len(query), len(gallery), dtype=torch.float64)
    for a, b in pairs:
        for i in range(len(query)):
            for j in range(len(gallery)):
                table[i, j] += float(torch.dot(a.mean[i], b.mean[j])) / len(pairs)
    return table


def csd(
    mean: np.ndarray, variance: np.ndarray, labels: np.ndarray, *, scale: float, offset: float, weight: float
) -> float:
    """Cross-entropy over all pairs, one by one, plus the pull of the variances to 1."""
    costs = []
    for i, j in combinations(range(len(labels)), 2):
        gap = sum((mean[i] - mean[j]) ** 2 + variance[i] + variance[j])
        p = 1 / (1 + math.exp(-(offset - scale * gap)))
        costs.append(-math.log(p if labels[i] == labels[j] else 1 - p))
    pulls = [sum(v - 1 - math.log(v) for v in row) / 2 for row in variance]
    return float(np.mean(costs) + weight * np.mean(pulls))


def triplets(points: np.ndarray, labels: np.ndarray, kind: str, *, margin: float) -> set[tuple[int, int, int]]:
    """The (anchor, positive, negative) of a batch that are easy, semihard or hard, or the hardest of each anchor."""
    count = len(labels)
    gap = {(i, j): math.dist(points[i], points[j]) for i in range(count) for j in range(count)}
    every = {
        (a, p, n)
        for a in range(count)
        for p in range(count)
        for n in range(count)
        if a != p and labels[a] == labels[p] != labels[n]
    }
    if kind == "hardest":
        return {
            max((t for t in every if t[0] == a), key=lambda t: (gap[t[:2]], -gap[t[0], t[2]]))
            for a in {t[0] for t in every}
        }
    wanted = {
        "easy": lambda near, far: far > near + margin,
        "semihard": lambda near, far: near < far <= near + margin,
        "hard": lambda near, far: far <= near,
    }[kind]
    return {(a, p, n) for a, p, n in every if wanted(gap[a, p], gap[a, n])}


def widest_threshold(
    uncertainty: np.ndarray, error: np.ndarray, grid: np.ndarray, *, max_error: float, confidence: float, start: int
) -> tuple[float, int, int] | None:
    """Walk up from `start` while the exact one-sided test rejects "the error rate is above max_error"."""
    best = None
    for threshold in grid[start:]:
        inside = uncertainty <= threshold
        n, k = int(inside.sum()), int(error[inside].sum())
        if n == 0 or binomtest(k, n, max_error, alternative="less").pvalue > 1 - confidence:
            break
        best = (float(threshold), n, k)
    return best


def empirical_threshold(uncertainty: np.ndarray, error: np.ndarray, *, max_error: float) -> float:
    """The naive choice: the largest threshold whose error rate on these very items is small enough."""
    order = np.argsort(uncertainty)
    rates = np.cumsum(error[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(rates <= max_error)
    return float(uncertainty[order][good[-1]]) if len(good) else -math.inf
