"""Which pictures show the same thing, when nobody has named any: average linkage, the sure ones counting more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import fcluster
from scipy.special import softmax

from howsure.compare import expected_squared_distance
from howsure.embeddings import Embedding, point_estimates
from howsure.errors import InputError
from howsure.match import Matcher
from howsure.metrics import b_cubed

__all__ = ["Tree", "cluster_tree", "cut_for", "linkage"]

LEAST = 1e-12  # an uncertainty: nobody is infinitely sure
CUTS = 100  # distances that `best_cut` tries
DOUBTFUL = 1.5  # times the usual uncertainty: such items join clusters, and form none
HALF = 0.5  # a cluster likelier than all others together


@dataclass(frozen=True, eq=False)
class Tree:
    """How firm items join, nearest first, and what it takes to attach the doubtful ones.

    `joins` has the form of scipy's linkage: (F - 1, 4), two parts, their distance, the items in both.
    """

    joins: np.ndarray
    firm: np.ndarray  # (F,) rows
    doubtful: np.ndarray  # (N - F,) rows
    squared: np.ndarray  # (N, N) distances
    doubt: np.ndarray  # (N,) uncertainties
    dim: int

    def cut(self, distance: float) -> np.ndarray:
        """Clusters of which no two are nearer than `distance`: a number for each item, 0 for the largest cluster.

        A doubtful item goes to the cluster that it is more likely of than of all others together, else it stays alone.
        """
        joined = fcluster(self.joins, distance, criterion="distance") - 1
        found = np.empty(len(self.doubt), dtype=int)
        found[self.firm] = joined
        if len(self.doubtful):
            likely, cluster = self._likeliest(joined, distance)
            alone = joined.max() + 1 + np.arange(len(likely))
            found[self.doubtful] = np.where(likely > HALF, cluster, alone)
        _, first, codes, size = np.unique(found, return_index=True, return_inverse=True, return_counts=True)
        return np.argsort(np.lexsort((first, -size)))[codes]

    def best_cut(self, labels: ArrayLike) -> float:
        """The distance whose clusters agree best with known labels, by the F of B-cubed: for held-out pictures."""
        tried = np.unique(np.quantile(self.joins[:, 2], np.linspace(0, 1, CUTS)))
        middles = np.concatenate([tried[:1] / 2, (tried[:-1] + tried[1:]) / 2, tried[-1:] + 1])
        return float(max(middles, key=lambda distance: b_cubed(labels, self.cut(distance)).f))

    def _likeliest(self, joined: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
        """P(cluster | item) of the likeliest cluster, and which it is, of each doubtful item.

        P ~ size · exp(-|place - centre|² / 2v), centres weighted by precision, v = doubt / D. Somebody new is one
        cluster more, of size 1, as far as two clusters must be; the item's doubt puts it farther still.
        """
        member = np.zeros((len(joined), joined.max() + 1))
        member[np.arange(len(joined)), joined] = 1 / self.doubt[self.firm]
        size, member = np.bincount(joined), member / member.sum(0)
        within = np.einsum("ak,ak->k", member, self.squared[np.ix_(self.firm, self.firm)] @ member) / 2
        off = self.squared[np.ix_(self.doubtful, self.firm)] @ member - within  # (N - F, clusters)
        doubt = self.doubt[self.doubtful, None]
        everybody = np.concatenate([off, distance**2 + doubt], axis=1)
        share = softmax(np.append(np.log(size), 0) - everybody * self.dim / (2 * doubt), axis=1)
        return share[:, :-1].max(1), share[:, :-1].argmax(1)


def cluster_tree(belief: Embedding, *, weighted: bool = True) -> Tree:
    """Average linkage of places. Weighted by confidence, an item weighs 1 / uncertainty, and those half as doubtful
    again as usual join last, where nothing else depends on them.

    >>> from howsure import Gaussian
    >>> belief = Gaussian(torch.tensor([[0.0], [0.5], [0.8], [9.0]]), torch.tensor([[0.1], [2.0], [0.1], [0.1]]))
    >>> cluster_tree(belief).cut(1.0)
    array([0, 0, 0, 1])
    """
    if len(belief) < 2:
        raise InputError("clustering", expected="two items or more", got=str(len(belief)))
    bare = point_estimates(belief).to(dtype=torch.float64)
    squared = expected_squared_distance(bare, bare).numpy()
    doubt = belief.uncertainty.double().numpy() if weighted else np.zeros(len(belief))
    doubt = np.maximum(doubt, LEAST)
    firm = doubt <= max(DOUBTFUL * np.median(doubt), np.sort(doubt)[1])  # two at least
    rows, rest = np.flatnonzero(firm), np.flatnonzero(~firm)
    joins = linkage(np.sqrt(squared[np.ix_(rows, rows)]), 1 / doubt[rows])
    return Tree(joins, rows, rest, squared, doubt, belief.dim)


def cut_for(matcher: Matcher, belief: Embedding, *, probability: float = 0.5) -> float:
    """The distance of two places at which items like these have this P(same).

    A matcher knows distances of whole beliefs; what their usual uncertainty adds to the square is taken off.
    """
    if not 0 < probability < 1:
        raise InputError("probability", expected="a number between 0 and 1", got=str(probability))
    distance = (matcher.offset - np.log(probability) + np.log1p(-probability)) / matcher.scale
    usual = 2 * float(belief.uncertainty.double().median())
    return float(max(max(distance, 0) ** 2 - usual, 0) ** 0.5)


def linkage(distance: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Agglomerative clustering by the weighted mean distance of two clusters, in the form of scipy's linkage.

        D(A, B) = Σ w_a w_b d(a, b) / (W_A W_B),   a in A, b in B,   W_A = Σ w_a

    With equal weights it is average linkage (UPGMA). By chains of nearest neighbours: N² time and memory.

    >>> linkage(np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 5.0], [5.0, 5.0, 0.0]]))[:, 2]
    array([1., 5.])
    """
    gaps = np.array(distance, dtype=np.float64)
    count = len(gaps)
    if gaps.shape != (count, count) or count < 2:
        raise InputError("distance", expected="(N, N), N of 2 or more", got=str(gaps.shape))
    mass = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64) / np.mean(weights)
    if mass.shape != (count,) or not (np.isfinite(mass).all() and (mass > 0).all()):
        raise InputError("weights", expected=f"{count} positive numbers", got=f"shape {mass.shape}")
    mass = mass.copy()
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
    together = mass[gone] + mass[kept]
    row = (mass[gone] * gaps[gone] + mass[kept] * gaps[kept]) / together
    mass[kept] = together
    row[[gone, kept]] = np.inf
    gaps[kept], gaps[:, kept] = row, row
    gaps[gone], gaps[:, gone] = np.inf, np.inf


def _sorted(joins: list[tuple[int, int, float]], count: int) -> np.ndarray:
    """Joins by distance, parts named as scipy does: an item by its row, the k-th join as count + k."""
    parent, name, size = list(range(count)), list(range(count)), [1] * count

    def root(item: int) -> int:
        while parent[item] != item:
            parent[item] = item = parent[parent[item]]
        return item

    rows = []
    for step, (a, b, distance) in enumerate(sorted(joins, key=lambda join: join[2])):
        one, other = root(a), root(b)
        rows.append([*sorted((name[one], name[other])), distance, size[one] + size[other]])
        parent[one] = other
        size[other] += size[one]
        name[other] = count + step
    return np.array(rows, dtype=np.float64)
