"""Clusters of unlabelled pictures: average linkage, weighted by certainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import DisjointSet, fcluster
from scipy.special import softmax

from howsure.compare import expected_squared_distance
from howsure.embeddings import Embedding, point_estimates
from howsure.errors import InputError
from howsure.match import Matcher
from howsure.metrics import b_cubed

LEAST = 1e-12  # of an uncertainty, for finite weights
CUTS = 100  # distances that `best_cut` tries
UNCERTAIN = 1.5  # times the median uncertainty: such items join clusters, and form none
HALF = 0.5  # a cluster likelier than all others together


@dataclass(frozen=True, eq=False)
class Tree:
    """How certain items join, nearest first, and what it takes to attach the uncertain ones.

    `joins` has the form of scipy's linkage: (C - 1, 4), two parts, their distance, the items in both.
    """

    joins: np.ndarray
    certain: np.ndarray  # (C,) rows
    uncertain: np.ndarray  # (N - C,) rows
    squared: np.ndarray  # (N, N) distances
    uncertainty: np.ndarray  # (N,)
    dim: int

    def cut(self, distance: float) -> np.ndarray:
        """Clusters of which no two are nearer than `distance`: a number for each item, 0 for the largest cluster.

        An uncertain item goes to a cluster that is likelier than all others together, else it stays alone.
        """
        joined = fcluster(self.joins, distance, criterion="distance") - 1
        found = np.empty(len(self.uncertainty), dtype=int)
        found[self.certain] = joined
        if len(self.uncertain):
            likely, cluster = self._likeliest(joined, distance)
            alone = joined.max() + 1 + np.arange(len(likely))
            found[self.uncertain] = np.where(likely > HALF, cluster, alone)
        _, first, codes, size = np.unique(found, return_index=True, return_inverse=True, return_counts=True)
        return np.argsort(np.lexsort((first, -size)))[codes]

    def best_cut(self, labels: ArrayLike) -> float:
        """The distance whose clusters agree best with known labels, by the F of B-cubed: for held-out pictures."""
        tried = np.unique(np.quantile(self.joins[:, 2], np.linspace(0, 1, CUTS)))
        middles = np.concatenate([tried[:1] / 2, (tried[:-1] + tried[1:]) / 2, tried[-1:] + 1])
        return float(max(middles, key=lambda distance: b_cubed(labels, self.cut(distance)).f))

    def _likeliest(self, joined: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
        """P(cluster | item) of the likeliest cluster, and which it is, of each uncertain item.

        P ~ size · exp(-|point - centre|² / 2v), centres weighted by precision, v = uncertainty / D. An unknown
        identity is one more cluster, of size 1, at the cut's distance plus the item's uncertainty.
        """
        member = np.zeros((len(joined), joined.max() + 1))
        member[np.arange(len(joined)), joined] = 1 / self.uncertainty[self.certain]
        size, member = np.bincount(joined), member / member.sum(0)
        within = np.einsum("ak,ak->k", member, self.squared[np.ix_(self.certain, self.certain)] @ member) / 2
        off = self.squared[np.ix_(self.uncertain, self.certain)] @ member - within  # (N - C, clusters)
        uncertainty = self.uncertainty[self.uncertain, None]
        everything = np.concatenate([off, distance**2 + uncertainty], axis=1)
        share = softmax(np.append(np.log(size), 0) - everything * self.dim / (2 * uncertainty), axis=1)
        return share[:, :-1].max(1), share[:, :-1].argmax(1)


def cluster_tree(embedding: Embedding, *, weighted: bool = True) -> Tree:
    """Average linkage of point estimates. Weighted, an item weighs 1 / uncertainty, and items of 1.5 times the median
    uncertainty join last, where nothing else depends on them.

    >>> from howsure import Gaussian
    >>> embedding = Gaussian(torch.tensor([[0.0], [0.5], [0.8], [9.0]]), torch.tensor([[0.1], [2.0], [0.1], [0.1]]))
    >>> cluster_tree(embedding).cut(1.0)
    array([0, 0, 0, 1])
    """
    if len(embedding) < 2:
        raise InputError("clustering", expected="two items or more", got=str(len(embedding)))
    points = point_estimates(embedding).to(dtype=torch.float64)
    squared = expected_squared_distance(points, points).numpy()
    uncertainty = embedding.uncertainty.double().numpy() if weighted else np.zeros(len(embedding))
    uncertainty = np.maximum(uncertainty, LEAST)
    certain = uncertainty <= max(UNCERTAIN * np.median(uncertainty), np.sort(uncertainty)[1])  # two at least
    rows, rest = np.flatnonzero(certain), np.flatnonzero(~certain)
    joins = linkage(np.sqrt(squared[np.ix_(rows, rows)]), 1 / uncertainty[rows])
    return Tree(joins, rows, rest, squared, uncertainty, embedding.dim)


def cut_for(matcher: Matcher, embedding: Embedding, *, probability: float = 0.5) -> float:
    """The distance of two point estimates at which items like these have this P(same).

    A matcher is fitted to expected distances; what the median uncertainty adds to the square is taken off.
    """
    if not 0 < probability < 1:
        raise InputError("probability", expected="a number between 0 and 1", got=str(probability))
    distance = (matcher.offset - np.log(probability) + np.log1p(-probability)) / matcher.scale
    reference = 2 * float(embedding.uncertainty.double().median())
    return float(max(max(distance, 0) ** 2 - reference, 0) ** 0.5)


def linkage(distance: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Agglomerative clustering by the weighted mean distance of two clusters, in the form of scipy's linkage.

        D(A, B) = Σ w_a w_b d(a, b) / (W_A W_B),   a in A, b in B,   W_A = Σ w_a

    With equal weights it is average linkage (UPGMA). By chains of nearest neighbours: N² time and memory.

    >>> linkage(np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 5.0], [5.0, 5.0, 0.0]]), np.ones(3))[:, 2]
    array([1., 5.])
    """
    gaps = np.array(distance, dtype=np.float64)
    count = len(gaps)
    if gaps.shape != (count, count) or count < 2:
        raise InputError("distance", expected="(N, N), N of 2 or more", got=str(gaps.shape))
    mass = np.asarray(weights, dtype=np.float64) / np.mean(weights)
    if mass.shape != (count,) or not (np.isfinite(mass).all() and (mass > 0).all()):
        raise InputError("weights", expected=f"{count} positive numbers", got=f"shape {mass.shape}")
    np.fill_diagonal(gaps, np.inf)
    joins: list[tuple[int, int, float]] = []
    chain: list[int] = []
    alive = np.ones(count, dtype=bool)
    while len(joins) < count - 1:
        if not chain:
            chain.append(int(alive.argmax()))
        last = chain[-1]
        near = int(gaps[last].argmin())
        if len(chain) > 1 and gaps[last, chain[-2]] <= gaps[last, near]:
            near = chain[-2]  # among equals the one before, or the chain would not end
        if len(chain) < 2 or near != chain[-2]:
            chain.append(near)
            continue
        joins.append((last, near, gaps[last, near]))
        del chain[-2:]
        _join(gaps, mass, last, near)
        alive[last] = False
    return _sorted(joins, count)


def _join(gaps: np.ndarray, mass: np.ndarray, gone: int, kept: int) -> None:
    """Put cluster `gone` into cluster `kept`: their mean distances to all others, by weight."""
    total = mass[gone] + mass[kept]
    row = (mass[gone] * gaps[gone] + mass[kept] * gaps[kept]) / total
    mass[kept] = total
    row[[gone, kept]] = np.inf
    gaps[kept], gaps[:, kept] = row, row
    gaps[gone], gaps[:, gone] = np.inf, np.inf


def _sorted(joins: list[tuple[int, int, float]], count: int) -> np.ndarray:
    """Joins by distance, parts named as scipy does: an item by its row, the k-th join as count + k."""
    parts, name = DisjointSet(range(count)), list(range(count))
    rows = []
    for step, (a, b, distance) in enumerate(sorted(joins, key=lambda join: join[2])):
        joined = sorted((name[parts[a]], name[parts[b]]))
        parts.merge(a, b)
        rows.append([*joined, distance, parts.subset_size(a)])
        name[parts[a]] = count + step
    return np.array(rows, dtype=np.float64)
