"""Exact comparisons of a few pairs, in float64: what `rms_distance` and `log_likelihood_ratio` say, in numpy.

A search compares some dozens of pairs for a query. There the arithmetic takes less time than it takes torch to start
each operation, so these work on plain arrays, and once for all dimensions where an item has one variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.index.layout import Layout
from howsure.prior import Prior

# Mean and variance of families that hold them as they are, or nearly. The way through torch is there for all, but takes
# longer than the comparison that follows it.
_HELD: Mapping[str, Callable[[Mapping[str, np.ndarray]], tuple[np.ndarray, np.ndarray]]] = {
    "gaussian": lambda fields: (fields["location"], np.square(fields["scale"])),
    "point": lambda fields: (fields["location"], np.zeros((len(fields["location"]), 1))),
}


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and variances of N items, draw by draw, in float64."""

    means: tuple[np.ndarray, ...]  # (N, D) each
    variances: tuple[np.ndarray, ...]  # (N, D) each, or (N, 1) where a family has one for all dimensions

    @classmethod
    def of(cls, draws: Sequence[Embedding]) -> Moments:
        """From the draws of a float64 embedding on the CPU."""
        if len(draws) == 1 and draws[0].family in _HELD:
            mean, variance = _HELD[draws[0].family](draws[0].arrays())
            return cls((mean,), (variance,))
        return cls(tuple(draw.mean.numpy() for draw in draws), tuple(_once(draw.variance.numpy()) for draw in draws))

    @classmethod
    def read(cls, records: np.ndarray, layout: Layout) -> Moments:
        """From packed records."""
        if layout.family not in _HELD:
            return cls.of(layout.unpack(records, np.float64).by_draw())
        mean, variance = _HELD[layout.family]({name: records[name].astype(np.float64) for name in layout.shapes})
        return cls((mean,), (variance,))

    def __getitem__(self, rows: np.ndarray) -> Moments:
        return Moments(tuple(mean[rows] for mean in self.means), tuple(part[rows] for part in self.variances))


def distances(query: Moments, gallery: Moments) -> np.ndarray:
    """`rms_distance` of row with row, or of the only query with each, (N,)."""
    total: np.ndarray | float = 0.0
    for (m, v), (mean, variance) in _aligned(query, gallery):
        gap = m - mean
        total = total + (gap * gap).sum(1) + _sum(v, m) + _sum(variance, mean)
    return np.sqrt(total / max(len(query.means), len(gallery.means)))


def log_likelihood_ratios(query: Moments, gallery: Moments, prior: Prior) -> np.ndarray:
    """`log_likelihood_ratio` of row with row, or of the only query with each, (N,)."""
    centre, between = prior.arrays
    values = []
    for (m, v), (mean, variance) in _aligned(query, gallery):
        weight = between / (between + variance)
        alone, apart = between + v, m - centre
        total, gap = v + weight * variance, apart - weight * (mean - centre)
        if not total.min(initial=1) > 0:
            raise InputError(
                "mutual likelihood", expected="beliefs with some variance", got="two points", fix="use rms_distance"
            )
        values.append(0.5 * (_log_density(apart, alone) - _log_density(gap, total)))
    return reduce(np.logaddexp, values) - math.log(len(values)) if len(values) > 1 else values[0]


def _log_density(gap: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Σ gap²/variance + log variance."""
    squared = gap * gap
    if variance.shape[1] == 1:
        return np.asarray(squared.sum(1) / variance[:, 0] + gap.shape[1] * np.log(variance[:, 0]))
    return np.asarray((squared / variance + np.log(variance)).sum(1))


def _sum(variance: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Over all dimensions."""
    return variance.sum(1) if variance.shape == mean.shape else mean.shape[1] * variance[:, 0]


def _aligned(query: Moments, gallery: Moments) -> Iterator[tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]]:
    """The draws of both sides, one by one; a side with a single draw meets every draw of the other."""
    left, right = (list(zip(side.means, side.variances, strict=True)) for side in (query, gallery))
    count = max(len(left), len(right))
    return zip(left * (count // len(left)), right * (count // len(right)), strict=True)


def _once(variance: np.ndarray) -> np.ndarray:
    # A family with one variance repeats it without memory: its columns are one and the same.
    return variance[:, :1] if variance.strides[1] == 0 else variance
