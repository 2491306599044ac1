"""Exact comparisons of a few pairs, in float64: `rms_distance` and `log_likelihood_ratio` in numpy.

A search compares some dozens of pairs for a query. There the arithmetic takes less time than it takes torch to start
each operation, so these work on plain arrays, and once for all dimensions where an item has one variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.index.layout import Layout
from howsure.prior import Prior

# Mean and variance in the records of families that hold them. Torch can read all families, but takes longer than the
# comparison that follows.
_READ: Mapping[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "gaussian": lambda records: (records["location"].astype(float), np.square(records["scale"].astype(float))),
    "point": lambda records: (records["location"].astype(float), np.zeros((len(records), 1))),
}


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Means and variances of N items, draw by draw, in float64."""

    means: tuple[np.ndarray, ...]  # (N, D) each
    variances: tuple[np.ndarray, ...]  # (N, D) each, or (N, 1) where a family has one for all dimensions

    @classmethod
    def from_draws(cls, draws: Sequence[Embedding]) -> PairMoments:
        """From the draws of an embedding in float64, on the CPU."""
        return cls(tuple(draw.mean.numpy() for draw in draws), tuple(_once(draw.variance.numpy()) for draw in draws))

    @classmethod
    def from_records(cls, records: np.ndarray, layout: Layout) -> PairMoments:
        """From packed records."""
        if layout.family in _READ:
            mean, variance = _READ[layout.family](records)
            return cls((mean,), (variance,))
        return cls.from_draws(layout.unpack(records, np.float64).by_draw())

    def __len__(self) -> int:
        return len(self.means[0])

    def __getitem__(self, rows: np.ndarray | slice) -> PairMoments:
        return PairMoments(tuple(part[rows] for part in self.means), tuple(part[rows] for part in self.variances))


def distances(query: PairMoments, gallery: PairMoments) -> np.ndarray:
    """`rms_distance` of row with row, or of the only query with each, (N,)."""
    values = [
        squared_lengths(m - mean) + _sum(v, m) + _sum(variance, mean)
        for (m, v), (mean, variance) in _aligned(query, gallery)
    ]
    return np.sqrt(sum(values) / len(values) if len(values) > 1 else values[0])


def log_likelihood_ratios(query: PairMoments, gallery: PairMoments, prior: Prior) -> np.ndarray:
    """`log_likelihood_ratio` of row with row, or of the only query with each, (N,)."""
    centre, between = prior.arrays
    values = []
    for (m, v), (mean, variance) in _aligned(query, gallery):
        weight = between / (between + variance)
        alone, total = between + v, v + weight * variance
        if not total.min(initial=1) > 0:
            raise InputError(
                "mutual likelihood", expected="embeddings with some variance", got="two points", fix="use rms_distance"
            )
        apart, shrunk = m - centre, mean - centre
        shrunk *= weight
        values.append(_log_density_ratio(apart - shrunk, total, apart, alone))
    return reduce(np.logaddexp, values) - math.log(len(values)) if len(values) > 1 else values[0]


def squared_lengths(rows: np.ndarray) -> np.ndarray:
    """Of each row, (...), by products: the quickest way to them, of few rows and of many."""
    return np.asarray((rows[..., None, :] @ rows[..., None])[..., 0, 0])


def _log_density_ratio(near: np.ndarray, total: np.ndarray, apart: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """½ Σ apart²/alone - near²/total + log alone/total."""
    if total.shape[-1] == alone.shape[-1] == 1:
        one, other = total[..., 0], alone[..., 0]
        gain = squared_lengths(apart) / other - squared_lengths(near) / one
        return np.asarray(0.5 * (gain + near.shape[-1] * np.log(other / one)))
    return np.asarray(0.5 * (apart * apart / alone - near * near / total + np.log(alone / total)).sum(-1))


def _sum(variance: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Over all dimensions."""
    return variance.sum(-1) if variance.shape == mean.shape else mean.shape[-1] * variance[..., 0]


def _aligned(
    query: PairMoments, gallery: PairMoments
) -> Iterable[tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]]:
    """The draws of both sides, one by one; a side with a single draw meets every draw of the other."""
    left = list(zip(query.means, query.variances, strict=True))
    right = list(zip(gallery.means, gallery.variances, strict=True))
    count = max(len(left), len(right))
    return zip(left * (count // len(left)), right * (count // len(right)), strict=True)


def _once(variance: np.ndarray) -> np.ndarray:
    # A family with one variance repeats it without memory: its columns are one and the same. Points have none.
    return variance[:, :1] if variance.strides[1] == 0 or not variance.any() else variance
